"""claim_item (seed 004), with selectors and waiting."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor
from coordinator.toolsets.items.contract.base import (
    PRIORITIES,
    Arguments,
    FenceToken,
    ItemRef,
    OptionalItemRef,
    Result,
)

MAX_WAIT_MS = 60_000
ORDERS = ("priority", "oldest", "newest")

Time = Annotated[str | None, Meta(description="ISO-8601 time with zone, inclusive.")]
OrderBy = Annotated[
    str | None,
    Meta(
        description="Default priority: high first, then low complexity, then age.",
        extra_json_schema={"enum": [*ORDERS, None]},
    ),
]


class Selector(Arguments, kw_only=True):
    """Which item to take; every filter is optional."""

    role: Annotated[
        str | None,
        Meta(description="Default queue.", extra_json_schema={"enum": ["queue", "work", "review", "blocked", None]}),
    ] = None
    parent_id: OptionalItemRef = None
    tags: Annotated[str | None, Meta(description="Comma-separated; an item needs one of them.")] = None
    priority: Annotated[str | None, Meta(extra_json_schema={"enum": [*PRIORITIES, None]})] = None
    type: str | None = None
    complexity_max: Annotated[
        int | None, Meta(description="1 to 10; leaves out items without one.", extra_json_schema={"maximum": 10})
    ] = None
    created_after: Time = None
    created_before: Time = None
    role_changed_after: Time = None
    role_changed_before: Time = None
    order_by: OrderBy = None


class ClaimEntry(Arguments, kw_only=True):
    """An item to claim: by id, or the best one for a selector."""

    item_id: OptionalItemRef = None
    selector: Annotated[Selector | None, Meta(description="Instead of itemId; then this is the call's only claim.")] = (
        None
    )
    ttl_seconds: Annotated[int, Meta(description="How long the claim lasts, in seconds.", ge=1, le=86400)] = 900
    agent_id: Annotated[str | None, Meta(description="Ignored: the trusted actor is the holder.")] = None
    fence_token: FenceToken = None
    claim_ref: Annotated[str | None, Meta(description="1 to 64 characters, echoed in the result.")] = None


class ReleaseEntry(Arguments, kw_only=True):
    """An item to release."""

    item_id: ItemRef
    fence_token: FenceToken = None


class ClaimItem(Arguments, kw_only=True):
    """Claim or release items for one agent; one claim per agent."""

    actor: Annotated[Actor, Meta(description="Who claims; becomes the holder.")]
    request_id: Annotated[
        str,
        Meta(description="UUID made by the caller for one logical operation; repeating the call is safe."),
    ]
    claims: Annotated[list[ClaimEntry], Meta(description="Items to claim; the last claimable one is acquired.")] = []
    releases: Annotated[list[ReleaseEntry], Meta(description="Items to release, after the claims.")] = []
    wait_ms: Annotated[
        int,
        Meta(description="With a selector: how long to wait for an item, in milliseconds.", ge=0, le=MAX_WAIT_MS),
    ] = 0


class ClaimResult(Result, kw_only=True):
    """What became of one claim."""

    item_id: str | UnsetType = UNSET
    outcome: str
    selector_resolved: bool | UnsetType = UNSET
    claim_ref: str | UnsetType = UNSET
    claimed_by: str | UnsetType = UNSET
    claimed_at: str | UnsetType = UNSET
    claim_expires_at: str | UnsetType = UNSET
    original_claimed_at: str | UnsetType = UNSET
    fence_token: int | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    contended_item_id: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class ReleaseResult(Result, kw_only=True):
    """What became of one release."""

    item_id: str
    outcome: str
    error: str | UnsetType = UNSET


class ClaimSummary(Result, kw_only=True):
    """Counts over the call."""

    claims_total: int
    claims_succeeded: int
    claims_failed: int
    releases_total: int
    releases_succeeded: int
    releases_failed: int


class ClaimItemResult(Result, kw_only=True):
    """One entry per claim and release, in order."""

    claim_results: list[ClaimResult]
    release_results: list[ReleaseResult]
    summary: ClaimSummary
