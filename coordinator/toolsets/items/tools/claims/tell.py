"""What replies to a call of claim_item mean to its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from coordinator.toolsets.items.contract import claims
from coordinator.toolsets.items.contract.transitions import Transition, TransitionResult
from coordinator.toolsets.items.rules.dependencies.graph import unsatisfied
from coordinator.toolsets.items.rules.ids import LONGEST, dashed
from coordinator.toolsets.items.rules.refusals import refused
from coordinator.toolsets.items.rules.resources import shown as shown_resources
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.selection import why_not_offered
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.transitions import rendered as transition_result
from coordinator.toolsets.items.rules.usage.budgets import spent_budget, why_exhausted
from coordinator.toolsets.items.store.claims import NOTHING, Claimed, ClaimReply, Further, Released
from coordinator.toolsets.items.tools.included import add_to, rendered
from coordinator.toolsets.items.tools.shared import held_back
from coordinator.toolsets.timestamp import iso

_STALE = "fenceToken is not that of a claim you hold now"


def claim(entry: claims.ClaimEntry, claimed: Claimed, agent: str, now: int) -> claims.ClaimResult:
    """The outcome of a claim, without what is included."""
    outcome = "success" if claimed.outcome == "held" else claimed.outcome
    by_selector, succeeded = entry.selector is not None, outcome == "success"
    result = claims.ClaimResult(
        item_id=_shown(claimed.item, entry.item_id or "") if succeeded or not by_selector else UNSET,
        outcome=outcome,
        selector_resolved=True if succeeded and by_selector else UNSET,
        claim_ref=UNSET if entry.claim_ref is None else entry.claim_ref,
    )
    if succeeded:
        result.claimed_by = agent
        result.claimed_at = iso(now)
        result.claim_expires_at = iso(claimed.expires)
        result.original_claimed_at = iso(claimed.first_claimed_at)
        result.fence_token = claimed.fence
        if claimed.further is not NOTHING:
            _success(result, claimed.further)
    elif (tell := _REFUSED.get(claimed.outcome)) is not None:
        tell(result, claimed)
    return result


def _success(result: claims.ClaimResult, further: Further) -> None:
    if further.role >= 0:
        result.role = ROLE_NAMES[further.role]
    if further.takeover:
        result.takeover = True
    stops, whys = [], []
    if further.drained:
        whys.append(f"an operator drains {further.drained!r}: finish or release this item, and claim no other")
        stops += whys
    if further.budget:
        stops.append(why_exhausted(further.budget))
        result.budget = spent_budget(further.budget)
    if stops:
        result.stop, result.stop_reason = True, "; ".join(stops)
    if further.waiting:
        result.ready, result.blockers = False, unsatisfied(further.waiting.blockers)
        whys += (why_not_offered(why, detail) for why, detail in further.waiting.whys)
    if whys:
        result.reason = "; ".join(whys)


def _no_match(result: claims.ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code, result.retry_after_ms = "transient", claimed.outcome, claimed.expires
    result.held_back = held_back(claimed.further.held_back)


def _already_claimed(result: claims.ClaimResult, claimed: Claimed) -> None:
    result.kind, result.retry_after_ms = "transient", claimed.expires
    result.contended_item_id = result.item_id


def _resource_busy(result: claims.ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code, result.retry_after_ms = "transient", claimed.outcome, claimed.expires
    result.resources = shown_resources(claimed.further.resources)


def _budget_exhausted(result: claims.ClaimResult, claimed: Claimed) -> None:
    budget = claimed.further.budget or {}
    result.kind, result.code = "transient" if budget["day"] else "permanent", claimed.outcome
    result.budget, result.error = spent_budget(budget), why_exhausted(budget)
    result.retry_after_ms = claimed.expires or UNSET


def _agent_draining(result: claims.ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code = "permanent", claimed.outcome
    name = claimed.further.drained
    result.error = f"an operator drains {name!r}: this agent gets no further items until that is ended"


def paused(pause: tuple[int, str, str] | None) -> claims.Paused | UnsetType:
    """A pause of claims, for callers."""
    return UNSET if pause is None else claims.Paused(reason=pause[2], since=iso(pause[0]), by=pause[1])


def _project_paused(result: claims.ClaimResult, claimed: Claimed) -> None:
    result.kind, result.code, result.retry_after_ms = "transient", claimed.outcome, claimed.expires
    result.paused = paused(claimed.further.paused)
    if claimed.further.paused is not None:
        _, who, why = claimed.further.paused
        result.error = f"the project is paused by {who}{f': {why}' if why else ''}"


def _stale_fence(result: claims.ClaimResult, _: Claimed) -> None:
    result.error = _STALE


def _release_refused(result: claims.ClaimResult, _: Claimed) -> None:
    result.kind, result.error = "permanent", "nothing was claimed: the release that ends an item was refused"


def _superseded(result: claims.ClaimResult, _: Claimed) -> None:
    result.error = "a later entry of this call was acquired instead: one claim per agent"


def _ambiguous(result: claims.ClaimResult, claimed: Claimed) -> None:
    result.outcome, result.error = "not_found", refused(claimed.outcome)


_REFUSED: Mapping[str, Callable[[claims.ClaimResult, Claimed], None]] = {
    "no_match": _no_match,
    "already_claimed": _already_claimed,
    "resource_busy": _resource_busy,
    "budget_exhausted": _budget_exhausted,
    "agent_draining": _agent_draining,
    "project_paused": _project_paused,
    "stale_fence": _stale_fence,
    "superseded": _superseded,
    "release_refused": _release_refused,
    "ambiguous": _ambiguous,
}
"""Outcome of a refused claim -> tells more of it."""


def distrusted(entry: claims.ClaimEntry) -> claims.ClaimResult:
    """The outcome of a claim whose actor the policy does not trust."""
    return claims.ClaimResult(
        item_id=UNSET if entry.item_id is None else entry.item_id,
        outcome="rejected_by_policy",
        claim_ref=UNSET if entry.claim_ref is None else entry.claim_ref,
    )


def releases(
    entries: Sequence[claims.ReleaseEntry], released: Sequence[Released], schemas: SchemaConfig
) -> list[claims.ReleaseResult]:
    if not entries:
        return []
    return [_release(entry, one, schemas) for entry, one in zip(entries, released, strict=True)]


def _release(entry: claims.ReleaseEntry, released: Released, schemas: SchemaConfig) -> claims.ReleaseResult:
    outcome, item = released.outcome, _shown(released.item, entry.item_id)
    if outcome == "ambiguous":
        return claims.ReleaseResult(item_id=item, outcome="not_found", error=refused(outcome))
    result = claims.ReleaseResult(item_id=item, outcome=outcome, error=_STALE if outcome == "stale_fence" else UNSET)
    if released.moved is not None:
        result.transition = _moved(released.moved, released.trigger, schemas, entry.summary)
        result.error = result.transition.error
    return result


def _moved(moved: Advanced, trigger: str, schemas: SchemaConfig, summary: str | None = None) -> TransitionResult:
    """What came of a transition that came with a claim or a release."""
    asked = Transition(item_id=moved.id, trigger=trigger, summary=summary)
    return transition_result(asked, trigger, None, moved, schemas)


def _shown(inner: str, given: str) -> str:
    """An id for a result: the UUID, or the caller's text if it could not be resolved."""
    if inner.startswith("?"):
        return given
    return given.lower() if len(given) == LONGEST else dashed(inner)


