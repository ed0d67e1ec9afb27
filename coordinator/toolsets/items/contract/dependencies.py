"""manage_dependencies (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import (
    Arguments,
    Failure,
    ItemRef,
    OptionalActor,
    OptionalItemRef,
    RequestId,
    Result,
)

TYPES = ("BLOCKS", "IS_BLOCKED_BY", "RELATES_TO")
THRESHOLDS = ("queue", "work", "review", "terminal")

DependencyType = Annotated[
    str | None,
    Meta(description="Default BLOCKS: from must come first.", extra_json_schema={"enum": [*TYPES, None]}),
]
Threshold = Annotated[
    str | None,
    Meta(
        description="Role that the blocker must reach; default terminal. Not with RELATES_TO.",
        extra_json_schema={"enum": [*THRESHOLDS, None]},
    ),
]


class DependencySpec(Arguments, kw_only=True):
    """One edge."""

    from_item_id: ItemRef
    to_item_id: ItemRef
    type: DependencyType = None
    unblock_at: Threshold = None


class ManageDependencies(Arguments, kw_only=True):
    """Create or delete dependency edges; a create is all or nothing."""

    operation: Annotated[str, Meta(extra_json_schema={"enum": ["create", "delete"]})]
    dependencies: Annotated[list[DependencySpec] | None, Meta(description="Create: explicit edges.")] = None
    pattern: Annotated[
        str | None,
        Meta(
            description="Create: a shape instead of edges.",
            extra_json_schema={"enum": ["linear", "fan-out", "fan-in", None]},
        ),
    ] = None
    type: DependencyType = None
    unblock_at: Threshold = None
    item_ids: Annotated[list[str] | None, Meta(description="linear: items in order, A before B before C.")] = None
    source: OptionalItemRef = None
    targets: Annotated[list[str] | None, Meta(description="fan-out: items that wait for source.")] = None
    sources: Annotated[list[str] | None, Meta(description="fan-in: items that target waits for.")] = None
    target: OptionalItemRef = None
    id: Annotated[str | None, Meta(description="Delete: the dependency's UUID.")] = None
    from_item_id: OptionalItemRef = None
    to_item_id: OptionalItemRef = None
    delete_all: Annotated[bool, Meta(description="Delete: every edge of fromItemId or toItemId.")] = False
    actor: OptionalActor = None
    request_id: RequestId = None


class Dependency(Result, kw_only=True):
    """An edge as stored; unblockAt only where it was given."""

    id: str
    from_item_id: str
    to_item_id: str
    type: str
    unblock_at: str | UnsetType = UNSET


class CreateDependenciesResult(Result, kw_only=True):
    """All edges of the call, or none and the reasons."""

    dependencies: list[Dependency]
    created: int
    failed: int | UnsetType = UNSET
    failures: list[Failure] | UnsetType = UNSET


class DeleteDependenciesResult(Result, kw_only=True):
    """How many edges went; echoes what selected them."""

    id: str | UnsetType = UNSET
    item_id: str | UnsetType = UNSET
    from_item_id: str | UnsetType = UNSET
    to_item_id: str | UnsetType = UNSET
    deleted: int
    message: str | UnsetType = UNSET
