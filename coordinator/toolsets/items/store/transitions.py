"""advance_item: transitions of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, SLICE, BaseStore, pack


class Advanced(msgspec.Struct, array_like=True):
    """One entry of the reply of ``advance_item.lua``."""

    id: str
    reason: str
    from_role: int
    to_role: int
    label: str | bool
    cascades: list[Any]
    """Of an applied transition: (id, title, role before, role after, applied, missing notes, their phases) of each
    parent of the cascade. Of a rejected one: details of ``reason``, such as the blockers or the missing notes."""
    unblocked: list[tuple[str, str]]
    """Id and title."""
    title: str
    filled: Filled
    verification: str = ""
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
            part = pack(transitions[len(results) : len(results) + SLICE])
            reply = await self._change_by_schema(_ADVANCE, project, request.slice(number), part)
            results += reply
            number += 1
        return results
