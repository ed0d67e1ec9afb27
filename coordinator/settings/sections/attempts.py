"""The section ``attempts``: what follows when agents fail with a work item."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings.setting import setting

MOST_ATTEMPTS = 1_000
LONGEST_BACKOFF_SECONDS = 86_400


class Attempts(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits that hold unless the item, or the schema of its type, says otherwise."""

    max: Annotated[
        int,
        setting(
            "Attempts that a work item may have: claims that end in work or review without taking it further "
            "(expired, taken over, or released as failed or given up). After the last one the item is quarantined: "
            "blocked until somebody resumes it. maxAttempts of an item, or max_attempts of its schema, counts "
            "instead. 0: any number.",
            ge=0,
            le=MOST_ATTEMPTS,
            unit="attempts",
            reload=True,
        ),
    ] = 5
    backoff_seconds: Annotated[
        int,
        setting(
            "How long an item is not offered after its first attempt; doubled with each further one, and up to a "
            "quarter longer at random. retryBackoffSeconds of an item counts instead. 0: not at all.",
            ge=0,
            le=LONGEST_BACKOFF_SECONDS,
            unit="seconds",
            reload=True,
        ),
    ] = 10
    backoff_cap_seconds: Annotated[
        int,
        setting(
            "The longest time to which that doubles, whatever the item or the section says. Up to a quarter more "
            "at random comes on top of it, too, so that items do not return together.",
            ge=1,
            le=LONGEST_BACKOFF_SECONDS,
            unit="seconds",
            reload=True,
        ),
    ] = 900
