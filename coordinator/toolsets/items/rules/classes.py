"""Index classes by role (``lua/include/classes.lua``), and one order over several of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from coordinator.toolsets.items.rules.recount import CLASS_SPAN

if TYPE_CHECKING:
    from coordinator.toolsets.items.store.reads import Ranked

OF_ROLE = {"queue": "qQ1", "work": "wW2", "review": "rR3", "blocked": "bB4", "terminal": "tT"}
"""All items of a role: those that are ready, held by a claim, and waiting for a dependency (terminal ones do not)."""
MAYBE_BLOCKED = {"blocked": "bB4", "queue": "1Q", "work": "2W", "review": "3R"}
"""Those that hold every blocked item of a role: one that is held may wait as well."""


def best_of_each(classes: Iterable[Ranked], roles: Iterable[str]) -> Iterator[Iterator[str]]:
    """The ids of each role, best first; ``roles`` are the letters of their classes, which come in this order."""
    left = iter(classes)
    for letters in roles:
        yield best_first(list(islice(left, len(letters))))


def best_first(classes: Sequence[Ranked]) -> Iterator[str]:
    """The ids of several classes in one order: by rank, then by id."""
    for _, item in merge(*(_pairs(ranked.flat) for ranked in classes)):
        yield item


def _pairs(flat: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Rank, which is the score without the class, and id of each."""
    return ((float(score) % CLASS_SPAN, item) for item, score in zip(flat[::2], flat[1::2], strict=True))
