"""manage_items: items themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from msgspec import UNSET

from coordinator.errors import ToolFailure, invalid
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.caller import BUDGETS
from coordinator.toolsets.items.contract.items import (
    CreatedItem,
    CreateItemsResult,
    DeleteItemsResult,
    EditItems,
    ManageItems,
    UpdatedItem,
    UpdateItemsResult,
)
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.items.field_types.base import Failure
from coordinator.toolsets.items.live.expiring import Expiring
from coordinator.toolsets.items.rules import items as rules
from coordinator.toolsets.items.rules import values
from coordinator.toolsets.items.rules.ids import dashed, new_ids, parse
from coordinator.toolsets.items.rules.refusals import refused, refused_id
from coordinator.toolsets.items.rules.roles import PRIORITY_NAMES, ROLE_NAMES, one_of
from coordinator.toolsets.items.rules.schema import SchemaConfig, expected
from coordinator.toolsets.items.store.items import ItemStore
from coordinator.toolsets.items.tools.shared import batch, keyed
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Call, Services, Tool

MAX_ITEMS = 1000

_MANAGE = (
    "Create, update or delete work items, each on its own: refused ones are listed under failures, the others take "
    "effect. New items keep their order in every list. Depth is at most 3. A parent is not offered and ends with its "
    "last child, unless its type has another lifecycle: for work after the children, add a last child that waits for "
    "the others. Update changes only the given fields; to change the role, use advance_item. Delete without "
    "recursive refuses an item that has children."
)


class Items:
    """Handler of the tool that creates, changes and deletes items."""

    def __init__(self, items: ItemStore, services: Services, expiring: Expiring) -> None:
        self._items = items
        self._services = services
        self._expiring = expiring

    async def manage_items(
        self, call: Call, args: ManageItems
    ) -> CreateItemsResult | UpdateItemsResult | DeleteItemsResult:
        operation = one_of(args.operation, ("create", "update", "delete"), "operation")
        if operation == "create":
            return await self._create(call, args)
        return await (self._update(call, args) if operation == "update" else self._delete(call, args))

    async def _create(self, call: Call, args: ManageItems) -> CreateItemsResult:
        specs = batch(args.items, "items", MAX_ITEMS)
        record = await keyed(self._services, "manage_items", args)
        shared = await self._shared(call.project, args, record)
        parents = await self._resolved(call.project, [values.given(spec.parent_id) for spec in specs], "parentId")
        schemas = self._items.schemas.current
        failures: dict[int, str] = {}
        stored: list[tuple[int, rules.NewItem]] = []
        sent: list[rules.NewItem] = []
        for number, (spec, parent, new_id) in enumerate(zip(specs, parents, new_ids(len(specs)), strict=True)):
            try:
                if isinstance(parent, ToolFailure):
                    raise parent
                item = rules.new_item(spec, new_id, parent or shared, args.traits)
                problem = _unknown(item.fields, schemas)
                stored.append((number, item))
                sent.append(rules.refused_item(problem) if problem else item)
            except ToolFailure as failure:
                failures[number] = failure.message
        replies = await self._items.create(call.project, record, sent) if sent else []
        self._expiring.note_times(call.project, [item.fields for item in sent])
        created: list[CreatedItem] = []
        for (number, item), (outcome, depth, item_id) in zip(stored, replies, strict=True):
            if outcome == "created":
                created.append(_created(item, depth, item_id, schemas))
            else:
                failures[number] = refused(outcome)
        return CreateItemsResult(
            items=created,
            created=len(created),
            failed=len(failures),
            failures=[Failure(index=number, error=failures[number]) for number in sorted(failures)] or UNSET,
            available_traits=sorted(schemas.traits) or UNSET,
        )

    async def _update(self, call: Call, args: ManageItems) -> UpdateItemsResult:
        specs = batch(args.items, "items", MAX_ITEMS)
        expected = (args.shown or []) if isinstance(args, EditItems) else []
        record = await keyed(self._services, "manage_items", args, partial=True)
        await self._check_traits(call.project, args, record)
        ids = await self._resolved(call.project, [spec.id for spec in specs], "id")
        parents = await self._resolved(call.project, [values.given(spec.parent_id) for spec in specs], "parentId")
        schemas = self._items.schemas.current
        failures: dict[int, Failure] = {}
        changes: list[tuple[int, tuple[str, rules.Fields]]] = []
        for number, spec in enumerate(specs):
            try:
                item, fields = _change(spec, ids[number], parents[number], args.traits)
                if not fields.keys().isdisjoint(("bu", "pa")):
                    fields["may_raise"] = call.caller is None or not BUDGETS.isdisjoint(call.caller.permissions)
                if number < len(expected):
                    fields["shown"] = rules.shown(expected[number])
                problem = _unknown(fields, schemas)
                changes.append((number, (refused_id(problem), {}) if problem else (item, fields)))
            except ToolFailure as failure:
                failures[number] = _failed(number, spec, failure.message)
        replies = await self._items.update(call.project, record, [change for _, change in changes]) if changes else []
        self._expiring.note_times(call.project, [fields for _, (_, fields) in changes])
        updated: list[UpdatedItem] = []
        for (number, _), reply in zip(changes, replies, strict=True):
            if reply.outcome == "updated":
                modified, verification = iso(reply.modified), reply.requires_verification
                updated.append(
                    UpdatedItem(id=dashed(reply.id), modified_at=modified, requires_verification=verification)
                )
            else:
                failures[number] = _failed(number, specs[number], refused(reply.outcome))
        ordered = [failures[number] for number in sorted(failures)]
        return UpdateItemsResult(items=updated, updated=len(updated), failed=len(ordered), failures=ordered or UNSET)

    async def _delete(self, call: Call, args: ManageItems) -> DeleteItemsResult:
        references = batch(args.ids, "ids", MAX_ITEMS)
        record = await keyed(self._services, "manage_items", args, partial=True)
        inner = [parse(text, f"ids[{number}]") for number, text in enumerate(references)]
        resolved = await self._items.resolve(call.project, inner)
        end = await self._items.delete(call.project, record, resolved, args.recursive, self._items.seconds)
        if not end.done:
            raise _unfinished(end.deleted)
        failures = [
            Failure(
                id=references[position - 1],
                error=f"item has {children} children; use recursive to delete them too"
                if children
                else refused(reason),
            )
            for position, reason, children in end.failures
        ]
        failed = {failure.id for failure in failures}
        return DeleteItemsResult(
            ids=[text for text in dict.fromkeys(references) if text not in failed],
            deleted=end.deleted,
            failed=len(failures),
            descendants_deleted=end.descendants or UNSET,
            failures=failures or UNSET,
        )

    async def _shared(self, project: str, args: ManageItems, record: IdempotencyKey) -> str:
        """The parent of items that name none, '' for none, after checks of what all items share.

        Raises:
            ToolFailure: naming the field, unless the call is repeated, which is answered from its record.
        """
        await self._check_traits(project, args, record)
        if not (above := values.not_blank(args.parent_id)):
            return ""
        shared = await self._items.resolve_one(project, above, "parentId", record)
        try:
            if not shared.startswith("?"):
                await self._items.expect(project, shared, "parentId")
        except ToolFailure:
            if not await self._items.recorded(project, record):
                raise
        return shared

    async def _check_traits(self, project: str, args: ManageItems, record: IdempotencyKey) -> None:
        try:
            problem = self._items.schemas.current.unknown_trait(values.traits(values.names_in(args.traits or "")))
        except ToolFailure as failure:
            problem = failure
        if problem and not await self._items.recorded(project, record):
            raise problem

    async def _resolved(self, project: str, references: Sequence[str | None], field: str) -> list[str | ToolFailure]:
        """The inner form of the caller's ids; '' for a blank one, a failure for a malformed one."""
        parsed: list[str | ToolFailure] = []
        for text in references:
            try:
                parsed.append(parse(text, field) if text and text.strip() else "")
            except ToolFailure as failure:
                parsed.append(failure)
        wanted = [inner for inner in parsed if isinstance(inner, str) and inner]
        resolved = iter(await self._items.resolve(project, wanted))
        return [next(resolved) if isinstance(inner, str) and inner else inner for inner in parsed]


