"""manage_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.canonical import (
    NOT_COMPARED,
    SHARED,
    STATED_BLANK,
    UNCHANGED_BY_BLANK,
    UNCHANGED_BY_NULL,
    meant,
)
from coordinator.toolsets.items.contract.attempts import GivenBackoff, GivenMaxAttempts
from coordinator.toolsets.items.contract.base import (
    PRIORITIES,
    ROLES,
    Arguments,
    Capabilities,
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
from coordinator.toolsets.items.contract.due_times import GivenDueAt, GivenNotBefore, GivenRecurs
from coordinator.toolsets.items.contract.resources import GivenResources
from coordinator.toolsets.items.contract.usage import GivenBudget

Text = str | None | UnsetType
RequiresVerification = Annotated[bool, Meta(description="As stored with the item.")]
Container = Annotated[bool, Meta(description="True: never offered. Absent: false.")]
GivenContainer = Annotated[
    bool | None | UnsetType, Meta(description="True: structure alone, never offered.", extra=meant(False))
]
_UNCHANGED = UNCHANGED_BY_NULL | UNCHANGED_BY_BLANK


class ItemSpec(Arguments, kw_only=True):
    """An item to create, or with ``id`` the fields of one to change."""

    id: Annotated[str | None, Meta(description="Update: the item.")] = None
    title: Annotated[
        Text, Meta(description="Required on create.", extra_json_schema={"maxLength": 500}, extra=_UNCHANGED)
    ] = UNSET
    description: Annotated[Text, Meta(description="Long text, at most 500,000 bytes. Null clears it.")] = UNSET
    summary: Annotated[
        Text, Meta(description="Up to 2000 characters.", extra_json_schema={"maxLength": 2000}, extra=_UNCHANGED)
    ] = UNSET
    role: Annotated[
        Text,
        Meta(
            description="Create only (default queue).",
            extra_json_schema={"enum": [*ROLES, None]},
            extra=meant("queue"),
        ),
    ] = UNSET
    status_label: Annotated[
        Text,
        Meta(description="Label beside the role. Null clears it.", extra_json_schema={"maxLength": 200}),
    ] = UNSET
    priority: Annotated[
        Text,
        Meta(
            description="Default medium.",
            extra_json_schema={"enum": [*PRIORITIES, None]},
            extra=meant("medium") | _UNCHANGED,
        ),
    ] = UNSET
    complexity: Annotated[
        int | None | UnsetType,
        Meta(description="1 (quick) to 10, or null.", extra_json_schema={"minimum": 1, "maximum": 10}),
    ] = UNSET
    parent_id: Annotated[
        Text, Meta(description="Parent item; on update null moves to the root.", extra=SHARED | UNCHANGED_BY_BLANK)
    ] = UNSET
    tags: Annotated[Text, Meta(description="Comma-separated tags of a-z, 0-9 and -_.:/, at most 32. Null clears.")] = (
        UNSET
    )
    metadata: Annotated[
        Text, Meta(description="Text for tools, at most 500,000 bytes; JSON if it begins with { or [.")
    ] = UNSET
    type: Annotated[
        Text,
        Meta(description="Selects the work-item schema.", extra_json_schema={"maxLength": 200}),
    ] = UNSET
    properties: Annotated[
        Text,
        Meta(description="JSON object as a string, at most 500,000 bytes; shows traits too, which stay unless given."),
    ] = UNSET
    traits: Annotated[
        Text,
        Meta(
            description="Comma-separated trait names, at most 32; replaces the stored list, '' removes it.",
            extra=STATED_BLANK | UNCHANGED_BY_NULL,
        ),
    ] = UNSET
    requires: Capabilities = UNSET
    resources: GivenResources = UNSET
    not_before: GivenNotBefore = UNSET
    due_at: GivenDueAt = UNSET
    recurs: GivenRecurs = UNSET
    requires_verification: Annotated[
        bool | None | UnsetType,
        Meta(description="Kept with the item; default false.", extra=meant(False) | UNCHANGED_BY_NULL),
    ] = UNSET
    container: GivenContainer = UNSET
    max_attempts: GivenMaxAttempts = UNSET
    retry_backoff_seconds: GivenBackoff = UNSET
    budget: GivenBudget = UNSET


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
    requires_verification: RequiresVerification
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
    requires_verification: RequiresVerification


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
