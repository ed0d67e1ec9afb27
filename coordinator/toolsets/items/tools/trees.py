"""create_work_tree and complete_tree: whole trees at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import UNSET

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.actor import attributed, attribution, checked
from coordinator.toolsets.items.contract.specs import TreeItem
from coordinator.toolsets.items.contract.trees import (
    CompletedItem,
    CompleteSummary,
    CompleteTree,
    CompleteTreeResult,
    CreatedNote,
    CreateWorkTree,
    CreateWorkTreeResult,
    TreeEdge,
    TreeNode,
)
from coordinator.toolsets.items.field_types.base import ExpectedNote
from coordinator.toolsets.items.live.expiring import Expiring
from coordinator.toolsets.items.rules import trees as rules
from coordinator.toolsets.items.rules.dependencies.edges import Edge, mark, unblock_at
from coordinator.toolsets.items.rules.ids import dashed, new_id, new_ids, no_such_item, parse
from coordinator.toolsets.items.rules.items import NewItem
from coordinator.toolsets.items.rules.refusals import ALL_PHASES, gate_refusal, refused
from coordinator.toolsets.items.rules.roles import one_of, phase_of
from coordinator.toolsets.items.rules.schema import Resolved, expected
from coordinator.toolsets.items.rules.values import names_in, not_blank, tags
from coordinator.toolsets.items.store.dependencies import NewEdge
from coordinator.toolsets.items.store.notes import StoredNote
from coordinator.toolsets.items.store.trees import Completed, Noted, TreeReply, TreeStore
from coordinator.toolsets.items.tools.shared import keyed
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Call, Criticality, Services, Tool

MAX_COMPLETED = 2000

_CREATE = (
    "Create a root item, children, dependency edges and notes in one step, all or nothing. Edges and notes name items "
    "by ref; 'root' is the root. The root is not offered and ends with its last child, unless its type has another "
    "lifecycle: for work after the children, add one that waits for them. createNotes adds a blank note for every note "
    "that a schema asks for. A note whose key is in the schema must have the schema's role. At most 125 items and "
    "edges together, 600 notes, and 200,000 bytes of text."
)
_COMPLETE = (
    "Complete (or cancel) all descendants of rootId, or the items of itemIds, in dependency order. Refuses an item "
    "that lacks required notes, waits for another item or is claimed by somebody else, and then skips the items that "
    "depend on it. cancel ignores notes and dependencies. Parents of completed items do not change."
)


class Trees:
    """Handlers of the tools that create and complete whole trees."""

    def __init__(self, trees: TreeStore, services: Services, expiring: Expiring) -> None:
        self._trees = trees
        self._services = services
        self._expiring = expiring

    async def create_work_tree(self, call: Call, args: CreateWorkTree) -> CreateWorkTreeResult:
        """Creates a root with children, dependencies and notes, all or nothing."""
        items = rules.items_by_ref(args)
        edges = rules.edges(args, items)
        level = rules.levels(edges, items)
        config = self._trees.schemas.current
        schemas = {
            ref: config.resolve(item.type, item.tags, names_in(item.traits or "")) for ref, item in items.items()
        }
        who = await attributed(self._services.resolve_actor, checked(args.actor)) if args.actor else None
        record = await keyed(self._services, "create_work_tree", args)
        try:
            notes = rules.notes(args, schemas)
            rules.check_traits(items, config)
        except ToolFailure:
            if not await self._trees.recorded(call.project, record):
                raise
            notes = []  # a retry after a change of schemas or traits; the notes are in its record
        parent = ""
        if above := not_blank(args.parent_id):
            parent = await self._trees.resolve_one(call.project, above, "parentId", record)
        ids = dict(zip(items, new_ids(len(items)), strict=True))
        specs = _stored(items, ids, parent, edges, level)
        rules.check_texts(specs, notes)
        by = attribution(who)
        written = [
            StoredNote(ids[n.ref], n.key, n.role[0], n.body, bool(n.body), by.actor, by.verification, new_id())
            for n in notes
        ]
        links = [NewEdge(new_id(), ids[e.source], ids[e.target], e.type[0], mark(e.unblock_at)) for e in edges]
        reply, noted = await self._trees.create(call.project, record, specs, links, written)
        self._expiring.note_times(call.project, [item.fields for item in specs])
        if reply.reason == "too_many_requirements":
            raise ToolFailure("VALIDATION_ERROR", refused(reply.reason))
        if reply.reason == "too_deep":
            raise invalid(
                "parentId", "the root of a tree can be at depth 0, 1 or 2; it would be deeper below this item"
            )
        if reply.reason:
            raise no_such_item("parentId")
        return _created(items, schemas, edges, reply, noted)

    async def complete_tree(self, call: Call, args: CompleteTree) -> CompleteTreeResult:
        """Completes or cancels items in the order of their dependencies."""
        rules.check_targets(args.root_id, args.item_ids)
        trigger = one_of(not_blank(args.trigger) or "complete", ("complete", "cancel"), "trigger")
        who = await self._services.resolve_actor(checked(args.actor)) if args.actor else None
        record = await keyed(self._services, "complete_tree", args)
        try:
            plan = await self._planned(call, args)
        except ToolFailure:
            if not await self._trees.recorded(call.project, record):
                raise
            plan = []  # a retry; the order is in its record
        found = await self._trees.complete(call.project, record, trigger, attribution(who), plan)
        return _completed(found, trigger)

    async def _planned(self, call: Call, args: CompleteTree) -> list[str]:
        """The items to complete, in dependency order."""
        if args.item_ids is not None:
            listed = await self._listed(call, args.item_ids)
            known = await self._trees.dependents(call.project, [item for item in listed if not rules.unfound(item)])
            return [*rules.completion_order(known, None), *(item for item in listed if item not in known)]
        root = await self._trees.resolve_one(call.project, args.root_id or "", "rootId")
        found = await self._trees.descendants(call.project, root, MAX_COMPLETED)
        if len(found) > MAX_COMPLETED:
            raise invalid("rootId", f"has more than {MAX_COMPLETED} descendants; complete its subtrees one by one")
        dependents = await self._trees.dependents(call.project, [*found, root])
        if root not in dependents:
            raise no_such_item("rootId")
        if args.include_root:
            return rules.completion_order(dependents, root)
        del dependents[root]
        return rules.completion_order(dependents, None)

    async def _listed(self, call: Call, given: list[str]) -> list[str]:
        """The items of itemIds, existing or not; none for an empty list, as for a root without descendants."""
        if len(given) > MAX_COMPLETED:
            raise invalid("itemIds", f"must hold at most {MAX_COMPLETED} elements")
        inner = [parse(text, f"itemIds[{n}]") for n, text in enumerate(given)]
        ids = list(await self._trees.resolve(call.project, inner))
        for number, item in enumerate(ids):
            if item == "?not_found":
                ids[number] = rules.placeholder(inner[number])
            elif item.startswith("?"):  # resolve_one raises, with the candidates of the ambiguous prefix
                ids[number] = await self._trees.resolve_one(call.project, given[number], f"itemIds[{number}]")
        return list(dict.fromkeys(ids))


def tools(trees: TreeStore, services: Services, expiring: Expiring) -> tuple[Tool, ...]:
    handle = Trees(trees, services, expiring)
    return (
        Tool(
            "create_work_tree",
            _CREATE,
            CreateWorkTree,
            (CreateWorkTreeResult,),
            handle.create_work_tree,
            makes=lambda made: f"items/{made.root.id}/tree",
        ),
        Tool(
            "complete_tree",
            _COMPLETE,
            CompleteTree,
            (CompleteTreeResult,),
            handle.complete_tree,
            criticality=Criticality.CRITICAL,
        ),
    )


def _stored(
    items: Mapping[str, TreeItem], ids: Mapping[str, str], parent: str, edges: Sequence[Edge], level: Mapping[str, int]
) -> list[NewItem]:
    """The items for the store, the root first; ``ids`` and ``level`` are by ref.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    specs: list[NewItem] = []
    for number, (ref, item) in enumerate(items.items()):
        place, above = (f"children[{number - 1}]", ids[rules.ROOT]) if number else ("root", parent)
        specs.append(rules.stored(item, place, ids[ref], above, level[ref], rules.waiting(edges, ref)))
    return specs


