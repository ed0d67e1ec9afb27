"""advance_item: transitions of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.rules.values import size
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, SLICE, BaseStore, pack

RESULTS_AT_ONCE = 1_000_000
"""Bytes of results that one script run stores, roughly."""
_RESULT = 7
"""Where an element with a result has it."""


class Advanced(msgspec.Struct, array_like=True):
    """What became of a transition."""

    id: str
    reason: str
    """Why it was refused; '': it was applied."""
    from_role: int
    to_role: int
    label: str | bool
    cascades: list[Any]
    """Of an applied transition: (id, title, role before, role after, applied, missing notes, their phases) of each
    parent of the cascade. Of a refused one, by ``reason``: for ``dependencies`` (blocker, role, role that it must
    reach) of each; for ``gate`` missing notes and their phases; for ``claim`` when it expires, whether no actor was
    given, and whether an older fence was; for ``result`` the role to which the transition leads, because it does not
    end the item; for ``resource_busy`` what the item demands and is not free."""
    unblocked: list[tuple[str, str]]
    """Id and title."""
    title: str
    filled: Filled
    verification: str = ""
    """As recorded."""
    blocked_again: list[str] = []
    """Ids of items that got one more unsatisfied blocker; some of them may have lost another one."""


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
