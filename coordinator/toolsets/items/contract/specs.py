"""What callers say of items: of those that manage_items takes, and of those of a new tree."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET

from coordinator.toolsets.canonical import UNORDERED, meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items import fields
from coordinator.toolsets.items.field_types import base


class ItemSpec(base.Arguments, kw_only=True):
    """An item to create, or with ``id`` the fields of one to change."""

    id: Annotated[str | None, doc("Update: the item.")] = None
    title: fields.GivenTitle = UNSET
    description: fields.GivenDescription = UNSET
    summary: fields.GivenSummary = UNSET
    role: fields.GivenRole = UNSET
    status_label: fields.GivenStatusLabel = UNSET
    priority: fields.GivenPriority = UNSET
    complexity: fields.GivenComplexity = UNSET
    parent_id: fields.GivenParent = UNSET
    tags: fields.GivenTags = UNSET
    metadata: fields.GivenMetadata = UNSET
    type: fields.GivenType = UNSET
    properties: fields.GivenProperties = UNSET
    traits: fields.GivenTraits = UNSET
    requires: fields.GivenRequires = UNSET
    assignee: fields.GivenAssignee = UNSET
    resources: fields.GivenResources = UNSET
    not_before: fields.GivenNotBefore = UNSET
    due_at: fields.GivenDueAt = UNSET
    recurs: fields.GivenRecurs = UNSET
    requires_verification: fields.GivenRequiresVerification = UNSET
    container: fields.GivenContainer = UNSET
    max_attempts: fields.GivenMaxAttempts = UNSET
    retry_backoff_seconds: fields.GivenBackoff = UNSET
    budget: fields.GivenBudget = UNSET


class TreeItem(base.Arguments, kw_only=True):
    """The root of a new tree."""

    title: Annotated[str, doc("1 to 500 characters.", published={"minLength": 1, "maxLength": fields.MAX_TITLE})]
    priority: Annotated[str | None, doc("Default medium.", enum=[*base.PRIORITIES, None], extra=meant("medium"))] = None
    complexity: Annotated[fields.GivenComplexity, doc("1 (quick) to 10.")] = None
    tags: Annotated[str | None, doc("Comma-separated tags of a-z, 0-9 and -_.:/, at most 32.")] = None
    type: Annotated[str | None, doc("Selects the work-item schema.", published={"maxLength": fields.MAX_TYPE})] = None
    traits: Annotated[str | None, doc("Comma-separated trait names, at most 32.")] = None
    requires: Annotated[
        list[str], doc("Only agents with all of these get it.", published={"maxItems": 32}, extra=UNORDERED)
    ] = []
    assignee: fields.GivenAssignee = UNSET
    resources: fields.GivenResources = UNSET
    not_before: fields.GivenNotBefore = UNSET
    due_at: fields.GivenDueAt = UNSET
    recurs: fields.GivenRecurs = UNSET
    summary: Annotated[str | None, doc("Up to 2000 characters.", published={"maxLength": fields.MAX_SUMMARY})] = None
    description: Annotated[fields.GivenDescription, doc("Long text.")] = None
    requires_verification: Annotated[bool, doc("Kept with the item.")] = False
    max_attempts: fields.GivenMaxAttempts = UNSET
    retry_backoff_seconds: fields.GivenBackoff = UNSET
    budget: fields.GivenBudget = UNSET


class TreeChild(TreeItem, kw_only=True):
    """A child of the new root."""

    ref: Annotated[
        str, doc("Local name, unique in the call, not 'root'.", published={"minLength": 1, "maxLength": 100})
    ]
