"""Is a history of calls that ran at the same time linearizable?

The search of Wing and Gong, with Lowe's memory of what was tried: calls are put one after the
other, each at a moment between its beginning and its end, such that a model that knows no
concurrency gives every one the answer that it got.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

M = TypeVar("M")


@dataclass(frozen=True)
class Operation(Generic[M]):
    """One call of a history."""

    text: str
    """For people who read a failure."""
    began: float
    ended: float
    step: Callable[[M], bool]
    """Changes the model as the call does; whether the call got the model's answer."""


def order_of(history: Sequence[Operation[M]], model: M, state: Callable[[M], Hashable]) -> list[Operation[M]] | None:
    """An order that explains the history, None when there is none.

    Args:
        model: as things were before; it is not changed.
        state: what tells two models apart.
    """
    tried: set[tuple[frozenset[int], Hashable]] = set()

    def search(left: frozenset[int], now: M) -> list[int] | None:
        if not left:
            return []
        memory = (left, state(now))
        if memory in tried:
            return None
        tried.add(memory)
        soonest = min(history[number].ended for number in left)
        for number in sorted(left):
            # What began after another had ended cannot come before it.
            if history[number].began > soonest:
                continue
            after = copy.deepcopy(now)
            if history[number].step(after):
                rest = search(left - {number}, after)
                if rest is not None:
                    return [number, *rest]
        return None

    found = search(frozenset(range(len(history))), model)
    return None if found is None else [history[number] for number in found]
