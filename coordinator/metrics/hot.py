"""The most contended items, for logs and ``fleet top``. They are never labels of metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

_KEPT = 256
"""How many items are counted at a time. The one with the fewest losers makes room for a new one."""
_HALF_LIFE_SECONDS = 60.0
SUFFIX = ".hot.json"
"""A process publishes its hottest items in the file ``<slot>.hot.json``."""


class Hot(msgspec.Struct, frozen=True):
    """An item and how contended it is."""

    project: str
    item: str
    losers: float
    """Claims that failed because the item was held, during about the last minute."""


class HotItems:
    """Counts failed claims by item in bounded memory, with the algorithm "space saving" (Metwally et al.).

    Counts may be too high, but never too low.

    Args:
        clock: gives the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._losers: dict[tuple[str, str], float] = {}
        self._aged = clock()

    def lost(self, project: str, item: str) -> None:
        """A claim on the item failed because it was held."""
        key = (project, item)
        if key in self._losers:
            self._losers[key] += 1.0
            return
        fewest = 0.0
        if len(self._losers) >= _KEPT:
            self._age()
        if len(self._losers) >= _KEPT:
            out = min(self._losers, key=self._losers.__getitem__)
            fewest = self._losers.pop(out)
        self._losers[key] = fewest + 1.0

    def top(self, count: int) -> list[Hot]:
        """The most contended items, the hottest first."""
        self._age()
        return _hottest(self._losers, count)

    def _age(self) -> None:
        now = self._clock()
        share = 0.5 ** ((now - self._aged) / _HALF_LIFE_SECONDS)
        self._aged = now
        self._losers = {key: losers * share for key, losers in self._losers.items() if losers * share >= 0.5}


def publish(directory: Path, slot: str, found: Iterable[Hot]) -> None:
    """Writes a process's hottest items into a file, for ``published``."""
    path = directory / (slot + SUFFIX)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(list(found)))
    os.replace(fresh, path)


def published(directory: Path, count: int) -> list[Hot]:
    """The hottest items of all processes that share the directory."""
    every: list[Hot] = []
    for path in directory.glob("*" + SUFFIX):
        try:
            every += msgspec.json.decode(path.read_bytes(), type=list[Hot])
        except (OSError, msgspec.MsgspecError):
            continue  # it has just been deleted, or another version wrote it
    return merged(every, count)


def merged(found: Iterable[Hot], count: int) -> list[Hot]:
    """The hottest of these items, with the losers that several processes have counted for the same one added up."""
    losers: dict[tuple[str, str], float] = {}
    for hot in found:
        losers[hot.project, hot.item] = losers.get((hot.project, hot.item), 0.0) + hot.losers
    return _hottest(losers, count)


def _hottest(losers: Mapping[tuple[str, str], float], count: int) -> list[Hot]:
    ranked = sorted(losers.items(), key=lambda entry: -entry[1])[:count]
    return [Hot(project, item, round(lost, 1)) for (project, item), lost in ranked]
