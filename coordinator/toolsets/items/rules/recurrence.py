"""When templates recur: cron expressions in a time zone, and which of the times that have passed items are made for.

Times are in ms since 1970. An expression has the five fields of cron: minute, hour, day of the month, month, day of the
week. Where clocks are put forward, a time that does not exist is moved behind the gap; where they are put back, a time
that comes twice counts once, unless the hour is ``*``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from coordinator.errors import invalid
from coordinator.toolsets.items.contract.due_times import MISSED, OVERLAP, Recurs
from coordinator.toolsets.items.rules.roles import one_of

MAX_EXPRESSION = 200
LATE_MS = 60_000
"""A time for which no item has been made for so long is missed."""
PORTION = 10
"""For how many times items are made in one step."""
_DAY = 86_400_000
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ALLOWED = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW, and a day that one of the months has",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7, or SUN to SAT",
}


class Recurrence(NamedTuple):
    """How a template recurs."""

    cron: str
    zone: str = "UTC"
    missed: str = "one"
    overlap: str = "skip"

    def stored(self) -> str:
        """Its stored form."""
        return msgspec.json.encode(self).decode()


@lru_cache(256)
def stored(text: str) -> Recurrence:
    """The recurrence of a stored form."""
    return msgspec.json.decode(text, type=Recurrence)


def recurrence(given: Recurs, field: str = "recurs") -> Recurrence:
    """A checked recurrence.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    cron = " ".join(given.cron.split())
    if not cron or len(cron) > MAX_EXPRESSION:
        raise invalid(f"{field}.cron", f"must be 1 to {MAX_EXPRESSION} characters")
    if cron.startswith("@") and cron.lower() not in _NAMED:
        raise invalid(f"{field}.cron", f"must be five fields, or one of {', '.join(_NAMED)}")
    if not cron.startswith("@") and len(cron.split()) != 5:
        raise invalid(
            f"{field}.cron", f"must have five fields (minute hour day month weekday), not {len(cron.split())}"
        )
    zone = given.time_zone.strip() or "UTC"
    if _zone(zone) is None:
        raise invalid(f"{field}.timeZone", f"'{zone[:64]}' must be a name of the IANA time zones, as in Europe/Berlin")
    found = Recurrence(
        cron,
        zone,
        one_of(given.missed.strip() or "one", MISSED, f"{field}.missed"),
        one_of(given.overlap.strip() or "skip", OVERLAP, f"{field}.overlap"),
    )
    try:
        never = following(found, 0) is None
    except CronSimError as problem:
        bad = str(problem).lower()
        allowed = f"; allowed: {one}, also with * , - and /" if (one := _ALLOWED.get(bad.removeprefix("bad "))) else ""
        raise invalid(f"{field}.cron", f"'{cron}': {bad}{allowed}") from None
    if never:
        raise invalid(f"{field}.cron", f"'{cron}' never comes")
    return found


@lru_cache(256)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # unknown, a folder, or no name of a file
        return None


def _times(found: Recurrence, after: int, *, reverse: bool = False) -> Iterator[int]:
    """The times after (or before) one, in their order."""
    zone = _zone(found.zone)
    if zone is None:  # the template was written where the zone was known
        raise CronSimError(f"the time zone {found.zone} is not known here")
    start = datetime.fromtimestamp(after // 1000, UTC)
    expression = _NAMED.get(found.cron.lower(), found.cron)
    local = start if zone.key == "UTC" else start.astimezone(zone)
    for moment in CronSim(expression, local, reverse=reverse):
        yield int(moment.timestamp()) * 1000


def following(found: Recurrence, after: int) -> int | None:
    """The first time after one; None: there is none."""
    return next(_times(found, after), None)


class Plan(NamedTuple):
    """What to do about a template."""

    times: list[int]
    """For which times to make an item."""
    dealt: int
    """Up to when its times are dealt with then."""
    look: int
    """When to look again; 0: never."""


def plan(found: Recurrence, dealt: int, now: int, not_before: int = 0) -> Plan:
    """What to do now about a template whose times are dealt with up to ``dealt``.

    Args:
        not_before: its times before that do not count.
    """
    since = max(dealt, min(not_before - 1, now))
    times: list[int] = []
    if found.missed == "all":
        times = list(takewhile(lambda time: time <= now, islice(_times(found, since), PORTION)))
        if len(times) == PORTION:
            return Plan(times, times[-1], now)
    else:
        times = _latest(found, since, now)
        if found.missed == "skip":
            times = [time for time in times if time >= now - LATE_MS]
    return Plan(times, now, following(found, max(now, not_before - 1)) or 0)


def _latest(found: Recurrence, since: int, now: int) -> list[int]:
    """The last time after ``since`` and not after ``now``, if there is one."""
    last = next(_times(found, now + 1000, reverse=True), 0)
    if last <= since - _DAY:
        return []
    # Counted forward, as all other times are: around changes of clocks the library's way back has others.
    best = 0
    for time in _times(found, max(since, min(last, now) - _DAY)):
        if time > now:
            break
        best = time
    return [best] if best else []
