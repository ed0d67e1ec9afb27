"""The jobs of a worker: the loop that claims an item whenever a slot is free."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from coordinator.backoff import Backoff
from coordinator.client.calls import WAIT_MS, away_seconds
from coordinator.client.core import Core
from coordinator.client.errors import FleetError, Unavailable
from coordinator.client.held_back import counted, described
from coordinator.client.job import Job
from coordinator.client.renewals import KeptClaim, now
from coordinator.client.slot import Outcome, Slot
from coordinator.client.slots import Slots, at_once
from coordinator.client.tools import new_request_id

T = TypeVar("T")
GOES_ON_SECONDS = 0.02
"""A slot that has not claimed again after that says alone what came of its last job."""
UNENTERED_SECONDS = 15.0
"""A job whose work has not begun after that is given back: nobody is going to do it."""
_PARTS = ("item", "notes", "results")
_PATIENCE = 3
"""So many failures in a row change nothing; each further one doubles the pause before the next claim."""
_LONGEST_PAUSE = 60.0
UNWANTED = "no more jobs are wanted"
FAILED = ("failed", "gave_up")
NOTHING = ("no_match", "project_paused")
"""Outcomes of claims for which it is worth waiting."""
SPENT_SECONDS = 300.0
"""The longest pause of an agent whose budget is spent: it may be raised."""

_log = logging.getLogger(__name__)


class Jobs:
    """Jobs as they come, an async iterator: ``async for job in fleet.jobs(...)``. It ends when the fleet is stopped,
    when ``until`` is over, or, without ``wait``, when nothing is offered.

    Attributes:
        held_back: how many items are held back, by reason (``heldBack`` of ``claim_item``), when the last claim got
            nothing; empty if it got a job, or nothing is held back.
        paused: who has paused the project, since when and why (``paused`` of ``claim_item``), when the last claim got
            nothing because of that; None: it did not.
        got_nothing: is called when a claim has got nothing. Default: the first reason why is logged.

    Args:
        selector: as ``claim_item`` takes it.
        until: waits for the end of what the jobs are for; None: they have no end.
    """

    def __init__(
        self,
        core: Core,
        slots: Slots,
        selector: dict[str, Any],
        capabilities: Sequence[str] | None,
        ttl: int,
        grace: float,
        until: Callable[[], Coroutine[Any, Any, object]] | None,
        wait: bool,
        raises: bool,
    ) -> None:
        self._core, self._slots = core, slots
        self._entry = {"selector": selector, "ttlSeconds": ttl}
        self._claims: dict[str, Any] = {"claims": [self._entry], "start": True, "include": [*_PARTS]}
        """Arguments of a call that claims and starts an item, without ``requestId``."""
        if capabilities is not None:
            self._claims["capabilities"] = [*capabilities]
        self._ttl, self._grace, self._patience = ttl, grace, min(UNENTERED_SECONDS, ttl / 3)
        self._until, self._wait, self._raises = until, wait, raises
        self._watch: asyncio.Task[object] | None = None
        self._wire = core.url, core.token, core.project
        self.event_loop: asyncio.AbstractEventLoop | None = None
        self._ended, self._over = False, asyncio.Event()
        self._takers: set[asyncio.Future[Slot[Job] | None]] = set()
        self._ready: deque[Slot[Job]] = deque()
        """Slots with a job that nobody has taken yet."""
        self.promised = 0
        """How many of those who wait for a slot are to get the job that the end of another one claims."""
        self._interrupted = asyncio.Event()
        """Set when a job is ready that a loop is to take which waits for the fleet, or there are to be no more."""
        self.changed = asyncio.Event()
        """Set when there is one fewer, or a job that is ready."""
        self.eager = False
        """Whether the loop takes each job at once, however many there are."""
        self._failures = 0
        self._away = 0
        self._empty = False
        self.held_back: dict[str, int] = {}
        self.paused: dict[str, str] | None = None
        self.got_nothing: Callable[[], None] = self._explain
        self._explained = False
        slots.loops.add(self)
        if slots.stopped:
            self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Job:
        self._core.check_process()
        if self.event_loop is None:
            self.event_loop = asyncio.get_running_loop()
        if self._until is not None and self._watch is None:
            self._watch = self._core.background(self._until())
            self._watch.add_done_callback(lambda _: self._end())
        while not self._ended:
            if self._failures > _PATIENCE:
                pause = Backoff(1.0, _LONGEST_PAUSE, (0.8, 1.2)).after(self._failures - _PATIENCE - 1)
                await self._before_end(asyncio.sleep(pause))
            slot = self._ready.popleft() if self._ready else await self._slots.take(self._takers)
            if slot is None:
                break
            if self._ended:
                self._slots.give(slot)
                break
            self._empty = False
            if slot.coming is not None and slot.coming[0].is_whole:
                (come, _), slot.coming = slot.coming, None
                return come
            if (job := await self._claim(slot)) is not None:
                return job
            if self._empty and not self._wait and not await self._come():
                break
        self.end()
        if self._watch is not None and self._watch.done() and not self._watch.cancelled():
            self._watch.result()  # what was waited for may not exist
        raise StopAsyncIteration

    async def _come(self) -> bool:
        """Whether calls that end jobs have claimed further ones; waits for their answers."""
        while self.promised and not self._ready and not self._ended:
            self.changed.clear()
            await self._before_end(self.changed.wait())
        return bool(self._ready)

    def end(self) -> None:
        """No further jobs; those that run go on."""
        self._end()
        if self._watch is not None:
            self._watch.cancel()
        self._slots.loops.discard(self)

    def _end(self) -> None:
        self._ended = True
        self._over.set()
        self._interrupted.set()
        for waiter in self._takers:
            if not waiter.done():
                waiter.set_result(None)
        while self._ready:
            self._return(self._ready[0])

    async def _claim(self, slot: Slot[Job]) -> Job | None:
        """A job for this slot, which the end of the job frees; None: there was none, or it could not be begun."""
        if slot.coming is not None:
            (job, _), slot.coming = slot.coming, None
            return await self._whole(job)
        try:
            granted = await self._granted(slot)
        except Unavailable as error:
            self._slots.give(slot)
            if not self._wait:
                raise
            if not self._away:
                _log.warning("no jobs for now: %s", error)
            self._away += 1
            await self._before_end(asyncio.sleep(away_seconds(self._away - 1)))
            return None
        except FleetError:  # it was refused, so it holds nothing
            slot.unseen = None
            self._free(slot)
            raise
        except BaseException:
            self._free(slot)
            raise
        if granted is None:
            self._free(slot)
            return None
        job = self._begin(slot, *granted)
        if self._ended:
            job.interrupt(UNWANTED, "handed_back")
            await job.leave()
            return None
        return await self._whole(job)

    def _begin(self, slot: Slot[Job], granted: dict[str, Any], sent: float) -> Job:
        job = Job(self._core, granted, self, slot, sent, self._raises)
        self._slots.begun(job, self, slot, self._patience)
        return job

    async def _whole(self, job: Job) -> Job | None:
        """The job, if it could be begun, with all that belongs to it."""
        try:
            if not job.is_whole:
                await job.check_claim()
                await job.read_whole()
        except FleetError as error:
            await job.leave(error)
            return None
        except BaseException as error:
            await job.leave(error)
            raise
        return job

    async def _granted(self, slot: Slot[Job]) -> tuple[dict[str, Any], float] | None:
        """A claim that succeeded, and when it was asked for; None: there was none."""
        if slot.unseen is not None and slot.unseen[0]["claims"][0] is not self._entry:
            await self._slots.settle(slot)  # it was for another loop
        if slot.unseen is not None:
            # That call may have got an item: the same request brings the recorded answer.
            arguments, sent, before = slot.unseen
            result = await self._asked(slot, at_once(arguments), sent, before)
            if result["outcome"] == "success":
                return self._outcome(slot, result, sent)
        arguments, sent = {**self._claims, "requestId": new_request_id()}, now()
        if slot.last_word is not None:
            arguments["releases"] = [slot.last_word]
        found_none, slot.found_none = slot.found_none, False
        if not found_none or not self._wait:
            # Without a wait the call is much cheaper, and while there is work it gets some.
            result = await self._asked(slot, arguments, sent)
            if result["outcome"] not in NOTHING or not self._wait or self._ready or self._ended:
                return self._outcome(slot, result, sent)
        arguments, sent = {**self._claims, "requestId": new_request_id(), "waitMs": WAIT_MS}, now()
        if not (self._ready or self._ended):
            self._interrupted.clear()
        waited = await self._before_end(self._asked(slot, arguments, sent), self._interrupted)
        return None if waited is None else self._outcome(slot, waited, sent)

    async def _asked(
        self, slot: Slot[Job], arguments: dict[str, Any], sent: float, before: int | None = None
    ) -> dict[str, Any]:
        """The result of a claim."""
        slot.unseen = arguments, sent, self._core.sent.requests if before is None else before
        answer = await self._core.look(arguments, slot.agent)
        self._away = 0
        if "releases" in arguments:
            slot.last_word = None
        result: dict[str, Any] = answer["claimResults"][0]
        self._note(result)
        return result

    def _outcome(self, slot: Slot[Job], result: dict[str, Any], sent: float) -> tuple[dict[str, Any], float] | None:
        """The claim, if it has succeeded; else what follows of that."""
        slot.unseen = None
        if result["outcome"] == "success":
            slot.why = ""
            return result, sent
        self._empty = True
        if result["outcome"] == "agent_draining":
            _log.warning("%s is drained by an operator and claims no more", slot.agent)
            self.end()
        elif result["outcome"] == "budget_exhausted":
            self._spent(slot, str(result["error"]), result.get("retryAfterMs", 0) / 1000)
        return None

    def _note(self, result: dict[str, Any]) -> None:
        self.held_back = counted(result) if "heldBack" in result else {}
        if (pause := result.get("paused")) != self.paused:
            self.paused = pause
            if pause is not None:
                why = f": {pause['reason']}" if pause["reason"] else ""
                _log.warning("the project is paused by %s%s", pause["by"], why)
        if result["outcome"] == "no_match":
            self.got_nothing()

    def _explain(self) -> None:
        if self.held_back and not self._explained:
            self._explained = True
            _log.info("nothing is offered: %s", described(self.held_back))

    def _spent(self, slot: Slot[Job], why: str, seconds: float) -> None:
        """A budget keeps the agent of a slot from claiming: it rests, the others go on."""
        if not self._wait:
            _log.warning("%s claims no more: %s", slot.agent, why)
            return
        # Also where it does not end by itself, or not soon: it may be raised.
        slot.rest = min(seconds or SPENT_SECONDS, SPENT_SECONDS) * random.uniform(1.0, 1.1)
        if slot.why != why:
            slot.why = why
            _log.warning("%s claims nothing for now: %s", slot.agent, why)

    def _free(self, slot: Slot[Job]) -> None:
        """Frees a slot without a job, settled: a claim whose answer was not seen may hold an item."""
        if slot.rest:
            asyncio.get_running_loop().call_later(slot.rest, self._slots.give, slot)
            slot.rest = 0.0
        elif slot.unseen is None and slot.last_word is None:
            self._slots.give(slot)
        else:
            self._slots.settle_alone(slot)

    def keep(self, slot: Slot[Job], granted: Mapping[str, Any], sent: float) -> KeptClaim:
        if not slot.actor:
            slot.actor = self._core.actor(granted["claimedBy"]) or {}
        wire, ttl, item, fence = self._wire, self._ttl, granted["itemId"], granted["fenceToken"]
        return KeptClaim(wire, slot.actor, item, fence, ttl, sent, self._grace, self._on_lost, self._on_stop)

    def _on_lost(self, claim: KeptClaim, why: str) -> None:
        self._tell(self._lost, claim, why)

    def _on_stop(self, claim: KeptClaim, why: str, spent: bool) -> None:
        self._tell(self._stopped, claim, why, spent)

    def _tell(self, what: Callable[..., None], *said: object) -> None:
        """Calls it in the loop; from a thread, when the loop may be closed."""
        if self.event_loop is not None:
            with contextlib.suppress(RuntimeError):
                self.event_loop.call_soon_threadsafe(what, *said)

    def _lost(self, claim: KeptClaim, why: str) -> None:
        for job in self._slots.with_claim(claim):
            job.interrupt(why)

    def _stopped(self, claim: KeptClaim, why: str, spent: bool) -> None:
        """A renewal has said that the agent of a job is to claim no more, or to end its work."""
        for job in self._slots.with_claim(claim):
            if spent:
                job.halt(why)
            elif not self._ended:
                _log.warning("no more jobs: %s", why)
                self.end()

    def next_claim(self, slot: Slot[Job], outcome: Outcome, asked: bool) -> Mapping[str, Any]:
        if slot.promised:
            self._settle(slot)
        if slot.granted is not None:  # by a call that was repeated
            return {}
        if self._ended or self._ready or self._failures + (outcome in FAILED) > _PATIENCE:
            return {}
        if not (asked or self.eager or sum(not taker.done() for taker in self._takers) > self.promised):
            return {}
        self.promised += 1
        slot.promised = True
        return self._claims

    def _settle(self, slot: Slot[Job]) -> None:
        """Nobody waits any more for what the end of the job of a slot claims."""
        self.promised -= 1
        slot.promised = False
        self.changed.set()

    def hear(self, slot: Slot[Job], result: dict[str, Any], sent: float) -> None:
        self._away, self.held_back = 0, {}
        if result["outcome"] != "success" or self.paused:
            self._note(result)
        slot.granted = self._outcome(slot, result, sent)
        slot.found_none = result["outcome"] in NOTHING

    def leave(self, slot: Slot[Job], released: dict[str, Any]) -> bool:
        if self._ended:
            return False
        slot.last_word, slot.found_none = released, False
        asyncio.get_running_loop().call_later(GOES_ON_SECONDS, self._say_alone, slot, released)
        return True

    def _say_alone(self, slot: Slot[Job], released: dict[str, Any]) -> None:
        if slot.last_word is released and self._slots.is_free(slot):
            self._slots.settle_alone(slot)

    def free(self, job: Job, slot: Slot[Job]) -> None:
        if slot.promised:
            self._settle(slot)
        self._slots.ended(job)
        if job.outcome == "done":
            self._failures = 0
        elif job.outcome in FAILED:
            self._failures += 1
        if slot.granted is not None:
            granted, slot.granted = slot.granted, None
            slot.coming = self._begin(slot, *granted), self
        if slot.rest or self._ended:
            self._free(slot)
        else:
            self._slots.give(slot)

    def offer(self, slot: Slot[Job]) -> None:
        for taker in self._takers:
            if not taker.done():
                taker.set_result(slot)
                return
        self._ready.append(slot)
        self._interrupted.set()
        self.changed.set()
        if self._ended:
            self._return(slot)

    def _return(self, slot: Slot[Job]) -> None:
        """Gives a job back that nobody takes."""
        self._ready.remove(slot)
        if slot.coming is not None:
            (job, _), slot.coming = slot.coming, None
            job.interrupt(UNWANTED, "handed_back")
            self._core.background(job.leave())

    def give_back_unbegun(self, job: Job, slot: Slot[Job]) -> None:
        if slot in self._ready and slot.coming is not None and slot.coming[0] is job:
            self._return(slot)
        elif job.outcome is None and not job.lost:  # else it is being given back
            _log.warning("the work on '%s' (%s) was not begun: use `async with job`; it is released", job.title, job.id)
            job.interrupt("the work was not begun", "handed_back")
            self._core.background(job.leave())

    async def _before_end(self, work: Coroutine[Any, Any, T], end: asyncio.Event | None = None) -> T | None:
        """The result, or None if the jobs end first, or ``end`` is set."""
        task = asyncio.create_task(work)
        over = asyncio.create_task((end or self._over).wait())
        try:
            await asyncio.wait((task, over), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            over.cancel()
            if not task.done():
                task.cancel()