def _created(
    items: Mapping[str, TreeItem],
    schemas: Mapping[str, Resolved | None],
    edges: Sequence[Edge],
    reply: TreeReply,
    noted: Sequence[Noted],
) -> CreateWorkTreeResult:
    """The answer. ``items`` (the root first), ``schemas`` and ``edges`` are by ref, the store's reply is by id."""
    made = dict(zip(items, reply.items, strict=True))
    refs = {item: ref for ref, item in made.items()}
    exists = {(note.item, note.key) for note in noted}
    root, *children = [
        TreeNode(
            ref=UNSET if ref == rules.ROOT else ref,
            id=dashed(made[ref]),
            title=item.title,
            role="queue",
            depth=reply.depth if ref == rules.ROOT else reply.depth + 1,
            tags=tags(item.tags) or UNSET,
            schema_match=schemas[ref] is not None,
            expected_notes=_expected(made[ref], schemas[ref], exists),
        )
        for ref, item in items.items()
    ]
    return CreateWorkTreeResult(
        root=root,
        children=children,
        dependencies=[
            TreeEdge(
                id=dashed(edge_id),
                from_ref=e.source,
                to_ref=e.target,
                type=e.type,
                unblock_at=unblock_at(threshold),
            )
            for (edge_id, threshold), e in zip(reply.edges, edges, strict=True)
        ],
        notes=[
            CreatedNote(item_ref=refs[note.item], key=note.key, role=phase_of(note.role), id=dashed(note.id))
            for note in noted
        ],
    )