def tools(items: ItemStore, services: Services, expiring: Expiring) -> tuple[Tool, ...]:
    handle = Items(items, services, expiring)
    return (
        Tool(
            "manage_items",
            _MANAGE,
            ManageItems,
            (CreateItemsResult, UpdateItemsResult, DeleteItemsResult),
            handle.manage_items,
            destructive=True,
        ),
    )


def for_people(manage_items: Tool) -> Tool:
    """The tool as the console calls it: it takes what people were shown, too."""
    return dataclasses.replace(manage_items, arguments=EditItems)


def _unfinished(deleted: int) -> ToolFailure:
    return ToolFailure(
        "deadline_exceeded",
        f"ids: {deleted} items are deleted so far, the lowest ones first, and all others are as they were; "
        "repeat the call to continue (with the same requestId the last answer counts all of them)",
        retry_after_ms=0,
    )


def _failed(number: int, spec: ItemSpec, error: str) -> Failure:
    return Failure(id=spec.id, error=error) if spec.id else Failure(index=number, error=error)


def _change(
    spec: ItemSpec, item: str | ToolFailure, parent: str | ToolFailure, default_traits: str | None
) -> tuple[str, rules.Fields]:
    if isinstance(item, ToolFailure):
        raise item
    if not item:
        raise invalid("id", "is required for operation update")
    if isinstance(parent, ToolFailure):
        raise parent
    fields = rules.changes(spec, default_traits)
    if spec.parent_id is None or parent:  # null moves to the root; a blank parentId counts as absent
        fields["pa"] = parent
    return item, fields


def _unknown(fields: rules.Fields, schemas: SchemaConfig) -> ToolFailure | None:
    """Why the current configuration rejects an item with these fields."""
    return schemas.unknown_trait(fields.get("q") or "") or schemas.resources.problem(fields.get("rs") or "")


def _created(item: rules.NewItem, depth: int, item_id: str, schemas: SchemaConfig) -> CreatedItem:
    fields = item.fields
    schema = schemas.resolve(fields.get("y"), fields.get("g"), fields.get("q", "").split(","))
    return CreatedItem(
        id=dashed(item_id),
        title=fields["t"],
        depth=depth,
        role=ROLE_NAMES[item.role],
        priority=PRIORITY_NAMES[fields["p"]],
        requires_verification="rv" in fields,
        tags=fields.get("g"),
        type=fields.get("y"),
        schema_match=schema is not None,
        expected_notes=[expected(note, False) for note in schema.notes] if schema else [],
    )
