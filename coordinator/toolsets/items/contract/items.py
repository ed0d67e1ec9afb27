"""manage_items (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import (
    PRIORITIES,
    ROLES,
    Arguments,
    ExpectedNote,
    Failure,
    OptionalActor,
    RequestId,
    Result,
)

Text = str | None | UnsetType


class ItemSpec(Arguments, kw_only=True):
    """An item to create, or with ``id`` the fields of one to change."""

    id: Annotated[str | None, Meta(description="Update: the item. UUID or hex prefix.")] = None
    title: Annotated[Text, Meta(description="Required on create; 1 to 500 characters.")] = UNSET
    description: Annotated[Text, Meta(description="Long text. Null clears it.")] = UNSET
    summary: Annotated[Text, Meta(description="Up to 2000 characters.")] = UNSET
    role: Annotated[
        Text, Meta(description="Create only (default queue).", extra_json_schema={"enum": [*ROLES, None]})
    ] = UNSET
    status_label: Annotated[Text, Meta(description="Free label beside the role. Null clears it.")] = UNSET
    priority: Annotated[Text, Meta(description="Default medium.", extra_json_schema={"enum": [*PRIORITIES, None]})] = (
        UNSET
    )
    complexity: Annotated[
        int | None | UnsetType,
        Meta(description="1 (quick) to 10, or null.", extra_json_schema={"minimum": 1, "maximum": 10}),
    ] = UNSET
    parent_id: Annotated[Text, Meta(description="Parent item; on update null moves to the root.")] = UNSET
    tags: Annotated[Text, Meta(description="Comma-separated tags of a-z, 0-9 and '-'. Null clears.")] = UNSET
    metadata: Annotated[Text, Meta(description="Free text for tools.")] = UNSET
    type: Annotated[Text, Meta(description="Selects the work-item schema; up to 200 characters.")] = UNSET
    properties: Annotated[Text, Meta(description="JSON object as a string; traits are kept in it.")] = UNSET
    traits: Annotated[Text, Meta(description="Comma-separated trait names; replaces the stored list.")] = UNSET
    requires_verification: bool | None | UnsetType = UNSET


class ManageItems(Arguments, kw_only=True):
    """Create, update or delete work items."""

    operation: Annotated[str, Meta(extra_json_schema={"enum": ["create", "update", "delete"]})]
    items: Annotated[list[ItemSpec] | None, Meta(description="Create and update: the items.")] = None
    ids: Annotated[list[str] | None, Meta(description="Delete: ids (UUID or hex prefix).")] = None
    parent_id: Annotated[
        str | None, Meta(description="Create: default parent; an item's own parentId overrides it.")
    ] = None
    traits: Annotated[str | None, Meta(description="Default traits; an item's own override them.")] = None
    recursive: Annotated[bool, Meta(description="Delete: descendants too.")] = False
    requires_verification: Annotated[bool | None, Meta(description="Ignored here; set it on the items.")] = None
    actor: OptionalActor = None
    request_id: RequestId = None


class CreatedItem(Result, kw_only=True):
    """An item right after its creation."""

    id: str
    title: str
    depth: int
    role: str
    priority: str
    requires_verification: bool
    tags: str | None
    type: str | None
    schema_match: bool
    expected_notes: list[ExpectedNote]


class CreateItemsResult(Result, kw_only=True):
    """Items that were created and, where any were refused, which and why."""

    items: list[CreatedItem]
    created: int
    failed: int
    failures: list[Failure] | UnsetType = UNSET
    available_traits: list[str] | UnsetType = UNSET


class UpdatedItem(Result, kw_only=True):
    """An item right after its update."""

    id: str
    modified_at: str
    requires_verification: bool


class UpdateItemsResult(Result, kw_only=True):
    """Items that were updated and, where any were refused, which and why."""

    items: list[UpdatedItem]
    updated: int
    failed: int
    failures: list[Failure] | UnsetType = UNSET


class DeleteItemsResult(Result, kw_only=True):
    """Ids that were deleted, as the caller wrote them; ``deleted`` counts descendants too."""

    ids: list[str]
    deleted: int
    failed: int
    descendants_deleted: int | UnsetType = UNSET
    failures: list[Failure] | UnsetType = UNSET
