"""What items say about time: from when they can be ready, when they are due, and how templates recur."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import Arguments, IsoTime, Result

MISSED = ("skip", "one", "all")
OVERLAP = ("skip", "allow")


class Recurs(Arguments, kw_only=True):
    """Makes the item a template, which is never offered: at each time a new item is made that repeats it."""

    cron: Annotated[
        str, Meta(description="Minute, hour, day, month, weekday, as in '0 9 * * MON-FRI'; or @hourly to @yearly.")
    ]
    time_zone: Annotated[str, Meta(description="IANA name, as in Europe/Berlin.")] = "UTC"
    missed: Annotated[
        str,
        Meta(description="Of times a minute past: make none, one, or all.", extra_json_schema={"enum": list(MISSED)}),
    ] = "one"
    overlap: Annotated[
        str,
        Meta(
            description="skip: makes none while an earlier occurrence is open.",
            extra_json_schema={"enum": list(OVERLAP)},
        ),
    ] = "skip"


class Recurring(Result, kw_only=True):
    """How a template recurs."""

    cron: Annotated[str, Meta(description="Cron expression.")]
    time_zone: Annotated[str, Meta(description="IANA name of its time zone.")]
    missed: Annotated[str, Meta(description="What becomes of missed times.", extra_json_schema={"enum": list(MISSED)})]
    overlap: Annotated[str, Meta(description="Whether occurrences overlap.", extra_json_schema={"enum": list(OVERLAP)})]
    next_at: Annotated[IsoTime, Meta(description="The next time, UTC; absent: it is blocked or ended.")] | UnsetType = (
        UNSET
    )
