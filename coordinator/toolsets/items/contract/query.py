"""query_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.attempts import AttemptCounts, Attempts
from coordinator.toolsets.items.contract.base import (
    PRIORITIES,
    ROLES,
    Ancestors,
    Arguments,
    Complexity,
    Count,
    CreatedAt,
    Depth,
    IsClaimed,
    IsoTime,
    ItemId,
    Listed,
    ModifiedAt,
    ParentId,
    Priority,
    Result,
    Role,
    RoleName,
    StatusLabel,
    Summary,
    Tags,
    Title,
    TypeName,
)
from coordinator.toolsets.items.contract.transitions import ItemTransition

OPERATIONS = ("get", "search", "overview")
SORT_FIELDS = ("title", "priority", "complexity", "createdAt", "modifiedAt", "dueAt")
CLAIM_STATUSES = ("claimed", "unclaimed", "expired")
MAX_LIMIT = 200

_AFTER = "Search: inclusive, such as 2026-01-01T12:00:00Z."
After = Annotated[str | None, Meta(description=_AFTER)]
Bound = Annotated[str | None, Meta(description="Search: inclusive.")]


class QueryItems(Arguments, kw_only=True):
    """Read, search or survey work items."""

    operation: Annotated[
        str,
        Meta(description="get takes id; overview may take itemId.", extra_json_schema={"enum": list(OPERATIONS)}),
    ]
    id: Annotated[str | None, Meta(description="Get: the item.")] = None
    item_id: Annotated[str | None, Meta(description="Overview: this item; none: the roots.")] = None
    parent_id: Annotated[str | None, Meta(description="Search: direct children of this item.")] = None
    depth: Annotated[Annotated[int, Meta(ge=0, le=3)] | None, Meta(description="Search: 0 for roots, to 3.")] = None
    role: Annotated[
        str | None, Meta(description="Search: in this role.", extra_json_schema={"enum": [*ROLES, None]})
    ] = None
    priority: Annotated[
        str | None, Meta(description="Search: of this priority.", extra_json_schema={"enum": [*PRIORITIES, None]})
    ] = None
    tags: Annotated[str | None, Meta(description="Search: comma-separated, at most 20; any of these tags.")] = None
    type: Annotated[str | None, Meta(description="Search: of exactly this type.")] = None
    assignee: Annotated[str | None, Meta(description="Search: assigned to this one.")] = None
    query: Annotated[
        str | None,
        Meta(description="Search: text in title or summary; no wildcards."),
    ] = None
    created_after: After = None
    created_before: Bound = None
    modified_after: Bound = None
    modified_before: Bound = None
    role_changed_after: Bound = None
    role_changed_before: Bound = None
    due_after: Bound = None
    due_before: Bound = None
    claim_status: Annotated[
        str | None,
        Meta(
            description="Search: claimed (live), unclaimed (none on record) or expired; adds isClaimed.",
            extra_json_schema={"enum": [*CLAIM_STATUSES, None]},
        ),
    ] = None
    sort_by: Annotated[
        str | None,
        Meta(
            description="Search: default createdAt. High is the greatest priority. No complexity or dueAt sorts "
            "last; equal ones newest first.",
            extra_json_schema={"enum": [*SORT_FIELDS, "created", "modified", None]},
        ),
    ] = None
    sort_order: Annotated[
        str | None, Meta(description="Search: default desc.", extra_json_schema={"enum": ["asc", "desc", None]})
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Default: search 50, overview 20 roots or 200 children. More than 200 counts as 200."),
    ] = None
    offset: Annotated[int, Meta(description="Search: how many to skip.", ge=0, le=1_000_000_000)] = 0
    include_ancestors: Annotated[bool, Meta(description="Get and search: add the ancestors.")] = False
    include_details: Annotated[bool, Meta(description="Search: add resources, times, budgets.")] = False
    include_children: Annotated[
        bool, Meta(description="Overview of the roots: add the 50 newest children of each.")
    ] = False


Abandoned = Annotated[bool, Meta(description="True: an agent has begun it in this role, and nobody holds it.")]


class FullItem(Result, kw_only=True):
    """Everything about an item but its claim. Absent fields are null, except complexity."""

    id: ItemId
    parent_id: ParentId | UnsetType = UNSET
    title: Title
    description: Annotated[str, Meta(description="Long text; absent: none.")] | UnsetType = UNSET
    summary: Summary
    role: RoleName
    status_label: StatusLabel | UnsetType = UNSET
    previous_role: Annotated[Role, Meta(description="While blocked: the role that resume returns to.")] | UnsetType = (
        UNSET
    )
    priority: Priority
    complexity: Complexity
    depth: Depth
    metadata: Annotated[str, Meta(description="Free text for tools; absent: none.")] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    type: TypeName | UnsetType = UNSET
    requires: fields.Requires | UnsetType = UNSET
    assignee: fields.Assignee | UnsetType = UNSET
    resources: fields.Resources | UnsetType = UNSET
    properties: (
        Annotated[str, Meta(description="JSON object as a string, with its traits; absent: none.")] | UnsetType
    ) = UNSET
    requires_verification: fields.RequiresVerification
    container: fields.Container | UnsetType = UNSET
    max_attempts: fields.MaxAttempts | UnsetType = UNSET
    retry_backoff_seconds: fields.RetryBackoffSeconds | UnsetType = UNSET
    attempts: Annotated[Attempts, Meta(description="Absent: none, and no maxAttempts.")] | UnsetType = UNSET
    abandoned: Abandoned | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    due_at: fields.DueAt | UnsetType = UNSET
    overdue: fields.Overdue | UnsetType = UNSET
    recurs: fields.ShownRecurs | UnsetType = UNSET
    recurrence_of: fields.RecurrenceOf | UnsetType = UNSET
    usage: fields.UsageOfItem | UnsetType = UNSET
    budget: fields.BudgetOfItem | UnsetType = UNSET
    budget_spent: fields.BudgetSpent | UnsetType = UNSET
    created_at: CreatedAt
    modified_at: ModifiedAt
    role_changed_at: Annotated[IsoTime, Meta(description="Time of the last role change, UTC.")]
    transitions: (
        Annotated[list[ItemTransition], Meta(description="Its last 10 on record, newest first; absent: none.")]
        | UnsetType
    ) = UNSET
    ancestors: Ancestors | UnsetType = UNSET


class ShortItem(Result, kw_only=True):
    """The minimal fields of an item; absent ones are left out."""

    id: ItemId
    parent_id: ParentId | UnsetType = UNSET
    title: Title
    role: RoleName
    status_label: StatusLabel | UnsetType = UNSET
    priority: Priority
    depth: Depth
    tags: Tags | UnsetType = UNSET
    type: TypeName | UnsetType = UNSET


class FoundItem(ShortItem, kw_only=True):
    """A search result; isClaimed comes with the filter claimStatus, what follows with includeDetails."""

    is_claimed: IsClaimed | UnsetType = UNSET
    container: fields.Container | UnsetType = UNSET
    requires: fields.Requires | UnsetType = UNSET
    assignee: fields.Assignee | UnsetType = UNSET
    resources: fields.Resources | UnsetType = UNSET
    attempts: Annotated[AttemptCounts, Meta(description="Absent: none.")] | UnsetType = UNSET
    abandoned: Abandoned | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    due_at: fields.DueAt | UnsetType = UNSET
    overdue: fields.Overdue | UnsetType = UNSET
    recurs: fields.ShownRecurs | UnsetType = UNSET
    recurrence_of: fields.RecurrenceOf | UnsetType = UNSET
    usage: fields.UsageOfItem | UnsetType = UNSET
    budget: fields.BudgetOfItem | UnsetType = UNSET
    budget_spent: fields.BudgetSpent | UnsetType = UNSET
    ancestors: Ancestors | UnsetType = UNSET


Notice = Annotated[str, Meta(description="What was done otherwise than asked; absent: nothing.")]


class SearchResult(Result, kw_only=True):
    """One page; total counts all that match."""

    items: Annotated[list[FoundItem], Meta(description="The page.")]
    total: Annotated[Count, Meta(description="All items that match.")]
    returned: Annotated[Count, Meta(description="Items of this page.")]
    limit: Annotated[Count, Meta(description="The limit in force.")]
    offset: Annotated[Count, Meta(description="How many were skipped.")]
    notice: Notice | UnsetType = UNSET


class ChildCounts(Result, kw_only=True):
    """Direct children by role."""

    queue: Annotated[Count, Meta(description="In queue.")]
    work: Annotated[Count, Meta(description="In work.")]
    review: Annotated[Count, Meta(description="In review.")]
    blocked: Annotated[Count, Meta(description="In role blocked.")]
    terminal: Annotated[Count, Meta(description="Done or cancelled.")]


class ChildClaims(Result, kw_only=True):
    """Direct children by claim: live, past its time, none on record."""

    active: Annotated[Count, Meta(description="Held now.")]
    expired: Annotated[Count, Meta(description="Claim past its time.")]
    unclaimed: Annotated[Count, Meta(description="No claim on record.")]


Traits = Annotated[list[str], Meta(description="Trait names; absent: none.")]


class ChildItem(ShortItem, kw_only=True):
    """A child in the overview of the roots."""

    traits: Traits | UnsetType = UNSET
    child_counts: ChildCounts


class RootItem(ShortItem, kw_only=True):
    """A root in the overview."""

    traits: Traits | UnsetType = UNSET
    child_counts: ChildCounts
    claim_summary: ChildClaims
    children: Annotated[list[ChildItem], Meta(description="The newest children; with includeChildren.")] | UnsetType = (
        UNSET
    )


class RootsOverview(Result, kw_only=True):
    """The newest roots; total counts those that are listed."""

    items: Annotated[list[RootItem], Meta(description="Newest first.")]
    total: Listed
    notice: Notice | UnsetType = UNSET


class ItemOverview(Result, kw_only=True):
    """One item and its newest children; childCounts counts all of them."""

    item: FullItem
    child_counts: ChildCounts
    children: Annotated[list[ShortItem], Meta(description="Direct children, newest first.")]
    notice: Notice | UnsetType = UNSET
