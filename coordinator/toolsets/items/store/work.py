"""Claims, transitions and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.errors import ToolFailure
from coordinator.store import Script, ScriptFailure
from coordinator.toolsets.items.rules.idempotency import Request
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.store.base import PACKAGE, Path, RoomStore, pack


class ClaimReply(msgspec.Struct, array_like=True):
    """Reply of ``claim_item.lua``."""

    now: int
    claims: list[tuple[str, str, int, int, int]]
    releases: list[tuple[str, str]]


class Advanced(msgspec.Struct, array_like=True):
    """One entry of the reply of ``advance_item.lua``."""

    id: str
    reason: str
    from_role: int
    to_role: int
    label: str | bool
    cascades: list[Any]
    unblocked: list[tuple[str, str]]
    title: str
    filled: Filled


class Next(msgspec.Struct, array_like=True):
    """One entry of the reply of ``next_items.lua``."""

    id: str
    title: str
    role: int
    priority: int
    complexity: int | bool
    summary: str
    tags: str | bool
    parent: str | bool
    claimed: bool
    ancestors: Path


_CLAIM = Script(PACKAGE, "claim_item", ClaimReply)
_ADVANCE = Script(PACKAGE, "advance_item", list[Advanced])
_NEXT = Script(PACKAGE, "next_items", list[Next])


class WorkStore(RoomStore):
    """Claims, transitions and recommendations of any project."""

    async def claim(
        self,
        project: str,
        request: Request,
        agent: str,
        claims: Sequence[tuple[str, int, int]],
        releases: Sequence[tuple[str, int]],
    ) -> ClaimReply:
        """Claims (id, ttl in ms, fence or 0) and releases (id, fence or 0) of one agent, in one step."""
        return await self._change(_CLAIM, project, request, agent, pack(claims), pack(releases))

    async def advance(self, project: str, request: Request, transitions: Sequence[tuple[Any, ...]]) -> list[Advanced]:
        """Transitions in order, each whole or not at all."""
        return await self._change_by_schema(_ADVANCE, project, request, pack(transitions))

    async def next(
        self, project: str, role: int, parent: str, limit: int, include_claimed: bool, ancestors: bool
    ) -> list[Next]:
        """The best items of a role; ``parent`` '' for all.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the parent.
        """
        try:
            return await self._read(
                _NEXT, project, self._events, role, parent, limit, int(include_claimed), int(ancestors)
            )
        except ScriptFailure:
            raise ToolFailure("RESOURCE_NOT_FOUND", "parentId: no such item") from None
