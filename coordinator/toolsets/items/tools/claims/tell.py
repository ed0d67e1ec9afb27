"""What replies to a call of claim_item mean to its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET

from coordinator.toolsets.items.contract.claims import (
    ClaimEntry,
    ClaimItemResult,
    ClaimResult,
    ClaimSummary,
    ReleaseEntry,
    ReleaseResult,
)
from coordinator.toolsets.items.rules.graph import unsatisfied
from coordinator.toolsets.items.rules.ids import LONGEST, dashed
from coordinator.toolsets.items.rules.refusals import refused
from coordinator.toolsets.items.rules.resources import shown as shown_resources
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.usage import spent_budget, why_exhausted
from coordinator.toolsets.items.store.claims import Claimed, ClaimReply, Released, Waiting
from coordinator.toolsets.items.tools.included import add_to, rendered
from coordinator.toolsets.items.tools.shared import held_back
from coordinator.toolsets.timestamp import iso

_STALE = "fenceToken is not that of a claim you hold now"
_DRAINED = "an operator drains {!r}: this agent gets no further items until that is ended"


def claim(entry: ClaimEntry, claimed: Claimed, agent: str, now: int) -> ClaimResult:
    """The outcome of a claim, without what is told of it with others."""
    by_selector, succeeded = entry.selector is not None, claimed.outcome == "success"
    result = ClaimResult(
        item_id=_shown(claimed.item, entry.item_id or "") if succeeded or not by_selector else UNSET,
        outcome=claimed.outcome,
        claim_ref=UNSET if entry.claim_ref is None else entry.claim_ref,
    )
    if succeeded:
        _success(result, claimed, agent, now, by_selector)
    elif (further := _FURTHER.get(claimed.outcome)) is not None:
        further(result, claimed)
    return result


def _success(result: ClaimResult, claimed: Claimed, agent: str, now: int, by_selector: bool) -> None:
    result.claimed_by = agent
    result.claimed_at = iso(now)
    result.claim_expires_at = iso(claimed.expires)
    result.original_claimed_at = iso(claimed.first_claimed_at)
    result.fence_token = claimed.fence
    if by_selector:
        result.selector_resolved = True
    if claimed.taken_over:
        result.takeover = True
    if claimed.role >= 0 and (claimed.taken_over or by_selector):
        result.role = ROLE_NAMES[claimed.role]
    if claimed.told:
        result.stop, result.stop_reason = True, why_exhausted(claimed.told)
        result.budget = spent_budget(claimed.told)


def _no_match(result: ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code, result.retry_after_ms = "transient", claimed.outcome, claimed.expires
    result.held_back = held_back(claimed.told or None)


def _already_claimed(result: ClaimResult, claimed: Claimed) -> None:
    result.kind, result.retry_after_ms = "transient", claimed.expires
    result.contended_item_id = result.item_id


def _resource_busy(result: ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code, result.retry_after_ms = "transient", claimed.outcome, claimed.expires
    result.resources = shown_resources((claimed.told or {}).get("resources", ""))


def _budget_exhausted(result: ClaimResult, claimed: Claimed) -> None:
    told = claimed.told or {}
    result.kind, result.code = "transient" if told["day"] else "permanent", claimed.outcome
    result.budget, result.error = spent_budget(told), why_exhausted(told)
    result.retry_after_ms = claimed.expires or UNSET


def _agent_draining(result: ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code = "permanent", claimed.outcome
    if result.item_id is UNSET:
        result.error = _DRAINED.format(claimed.item)


def _stale_fence(result: ClaimResult, _: Claimed) -> None:
    result.error = _STALE


def _superseded(result: ClaimResult, _: Claimed) -> None:
    result.error = "a later entry of this call was acquired instead: one claim per agent"


def _ambiguous(result: ClaimResult, claimed: Claimed) -> None:
    result.outcome, result.error = "not_found", refused(claimed.outcome)


_FURTHER: Mapping[str, Callable[[ClaimResult, Claimed], None]] = {
    "no_match": _no_match,
    "already_claimed": _already_claimed,
    "resource_busy": _resource_busy,
    "budget_exhausted": _budget_exhausted,
    "agent_draining": _agent_draining,
    "stale_fence": _stale_fence,
    "superseded": _superseded,
    "ambiguous": _ambiguous,
}
"""Outcome of a claim that has not succeeded -> adds what is told of it."""


def distrusted(entry: ClaimEntry) -> ClaimResult:
    """The outcome of a claim whose actor the policy does not trust."""
    return ClaimResult(
        item_id=UNSET if entry.item_id is None else entry.item_id,
        outcome="rejected_by_policy",
        claim_ref=UNSET if entry.claim_ref is None else entry.claim_ref,
    )


def release(entry: ReleaseEntry, released: Released) -> ReleaseResult:
    """The outcome of a release."""
    outcome, item = released.outcome, _shown(released.item, entry.item_id)
    if outcome == "ambiguous":
        return ReleaseResult(item_id=item, outcome="not_found", error=refused(outcome))
    return ReleaseResult(item_id=item, outcome=outcome, error=_STALE if outcome == "stale_fence" else UNSET)


def _shown(inner: str, given: str) -> str:
    """An id for a result: the UUID, or the caller's text if it could not be resolved."""
    if inner.startswith("?"):
        return given
    return given.lower() if len(given) == LONGEST else dashed(inner)


def whole(claimed: list[ClaimResult], released: list[ReleaseResult]) -> ClaimItemResult:
    """The result of a call."""
    won = freed = 0
    for result in claimed:
        won += result.outcome == "success"
    for freeing in released:
        freed += freeing.outcome == "success"
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


def add_included(claimed: Sequence[ClaimResult], reply: ClaimReply, include: str, schemas: SchemaConfig) -> None:
    """Adds to the successful claim what was asked for about its item."""
    for result, placed in zip(claimed, reply.claims, strict=True):
        if placed.included:
            add_to(result, rendered(placed.included, include, schemas))


def add_drain(claimed: Sequence[ClaimResult], name: str) -> None:
    """Tells a drained agent so, with each claim that it kept or was refused."""
    for result in claimed:
        if result.outcome == "agent_draining":
            result.error = _DRAINED.format(name)
        elif result.outcome == "success":
            why = f"an operator drains {name!r}: finish or release this item, and claim no other"
            result.stop, result.reason = True, why
            result.stop_reason = f"{why}; {result.stop_reason}" if result.stop_reason else why


def add_waiting(claimed: Sequence[ClaimResult], waiting: Waiting) -> None:
    """Adds to the successful claim that its item is not ready."""
    (result,) = (result for result in claimed if result.outcome == "success")
    result.ready = False
    result.blockers = unsatisfied(waiting.blockers)
    why = _why_it_waits(waiting)
    result.reason = f"{result.reason}; {why}" if result.reason else why


def _why_it_waits(waiting: Waiting) -> str:
    if not waiting.held_until:
        return "it is quarantined, because attempts with it have failed: apply 'resume' first"
    if ROLE_NAMES[waiting.role] == "blocked":
        return "it is in role blocked: apply 'resume' first"
    if waiting.template:
        return "it is a template, which is never offered: its occurrences are"
    if waiting.count:
        return f"{waiting.count} blocking dependencies are not satisfied"
    if waiting.not_before:
        return f"it is not ready before {iso(waiting.held_until)}: until then it is offered to nobody"
    return f"an attempt on it has failed: it is offered to others again at {iso(waiting.held_until)}"
