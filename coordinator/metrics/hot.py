"""Which items agents fight over: for logs and ``fleet top``, never for labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

_KEPT = 256
"""Items counted at a time; the one with the fewest losers makes room for a new one."""
_HALF_LIFE_SECONDS = 60.0
SUFFIX = ".hot.json"
"""Of the file, after a slot's name, in which its process tells of its hottest items."""


class Hot(msgspec.Struct, frozen=True):
    """An item and how contended it is."""

    project: str
    item: str
    losers: float
    """Claims that failed because the item was held, during about the last minute."""


class HotItems:
    """Counts failed claims by item, with "space saving" (Metwally et al.): bounded memory, counts never too low.

    Args:
        clock: the present, in seconds.
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
        ranked = sorted(self._losers.items(), key=lambda entry: -entry[1])[:count]
        return [Hot(project, item, round(losers, 1)) for (project, item), losers in ranked]

    def _age(self) -> None:
        now = self._clock()
        share = 0.5 ** ((now - self._aged) / _HALF_LIFE_SECONDS)
        self._aged = now
        self._losers = {key: losers * share for key, losers in self._losers.items() if losers * share >= 0.5}


def publish(directory: Path, slot: str, found: Iterable[Hot]) -> None:
    """Writes a process's hottest items to where ``fleet top`` finds them."""
    path = directory / (slot + SUFFIX)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(list(found)))
    os.replace(fresh, path)


def published(directory: Path, count: int) -> list[Hot]:
    """The hottest items of all processes that share the directory."""
    losers: dict[tuple[str, str], float] = {}
    for path in directory.glob("*" + SUFFIX):
        try:
            found = msgspec.json.decode(path.read_bytes(), type=list[Hot])
        except (OSError, msgspec.MsgspecError):
            continue  # being written or left by another version
        for hot in found:
            losers[hot.project, hot.item] = losers.get((hot.project, hot.item), 0.0) + hot.losers
    ranked = sorted(losers.items(), key=lambda entry: -entry[1])[:count]
    return [Hot(project, item, round(lost, 1)) for (project, item), lost in ranked]
