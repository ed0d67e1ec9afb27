"""work_next, also with the end of an item: the item that an agent holds, else the best one, claimed and started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from msgspec import UNSET

from coordinator.toolsets.actor import attribution
from coordinator.toolsets.caller import Delegation
from coordinator.toolsets.items.contract.claims import Selector
from coordinator.toolsets.items.metrics.claims import CLAIMS
from coordinator.toolsets.items.rules import selection
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.usage.budgets import why_exhausted
from coordinator.toolsets.items.rules.values import capabilities, not_blank
from coordinator.toolsets.items.store.agents.presence import Claimant, claimant
from coordinator.toolsets.items.store.agents.take import (
    PLACED,
    TAKEN,
    HeldItem,
    Report,
    Reported,
    Taken,
    TakeStore,
    waiting_key,
)
from coordinator.toolsets.items.store.claims import Claimed, ClaimReply
from coordinator.toolsets.items.tools import ClaimServices
from coordinator.toolsets.items.tools.claims.tell import paused
from coordinator.toolsets.items.tools.included import rendered
from coordinator.toolsets.items.tools.shared import held_back
from coordinator.toolsets.metrics import count_conflict
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Call, Services
from coordinator.toolsets.worker.contract.work import TTL_SECONDS, WorkNext, WorkNextResult
from coordinator.toolsets.worker.tools.agents import agent_of, claim_of, conflict
from coordinator.toolsets.worker.tools.refusals import draining, why_not_started, why_to_stop
from coordinator.toolsets.worker.tools.shown import add_parts, needed_notes

_INCLUDED = "wnr"
"""As ``lua/reads/included.lua`` takes it."""


@dataclass(slots=True)
class Ending:
    """The end of an item with which the next one is asked for: one step of the store."""

    report: Report
    instead: Callable[[Report, Reported], Report]
    """What to report in place of a report that was not taken. Raises ToolFailure if it was refused."""
    reply: Reported | None = None
    """Once the end is recorded."""

    def recorded(self, reply: Reported) -> bool:
        """Whether a report that was answered so was taken; else there is another one to make."""
        if reply.outcome in TAKEN:
            self.reply = reply
        else:
            self.report = self.instead(self.report, reply)
        return self.reply is not None


class _Search(NamedTuple):
    """What a call asks for, as the store takes it."""

    agent: Claimant
    author: tuple[str, str]
    selector: selection.Selector
    ttl_ms: int
    renew_ms: int
    only: Delegation | None
    """The only claim that the call may be about; None: any."""
    offset: int
    """How many of the notes and results of an item that the agent holds are skipped."""
    ending: Ending | None = None
    """What the call ends before."""


class Next:
    def __init__(self, store: TakeStore, claiming: ClaimServices, services: Services) -> None:
        self._store = store
        self._claiming = claiming
        self._services = services
        self._longest_ms = services.settings.longest_wait_ms

    async def work_next(
        self, call: Call, args: WorkNext, place: str = "", ending: Ending | None = None
    ) -> WorkNextResult:
        """The item that the agent holds, else the best one; waits for one.

        Args:
            place: where the arguments are, for errors.
            ending: what the call ends before. Raises ToolFailure if that is refused.
        """
        wanted = await self._asked(call, args, place, ending)
        if args.wait_ms and wanted.only is None:
            claim, taken = await self._waited(call, wanted, min(args.wait_ms, self._longest_ms))
        else:
            claim, taken = await self._at_once(call, wanted)
        if taken is None or (begun := taken.begun) is None:
            return _without_item(claim)
        self._claiming.expiring.expect(call.project, claim.expires)
        if args.offset and claim.outcome != "held":  # it skips nothing of an item that it has not seen
            wanted = wanted._replace(offset=0)
            taken = await self._begin(call, wanted, PLACED)
            if (begun := taken.begun) is None:
                return _without_item(_claim_of(taken))
        return self._shown(begun, taken.start, claim, wanted.offset)

    async def _asked(self, call: Call, args: WorkNext, place: str, ending: Ending | None) -> _Search:
        who = await agent_of(call, self._services.resolve_actor)
        by, only = attribution(who), claim_of(call)
        if only is not None:  # it gets that item anyway, and is not the one to say what the agent can do
            args = WorkNext(ttl_seconds=args.ttl_seconds, offset=args.offset)
        able = None if args.capabilities is None else capabilities(args.capabilities, f"{place}capabilities")
        filters = Selector(tags=args.tags, type=args.type, parent_id=args.parent_id)
        above = not_blank(args.parent_id)
        parent = await self._store.resolve_one(call.project, above, f"{place}parentId") if above else ""
        return _Search(
            claimant(who, able),
            (by.actor, by.verification),
            selection.selector(filters, parent, "", place, offered=True),
            (args.ttl_seconds or TTL_SECONDS) * 1000,
            (args.ttl_seconds or 0) * 1000,
            only,
            args.offset,
            ending,
        )

    async def _at_once(self, call: Call, wanted: _Search) -> tuple[Claimed, Taken | None]:
        """The claim, and what the agent works on then; None: on nothing."""
        taken = await self._begin(call, wanted, wanted.renew_ms)
        claim = _claim_of(taken)
        if claim.outcome != "more":
            self._count(claim)
            if claim.outcome == "ended" and (kind := conflict(wanted.only, held=False)):
                count_conflict(kind, call.project, "")
            return claim, taken
        claim = (await self._store.search(call.project, *_search(wanted))).claims[0]
        self._count(claim)
        return await self._placed(call, wanted, claim)

    async def _waited(self, call: Call, wanted: _Search, wait_ms: int) -> tuple[Claimed, Taken | None]:
        """As ``_at_once``; waits for an item if there is none."""
        parking, record = self._claiming.parking, waiting_key(wanted.agent.id)
        begun: Taken | None = None

        async def run(left_ms: int, only: bool) -> ClaimReply:
            nonlocal begun
            begun = await self._begin(call, wanted, wanted.renew_ms, parking.process)
            claim = _claim_of(begun)
            if claim.outcome != "more":
                return ClaimReply(begun.now, [claim], [])
            begun = None
            return await self._store.search(call.project, *_search(wanted), left_ms, only, parking.process)

        reply = await parking.claim(call, record, run, wait_ms)
        claim = reply.claims[0]
        if not record.replayed:
            self._count(claim)
        if begun is not None:
            return claim, begun
        if record.replayed and claim.outcome != "success":
            await self._end_wait(call, wanted)
        return await self._placed(call, wanted, claim)

    async def _placed(self, call: Call, wanted: _Search, claim: Claimed) -> tuple[Claimed, Taken | None]:
        """Begins the item of a claim that was placed in a step before."""
        if claim.outcome != "success":
            return claim, None
        taken = await self._begin(call, wanted, PLACED)
        now = _claim_of(taken)
        if now.outcome == "held" and now.item == claim.item:
            return claim, taken
        await self._end_wait(call, wanted)  # another session of the agent has ended that work already
        return now, taken

    async def _end_wait(self, call: Call, wanted: _Search) -> None:
        """Ends what this call has parked: what woke it may be the answer of an earlier wait of the agent."""
        await self._store.end_wait(
            call.project, waiting_key(wanted.agent.id), self._claiming.parking.process, keep=False
        )

    async def _begin(self, call: Call, wanted: _Search, renew_ms: int, process: str = "") -> Taken:
        ending = wanted.ending
        while True:
            report = ending.report if ending and ending.reply is None else None
            taken = await self._store.begin(
                call.project,
                wanted.agent,
                wanted.ttl_ms,
                wanted.selector,
                wanted.author,
                renew_ms,
                process,
                wanted.only,
                f"{_INCLUDED}{wanted.offset or ''}",
                report,
            )
            if ending is None or not taken.reported:
                return taken
            if ending.recorded(taken.reported):
                # It may be offered again, also while the call waits: a repeated call would end it once more.
                wanted.selector.other_than = taken.reported.id
                return taken

    def _count(self, claim: Claimed) -> None:
        if claim.outcome != "ended":
            CLAIMS.cells["renewed" if claim.outcome == "held" else claim.outcome,].value += 1.0

    def _shown(self, begun: HeldItem, start: Advanced | Literal[False], claim: Claimed, offset: int) -> WorkNextResult:
        schemas = self._store.schemas.current
        result = WorkNextResult(outcome="item")
        add_parts(result, rendered(begun.included, _INCLUDED, schemas, offset=offset))
        role = ROLE_NAMES[begun.included.view.role] if begun.included.view else "work"
        result.notes_needed = needed_notes(begun.filled, role, schemas)
        result.claim_expires_at = iso(claim.expires)
        result.held = True if claim.outcome == "held" else UNSET
        result.takeover = True if claim.further.takeover else UNSET
        if start and start.reason:
            result.problem = why_not_started(start)
        result.stop, result.stop_reason = why_to_stop(begun.drained, begun.budget)
        return result


def _search(wanted: _Search) -> tuple[Claimant, int, selection.Selector]:
    return wanted.agent, wanted.ttl_ms, wanted.selector


def _claim_of(taken: Taken) -> Claimed:
    """The claim of a call whose report, if it has one, was not refused."""
    return cast("Claimed", taken.claim)


def _without_item(claim: Claimed) -> WorkNextResult:
    if claim.outcome == "agent_draining":
        return WorkNextResult(outcome="stop", stop_reason=draining(claim.further.drained))
    if claim.outcome == "budget_exhausted":
        return WorkNextResult(
            outcome="stop", stop_reason=why_exhausted(claim.further.budget or {}), retry_after_ms=claim.expires or UNSET
        )
    if claim.outcome == "project_paused":
        return WorkNextResult(outcome="none", paused=paused(claim.further.paused), retry_after_ms=claim.expires)
    if claim.outcome == "ended":
        return WorkNextResult(outcome="stop", stop_reason="the claim that your token is for has ended")
    return WorkNextResult(
        outcome="none",
        held_back=held_back(claim.further.held_back),
        retry_after_ms=claim.expires or UNSET,
    )
