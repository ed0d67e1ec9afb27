"""manage_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.canonical import NOT_COMPARED
from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.base import (
    Arguments,
    Count,
    Depth,
    ExpectedNotes,
    Failed,
    Failures,
    ItemId,
    ModifiedAt,
    NullableTags,
    OptionalActor,
    Priority,
    RequestId,
    Result,
    RoleName,
    SchemaMatch,
    Title,
)
from coordinator.toolsets.items.contract.specs import ItemSpec


class ManageItems(Arguments, kw_only=True):
    """Create, update or delete work items."""

    operation: Annotated[
        str,
        Meta(
            description="create and update take items, delete takes ids.",
            extra_json_schema={"enum": ["create", "update", "delete"]},
        ),
    ]
    items: Annotated[
        list[ItemSpec] | None,
        Meta(description="Create and update: the items.", extra_json_schema={"minItems": 1, "maxItems": 1000}),
    ] = None
    ids: Annotated[
        list[str] | None,
        Meta(description="Delete: the items.", extra_json_schema={"minItems": 1, "maxItems": 1000}),
    ] = None
    parent_id: Annotated[
        str | None, Meta(description="Create: default parent; an item's own parentId overrides it.")
    ] = None
    traits: Annotated[str | None, Meta(description="Default traits; an item's own override them.")] = None
    recursive: Annotated[bool, Meta(description="Delete: descendants too.")] = False
    requires_verification: Annotated[
        bool | None, Meta(description="Ignored here; set it on the items.", extra=NOT_COMPARED)
    ] = None
    actor: OptionalActor = None
    request_id: RequestId = None


class CreatedItem(Result, kw_only=True):
    """An item right after its creation."""

    id: ItemId
    title: Title
    depth: Depth
    role: RoleName
    priority: Priority
    requires_verification: fields.RequiresVerification
    tags: NullableTags
    type: Annotated[str | None, Meta(description="The item's type; null: none.")]
    schema_match: SchemaMatch
    expected_notes: ExpectedNotes


class CreateItemsResult(Result, kw_only=True):
    """Items that were created and, where any were refused, which and why."""

    items: Annotated[list[CreatedItem], Meta(description="What was created, in the order given.")]
    created: Annotated[Count, Meta(description="Items created.")]
    failed: Failed
    failures: Failures | UnsetType = UNSET
    available_traits: (
        Annotated[list[str], Meta(description="Traits that items may have; absent: none configured.")] | UnsetType
    ) = UNSET


class UpdatedItem(Result, kw_only=True):
    """An item right after its update."""

    id: ItemId
    modified_at: ModifiedAt
    requires_verification: fields.RequiresVerification


class UpdateItemsResult(Result, kw_only=True):
    """Items that were updated and, where any were refused, which and why."""

    items: Annotated[list[UpdatedItem], Meta(description="What was updated, in the order given.")]
    updated: Annotated[Count, Meta(description="Items updated.")]
    failed: Failed
    failures: Failures | UnsetType = UNSET


class DeleteItemsResult(Result, kw_only=True):
    """Ids that were deleted, as the caller wrote them; ``deleted`` counts descendants too."""

    ids: Annotated[list[str], Meta(description="The ids deleted, as the caller wrote them.")]
    deleted: Annotated[Count, Meta(description="Items deleted, descendants included.")]
    failed: Failed
    descendants_deleted: Annotated[Count, Meta(description="Of these, descendants; absent: none.")] | UnsetType = UNSET
    failures: Failures | UnsetType = UNSET
