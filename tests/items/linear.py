"""Whether a history of concurrent calls is linearizable.

The search of Wing and Gong with Lowe's memoization: calls are put in an order, each at a moment between its
beginning and its end, such that a sequential model gives each call its answer.
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
    """For failure messages."""
    began: float
    ended: float
    step: Callable[[M], bool]
    """Applies the call to the model; returns whether the answers are equal."""


def order_of(history: Sequence[Operation[M]], model: M, state: Callable[[M], Hashable]) -> list[Operation[M]] | None:
    """An order that explains the history, None when there is none.

    Args:
        model: the state before; it is not changed.
        state: the key of a model's state.
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
            # A call that began after another ended cannot precede it.
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
