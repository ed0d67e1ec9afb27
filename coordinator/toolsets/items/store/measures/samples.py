"""Samples of a project's items over time, for charts. ``measure_items.lua`` keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from coordinator.store import Script, Store
from coordinator.toolsets.items.store.base import LIBRARY

HOUR_STEP, HOUR_ROWS = 10, 360
"""Seconds that a row of the last hour stands for, and how many rows there are at most."""
DAY_STEP, DAY_ROWS = 60, 1_440
"""The same for the last day."""


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """The items of a project by role at the end of a short time, and what happened in it."""

    at: int
    """When this time began, in s."""
    queue: int
    work: int
    review: int
    terminal: int
    blocked: int
    created: int = 0
    """By how many items the project grew."""
    done: int = 0
    """By how many items ``terminal`` grew."""
    completed: int = 0
    """Claims that ended because the item was finished."""
    released: int = 0
    expired: int = 0
    attempts: int = 0
    """Claims that ended without an effect."""
    losers: int = 0
    """Claims that failed because another agent held the item; counted when that claim ends."""


class Samples(NamedTuple):
    """Both lists, the last sample last. Where nothing changed there is no sample."""

    now: int
    """Time of the store, in ms."""
    hour: list[Sample]
    """One per ``HOUR_STEP``."""
    day: list[Sample]
    """One per ``DAY_STEP``."""


_READ = Script(LIBRARY, "read_samples", tuple[int, str, str])
_rows = msgspec.json.Decoder(list[Sample]).decode


async def read_samples(store: Store, project: str, hour: int = HOUR_ROWS, day: int = DAY_ROWS) -> Samples:
    """The last samples of a project, at most so many of each list (at least 1). Raises ToolFailure as ``Store.run``
    says."""
    now, of_hour, of_day = await store.run(_READ, project, hour, day)
    return Samples(now, _rows(of_hour), _rows(of_day))


def filled(rows: Sequence[Sample], now: int, step: int, count: int) -> list[Sample | None]:
    """One sample per step, the present one last. In a step without one nothing happened, and the counts are as before.

    Args:
        now: ``Samples.now``.
        step: ``HOUR_STEP`` or ``DAY_STEP``.

    Returns:
        ``count`` samples; None: nothing is known so early.
    """
    last = now // 1000 // step * step
    found: list[Sample | None] = []
    known: Sample | None = None
    position = 0
    for begin in range(last - (count - 1) * step, last + 1, step):
        sample = None
        while position < len(rows) and rows[position].at <= begin:
            known = sample = rows[position]
            position += 1
        if known is None or (sample is not None and sample.at == begin):
            found.append(sample)
        else:
            found.append(Sample(begin, known.queue, known.work, known.review, known.terminal, known.blocked))
    return found
