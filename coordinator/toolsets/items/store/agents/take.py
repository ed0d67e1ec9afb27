"""What a worker does with its items, each in one step: report on one; end one, claim the next and start it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Literal, NamedTuple

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

TAKEN = ("done", "repeated")
"""Outcomes of reports that were not refused."""
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


class Report(NamedTuple):
    """What an agent reports of its item, as ``lua/agents/reporting.lua`` takes it."""

    agent: str
    item: str
    """'': the one that it has claimed last."""
    ends: str
    """``ends_of`` the agent."""
    author: tuple[str, str]
    """Who reports, and how that was verified, as transitions have them."""
    kind: str
    """note, done, failed, handed_back or ask."""
    said: Sequence[object]
    used: Used | bool = False
    """For the item, since the last report."""
    fence: int = 0
    """Of the only claim that may report; 0: any of the agent."""
    most_ms: int = 0
    """For how long that is renewed at most; 0: as before."""


class Taken(msgspec.Struct, array_like=True):
    """What an agent has reported and been given."""

    now: int
    reported: Reported | Literal[False]
    claim: Claimed | Literal[False]
    """False: the report was refused. Else its outcome is ``success``, ``held``, ``more``, ``ended``,
    ``agent_draining`` or ``budget_exhausted``."""
    start: Advanced | Literal[False]
    """Of the item that was claimed."""
    begun: HeldItem | None = None
    """If the agent has an item."""


_TAKE = Script(LIBRARY, "take_next", Taken, rest=SETTLE)
_REPORT = Script(LIBRARY, "report_work", Reported, rest=SETTLE)


def waiting_key(agent: str) -> IdempotencyKey:
    """The request under which an agent waits for its next item. It has only one, so a repeated call waits with it."""
    return idempotency_key(agent, "work", "work_next")


def ends_of(agent: str) -> str:
    """Where it is recorded how an agent has ended its work on items."""
    return idempotency_key(agent, "ended", "work").key


def _bounds(only: Delegation | None) -> tuple[int, int]:
    """The fence of the only claim that a call is about, and for how long it may renew that; 0: any."""
    return (0, 0) if only is None else (only.fence, only.ttl_ms)


class TakeStore(ClaimStore):
    """Items one after the other, of any project."""

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
        include: str = "wnr",
        report: Report | None = None,
    ) -> Taken:
        """The item that an agent holds; if it holds none, the best one for a selector, claimed. Either is started.

        Args:
            renew_ms: for how long a claim that it has is renewed; 0: as before. ``PLACED``: it is not.
            only: the claim that alone counts; None: any. If it has ended, the outcome is ``ended``.
            include: as ``lua/reads/included.lua`` takes it.
            process: whose client may hang up, so that the item is given back; '': the answer counts as delivered.
            report: ends the item before, in the same step. Where it is refused, nothing else happens; what it has
                ended is not what is claimed.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the selector's parent or ancestor.
        """
        key = waiting_key(agent.id)
        waiting = pack((key.key, key.fingerprint, process, renew_ms, ends_of(agent.id), *_bounds(only)))
        try:
            return await self._change_by_schema(
                _TAKE,
                project,
                NO_KEY,
                *agent,
                ttl_ms,
                pack(selector),
                pack(author),
                include,
                waiting,
                pack(report) if report else "",
            )
        except ScriptFailure as failure:
            if failure.code != "NOT_FOUND":
                raise
            raise no_such_item(f"{'next.' if report else ''}{failure.detail}Id") from None

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

    async def report(self, project: str, report: Report) -> Reported:
        """Takes what an agent reports of its item, and nothing else."""
        return await self._change_by_schema(_REPORT, project, NO_KEY, pack(report))