def _expected(item: str, schema: Resolved | None, exists: Collection[tuple[str, str]]) -> list[ExpectedNote]:
    """The notes that a schema requires of an item, and which of them exist already."""
    return [expected(note, (item, note.key) in exists) for note in schema.notes] if schema else []


def _completed(found: list[Completed], trigger: str) -> CompleteTreeResult:
    results: list[CompletedItem] = []
    for item, title, outcome, detail in found:
        if outcome == "not_found":
            results.append(
                CompletedItem(
                    item_id=rules.unfound(item) or dashed(item), applied=False, skipped=True,
                    skipped_reason=refused(outcome), error_code=outcome,
                )
            )  # fmt: skip
            continue
        entry = CompletedItem(item_id=dashed(item), title=title, applied=outcome == "applied")
        if outcome == "applied":
            entry.trigger = trigger
            entry.status_label = detail if isinstance(detail, str) else UNSET
        elif outcome == "gate" and isinstance(detail, tuple):
            keys, phases = detail
            entry.gate_errors = [f"missing: {key}" for key in keys]
            entry.error = gate_refusal(entry.item_id, keys, phases, ALL_PHASES)
        else:
            entry.skipped = True
            entry.skipped_reason = str(detail)
        if outcome == "claimed" and isinstance(detail, int):
            entry.skipped_reason = f"claimed by a different agent; the claim expires at {iso(detail)}"
            entry.error_code = "not_claim_holder"
        elif outcome == "waiting":
            entry.skipped_reason = f"{detail} blocking dependencies are not satisfied"
        results.append(entry)
    completed = sum(entry.applied for entry in results)
    gates = sum(entry.gate_errors is not UNSET for entry in results)
    return CompleteTreeResult(
        results=results,
        summary=CompleteSummary(
            total=len(results), completed=completed, skipped=len(results) - completed - gates, gate_failures=gates
        ),
    )
