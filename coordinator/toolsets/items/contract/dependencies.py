"""manage_dependencies and query_dependencies."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.canonical import SHARED, meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base
from coordinator.toolsets.pages import DEFAULT_LIMIT, Limit, Offset

TYPES = ("BLOCKS", "IS_BLOCKED_BY", "RELATES_TO")
THRESHOLDS = ("queue", "work", "review", "terminal")

DIRECTIONS = ("incoming", "outgoing", "all")

DependencyType = Annotated[
    str | None, doc("Default BLOCKS: from must come first.", enum=[*TYPES, None], extra=meant("BLOCKS"))
]
Threshold = Annotated[
    str | None,
    doc(
        "Role that the blocker must reach; default terminal. Not with RELATES_TO.",
        enum=[*THRESHOLDS, None],
        extra=meant("terminal"),
    ),
]
DependencyId = Annotated[str, doc("The dependency's UUID.")]
FromItemId = Annotated[str, doc("UUID of the item it goes from.")]
ToItemId = Annotated[str, doc("UUID of the item it goes to.")]
EdgeType = Annotated[str, doc("BLOCKS: to waits for from.", enum=TYPES)]
ThresholdRole = Annotated[str, Meta(extra_json_schema={"enum": list(THRESHOLDS)})]
"""A role that a blocker must reach; the field says which."""

EffectiveUnblockRole = Annotated[ThresholdRole, doc("The threshold in force.")]
UnblockAt = Annotated[ThresholdRole, doc("The threshold given; absent: none (terminal).")]


class Blocker(base.Result, kw_only=True):
    """A dependency that is not satisfied."""

    from_item_id: Annotated[str, doc("UUID of the blocking item.")]
    current_role: Annotated[base.Role, doc("Its role.")]
    required_role: Annotated[ThresholdRole, doc("The role it must reach.")]


class DependencySpec(base.Arguments, kw_only=True):
    """One edge."""

    from_item_id: base.ItemRef
    to_item_id: base.ItemRef
    type: Annotated[DependencyType, Meta(extra=SHARED)] = None
    unblock_at: Annotated[Threshold, Meta(extra=SHARED)] = None


class ManageDependencies(base.Arguments, kw_only=True):
    """Create or delete dependency edges; a create is all or nothing."""

    operation: Annotated[str, doc("create takes dependencies or pattern.", enum=["create", "delete"])]
    dependencies: Annotated[
        list[DependencySpec] | None, doc("Create: explicit edges.", published={"minItems": 1, "maxItems": 150})
    ] = None
    pattern: Annotated[
        str | None, doc("Create: a shape instead of edges.", enum=["linear", "fan-out", "fan-in", None])
    ] = None
    type: DependencyType = None
    unblock_at: Threshold = None
    item_ids: Annotated[
        list[str] | None, doc("linear: items in order, A before B before C.", published={"minItems": 2})
    ] = None
    source: Annotated[str | None, doc("fan-out: the item that the targets wait for.")] = None
    targets: Annotated[list[str] | None, doc("fan-out: items that wait for source.", published={"minItems": 1})] = None
    sources: Annotated[list[str] | None, doc("fan-in: items that target waits for.", published={"minItems": 1})] = None
    target: Annotated[str | None, doc("fan-in: the item that waits for the sources.")] = None
    id: Annotated[str | None, doc("Delete: the dependency's UUID.")] = None
    from_item_id: Annotated[str | None, doc("Delete: edges from this item.")] = None
    to_item_id: Annotated[str | None, doc("Delete: edges to this item.")] = None
    delete_all: Annotated[bool, doc("Delete: every edge of fromItemId or toItemId.")] = False
    actor: base.OptionalActor = None
    request_id: base.RequestId = None


class Dependency(base.Result, kw_only=True):
    """An edge as stored; unblockAt only where it was given."""

    id: DependencyId
    from_item_id: FromItemId
    to_item_id: ToItemId
    type: EdgeType
    unblock_at: UnblockAt | UnsetType = UNSET


class CreateDependenciesResult(base.Result, kw_only=True):
    """All edges of the call, or none and the reasons."""

    dependencies: Annotated[list[Dependency], doc("All edges of the call; empty where one was refused.")]
    created: Annotated[base.Count, doc("Edges created.")]
    failed: Annotated[base.Count, doc("1: the call was refused whole.")] | UnsetType = UNSET
    failures: (
        Annotated[list[base.Failure], doc("One entry: the first bad edge; its text tells of the others.")] | UnsetType
    ) = UNSET


class DeleteDependenciesResult(base.Result, kw_only=True):
    """How many edges went; echoes what selected them."""

    id: Annotated[str, doc("By id: as the caller wrote it.")] | UnsetType = UNSET
    item_id: Annotated[base.ItemId, doc("With deleteAll: the item's UUID.")] | UnsetType = UNSET
    from_item_id: FromItemId | UnsetType = UNSET
    to_item_id: ToItemId | UnsetType = UNSET
    deleted: Annotated[base.Count, doc("Edges deleted.")]
    message: Annotated[str, doc("Why nothing was deleted by id.")] | UnsetType = UNSET


class QueryDependencies(base.Arguments, kw_only=True):
    """The dependencies of one item."""

    item_id: base.ItemRef
    direction: Annotated[
        str | None,
        doc("incoming: what this item waits for; outgoing: what waits for it; default all.", enum=[*DIRECTIONS, None]),
    ] = None
    type: Annotated[str | None, doc("Only edges of this type.", enum=[*TYPES, None])] = None
    include_item_info: Annotated[bool, doc("Add title, role and priority of both ends.")] = False
    neighbors_only: Annotated[bool, doc("False: add the whole graph that the item is in, ordered blocker first.")] = (
        True
    )
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0


class ItemInfo(base.Result, kw_only=True):
    """An item at one end of an edge."""

    title: base.Title
    role: base.RoleName
    priority: base.Priority


class DependencyView(Dependency, kw_only=True):
    """An edge; effectiveUnblockRole is the threshold in force, absent for RELATES_TO."""

    effective_unblock_role: EffectiveUnblockRole | UnsetType = UNSET
    from_item: ItemInfo | UnsetType = UNSET
    to_item: ItemInfo | UnsetType = UNSET


class DependencyCounts(base.Result, kw_only=True):
    """Edges of the item, whatever the call's filters."""

    incoming: Annotated[base.Count, doc("That this item waits for or waited for.")]
    outgoing: Annotated[base.Count, doc("That wait for this item or did.")]
    relates_to: Annotated[base.Count, doc("RELATES_TO, either way.")]


class DependencyGraph(base.Result, kw_only=True):
    """All items that blocking edges connect with the item, blockers first; depth counts edges."""

    chain: Annotated[list[str], doc("UUIDs of the items, this one included.")]
    depth: Annotated[base.Count, doc("Edges of the longest path.")]
    truncated: base.Truncated = UNSET


class QueryDependenciesResult(base.Result, kw_only=True):
    """The edges that were asked for."""

    dependencies: Annotated[list[DependencyView], doc("A page of those that pass the filters.")]
    total: Annotated[base.Count | UnsetType, doc("How many pass the filters; absent: this is all.")] = UNSET
    next_offset: base.NextOffset = UNSET
    counts: DependencyCounts
    graph: DependencyGraph | UnsetType = UNSET
    truncated: base.Truncated = UNSET
