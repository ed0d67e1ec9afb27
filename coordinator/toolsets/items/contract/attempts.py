"""Attempts on items, and what items say about them."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base

COUNTED = ("failed", "gave_up", "hopeless")
"""Why an agent releases an item, for reasons that count as attempts."""
REASONS = (*COUNTED, "handed_back")
ENDS = ("expired", "taken_over", "released")


class Attempt(base.Result, kw_only=True, rename={"began": "from"}):
    """A claim that ended in work or review without taking the item further."""

    began: Annotated[base.IsoTime, doc("When the claim was placed, UTC.")]
    until: Annotated[base.IsoTime, doc("When it ended, UTC.")]
    ended: Annotated[
        str,
        doc("expired; taken_over: expired, as another agent's claim showed; released: with reason.", enum=ENDS),
    ]
    reason: Annotated[str, doc("Of a release.", enum=COUNTED)] | UnsetType = UNSET
    detail: Annotated[str, doc("As given with the release; absent: none.")] | UnsetType = UNSET


class HeldAttempt(Attempt, kw_only=True, rename={"began": "from", "claimed_by": "claimedBy"}):
    """The same, with whose claim it was."""

    claimed_by: base.ClaimedBy


class AttemptCounts(base.Result, kw_only=True):
    """How many attempts there were, and what follows."""

    count: Annotated[base.Count, doc("Since creation, or since it was resumed from quarantine or reopened.")]
    max: Annotated[base.Count, doc("With so many it is quarantined; 0: never.")]
    not_before: Annotated[base.IsoTime, doc("Offered again then, UTC; absent: it is not held back.")] | UnsetType = (
        UNSET
    )


class Attempts(AttemptCounts, kw_only=True):
    """How often agents have failed with the item."""

    last: Annotated[list[Attempt], doc("The last 20, the last one first, also those that count no more.")]


class HeldAttempts(AttemptCounts, kw_only=True):
    """The same, with whose claims they were."""

    last: Annotated[list[HeldAttempt], doc("The last 20, the last one first, also those that count no more.")]
