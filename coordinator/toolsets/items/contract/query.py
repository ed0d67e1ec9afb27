"""query_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.attempts import AttemptCounts, Attempts
from coordinator.toolsets.items.contract.transitions import ItemTransition
from coordinator.toolsets.items.field_types import base

OPERATIONS = ("get", "search", "overview")
SORT_FIELDS = ("title", "priority", "complexity", "createdAt", "modifiedAt", "dueAt")
CLAIM_STATUSES = ("claimed", "unclaimed", "expired")
MAX_LIMIT = 200

_AFTER = "Search: inclusive, such as 2026-01-01T12:00:00Z."
After = Annotated[str | None, doc(_AFTER)]
Bound = Annotated[str | None, doc("Search: inclusive.")]


class QueryItems(base.Arguments, kw_only=True):
    """Read, search or survey work items."""

    operation: Annotated[str, doc("get takes id; overview may take itemId.", enum=OPERATIONS)]
    id: Annotated[str | None, doc("Get: the item.")] = None
    item_id: Annotated[str | None, doc("Overview: this item; none: the roots.")] = None
    parent_id: Annotated[str | None, doc("Search: direct children of this item.")] = None
    depth: Annotated[Annotated[int, Meta(ge=0, le=3)] | None, doc("Search: 0 for roots, to 3.")] = None
    role: Annotated[str | None, doc("Search: in this role.", enum=[*base.ROLES, None])] = None
    priority: Annotated[str | None, doc("Search: of this priority.", enum=[*base.PRIORITIES, None])] = None
    tags: Annotated[str | None, doc("Search: comma-separated, at most 20; any of these tags.")] = None
    type: Annotated[str | None, doc("Search: of exactly this type.")] = None
    assignee: Annotated[str | None, doc("Search: assigned to this one.")] = None
    query: Annotated[str | None, doc("Search: text in title or summary; no wildcards.")] = None
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
        doc(
            "Search: claimed (live), unclaimed (none on record) or expired; adds isClaimed.",
            enum=[*CLAIM_STATUSES, None],
        ),
    ] = None
    sort_by: Annotated[
        str | None,
        doc(
            "Search: default createdAt. High is the greatest priority. No complexity or dueAt sorts "
            "last; equal ones newest first.",
            enum=[*SORT_FIELDS, "created", "modified", None],
        ),
    ] = None
    sort_order: Annotated[str | None, doc("Search: default desc.", enum=["asc", "desc", None])] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        doc("Default: search 50, overview 20 roots or 200 children. More than 200 counts as 200."),
    ] = None
    offset: Annotated[int, doc("Search: how many to skip.", ge=0, le=1_000_000_000)] = 0
    include_ancestors: Annotated[bool, doc("Get and search: add the ancestors.")] = False
    include_details: Annotated[bool, doc("Search: add resources, times, budgets.")] = False
    include_children: Annotated[bool, doc("Overview of the roots: add the 50 newest children of each.")] = False


Abandoned = Annotated[bool, doc("True: an agent has begun it in this role, and nobody holds it.")]


class FullItem(base.Result, kw_only=True):
    """Everything about an item but its claim. Absent fields are null, except complexity."""

    id: base.ItemId
    parent_id: base.ParentId | UnsetType = UNSET
    title: base.Title
    description: Annotated[str, doc("Long text; absent: none.")] | UnsetType = UNSET
    summary: base.Summary
    role: base.RoleName
    status_label: base.StatusLabel | UnsetType = UNSET
    previous_role: Annotated[base.Role, doc("While blocked: the role that resume returns to.")] | UnsetType = UNSET
    priority: base.Priority
    complexity: base.Complexity
    depth: base.Depth
    metadata: Annotated[str, doc("Free text for tools; absent: none.")] | UnsetType = UNSET
    tags: base.Tags | UnsetType = UNSET
    type: base.TypeName | UnsetType = UNSET
    requires: fields.Requires | UnsetType = UNSET
    assignee: fields.Assignee | UnsetType = UNSET
    resources: fields.Resources | UnsetType = UNSET
    properties: Annotated[str, doc("JSON object as a string, with its traits; absent: none.")] | UnsetType = UNSET
    requires_verification: fields.RequiresVerification
    container: fields.Container | UnsetType = UNSET
    max_attempts: fields.MaxAttempts | UnsetType = UNSET
    retry_backoff_seconds: fields.RetryBackoffSeconds | UnsetType = UNSET
    attempts: Annotated[Attempts, doc("Absent: none, and no maxAttempts.")] | UnsetType = UNSET
    abandoned: Abandoned | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    due_at: fields.DueAt | UnsetType = UNSET
    overdue: fields.Overdue | UnsetType = UNSET
    recurs: fields.ShownRecurs | UnsetType = UNSET
    recurrence_of: fields.RecurrenceOf | UnsetType = UNSET
    usage: fields.UsageOfItem | UnsetType = UNSET
    budget: fields.BudgetOfItem | UnsetType = UNSET
    budget_spent: fields.BudgetSpent | UnsetType = UNSET
    created_at: base.CreatedAt
    modified_at: base.ModifiedAt
    role_changed_at: Annotated[base.IsoTime, doc("Time of the last role change, UTC.")]
    transitions: (
        Annotated[list[ItemTransition], doc("Its last 10 on record, newest first; absent: none.")] | UnsetType
    ) = UNSET
    ancestors: base.Ancestors | UnsetType = UNSET


class ShortItem(base.Result, kw_only=True):
    """The minimal fields of an item; absent ones are left out."""

    id: base.ItemId
    parent_id: base.ParentId | UnsetType = UNSET
    title: base.Title
    role: base.RoleName
    status_label: base.StatusLabel | UnsetType = UNSET
    priority: base.Priority
    depth: base.Depth
    tags: base.Tags | UnsetType = UNSET
    type: base.TypeName | UnsetType = UNSET


class FoundItem(ShortItem, kw_only=True):
    """A search result; isClaimed comes with the filter claimStatus, what follows with includeDetails."""

    is_claimed: base.IsClaimed | UnsetType = UNSET
    container: fields.Container | UnsetType = UNSET
    requires: fields.Requires | UnsetType = UNSET
    assignee: fields.Assignee | UnsetType = UNSET
    resources: fields.Resources | UnsetType = UNSET
    attempts: Annotated[AttemptCounts, doc("Absent: none.")] | UnsetType = UNSET
    abandoned: Abandoned | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    due_at: fields.DueAt | UnsetType = UNSET
    overdue: fields.Overdue | UnsetType = UNSET
    recurs: fields.ShownRecurs | UnsetType = UNSET
    recurrence_of: fields.RecurrenceOf | UnsetType = UNSET
    usage: fields.UsageOfItem | UnsetType = UNSET
    budget: fields.BudgetOfItem | UnsetType = UNSET
    budget_spent: fields.BudgetSpent | UnsetType = UNSET
    ancestors: base.Ancestors | UnsetType = UNSET


Notice = Annotated[str, doc("What was done otherwise than asked; absent: nothing.")]


class SearchResult(base.Result, kw_only=True):
    """One page; total counts all that match."""

    items: Annotated[list[FoundItem], doc("The page.")]
    total: Annotated[base.Count, doc("All items that match.")]
    returned: Annotated[base.Count, doc("Items of this page.")]
    limit: Annotated[base.Count, doc("The limit in force.")]
    offset: Annotated[base.Count, doc("How many were skipped.")]
    notice: Notice | UnsetType = UNSET


class ChildCounts(base.Result, kw_only=True):
    """Direct children by role."""

    queue: Annotated[base.Count, doc("In queue.")]
    work: Annotated[base.Count, doc("In work.")]
    review: Annotated[base.Count, doc("In review.")]
    blocked: Annotated[base.Count, doc("In role blocked.")]
    terminal: Annotated[base.Count, doc("Done or cancelled.")]


class ChildClaims(base.Result, kw_only=True):
    """Direct children by claim: live, past its time, none on record."""

    active: Annotated[base.Count, doc("Held now.")]
    expired: Annotated[base.Count, doc("Claim past its time.")]
    unclaimed: Annotated[base.Count, doc("No claim on record.")]


Traits = Annotated[list[str], doc("Trait names; absent: none.")]


class ChildItem(ShortItem, kw_only=True):
    """A child in the overview of the roots."""

    traits: Traits | UnsetType = UNSET
    child_counts: ChildCounts


class RootItem(ShortItem, kw_only=True):
    """A root in the overview."""

    traits: Traits | UnsetType = UNSET
    child_counts: ChildCounts
    claim_summary: ChildClaims
    children: Annotated[list[ChildItem], doc("The newest children; with includeChildren.")] | UnsetType = UNSET


class RootsOverview(base.Result, kw_only=True):
    """The newest roots; total counts those that are listed."""

    items: Annotated[list[RootItem], doc("Newest first.")]
    total: base.Listed
    notice: Notice | UnsetType = UNSET


class ItemOverview(base.Result, kw_only=True):
    """One item and its newest children; childCounts counts all of them."""

    item: FullItem
    child_counts: ChildCounts
    children: Annotated[list[ShortItem], doc("Direct children, newest first.")]
    notice: Notice | UnsetType = UNSET
