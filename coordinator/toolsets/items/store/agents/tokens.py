"""Tokens for claims: an item has one, each by its number, and each that is made replaces the one before."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.store.base import LIBRARY


class TokenState(NamedTuple):
    """What a token is worth now."""

    newest: bool
    live: bool
    """Whether the agent's claim with its fence is live."""
    older: bool
    """Whether a newer claim has followed."""


_READ = Script(LIBRARY, "read_token", TokenState)


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

    async def read(self, project: str, item: str, number: str, fence: int, agent: str) -> TokenState:
        """What a token for an item is worth, of this agent and with this fence."""
        return await self._store.run(_READ, project, number, item, fence, agent)
