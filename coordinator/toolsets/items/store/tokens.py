"""Tokens for claims: an item has one, each by its number, and each that is made replaces the one before."""

from __future__ import annotations

from typing import Any

from coordinator.store import Script, Store
from coordinator.store.idempotency import idempotency_key
from coordinator.toolsets.items.store.base import LIBRARY

_KEPT_MS = 8 * 86_400_000
"""How long one is known that nobody replaces: longer than claims usually are renewed without one."""
_KEEP: Script[Any] = Script(LIBRARY, "keep_token")
_READ = Script(LIBRARY, "read_token", tuple[bool, bool, bool])


class TokenStore:
    """The numbers of tokens in any project. Its methods raise ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def replace(self, project: str, item: str, number: str) -> None:
        """Makes a token the newest one for an item."""
        await self._store.run(_KEEP, project, _record(item), number, _KEPT_MS)

    async def read(self, project: str, item: str, number: str, fence: int, agent: str) -> tuple[bool, bool, bool]:
        """Whether a token is the newest one for an item, whether the agent's claim with this fence is live, and whether
        a newer claim has followed."""
        return await self._store.run(_READ, project, _record(item), number, item, fence, agent)


def _record(item: str) -> str:
    return idempotency_key(item, "token", "claim").key
