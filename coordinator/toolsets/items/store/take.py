"""What a worker does between two items, in one step: complete one, claim the next, start it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coordinator.store import Script, ScriptFailure
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents import Claimant
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, pack
from coordinator.toolsets.items.store.claims import Claimed, ClaimStore
from coordinator.toolsets.items.store.transitions import Advanced, TransitionStore

_QUEUE = 0


class Taken(msgspec.Struct, array_like=True):
    """Reply of ``take_next.lua``."""

    now: int
    completion: Advanced | Literal[False]
    """Of the item that was finished."""
    claim: Claimed | Literal[False]
    """False: the completion was refused. Else its outcome is ``success`` or ``no_match``."""
    start: Advanced | Literal[False]
    """Of the item that was claimed."""


_TAKE = Script(LIBRARY, "take_next", Taken, rest=SETTLE)


class TakeStore(ClaimStore, TransitionStore):
    """Items one after the other, of any project."""

    async def take_next(
        self,
        project: str,
        request: IdempotencyKey,
        agent: Claimant,
        ttl_ms: int,
        selector: Selector,
        author: tuple[str, str],
        finished: tuple[Any, ...] | None = None,
    ) -> Taken:
        """Completes an item, claims the best one for a selector and starts it.

        Nearly always in one step. Where the search takes several, the three follow one after the other; a repeated
        call with the same request goes on where the first one stopped.

        Args:
            author: who starts the item, and how that was verified, as transitions have them.
            finished: the transition that completes an item, as ``advance`` takes it.

        Raises:
            ToolFailure: as ``claim_next`` and ``advance``.
        """
        done = pack(finished) if finished else ""
        try:
            taken = await self._change_by_schema(
                _TAKE, project, request.slice(0), *agent, ttl_ms, pack(selector), done, pack(author)
            )
        except ScriptFailure as failure:
            if failure.code != "NOT_FOUND":
                raise
            raise no_such_item(f"selector.{failure.detail}Id") from None
        if not taken.claim or taken.claim.outcome != "more":
            return taken
        (taken.claim,) = (await self.claim_next(project, request.slice(1), agent, ttl_ms, selector, ())).claims
        if taken.claim.outcome == "success" and (taken.claim.role == _QUEUE or taken.claim.taken_over):
            start = (taken.claim.item, "start", agent.id, *author, "", taken.claim.fence)
            (taken.start,) = await self.advance(project, request.slice(2), [start])
        return taken
