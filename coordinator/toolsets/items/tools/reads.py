"""query_dependencies, get_next_status and get_blocked_items: what waits for what."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.toolsets import pages
from coordinator.toolsets.items.contract.reads import (
    DIRECTIONS,
    BlockedBy,
    BlockedItem,
    BlockedStatus,
    DependencyGraph,
    GetBlockedItems,
    GetBlockedItemsResult,
    GetNextStatus,
    QueryDependencies,
    QueryDependenciesResult,
    ReadyStatus,
    TerminalStatus,
)
from coordinator.toolsets.items.rules import classes, graph
from coordinator.toolsets.items.rules.edges import edge_type
from coordinator.toolsets.items.rules.ids import dashed, no_such_item
from coordinator.toolsets.items.rules.progress import next_status
from coordinator.toolsets.items.rules.roles import PRIORITY_NAMES, ROLE_NAMES, one_of
from coordinator.toolsets.items.rules.specs import not_blank
from coordinator.toolsets.items.store.reads import READ_SLICE, Blocked, BlockerRow, ReadStore
from coordinator.toolsets.items.tools.shared import ancestors, or_unset
from coordinator.toolsets.tool import RESULT_CHARS, Call, Criticality, Tool

MAX_LISTED_EDGES = 5_000
BLOCKED_PER_ROLE = 500
LISTED_BLOCKERS = 20
"""How many blockers of an item get_blocked_items lists."""

_DEPENDENCIES = (
    "The dependencies of an item. direction incoming: what it waits for; outgoing: what waits for it. counts cover all "
    "of its dependencies, whatever the filters. neighborsOnly=false adds the graph: all items that blocking "
    "dependencies connect with this one, blockers first, and the number of edges on the longest path (depth). "
    "Long lists come in pages (limit, offset)."
)
_STATUS = (
    "What an item's next transition would be, without making it: Ready with nextRole and trigger, Blocked with the "
    "unsatisfied blockers or a suggestion, or Terminal. Does not check required notes; get_context does."
)
_BLOCKED = (
    "All items that are blocked: explicitly (role blocked), and those in queue, work or review that wait for an "
    "unsatisfied dependency. blockedBy lists satisfied dependencies too; blockerCount counts the unsatisfied ones. "
    "parentId restricts it to that item's children. Up to 500 items of a role, best first, in pages (limit, offset)."
)


class Reads:
    """The handlers of the tools that show dependencies and blocked items."""

    def __init__(self, reads: ReadStore) -> None:
        self._reads = reads

    async def query_dependencies(self, call: Call, args: QueryDependencies) -> QueryDependenciesResult:
        """The dependencies of an item, and on request the whole graph that it is in."""
        direction = one_of(not_blank(args.direction) or "all", DIRECTIONS, "direction")
        wanted_type = edge_type(args.type, "type") if not_blank(args.type) else None
        item = await self._reads.resolve_one(call.project, args.item_id, "itemId")
        found, complete = await self._reads.edges(call.project, [item], MAX_LISTED_EDGES)
        if item not in found:
            raise no_such_item("itemId")
        edges = found[item]
        shown = [
            edge
            for edge in edges
            if direction in ("all", edge.direction) and (wanted_type is None or edge.type == wanted_type)
        ]
        total = len(shown)
        if args.offset or total > args.limit:
            # The store gives them in any order, which may change between two pages.
            shown = sorted(shown, key=lambda edge: (edge.code, edge.other))[args.offset : args.offset + args.limit]
        heads: dict[str, graph.Head] = {}
        if args.include_item_info and shown:
            heads = await self._reads.heads(call.project, [item, *(edge.other for edge in shown)])
        rows = [graph.dependency(item, edge, heads) for edge in shown]
        rows = rows[: pages.fitting(rows)]
        end = args.offset + len(rows)
        return QueryDependenciesResult(
            dependencies=rows,
            total=total if args.offset or end < total else UNSET,
            next_offset=end if end < total else UNSET,
            counts=graph.counts(edges),
            graph=UNSET if args.neighbors_only else await self._graph_of(call.project, item, pages.size(rows)),
            truncated=UNSET if complete else True,
        )

    async def get_next_status(self, call: Call, args: GetNextStatus) -> ReadyStatus | BlockedStatus | TerminalStatus:
        """What an item's next transition would be."""
        item = await self._reads.resolve_one(call.project, args.item_id, "itemId")
        status = await self._reads.status(call.project, item)
        schema = self._reads.schemas.current.resolve_reported(status.schema)
        return next_status(ROLE_NAMES[status.role], status.returns, schema, graph.unsatisfied(status.blockers))

    async def get_blocked_items(self, call: Call, args: GetBlockedItems) -> GetBlockedItemsResult:
        """The items that are blocked, best first, with what blocks them."""
        above = not_blank(args.parent_id)
        parent = await self._reads.resolve_one(call.project, above, "parentId") if above else ""
        # All roles are read in one run, so that a blocked item that changes its role meanwhile is not missed.
        ranked = await self._reads.ranked(
            call.project, parent, "".join(classes.MAYBE_BLOCKED.values()), BLOCKED_PER_ROLE
        )
        truncated = any(group.cut for group in ranked)
        shown: dict[str, list[BlockedItem]] = {role: [] for role in classes.MAYBE_BLOCKED}
        for ids in classes.best_of_each(ranked, classes.MAYBE_BLOCKED.values()):
            found, complete = await self._reads.blocked(
                call.project, ids, BLOCKED_PER_ROLE, args.include_item_details, args.include_ancestors
            )
            truncated |= not complete
            for entry in found:
                shown[ROLE_NAMES[entry.role]].append(_blocked(entry, args))
        items = [entry for entries in shown.values() for entry in entries]
        page = items[args.offset : args.offset + args.limit]
        page = page[: pages.fitting(page)]
        end = args.offset + len(page)
        return GetBlockedItemsResult(
            blocked_items=page,
            total=len(items),
            next_offset=end if end < len(items) else UNSET,
            truncated=True if truncated else UNSET,
        )

    async def _graph_of(self, project: str, item: str, used: int) -> DependencyGraph:
        """The graph, with as many ids as an answer can hold that has ``used`` characters already."""
        walk = graph.Walk(item)
        while wanted := walk.wanted(READ_SLICE):
            walk.add(wanted, *await self._reads.edges(project, wanted, walk.edges_left, walk.before(wanted)))
        chain, depth, truncated = walk.graph()
        listed = [dashed(item) for item in chain]
        held = pages.fitting(listed, chars=pages.ANSWER_CHARS - used)
        return DependencyGraph(
            chain=listed[:held], depth=depth, truncated=True if truncated or held < len(listed) else UNSET
        )


