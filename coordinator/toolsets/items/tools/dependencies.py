"""manage_dependencies: edges between items."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.errors import invalid
from coordinator.toolsets.items.contract.base import Failure
from coordinator.toolsets.items.contract.dependencies import (
    CreateDependenciesResult,
    DeleteDependenciesResult,
    Dependency,
    ManageDependencies,
)
from coordinator.toolsets.items.rules import edges as rules
from coordinator.toolsets.items.rules.ids import dashed, new_id, parse_uuid
from coordinator.toolsets.items.rules.roles import one_of
from coordinator.toolsets.items.rules.specs import not_blank
from coordinator.toolsets.items.store.dependencies import DependencyStore, NewEdge
from coordinator.toolsets.items.tools.shared import keyed
from coordinator.toolsets.tool import Call, Services, Tool

_DESCRIPTION = (
    "Create or delete dependency edges. BLOCKS: toItem waits until fromItem reaches unblockAt (default terminal); "
    "IS_BLOCKED_BY: the other way round; RELATES_TO: no waiting. Create takes explicit edges or a pattern (linear, "
    "fan-out, fan-in), at most 150 edges, and is all or nothing: self-edges, duplicates and cycles are refused. "
    "Delete by id, by fromItemId and toItemId (with type: only that type), or with deleteAll every edge of one item."
)


class Dependencies:
    """The handler of the tool that links items."""

    def __init__(self, edges: DependencyStore, services: Services) -> None:
        self._edges = edges
        self._services = services

    async def manage_dependencies(
        self, call: Call, args: ManageDependencies
    ) -> CreateDependenciesResult | DeleteDependenciesResult:
        """Creates or deletes dependencies."""
        if one_of(args.operation, ("create", "delete"), "operation") == "create":
            return await self._create(call, args)
        return await self._delete(call, args)

    async def _create(self, call: Call, args: ManageDependencies) -> CreateDependenciesResult:
        specs = rules.edges_asked_for(args)
        checked, problems = rules.checked(specs, args)
        if problems:
            return _none_created(problems)
        record = await keyed(self._services, args.actor, args.request_id, "manage_dependencies", rules.asked(args))
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
                    unblock_at=edge.unblock_at or UNSET,
                )
                for (dependency, source, target), edge in zip(reply.edges, checked, strict=True)
            ],
            created=len(reply.edges),
        )

    async def _delete(self, call: Call, args: ManageDependencies) -> DeleteDependenciesResult:
        record = await keyed(self._services, args.actor, args.request_id, "manage_dependencies", rules.asked(args))
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


def tools(edges: DependencyStore, services: Services) -> tuple[Tool, ...]:
    """The tool."""
    handle = Dependencies(edges, services)
    return (
        Tool(
            "manage_dependencies",
            _DESCRIPTION,
            ManageDependencies,
            (CreateDependenciesResult, DeleteDependenciesResult),
            handle.manage_dependencies,
            destructive=True,
        ),
    )


def _none_created(failures: list[Failure]) -> CreateDependenciesResult:
    """The answer to a call that is refused whole: one entry, which tells of the other bad edges too."""
    return CreateDependenciesResult(dependencies=[], created=0, failed=1, failures=[rules.as_one(failures)])
