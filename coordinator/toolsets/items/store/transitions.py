"""advance_item: transitions of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.values import size
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, SLICE, BaseStore, pack

RESULTS_AT_ONCE = 1_000_000
"""Bytes of results that one script run stores, roughly."""
_RESULT = 7
"""Where an element with a result has it."""


_ADVANCE = Script(LIBRARY, "advance_item", list[Advanced], rest=SETTLE)


class TransitionStore(BaseStore):
    """Transitions of any project."""

    async def advance(
        self, project: str, request: IdempotencyKey, transitions: Sequence[tuple[Any, ...]]
    ) -> list[Advanced]:
        """Applies transitions in order, each completely or not at all, in slices."""
        results: list[Advanced] = []
        number = 0
        while len(results) < len(transitions):
            part = transitions[len(results) : len(results) + SLICE]
            packed = pack(part if len(part) == 1 else _slice(part))
            reply = await self._change_by_schema(_ADVANCE, project, request.slice(number), packed)
            results += reply
            number += 1
        return results


def _slice(transitions: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    """The first of some transitions, whose results have little text together; one at least."""
    total = 0
    for number, transition in enumerate(transitions):
        if len(transition) > _RESULT and transition[_RESULT]:
            total += size(transition[_RESULT].text)
            if number and total > RESULTS_AT_ONCE:
                return transitions[:number]
    return transitions