def whole(claimed: list[claims.ClaimResult], released: list[claims.ReleaseResult]) -> claims.ClaimItemResult:
    won = freed = 0
    for result in claimed:
        won += result.outcome == "success"
    for freeing in released:
        freed += freeing.outcome == "success"
    return claims.ClaimItemResult(
        claim_results=claimed,
        release_results=released,
        summary=claims.ClaimSummary(
            claims_total=len(claimed),
            claims_succeeded=won,
            claims_failed=len(claimed) - won,
            releases_total=len(released),
            releases_succeeded=freed,
            releases_failed=len(released) - freed,
        ),
    )


def add_started(claimed: Sequence[claims.ClaimResult], reply: ClaimReply, schemas: SchemaConfig) -> None:
    """Adds to the successful claim what came of the start of its item."""
    for result, placed in zip(claimed, reply.claims, strict=True):
        if placed.further.start is not None:
            result.start = _moved(placed.further.start, "start", schemas)


def add_included(claimed: Sequence[claims.ClaimResult], reply: ClaimReply, include: str, schemas: SchemaConfig) -> None:
    """Adds to the successful claim what was asked for about its item."""
    for result, placed in zip(claimed, reply.claims, strict=True):
        if placed.further.included:
            add_to(result, rendered(placed.further.included, include, schemas))
