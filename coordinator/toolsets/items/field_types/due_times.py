"""What items say about time: from when they can be ready, when they are due, and how templates recur."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base

MISSED = ("skip", "one", "all")
OVERLAP = ("skip", "allow")


class Recurs(base.Arguments, kw_only=True):
    """Makes the item a template, which is never offered: at each time a new item is made that repeats it."""

    cron: Annotated[str, doc("Minute, hour, day, month, weekday, as in '0 9 * * MON-FRI'; or @hourly to @yearly.")]
    time_zone: Annotated[str, doc("IANA name, as in Europe/Berlin.")] = "UTC"
    missed: Annotated[str, doc("Of times a minute past: make none, one, or all.", enum=MISSED)] = "one"
    overlap: Annotated[str, doc("skip: makes none while an earlier occurrence is open.", enum=OVERLAP)] = "skip"


class Recurring(base.Result, kw_only=True):
    """How a template recurs."""

    cron: Annotated[str, doc("Cron expression.")]
    time_zone: Annotated[str, doc("IANA name of its time zone.")]
    missed: Annotated[str, doc("What becomes of missed times.", enum=MISSED)]
    overlap: Annotated[str, doc("Whether occurrences overlap.", enum=OVERLAP)]
    next_at: Annotated[base.IsoTime, doc("The next time, UTC; absent: it is blocked or ended.")] | UnsetType = UNSET
