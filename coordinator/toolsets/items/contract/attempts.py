"""Attempts on items, and what items say about them."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import ClaimedBy, Count, IsoTime, Result

COUNTED = ("failed", "gave_up", "hopeless")
"""Why an agent releases an item, for reasons that count as attempts."""
REASONS = (*COUNTED, "handed_back")
ENDS = ("expired", "taken_over", "released")


class Attempt(Result, kw_only=True, rename={"began": "from"}):
    """A claim that ended in work or review without taking the item further."""

    began: Annotated[IsoTime, Meta(description="When the claim was placed, UTC.")]
    until: Annotated[IsoTime, Meta(description="When it ended, UTC.")]
    ended: Annotated[
        str,
        Meta(
            description="expired; taken_over: expired, as another agent's claim showed; released: with reason.",
            extra_json_schema={"enum": list(ENDS)},
        ),
    ]
    reason: Annotated[str, Meta(description="Of a release.", extra_json_schema={"enum": list(COUNTED)})] | UnsetType = (
        UNSET
    )
    detail: Annotated[str, Meta(description="As given with the release; absent: none.")] | UnsetType = UNSET


class HeldAttempt(Attempt, kw_only=True, rename={"began": "from", "claimed_by": "claimedBy"}):
    """The same, with whose claim it was."""

    claimed_by: ClaimedBy


class AttemptCounts(Result, kw_only=True):
    """How many attempts there were, and what follows."""

    count: Annotated[Count, Meta(description="Since creation, or since it was resumed from quarantine or reopened.")]
    max: Annotated[Count, Meta(description="With so many it is quarantined; 0: never.")]
    not_before: (
        Annotated[IsoTime, Meta(description="Offered again then, UTC; absent: it is not held back.")] | UnsetType
    ) = UNSET


class Attempts(AttemptCounts, kw_only=True):
    """How often agents have failed with the item."""

    last: Annotated[list[Attempt], Meta(description="The last 20, the last one first, also those that count no more.")]


class HeldAttempts(AttemptCounts, kw_only=True):
    """The same, with whose claims they were."""

    last: Annotated[
        list[HeldAttempt], Meta(description="The last 20, the last one first, also those that count no more.")
    ]
