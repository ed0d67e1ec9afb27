"""claim_item: exclusive ownership for one agent (seed 004, Claim semantics)."""

from __future__ import annotations

from coordinator.errors import invalid
from coordinator.toolsets.actor import checked
from coordinator.toolsets.items.contract.work import (
    ClaimEntry,
    ClaimItem,
    ClaimItemResult,
    ClaimResult,
    ClaimSummary,
    ReleaseEntry,
    ReleaseResult,
)
from coordinator.toolsets.items.rules.clock import iso
from coordinator.toolsets.items.rules.idempotency import request
from coordinator.toolsets.items.rules.ids import is_uuid, parse
from coordinator.toolsets.items.rules.words import refused
from coordinator.toolsets.items.store.work import WorkStore
from coordinator.toolsets.items.tools.shared import shown
from coordinator.toolsets.tool import Call, Services, Tool

MAX_ENTRIES = 100

_DESCRIPTION = (
    "Atomically claim or release work items for exclusive ownership. One claim per agent: claiming an item releases "
    "the agent's earlier one after the new one is acquired. Claims expire after ttlSeconds (default 900); claiming "
    "an item again that is already held refreshes the TTL (heartbeat at half of it). requestId and actor are required. "
    "Outcomes of claims: success, already_claimed (with retryAfterMs), not_found, terminal_item, stale_fence, "
    "superseded (a later entry of the same call was acquired). Outcomes of releases: success, not_claimed_by_you, "
    "not_found, stale_fence. Show fenceToken in later calls to be refused once the claim was lost."
)

_LOST = {
    "stale_fence": "fenceToken is not that of a claim you hold now",
    "superseded": "a later entry of this call was acquired instead: one claim per agent",
}


def _claimed(entry: ClaimEntry, result: tuple[str, str, int, int, int], agent: str, now: int) -> ClaimResult:
    outcome, inner, when, first, fence = result
    item = shown(inner, entry.item_id)
    if outcome == "success":
        return ClaimResult(
            item_id=item,
            outcome=outcome,
            claimed_by=agent,
            claimed_at=iso(now),
            claim_expires_at=iso(when),
            original_claimed_at=iso(first),
            fence_token=fence,
        )
    if outcome == "already_claimed":
        return ClaimResult(item_id=item, outcome=outcome, kind="transient", contended_item_id=item, retry_after_ms=when)
    if outcome == "ambiguous":
        return ClaimResult(item_id=item, outcome="not_found", error=refused(outcome))
    return (
        ClaimResult(item_id=item, outcome=outcome, error=_LOST[outcome])
        if outcome in _LOST
        else ClaimResult(item_id=item, outcome=outcome)
    )


def _released(entry: ReleaseEntry, result: tuple[str, str]) -> ReleaseResult:
    outcome, inner = result
    item = shown(inner, entry.item_id)
    if outcome == "ambiguous":
        return ReleaseResult(item_id=item, outcome="not_found", error=refused(outcome))
    return (
        ReleaseResult(item_id=item, outcome=outcome, error=_LOST[outcome])
        if outcome in _LOST
        else ReleaseResult(item_id=item, outcome=outcome)
    )


def tools(work: WorkStore, services: Services) -> tuple[Tool, ...]:
    """claim_item."""

    async def claim_item(call: Call, args: ClaimItem) -> ClaimItemResult:
        claims, releases = args.claims, args.releases
        if not claims and not releases:
            raise invalid("claims", "at least one of claims and releases must be non-empty")
        if len(claims) + len(releases) > MAX_ENTRIES:
            raise invalid("claims", f"at most {MAX_ENTRIES} claims and releases in one call")
        if not is_uuid(args.request_id):
            raise invalid("requestId", "must be a UUID")
        trusted = await services.resolve_actor(checked(args.actor))
        record = request(trusted.id, args.request_id, "claim_item", claims, releases)
        wanted = [parse(entry.item_id, f"claims[{n}].itemId") for n, entry in enumerate(claims)]
        wanted += [parse(entry.item_id, f"releases[{n}].itemId") for n, entry in enumerate(releases)]
        ids = await work.resolve(call.project, wanted)
        reply = await work.claim(
            call.project,
            record,
            trusted.id,
            [
                (item, entry.ttl_seconds * 1000, entry.fence_token or 0)
                for item, entry in zip(ids, claims, strict=False)
            ],
            [(item, entry.fence_token or 0) for item, entry in zip(ids[len(claims) :], releases, strict=True)],
        )
        claimed = [_claimed(e, r, trusted.id, reply.now) for e, r in zip(claims, reply.claims, strict=True)]
        released = [_released(e, r) for e, r in zip(releases, reply.releases, strict=True)]
        won = sum(result.outcome == "success" for result in claimed)
        freed = sum(result.outcome == "success" for result in released)
        return ClaimItemResult(
            claim_results=claimed,
            release_results=released,
            summary=ClaimSummary(
                claims_total=len(claimed),
                claims_succeeded=won,
                claims_failed=len(claimed) - won,
                releases_total=len(released),
                releases_succeeded=freed,
                releases_failed=len(released) - freed,
            ),
        )

    return (Tool("claim_item", _DESCRIPTION, ClaimItem, (ClaimItemResult,), claim_item),)
