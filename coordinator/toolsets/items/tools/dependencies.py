"""manage_dependencies and query_dependencies: edges between items."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.errors import invalid
from coordinator.toolsets import pages
from coordinator.toolsets.items.contract.dependencies import (
    DIRECTIONS,
    CreateDependenciesResult,
    DeleteDependenciesResult,
    Dependency,
    DependencyGraph,
    ManageDependencies,
    QueryDependencies,
    QueryDependenciesResult,
)
from coordinator.toolsets.items.field_types.base import Failure
from coordinator.toolsets.items.rules.dependencies import edges as rules
from coordinator.toolsets.items.rules.dependencies import graph
from coordinator.toolsets.items.rules.dependencies.edges import edge_type
from coordinator.toolsets.items.rules.ids import dashed, new_id, no_such_item, parse_uuid
from coordinator.toolsets.items.rules.roles import one_of
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.items.store.base import READ_SLICE
from coordinator.toolsets.items.store.dependencies import DependencyStore, NewEdge
from coordinator.toolsets.items.tools.shared import keyed
from coordinator.toolsets.tool import RESULT_CHARS, Call, Services, Tool

MAX_LISTED_EDGES = 5_000

_MANAGE = (
    "Create or delete dependency edges. BLOCKS: toItem waits until fromItem reaches unblockAt; IS_BLOCKED_BY: the "
    "other way round; RELATES_TO: no waiting. Create takes explicit edges or a pattern (linear, fan-out, fan-in), at "
    "most 150 edges, and is all or nothing: self-edges, duplicates and cycles are refused. Delete by id, by "
    "fromItemId and toItemId (with type: only that type), or with deleteAll every edge of one item."
)

_QUERY = (
    "The dependencies of an item, and counts of all of them, whatever the filters. neighborsOnly=false adds the "
    "graph: all items that blocking dependencies connect with this one, blockers first, and depth, the edges on the "
    "longest path."
)


class Dependencies:
    """The handlers of the tools that link items and show their links."""

    def __init__(self, edges: DependencyStore, services: Services) -> None:
        self._edges = edges
        self._services = services

    async def manage_dependencies(
        self, call: Call, args: ManageDependencies
    ) -> CreateDependenciesResult | DeleteDependenciesResult:
        if one_of(args.operation, ("create", "delete"), "operation") == "create":
            return await self._create(call, args)
        return await self._delete(call, args)

    async def _create(self, call: Call, args: ManageDependencies) -> CreateDependenciesResult:
        specs = rules.edges_asked_for(args)
        checked, problems = rules.checked(specs, args)
        if problems:
            return _none_created(problems)
        record = await keyed(self._services, "manage_dependencies", args)
        ids = await self._edges.resolve(call.project, [item for edge in checked for item in (edge.source, edge.target)])
        wanted = [
            NewEdge(new_id(), ids[2 * n], ids[2 * n + 1], edge.type[0], rules.mark(edge.unblock_at))
            for n, edge in enumerate(checked)
        ]
        reply = await self._edges.link(call.project, record, wanted)
        if reply.refusals:
            return _none_created([rules.refusal(*refusal, args.pattern) for refusal in reply.refusals])
        return CreateDependenciesResult(
            dependencies=[
                Dependency(
                    id=dashed(dependency),
                    from_item_id=dashed(source),
                    to_item_id=dashed(target),
                    type=edge.type,
                    unblock_at=rules.unblock_at(threshold),
                )
                for (dependency, source, target, threshold), edge in zip(reply.edges, checked, strict=True)
            ],
            created=len(reply.edges),
        )

    async def _delete(self, call: Call, args: ManageDependencies) -> DeleteDependenciesResult:
        record = await keyed(self._services, "manage_dependencies", args, partial=True)
        source_id, target_id = not_blank(args.from_item_id), not_blank(args.to_item_id)
        if named := not_blank(args.id):
            deleted = (await self._edges.unlink(call.project, record, "id", parse_uuid(named, "id"))).deleted
            return DeleteDependenciesResult(
                id=named, deleted=deleted, message=UNSET if deleted else "no such dependency"
            )
        if args.delete_all:
            if not source_id and not target_id:
                raise invalid("fromItemId", "deleteAll needs fromItemId or toItemId")
            item = await self._edges.resolve_one(
                call.project, source_id or target_id, "fromItemId" if source_id else "toItemId", record
            )
            end = await self._edges.unlink(call.project, record, "all", item)
            return DeleteDependenciesResult(item_id=dashed(end.first), deleted=end.deleted)
        if not source_id or not target_id:
            raise invalid("id", "delete needs id, or fromItemId and toItemId, or deleteAll with one of these")
        source = await self._edges.resolve_one(call.project, source_id, "fromItemId", record)
        target = await self._edges.resolve_one(call.project, target_id, "toItemId", record)
        codes = rules.edge_type(args.type, "type")[0] if not_blank(args.type) else "BIR"
        end = await self._edges.unlink(call.project, record, "pair", source, target, codes)
        return DeleteDependenciesResult(
            from_item_id=dashed(end.first), to_item_id=dashed(end.second), deleted=end.deleted
        )

    async def query_dependencies(self, call: Call, args: QueryDependencies) -> QueryDependenciesResult:
        """The dependencies of an item, and on request its whole graph."""
        direction = one_of(not_blank(args.direction) or "all", DIRECTIONS, "direction")
        wanted_type = edge_type(args.type, "type") if not_blank(args.type) else None
        item = await self._edges.resolve_one(call.project, args.item_id, "itemId")
        found, complete = await self._edges.edges(call.project, [item], MAX_LISTED_EDGES)
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
            # The store's order is arbitrary, and may change between two pages.
            shown = sorted(shown, key=lambda edge: (edge.code, edge.other))[args.offset : args.offset + args.limit]
        heads: dict[str, graph.Head] = {}
        if args.include_item_info and shown:
            heads = await self._edges.heads(call.project, [item, *(edge.other for edge in shown)])
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

    async def _graph_of(self, project: str, item: str, used: int) -> DependencyGraph:
        """The graph, with as many ids as fit into an answer that has ``used`` characters already."""
        walk = graph.Walk(item)
        while wanted := walk.wanted(READ_SLICE):
            walk.add(wanted, *await self._edges.edges(project, wanted, walk.edges_left, walk.before(wanted)))
        chain, depth, truncated = walk.graph()
        listed = [dashed(item) for item in chain]
        held = pages.fitting(listed, chars=pages.ANSWER_CHARS - used)
        return DependencyGraph(
            chain=listed[:held], depth=depth, truncated=True if truncated or held < len(listed) else UNSET
        )


def tools(edges: DependencyStore, services: Services) -> tuple[Tool, ...]:
    handle = Dependencies(edges, services)
    return (
        Tool(
            "manage_dependencies",
            _MANAGE,
            ManageDependencies,
            (CreateDependenciesResult, DeleteDependenciesResult),
            handle.manage_dependencies,
            destructive=True,
        ),
        Tool(
            "query_dependencies",
            _QUERY,
            QueryDependencies,
            (QueryDependenciesResult,),
            handle.query_dependencies,
            read_only=True,
            idempotent=True,
            result_chars=RESULT_CHARS,
        ),
    )


def _none_created(failures: list[Failure]) -> CreateDependenciesResult:
    """The answer to a call that is rejected as a whole: one entry, which also names the other invalid edges."""
    return CreateDependenciesResult(dependencies=[], created=0, failed=1, failures=[rules.as_one(failures)])
