"""What a call of claim_item must keep to."""

from __future__ import annotations

from coordinator.errors import invalid
from coordinator.toolsets.items.contract.attempts import REASONS
from coordinator.toolsets.items.contract.claims import (
    RELEASE_REASONS,
    ClaimEntry,
    ClaimItem,
    ReleaseEntry,
    Selector,
)
from coordinator.toolsets.items.fields import MAX_SUMMARY
from coordinator.toolsets.items.rules.ids import is_uuid
from coordinator.toolsets.items.rules.resources import demands
from coordinator.toolsets.items.rules.results import result_of
from coordinator.toolsets.items.rules.roles import one_of
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.usage.budgets import packed
from coordinator.toolsets.items.rules.values import not_blank, short_text

MAX_ENTRIES = 100
MAX_REF = 64
MAX_DETAIL = 500
DONE, UNTOUCHED = "done", "untouched"


def check(args: ClaimItem, schemas: SchemaSource) -> Selector | None:
    """The selector of the call, if it has one.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    claims, releases = args.claims, args.releases
    if not claims and not releases:
        raise invalid("claims", "at least one of claims and releases must be non-empty")
    if len(claims) + len(releases) > MAX_ENTRIES:
        raise invalid("claims", f"at most {MAX_ENTRIES} claims and releases in one call")
    if not is_uuid(args.request_id):
        raise invalid("requestId", "must be a UUID")
    for number, entry in enumerate(claims):
        if bool(entry.item_id and entry.item_id.strip()) == (entry.selector is not None):
            raise invalid(f"claims[{number}]", "give exactly one of itemId and selector")
        if entry.selector is not None:
            _check_selected(entry, f"claims[{number}]", len(claims))
        if entry.resources:
            _check_resources(entry, f"claims[{number}].resources", schemas)
        if entry.claim_ref is not None:
            short_text(entry.claim_ref, f"claims[{number}].claimRef", MAX_REF)
        if entry.usage is not None:
            packed(entry.usage, f"claims[{number}].usage")
    for number, release in enumerate(releases):
        _check_release(release, f"releases[{number}]")
    if len(releases) > 1 and sum(map(ends, releases)) > 1:
        raise invalid("releases", f"only one can have the reason {DONE}: an agent holds one item")
    selector = claims[0].selector if claims else None
    if args.wait_ms and selector is None:
        raise invalid("waitMs", "needs a claim by selector")
    return selector


def ends(release: ReleaseEntry) -> bool:
    """Whether the release ends its item."""
    return not_blank(release.reason).lower() == DONE


def moves(release: ReleaseEntry) -> bool:
    """Whether the release moves its item: ends it, or takes its start back."""
    return not_blank(release.reason).lower() in (DONE, UNTOUCHED)


def _check_selected(entry: ClaimEntry, place: str, claims: int) -> None:
    if claims > 1:
        raise invalid(f"{place}.selector", "must be the only claim of the call: one claim per agent")
    if entry.fence_token is not None:
        raise invalid(f"{place}.fenceToken", "goes with itemId, not with a selector")


def _check_resources(entry: ClaimEntry, place: str, schemas: SchemaSource) -> None:
    if entry.selector is not None:
        raise invalid(place, "goes with itemId, not with a selector")
    if problem := schemas.current.resources.problem(demands(entry.resources, place), place):
        raise problem


def _check_release(release: ReleaseEntry, place: str) -> None:
    reason = not_blank(release.reason) and one_of(not_blank(release.reason), RELEASE_REASONS, f"{place}.reason")
    if detail := not_blank(release.detail):
        if reason not in REASONS:
            raise invalid(f"{place}.detail", f"goes with a reason: {', '.join(REASONS)}")
        short_text(detail, f"{place}.detail", MAX_DETAIL)
    if reason != DONE and (release.result is not None or release.summary is not None):
        raise invalid(f"{place}.{'summary' if release.result is None else 'result'}", f"goes with the reason {DONE}")
    if release.result is not None:
        result_of(release.result, f"{place}.result")
    if len(not_blank(release.summary)) > MAX_SUMMARY:
        raise invalid(f"{place}.summary", f"must be at most {MAX_SUMMARY} characters")
    packed(release.usage, f"{place}.usage")
