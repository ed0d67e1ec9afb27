"""The classes of the ranked index by role (``lua/layout/classes.lua``), and merging several classes in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

from coordinator.store.record_layout import CLASS_SIZE, STATES

READY, HELD, ABANDONED, WAITING, PARENT, _, PARENT_LEFT, APART = range(STATES)
"""Of each role. PARENT and PARENT_LEFT would be ready and abandoned, but have open children. APART is there in shared
scopes only: available items that are not for everybody."""
QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = range(5)
CLASSES = "qQ-1p---wWa2x-X-rRA3----tT------bB-4----"
"""The letters of the classes of each role; '-': no item is stored with such a class."""
OF_ROLE = {"queue": "qQ1pk", "work": "wWa2xXl", "review": "rRA3m", "blocked": "bB4n", "terminal": "tT"}
"""All classes of a role: ready, held by a claim, abandoned (in work and review), waiting for a dependency, with open
children (in queue and work), available to agents with certain capabilities."""
MAYBE_BLOCKED = {"blocked": "bB4n", "queue": "1Q", "work": "2W", "review": "3R"}
"""The classes of a role that may have blocked items, including held ones: a held item may wait too."""


class Ranked(NamedTuple):
    """The items of one class."""

    size: int
    """How many items the class has."""
    flat: list[str]
    """Ids and scores in turn, best first."""

    @property
    def cut(self) -> bool:
        """Whether the class has more items than are listed."""
        return 2 * self.size > len(self.flat)


def best_of_each(classes: Iterable[Ranked], roles: Iterable[str]) -> Iterator[Iterator[str]]:
    """The ids of each role, best first.

    Args:
        classes: the store's results, in the order of ``roles``.
        roles: the letters of each role's classes.
    """
    left = iter(classes)
    for letters in roles:
        yield best_first(list(islice(left, len(letters))))


def best_first(classes: Sequence[Ranked]) -> Iterator[str]:
    """The ids of several classes merged into one order: by rank, then by id."""
    for _, item in merge(*(_pairs(ranked.flat) for ranked in classes)):
        yield item


def _pairs(flat: Sequence[str]) -> Iterator[tuple[float, str]]:
    """The rank (the score without the class) and the id of each item."""
    return ((float(score) % CLASS_SIZE, item) for item, score in zip(flat[::2], flat[1::2], strict=True))
