"""manage_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from coordinator.toolsets.canonical import NOT_COMPARED
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.items.field_types import base


class ManageItems(base.Arguments, kw_only=True):
    """Create, update or delete work items."""

    operation: Annotated[
        str, doc("create and update take items, delete takes ids.", enum=["create", "update", "delete"])
    ]
    items: Annotated[
        list[ItemSpec] | None, doc("Create and update: the items.", published={"minItems": 1, "maxItems": 1000})
    ] = None
    ids: Annotated[list[str] | None, doc("Delete: the items.", published={"minItems": 1, "maxItems": 1000})] = None
    parent_id: Annotated[str | None, doc("Create: default parent; an item's own parentId overrides it.")] = None
    traits: Annotated[str | None, doc("Default traits; an item's own override them.")] = None
    recursive: Annotated[bool, doc("Delete: descendants too.")] = False
    requires_verification: Annotated[bool | None, doc("Ignored here; set it on the items.", extra=NOT_COMPARED)] = None
    actor: base.OptionalActor = None
    request_id: base.RequestId = None


class EditItems(ManageItems, kw_only=True):
    """Of people in the console: an update is refused where a field has another value now than was shown."""

    shown: list[ItemSpec] | None = None
    """Of each item, in the order of ``items``; null: it had none; absent: not shown, or not changed."""


class CreatedItem(base.Result, kw_only=True):
    """An item right after its creation."""

    id: base.ItemId
    title: base.Title
    depth: base.Depth
    role: base.RoleName
    priority: base.Priority
    requires_verification: fields.RequiresVerification
    tags: base.NullableTags
    type: Annotated[str | None, doc("The item's type; null: none.")]
    schema_match: base.SchemaMatch
    expected_notes: base.ExpectedNotes


class CreateItemsResult(base.Result, kw_only=True):
    """Items that were created and, where any were refused, which and why."""

    items: Annotated[list[CreatedItem], doc("What was created, in the order given.")]
    created: Annotated[base.Count, doc("Items created.")]
    failed: base.Failed
    failures: base.Failures | UnsetType = UNSET
    available_traits: Annotated[list[str], doc("Traits that items may have; absent: none configured.")] | UnsetType = (
        UNSET
    )


class UpdatedItem(base.Result, kw_only=True):
    """An item right after its update."""

    id: base.ItemId
    modified_at: base.ModifiedAt
    requires_verification: fields.RequiresVerification


class UpdateItemsResult(base.Result, kw_only=True):
    """Items that were updated and, where any were refused, which and why."""

    items: Annotated[list[UpdatedItem], doc("What was updated, in the order given.")]
    updated: Annotated[base.Count, doc("Items updated.")]
    failed: base.Failed
    failures: base.Failures | UnsetType = UNSET


class DeleteItemsResult(base.Result, kw_only=True):
    """Ids that were deleted, as the caller wrote them; ``deleted`` counts descendants too."""

    ids: Annotated[list[str], doc("The ids deleted, as the caller wrote them.")]
    deleted: Annotated[base.Count, doc("Items deleted, descendants included.")]
    failed: base.Failed
    descendants_deleted: Annotated[base.Count, doc("Of these, descendants; absent: none.")] | UnsetType = UNSET
    failures: base.Failures | UnsetType = UNSET
