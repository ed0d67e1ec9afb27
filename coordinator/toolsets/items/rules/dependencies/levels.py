"""Levels of items (``lua/dependencies/levels.lua``): a repair that is too large for one script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Move = tuple[str, int]
"""An item and the level that it has or gets."""


class Repair:
    """Finds the moves after which every blocker has a lower level than what it blocks.

    Args:
        start: the end of the new edge that moves first.
        level: its new level.
        step: 1 raises the blocked items, -1 lowers the blockers.
        stop: the other end of the new edge; reaching it means that the edge closes a cycle.
    """

    def __init__(self, start: str, level: int, step: int, stop: str) -> None:
        self.step = step
        self.cyclic = False
        self.torn = False
        """Whether items seemed to block themselves, because the graph changed between reads."""
        self._level = level
        self._stop = stop
        self._moved = {start: level}
        self._near: dict[str, Sequence[Move]] = {}
        self._unseen: dict[str, None] = {start: None}

    @property
    def done(self) -> bool:
        """Whether no more items have to be read."""
        return self.cyclic or self.torn or not self._unseen

    def wanted(self, most: int) -> list[str]:
        """The items whose neighbours have to be read next."""
        return list(self._unseen)[:most]

    def look(self, items: Sequence[str], found: Iterable[Sequence[Move]]) -> None:
        """Adds neighbours (with their current levels) of items, in order; the last items may have none yet."""
        todo: list[str] = []
        for item, near in zip(items, found, strict=False):
            del self._unseen[item]
            self._near[item] = near
            todo.append(item)
        while todo:
            item = todo.pop()
            bound = self._moved[item] + self.step
            for other, level in self._near[item]:
                self.cyclic |= other == self._stop
                if (bound - self._moved.get(other, level)) * self.step > 0:
                    self._moved[other] = bound
                    self.torn |= abs(bound - self._level) > len(self._moved)  # longer than any path without a cycle
                    if other in self._near:
                        todo.append(other)
                    else:
                        self._unseen[other] = None
            if self.cyclic or self.torn:
                return

    def moves(self) -> list[Move]:
        """The items to move and their new levels, those that move furthest first."""
        return sorted(self._moved.items(), key=lambda move: -move[1] * self.step)


def added(edges: Iterable[tuple[str, str]], step: int) -> Mapping[str, list[str]]:
    """The neighbours of each item by edges (blocker, blocked), in the direction of ``step``."""
    found: dict[str, list[str]] = {}
    for blocker, blocked in edges:
        near, far = (blocker, blocked) if step > 0 else (blocked, blocker)
        found.setdefault(near, []).append(far)
    return found
