"""Changes of clocks: those of all time zones, zones made for a test, and a plain model of what recurs around them."""

from __future__ import annotations

import struct
import zoneinfo
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

HOUR = 3600
FIRST, LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2020, 2030))
"""The ten years whose changes are looked at, in seconds."""
_STEP = 5 * 86_400
"""Shorter than any two changes of a zone are apart."""


def local(second: int, zone: ZoneInfo) -> datetime:
    """The time that the clocks show."""
    return datetime.fromtimestamp(second, zone).replace(tzinfo=None)


def offset(second: int, zone: ZoneInfo) -> int:
    """What the clocks are ahead of UTC, in seconds."""
    return int((datetime.fromtimestamp(second, zone).utcoffset() or timedelta()).total_seconds())


def changes(zone: ZoneInfo) -> Iterator[tuple[int, int]]:
    """The changes of clocks in a zone in ten years: when, in seconds, and by how much."""
    for start in range(FIRST, LAST, _STEP):
        before, after = offset(start, zone), offset(start + _STEP, zone)
        if before != after:
            passed = range(start, start + _STEP)
            yield start + bisect_left(passed, True, key=lambda one: offset(one, zone) != before), after - before


@cache
def one_of_each() -> dict[tuple[tuple[int, int], ...], ZoneInfo]:
    """One zone of each set of changes."""
    found: dict[tuple[tuple[int, int], ...], ZoneInfo] = {}
    for name in sorted(zoneinfo.available_timezones() - {"localtime", "Factory"}):
        zone = ZoneInfo(name)
        if mine := tuple(changes(zone)):
            found.setdefault(mine, zone)
    return found


def _values(field: str, size: int) -> set[int]:
    """The values of a field of ``*``, numbers, ranges, steps and lists."""
    found: set[int] = set()
    for one in field.split(","):
        values, _, step = one.partition("/")
        first, _, last = values.partition("-")
        whole = range(size) if values == "*" else range(int(first), int(last or first) + 1)
        found.update(whole[:: int(step or 1)])
    return found


@lru_cache(4)
def _minutes(zone: ZoneInfo, first: int, last: int) -> list[tuple[int, datetime]]:
    """What the clocks show each minute."""
    return [(second, local(second, zone)) for second in range(first - first % 60, last, 60)]


def counted(cron: str, zone: ZoneInfo, first: int, last: int) -> list[int]:
    """The times of a recurrence from one on, before another (in seconds), found by looking at the clock each minute.

    Args:
        cron: with days of a month, or ``*``, and neither months nor weekdays.
    """
    minute, hour, day, *_ = cron.split()
    minutes, hours, days = _values(minute, 60), _values(hour, 24), _values(day, 32)

    def meets(shown: datetime) -> bool:
        return shown.minute in minutes and shown.hour in hours and shown.day in days

    found: list[int] = []
    seen: set[datetime] = set()
    every = _minutes(zone, first - 4 * HOUR, last)
    next_shown = every[0][1]
    for second, shown in every:
        left_out = shown > next_shown and any(
            meets(next_shown + timedelta(minutes=n)) for n in range((shown - next_shown) // timedelta(minutes=1))
        )
        if (meets(shown) and (hour == "*" or shown not in seen)) or (left_out and hour != "*"):
            found.append(second)
            seen.add(shown)
        next_shown = shown + timedelta(minutes=1)
    return [second for second in found if second >= first]


def make_zone(folder: Path, at: int, by: int) -> ZoneInfo:
    """A zone whose clocks are put forward or back (seconds) at a time (seconds), in a folder of the path of zones."""
    name = f"Test/{uuid4().hex}"
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    kinds = struct.pack(">iBBiBB", 0, 0, 0, by, 0, 4)
    head = b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 1, 2, 8)
    path.write_bytes(head + struct.pack(">iB", at, 1) + kinds + b"OLD\0NEW\0")
    return ZoneInfo(name)
