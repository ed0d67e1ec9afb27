"""What callers say about the times of items: notBefore, dueAt, recurs."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.errors import invalid
from coordinator.toolsets.items.field_types.due_times import Recurs
from coordinator.toolsets.items.rules.times.instants import instant
from coordinator.toolsets.items.rules.times.recurrence import recurrence
from coordinator.toolsets.timestamp import iso
from coordinator.units import FROM_NOW, SECONDS, duration, milliseconds

_FIRST, _LAST = 946_684_800_000, 4_102_444_799_999
"""2000 and the end of 2099, in ms."""
_LONGEST = 3_650 * 1_000 * SECONDS["d"]
Time = int | str
"""In ms since 1970; or '+' and the ms from the store's now on."""
Fields = dict[str, Time | bool]
"""As ``lua/times/due_times.lua`` takes them: nv, du, rc, rn, oc."""


def moment(text: str, field: str) -> Time:
    """A time as a caller gives it.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    stripped = text.strip()
    if stripped.startswith("+"):
        if not FROM_NOW.fullmatch(stripped):
            raise invalid(field, "must be + and a duration, as in +30m or +1d12h (s, m, h, d, w), or an ISO-8601 time")
        after = milliseconds(stripped[1:])
        if after > _LONGEST:
            raise invalid(field, "must be at most +3650d")
        return f"+{after}"
    at = instant(stripped, field, said="must be an ISO-8601 time with a zone, or + and a duration, as in +30m")
    if not _FIRST <= at <= _LAST:
        raise invalid(field, "must be in the years 2000 to 2099")
    return at


def given(text: str, field: str) -> Time | bool:
    """The same; False for a blank text. Raises as ``moment``."""
    return moment(text, field) if text.strip() else False


def shown_due(stored: str) -> str:
    """When an item is due, as results show it."""
    return "+" + duration(int(stored[1:])) if stored.startswith("+") else iso(int(stored))


def stored_recurs(how: Recurs, field: str) -> str:
    """How a template recurs, as it is stored. Raises ToolFailure VALIDATION_ERROR naming the field."""
    return recurrence(how).stored()


def check(fields: Mapping[str, object]) -> None:
    """Checks the times that are given for an item together.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    if fields.get("rc") and isinstance(fields.get("du"), int) and fields["du"] is not False:
        raise invalid("dueAt", "of a template counts from each occurrence: give + and a duration, as in +2h")


def first_time(fields: Fields, now: int) -> int | None:
    """When somebody has to look after an item with these fields (ms), None: never."""
    start = fields.get("nv")
    if fields.get("rc") or start is False:  # a template may begin now
        return now
    if isinstance(start, str):
        return now + int(start[1:])
    return None if start is None else int(start)
