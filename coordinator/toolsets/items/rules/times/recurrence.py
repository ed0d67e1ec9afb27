"""When templates recur: cron expressions in a time zone, and which of the times that have passed items are made for.

Times are in ms since 1970. An expression has the five fields of cron: minute, hour, day of the month, month, day of the
week.

Changes of clocks: each local time counts once, one that comes twice when it first comes, one that does not exist at the
end of the gap. Only an expression for every hour (``*``) goes by the time that passes: what comes twice counts twice,
what does not exist is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from coordinator.errors import invalid
from coordinator.toolsets.items.field_types.due_times import MISSED, OVERLAP, Recurs
from coordinator.toolsets.items.rules.roles import one_of

MAX_EXPRESSION = 200
LATE_MS = 60_000
"""A time for which no item has been made for so long is missed."""
PORTION = 10
"""For how many times items are made in one step."""
_DAY = timedelta(days=1)
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = {
    "minute": ("0 to 59", 60),
    "hour": ("0 to 23", 24),
    "day-of-month": ("1 to 31, L or LW, and a day that one of the months has", 31),
    "month": ("1 to 12, or JAN to DEC", 12),
    "day-of-week": ("0 to 7, or SUN to SAT", 7),
}
"""What is allowed in each field, and the longest step."""
_OF_THE_HOST = frozenset({"localtime", "posixrules", "factory", "posix", "right"})
"""What names in the system's folder of time zones begin with that are no zones, or not the same ones on every host."""


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


def recurrence(recurs: Recurs, field: str = "recurs") -> Recurrence:
    """A checked recurrence.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    cron = " ".join(recurs.cron.split())
    if not cron or len(cron) > MAX_EXPRESSION:
        raise invalid(f"{field}.cron", f"must be 1 to {MAX_EXPRESSION} characters")
    if cron.startswith("@") and cron.lower() not in _NAMED:
        raise invalid(f"{field}.cron", f"must be five fields, or one of {', '.join(_NAMED)}")
    if not cron.startswith("@") and len(cron.split()) != 5:
        raise invalid(
            f"{field}.cron", f"must have five fields (minute hour day month weekday), not {len(cron.split())}"
        )
    zone = recurs.time_zone.strip() or "UTC"
    if _zone(zone) is None:
        must = "must be a name of the IANA time zones, the same on every host, as in Europe/Berlin"
        raise invalid(f"{field}.timeZone", f"'{zone[:64]}' {must}")
    checked = Recurrence(
        cron,
        zone,
        one_of(recurs.missed.strip() or "one", MISSED, f"{field}.missed"),
        one_of(recurs.overlap.strip() or "skip", OVERLAP, f"{field}.overlap"),
    )
    try:
        never = following(checked, 0) is None
    except CronSimError as problem:
        bad = str(problem).lower()
        known = _FIELDS.get(bad.removeprefix("bad "))
        allowed = f"; allowed: {known[0]}, also with * , - and /" if known else ""
        raise invalid(f"{field}.cron", f"'{cron}': {bad}{allowed}") from None
    if never:
        raise invalid(f"{field}.cron", f"'{cron}' never comes")
    for part, (name, (_, most)) in zip(cron.split(), _FIELDS.items(), strict=False):
        if any(int(element.partition("/")[2] or 0) > most for element in part.split(",")):
            raise invalid(f"{field}.cron", f"'{cron}': a step of {name} must be at most {most}")
    return checked


@lru_cache(256)
def _zone(name: str) -> ZoneInfo | None:
    if name.partition("/")[0].lower() in _OF_THE_HOST:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # unknown, a folder, or no name of a file
        return None


def _zone_of(recurrence: Recurrence) -> ZoneInfo:
    zone = _zone(recurrence.zone)
    if zone is None:  # the template was written where the zone was known
        raise CronSimError(f"the time zone {recurrence.zone} is not known here")
    return zone


def _local(second: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(second, zone).replace(tzinfo=None)


def _seconds(local: datetime, zone: ZoneInfo, *, every_hour: bool) -> tuple[int, ...]:
    """When a local time counts, in seconds since 1970."""
    first, again = (int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    if again < first:  # it does not exist: the clocks are put forward between these
        gap = range(again, first)
        return () if every_hour else (again + bisect_left(gap, True, key=lambda second: _local(second, zone) > local),)
    return (first, again) if every_hour and first < again else (first,)


def _counted(recurrence: Recurrence, start: datetime, *, reverse: bool = False) -> Iterator[tuple[int, ...]]:
    """For each local time of the recurrence after (or before) one: when it counts, in seconds since 1970."""
    zone = _zone_of(recurrence)
    cron = CronSim(_NAMED.get(recurrence.cron.lower(), recurrence.cron), start, reverse=reverse)
    every_hour = len(cron.hours) == 24
    return (seconds for local in cron if (seconds := _seconds(local, zone, every_hour=every_hour)))


def _times(recurrence: Recurrence, after: int) -> Iterator[int]:
    """The times after one, in their order."""
    zone, last = _zone_of(recurrence), after // 1000
    # Before clocks are put back, local times that are past come again.
    start = min(_local(last, zone), _local(last + 86_400, zone) - _DAY)
    coming: list[int] = []
    for seconds in _counted(recurrence, start):
        for second in seconds:
            heappush(coming, second)
        while coming and coming[0] <= seconds[0]:
            if (second := heappop(coming)) > last:
                last = second
                yield second * 1000


def following(recurrence: Recurrence, after: int) -> int | None:
    """The first time after one; None: there is none."""
    return next(_times(recurrence, after), None)


class OccurrencePlan(NamedTuple):
    """What to do about a template."""

    times: list[int]
    """For which times to make an item."""
    dealt: int
    """Up to when its times are dealt with then."""
    look: int
    """When to look again; 0: never."""


def plan(recurrence: Recurrence, dealt: int, now: int, not_before: int = 0) -> OccurrencePlan:
    """What to do now about a template whose times are dealt with up to ``dealt``.

    Args:
        not_before: its times before that do not count.
    """
    since = max(dealt, min(not_before - 1, now))
    times: list[int] = []
    if recurrence.missed == "all":
        times = list(takewhile(lambda time: time <= now, islice(_times(recurrence, since), PORTION)))
        if len(times) == PORTION:
            return OccurrencePlan(times, times[-1], now)
    else:
        times = _latest(recurrence, since, now)
        if recurrence.missed == "skip":
            times = [time for time in times if time >= now - LATE_MS]
    dealt = max(dealt, now)  # the store's clock may have been put back
    return OccurrencePlan(times, dealt, following(recurrence, max(dealt, not_before - 1)) or 0)


def _latest(recurrence: Recurrence, since: int, now: int) -> list[int]:
    """The last time after ``since`` and not after ``now``, if there is one."""
    local = _local(now // 1000, _zone_of(recurrence)) + timedelta(seconds=1)
    for seconds in islice(_counted(recurrence, local, reverse=True), 1):
        passed = takewhile(lambda time: time <= now, _times(recurrence, max(since, seconds[0] * 1000 - 1)))
        return list(deque(passed, maxlen=1))
    return []
