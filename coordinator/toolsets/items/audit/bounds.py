"""Recomputes the bounds of items with children: the best ready items below them (``lua/selection/bounds.lua``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.store.record_layout import PRIORITY_SIZE, STATES
from coordinator.toolsets.items.rules.classes import ABANDONED, CLASSES, PARENT, PARENT_LEFT, READY

OPEN_ROLES = (0, 1, 2, 4)
"""The roles whose items can be ready."""


def bands(role: int) -> list[int]:
    """The bands of a role's classes of ready items and of parents, one per class and priority."""
    states = [READY, ABANDONED, PARENT, PARENT_LEFT]
    classes = [role * STATES + state for state in states if CLASSES[role * STATES + state] != "-"]
    return [band for first in classes for band in range(first * 4, first * 4 + 3)]


_ALL_BANDS = [band for role in OPEN_ROLES for band in sorted(bands(role))]


def bound_of(item: str, band: int) -> str:
    """The member (of ``beneath``) that is an item's bound in a band."""
    return item + chr(48 + _ALL_BANDS.index(band))


def bound_problems(role: int, firsts: Sequence[Sequence[str]], bounds: Sequence[str | bool]) -> Iterator[str]:
    """Compares an item's bounds of one role with the best ready items below it.

    Args:
        firsts: the first entry (member, score) per band: of the children, then of the children's own bounds.
        bounds: by band; False: missing.
    """
    for band, bound, *found in zip(bands(role), bounds, firsts[: len(bounds)], firsts[len(bounds) :], strict=True):
        best = min((float(first[1]) for first in found if first), default=None)
        if best is None or (bound is not False and float(bound) <= best):
            continue
        yield f"has bound {bound or 'none'} in band {band}, but {best:.0f} is ready below it"


def bound_belongs(member: str, score: str, parent: str, above: str | bool, aside: str | bool) -> bool:
    """Whether a bound belongs to the set of ``parent`` ('' for roots), and has a score of the right band.

    A bound that was put aside has a score of the held class, and its item says so (``aside``).

    Args:
        above: the parent that the item itself names.
    """
    band, item = int(float(score)) // PRIORITY_SIZE, member[:32]
    ready = {bound_of(item, number): number for role in OPEN_ROLES for number in bands(role)}.get(member)
    stands = ready is not None and (band == ready or (band == ready + 4 and bool(aside)))
    return stands and (above or "") == parent
