"""What a worker does with its items, each in one step: complete one, claim the next and start it; report on it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Literal

import msgspec

from coordinator.store import Script, ScriptFailure
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, idempotency_key
from coordinator.toolsets.caller import Delegation
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.usage.budgets import Used
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, pack
from coordinator.toolsets.items.store.claims import Claimed, ClaimReply, ClaimStore
from coordinator.toolsets.items.store.included import Included
from coordinator.toolsets.items.store.transitions import TransitionStore

_QUEUE = 0
PLACED = -1
"""``renew_ms`` for a claim that this very call has placed."""


class HeldItem(msgspec.Struct, frozen=True):
    """What an agent is told of the item that it holds."""

    included: Included
    filled: Filled
    """What decides which notes the item needs."""
    drained: str = ""
    """The name under which the agent is drained."""
    budget: dict[str, Any] | None = None
    """The spent budget because of which the agent is to stop."""


class Taken(msgspec.Struct, array_like=True):
    """What an agent has finished and been given."""

    now: int
    completion: Advanced | Literal[False]
    """Of the item that was finished."""
    claim: Claimed | Literal[False]
    """False: the completion was refused. Else its outcome is ``success``, ``no_match`` or ``agent_draining``; of
    ``begin`` also ``held`` or ``more``."""
    start: Advanced | Literal[False]
    """Of the item that was claimed."""
    begun: HeldItem | None = None
    """Of ``begin``, if the agent has an item."""


class Reported(msgspec.Struct, array_like=True):
    """What became of an agent's report."""

    outcome: str
    """``done``; ``refused``; ``too_many_notes``; ``repeated``: it was reported before; ``ended``: something else was;
    ``other``: another agent holds the item; ``none``; ``not_found``."""
    id: str
    role: int
    refused: Advanced | str | Literal[False]
    """The transition that was refused; or how the work on the item has been ended before."""
    filled: Filled | Literal[False]
    """What decides which notes the item needs, as long as the agent holds it."""
    key: str | Literal[False]
    """Of the note that was written; or who holds the item."""
    drained: str = ""
    told: dict[str, Any] | Literal[False] = False
    """Of a note: why its agent is to stop, as in ``HeldItem``."""


_TAKE = Script(LIBRARY, "take_next", Taken, rest=SETTLE)
_REPORT = Script(LIBRARY, "report_work", Reported, rest=SETTLE)


def waiting_key(agent: str) -> IdempotencyKey:
    """The request under which an agent waits for its next item. It has only one, so a repeated call waits with it."""
    return idempotency_key(agent, "work", "work_next")


def _ends(agent: str) -> str:
    """Where it is recorded how an agent has ended its work on items."""
    return idempotency_key(agent, "ended", "work").key


def _bounds(only: Delegation | None) -> tuple[int, int]:
    """The fence of the only claim that a call is about, and for how long it may renew that; 0: any."""
    return (0, 0) if only is None else (only.fence, only.ttl_ms)


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
                _TAKE, project, request.slice(0), *agent, ttl_ms, pack(selector), done, pack(author), "", ""
            )
        except ScriptFailure as failure:
            if failure.code != "NOT_FOUND":
                raise
            raise no_such_item(f"selector.{failure.detail}Id") from None
        if not taken.claim or taken.claim.outcome != "more":
            return taken
        (taken.claim,) = (await self.claim_next(project, request.slice(1), agent, ttl_ms, selector, ())).claims
        if taken.claim.outcome == "success" and (taken.claim.further.role == _QUEUE or taken.claim.further.takeover):
            start = (taken.claim.item, "start", agent.id, *author, "", taken.claim.fence)
            (taken.start,) = await self.advance(project, request.slice(2), [start])
        return taken

    async def begin(
        self,
        project: str,
        agent: Claimant,
        ttl_ms: int,
        selector: Selector,
        author: tuple[str, str],
        renew_ms: int,
        process: str = "",
        only: Delegation | None = None,
        include: str = "inr",
    ) -> Taken:
        """The item that an agent holds; if it holds none, the best one for a selector, claimed. Either is started.

        Args:
            renew_ms: for how long a claim that it has is renewed; 0: as before. ``PLACED``: it is not.
            only: the claim that alone counts; None: any. If it has ended, the outcome is ``ended``.
            include: as ``lua/reads/included.lua`` takes it.
            process: whose client may hang up, so that the item is given back; '': the answer counts as delivered.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the selector's parent or ancestor.
        """
        key = waiting_key(agent.id)
        waiting = pack((key.key, key.fingerprint, process, renew_ms, _ends(agent.id), *_bounds(only)))
        try:
            return await self._change_by_schema(
                _TAKE, project, NO_KEY, *agent, ttl_ms, pack(selector), "", pack(author), include, waiting
            )
        except ScriptFailure as failure:
            if failure.code != "NOT_FOUND":
                raise
            raise no_such_item(f"{failure.detail}Id") from None

    def search(
        self,
        project: str,
        agent: Claimant,
        ttl_ms: int,
        selector: Selector,
        wait_ms: int = 0,
        only: bool = True,
        process: str = "",
    ) -> Coroutine[Any, Any, ClaimReply]:
        """Claims, or waits, where ``begin`` has found nothing at once. What it claims has to be begun then."""
        return self.claim_next(project, waiting_key(agent.id), agent, ttl_ms, selector, (), wait_ms, only, process)

    async def report(
        self,
        project: str,
        agent: str,
        item: str,
        author: tuple[str, str],
        kind: str,
        said: Sequence[object],
        used: Used | bool = False,
        only: Delegation | None = None,
    ) -> Reported:
        """Takes what an agent reports of its item ('': the one that it has), under its claim.

        Args:
            only: the claim that alone may report; None: any of the agent.
            kind: note, done, failed, handed_back or ask.
            said: what ``report_work.lua`` says.
            used: for the item, since the last report.
        """
        words = item, *_bounds(only), _ends(agent), pack(author), kind, pack(said), pack(used) if used else ""
        return await self._change_by_schema(_REPORT, project, NO_KEY, agent, *words)
