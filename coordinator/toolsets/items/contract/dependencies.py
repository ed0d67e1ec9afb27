"""manage_dependencies and query_dependencies."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.canonical import SHARED, meant
from coordinator.toolsets.items.contract.base import (
    Arguments,
    Count,
    Failure,
    ItemId,
    ItemRef,
    NextOffset,
    OptionalActor,
    Priority,
    RequestId,
    Result,
    Role,
    RoleName,
    Title,
    Truncated,
)
from coordinator.toolsets.pages import DEFAULT_LIMIT, Limit, Offset

TYPES = ("BLOCKS", "IS_BLOCKED_BY", "RELATES_TO")
THRESHOLDS = ("queue", "work", "review", "terminal")

DIRECTIONS = ("incoming", "outgoing", "all")

DependencyType = Annotated[
    str | None,
    Meta(
        description="Default BLOCKS: from must come first.",
        extra_json_schema={"enum": [*TYPES, None]},
        extra=meant("BLOCKS"),
    ),
]
Threshold = Annotated[
    str | None,
    Meta(
        description="Role that the blocker must reach; default terminal. Not with RELATES_TO.",
        extra_json_schema={"enum": [*THRESHOLDS, None]},
        extra=meant("terminal"),
    ),
]
DependencyId = Annotated[str, Meta(description="The dependency's UUID.")]
FromItemId = Annotated[str, Meta(description="UUID of the item it goes from.")]
ToItemId = Annotated[str, Meta(description="UUID of the item it goes to.")]
EdgeType = Annotated[str, Meta(description="BLOCKS: to waits for from.", extra_json_schema={"enum": list(TYPES)})]
ThresholdRole = Annotated[str, Meta(extra_json_schema={"enum": list(THRESHOLDS)})]
"""A role that a blocker must reach; the field says which."""

EffectiveUnblockRole = Annotated[ThresholdRole, Meta(description="The threshold in force.")]
UnblockAt = Annotated[ThresholdRole, Meta(description="The threshold given; absent: none (terminal).")]


class Blocker(Result, kw_only=True):
    """A dependency that is not satisfied."""

    from_item_id: Annotated[str, Meta(description="UUID of the blocking item.")]
    current_role: Annotated[Role, Meta(description="Its role.")]
    required_role: Annotated[ThresholdRole, Meta(description="The role it must reach.")]


class DependencySpec(Arguments, kw_only=True):
    """One edge."""

    from_item_id: ItemRef
    to_item_id: ItemRef
    type: Annotated[DependencyType, Meta(extra=SHARED)] = None
    unblock_at: Annotated[Threshold, Meta(extra=SHARED)] = None


class ManageDependencies(Arguments, kw_only=True):
    """Create or delete dependency edges; a create is all or nothing."""

    operation: Annotated[
        str,
        Meta(
            description="create takes dependencies or pattern.",
            extra_json_schema={"enum": ["create", "delete"]},
        ),
    ]
    dependencies: Annotated[
        list[DependencySpec] | None,
        Meta(description="Create: explicit edges.", extra_json_schema={"minItems": 1, "maxItems": 150}),
    ] = None
    pattern: Annotated[
        str | None,
        Meta(
            description="Create: a shape instead of edges.",
            extra_json_schema={"enum": ["linear", "fan-out", "fan-in", None]},
        ),
    ] = None
    type: DependencyType = None
    unblock_at: Threshold = None
    item_ids: Annotated[
        list[str] | None,
        Meta(description="linear: items in order, A before B before C.", extra_json_schema={"minItems": 2}),
    ] = None
    source: Annotated[str | None, Meta(description="fan-out: the item that the targets wait for.")] = None
    targets: Annotated[
        list[str] | None, Meta(description="fan-out: items that wait for source.", extra_json_schema={"minItems": 1})
    ] = None
    sources: Annotated[
        list[str] | None, Meta(description="fan-in: items that target waits for.", extra_json_schema={"minItems": 1})
    ] = None
    target: Annotated[str | None, Meta(description="fan-in: the item that waits for the sources.")] = None
    id: Annotated[str | None, Meta(description="Delete: the dependency's UUID.")] = None
    from_item_id: Annotated[str | None, Meta(description="Delete: edges from this item.")] = None
    to_item_id: Annotated[str | None, Meta(description="Delete: edges to this item.")] = None
    delete_all: Annotated[bool, Meta(description="Delete: every edge of fromItemId or toItemId.")] = False
    actor: OptionalActor = None
    request_id: RequestId = None


class Dependency(Result, kw_only=True):
    """An edge as stored; unblockAt only where it was given."""

    id: DependencyId
    from_item_id: FromItemId
    to_item_id: ToItemId
    type: EdgeType
    unblock_at: UnblockAt | UnsetType = UNSET


class CreateDependenciesResult(Result, kw_only=True):
    """All edges of the call, or none and the reasons."""

    dependencies: Annotated[list[Dependency], Meta(description="All edges of the call; empty where one was refused.")]
    created: Annotated[Count, Meta(description="Edges created.")]
    failed: Annotated[Count, Meta(description="1: the call was refused whole.")] | UnsetType = UNSET
    failures: (
        Annotated[list[Failure], Meta(description="One entry: the first bad edge; its text tells of the others.")]
        | UnsetType
    ) = UNSET


class DeleteDependenciesResult(Result, kw_only=True):
    """How many edges went; echoes what selected them."""

    id: Annotated[str, Meta(description="By id: as the caller wrote it.")] | UnsetType = UNSET
    item_id: Annotated[ItemId, Meta(description="With deleteAll: the item's UUID.")] | UnsetType = UNSET
    from_item_id: FromItemId | UnsetType = UNSET
    to_item_id: ToItemId | UnsetType = UNSET
    deleted: Annotated[Count, Meta(description="Edges deleted.")]
    message: Annotated[str, Meta(description="Why nothing was deleted by id.")] | UnsetType = UNSET


class QueryDependencies(Arguments, kw_only=True):
    """The dependencies of one item."""

    item_id: ItemRef
    direction: Annotated[
        str | None,
        Meta(
            description="incoming: what this item waits for; outgoing: what waits for it; default all.",
            extra_json_schema={"enum": [*DIRECTIONS, None]},
        ),
    ] = None
    type: Annotated[
        str | None, Meta(description="Only edges of this type.", extra_json_schema={"enum": [*TYPES, None]})
    ] = None
    include_item_info: Annotated[bool, Meta(description="Add title, role and priority of both ends.")] = False
    neighbors_only: Annotated[
        bool, Meta(description="False: add the whole graph that the item is in, ordered blocker first.")
    ] = True
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0


class ItemInfo(Result, kw_only=True):
    """An item at one end of an edge."""

    title: Title
    role: RoleName
    priority: Priority


class DependencyView(Dependency, kw_only=True):
    """An edge; effectiveUnblockRole is the threshold in force, absent for RELATES_TO."""

    effective_unblock_role: EffectiveUnblockRole | UnsetType = UNSET
    from_item: ItemInfo | UnsetType = UNSET
    to_item: ItemInfo | UnsetType = UNSET


class DependencyCounts(Result, kw_only=True):
    """Edges of the item, whatever the call's filters."""

    incoming: Annotated[Count, Meta(description="That this item waits for or waited for.")]
    outgoing: Annotated[Count, Meta(description="That wait for this item or did.")]
    relates_to: Annotated[Count, Meta(description="RELATES_TO, either way.")]


class DependencyGraph(Result, kw_only=True):
    """All items that blocking edges connect with the item, blockers first; depth counts edges."""

    chain: Annotated[list[str], Meta(description="UUIDs of the items, this one included.")]
    depth: Annotated[Count, Meta(description="Edges of the longest path.")]
    truncated: Truncated = UNSET


class QueryDependenciesResult(Result, kw_only=True):
    """The edges that were asked for."""

    dependencies: Annotated[list[DependencyView], Meta(description="A page of those that pass the filters.")]
    total: Annotated[Count | UnsetType, Meta(description="How many pass the filters; absent: this is all.")] = UNSET
    next_offset: NextOffset = UNSET
    counts: DependencyCounts
    graph: DependencyGraph | UnsetType = UNSET
    truncated: Truncated = UNSET