def tools(reads: ReadStore) -> tuple[Tool, ...]:
    """The tools."""
    handle = Reads(reads)
    return (
        Tool(
            "query_dependencies",
            _DEPENDENCIES,
            QueryDependencies,
            (QueryDependenciesResult,),
            handle.query_dependencies,
            read_only=True,
            idempotent=True,
            result_chars=RESULT_CHARS,
        ),
        Tool(
            "get_next_status",
            _STATUS,
            GetNextStatus,
            (ReadyStatus, BlockedStatus, TerminalStatus),
            handle.get_next_status,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "get_blocked_items",
            _BLOCKED,
            GetBlockedItems,
            (GetBlockedItemsResult,),
            handle.get_blocked_items,
            read_only=True,
            idempotent=True,
            criticality=Criticality.SHEDDABLE,
            result_chars=RESULT_CHARS,
        ),
    )


def _blocked(entry: Blocked, args: GetBlockedItems) -> BlockedItem:
    role, details = ROLE_NAMES[entry.role], args.include_item_details
    rows = [_blocked_by(row) for row in entry.blockers]
    listed = rows
    if len(rows) > LISTED_BLOCKERS:
        listed = sorted(rows, key=lambda row: row.satisfied)[:LISTED_BLOCKERS]
    return BlockedItem(
        item_id=dashed(entry.id),
        title=entry.title,
        role=role,
        priority=PRIORITY_NAMES[entry.priority],
        complexity=entry.complexity or None,
        block_type="explicit" if role == "blocked" else "dependency",
        blocked_by=listed,
        blocked_by_total=len(rows) if len(rows) > len(listed) else UNSET,
        blocker_count=sum(not row.satisfied for row in rows),
        summary=or_unset(entry.summary) if details else UNSET,
        tags=or_unset(entry.tags) if details else UNSET,
        ancestors=ancestors(entry.ancestors) if args.include_ancestors else UNSET,
    )


def _blocked_by(row: BlockerRow) -> BlockedBy:
    """One blocker of an item, satisfied or not."""
    given = graph.given_threshold(row.mark)
    return BlockedBy(
        item_id=dashed(row.field[1:]),
        title=row.title,
        role=ROLE_NAMES[row.role],
        unblock_at=given or UNSET,
        effective_unblock_role=given or "terminal",
        satisfied=row.satisfied,
    )
