"""Tokens for claims: an item has one, each by its number, and each that is made replaces the one before."""

from __future__ import annotations

from coordinator.store import Script, Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.store.base import LIBRARY

_READ = Script(LIBRARY, "read_token", tuple[bool, bool, bool])


def asked(request: IdempotencyKey) -> str:
    """What a claim includes so that a token for it is the newest one (``lua/claims/claim_parts.lua``)."""
    return f"t{request.key}"


def number(request: IdempotencyKey, now: int) -> str:
    """The number of a claim's token, by the time in the claim's reply: every repeated call has the same."""
    return f"{request.key}{now}"


class TokenStore:
    """The numbers of tokens in any project. Its methods raise ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, project: str, item: str, number: str, fence: int, agent: str) -> tuple[bool, bool, bool]:
        """Whether a token is the newest one for an item, whether the agent's claim with this fence is live, and whether
        a newer claim has followed."""
        return await self._store.run(_READ, project, number, item, fence, agent)
