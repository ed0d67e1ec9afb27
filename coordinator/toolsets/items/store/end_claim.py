"""Ends claims in place of their holders, for operators."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.actor import Attribution
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, BaseStore, pack


class EndedClaim(NamedTuple):
    """What became of a claim that was to be ended."""

    outcome: str
    """``ended``; ``not_claimed``: nobody holds the item; ``stale_fence``: another claim has followed; ``not_found``, or
    ``ambiguous`` of a prefix."""
    agent: str
    """Whose claim it was; '' for nobody's."""
    fence: int
    """Of the last claim on the item. If it was ended, later writes with it are refused."""
    role: int


_END = Script(LIBRARY, "end_claim", EndedClaim, rest=SETTLE)


class ClaimEnder(BaseStore):
    """Ends claims of any project."""

    async def end_claim(
        self,
        project: str,
        request: IdempotencyKey,
        item: str,
        by: Attribution,
        reason: str,
        *,
        kind: str = "user",
        failed: bool = False,
        fence: int = 0,
    ) -> EndedClaim:
        """Ends the live claim on an item at once.

        The item is offered to others in the same step. The history says who ended the claim and why.

        Args:
            item: id in the inner form, as ``resolve`` returns it.
            reason: why; kept in the history.
            kind: what the person is, as an actor.
            failed: whether it counts as an attempt (on an item in work or review); else as handed back.
            fence: only the claim with this fence is ended; 0: any.
        """
        counted, author = "failed" if failed else "handed_back", pack((by.actor, by.verification))
        return await self._change(_END, project, request, item, fence, counted, reason, author, kind)
