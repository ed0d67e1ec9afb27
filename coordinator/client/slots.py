"""The slots of a fleet: its agents, and the jobs that they do."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from coordinator.client.core import Core
from coordinator.client.errors import FleetError
from coordinator.client.job import RELEASE_SECONDS, UNANSWERED, UNTOUCHED, Job
from coordinator.client.renewals import now

_log = logging.getLogger(__name__)


class Loop(Protocol):
    """A loop over jobs, as its slots see it."""

    def end(self) -> None:
        """No further jobs; those that run go on."""

    def offer(self, slot: Slot) -> None:
        """Gives a slot with a job to whoever waits in this loop."""

    def give_back_unbegun(self, job: Job, slot: Slot) -> None:
        """Nobody has begun to work on a job for long."""


class Slot:
    """One of the agents of a fleet. It does one job at a time, because an agent holds one claim."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.telling = asyncio.Lock()
        """For calls about its jobs, one at a time."""
        self.last_word: dict[str, Any] | None = None
        """The release of its last job, which the next claim makes."""
        self.granted: tuple[dict[str, Any], float] | None = None
        """A claim that has come with the end of its last job, and when it was asked for."""
        self.coming: tuple[Job, Loop] | None = None
        """The job that this has become, until the loop that it is for takes it."""
        self.found_none = False
        """Whether the end of its last job has claimed in vain."""
        self.unseen: tuple[dict[str, Any], float, int] | None = None
        """Arguments of a claim whose answer was not seen, when it was made, and how many requests were sent before."""
        self.rest = 0.0
        """Seconds until it is to claim again, because a budget is spent."""
        self.why = ""
        """The budget that kept it from claiming last; empty: none did."""


class Slots:
    """The slots of a fleet, one for each of ``agents``, shared by all of its loops, and the jobs that they do."""

    def __init__(self, core: Core, agents: Sequence[str]) -> None:
        self._core = core
        self.all = [Slot(agent) for agent in agents]
        self._free = deque(self.all)
        self._waiting: deque[asyncio.Future[Slot | None]] = deque()
        self.loops: set[Loop] = set()
        """Those that have not ended."""
        self.running: dict[Job, tuple[Loop, Slot, float]] = {}
        """Jobs that have not ended: their loop, their slot, and when work on them has to have begun."""
        self._looks_at = math.inf
        self._look: asyncio.TimerHandle | None = None
        """When it looks next whether work on them has begun: one timer for all, because nearly all have begun then."""
        self._quiet = asyncio.Event()
        self.stopped = False

    def add(self, agent: str) -> None:
        self.all.append(Slot(agent))
        self.give(self.all[-1])

    def stop(self) -> None:
        self.stopped = True
        for jobs in tuple(self.loops):
            jobs.end()

    def begun(self, job: Job, jobs: Loop, slot: Slot, seconds: float) -> None:
        """There is a job, whose work has to begin within this time."""
        by = now() + seconds
        self.running[job] = jobs, slot, by
        if by < self._looks_at:
            self._look_at(by)

    def _look_at(self, moment: float) -> None:
        if self._look is not None:
            self._look.cancel()
        self._looks_at = moment
        self._look = asyncio.get_running_loop().call_later(moment - now(), self._look_at_unbegun)

    def _look_at_unbegun(self) -> None:
        moment, self._looks_at, self._look = now(), math.inf, None
        for job, (jobs, slot, by) in tuple(self.running.items()):
            if job.entered:
                continue
            if by <= moment:
                jobs.give_back_unbegun(job, slot)
            elif by < self._looks_at:
                self._look_at(by)

    def ended(self, job: Job) -> None:
        self.running.pop(job, None)
        if self.stopped and not self.running:
            self._quiet.set()

    async def leave(self) -> None:
        """Gives back what is held: jobs whose work goes on, and the claims on finished items."""
        self.stop()
        for job in tuple(self.running):
            job.interrupt("the fleet was left", "handed_back")
            if not job.entered:
                self._core.background(job.leave())
        while self.running:
            self._quiet.clear()
            await self._quiet.wait()
        await self._core.settled()
        await asyncio.gather(*map(self.settle, self.all))
        if self._look is not None:
            self._look.cancel()

    async def settle(self, slot: Slot) -> None:
        """Gives back and says what the next claim of a slot would see to."""
        await self._recall(slot)
        if slot.last_word is not None:
            released, slot.last_word = slot.last_word, None
            try:
                await self._core.call("claim_item", {"releases": [released]}, agent=slot.agent)
            except FleetError as error:
                _log.warning("'%s' could not be released: %s", released["itemId"], error)

    async def _recall(self, slot: Slot) -> None:
        """Gives back what a claim whose answer was not seen has got, if it has."""
        if slot.unseen is None or slot.unseen[2] == self._core.sent.requests:  # the claim has reached nobody
            slot.unseen = None
            return
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # The same request id brings the recorded answer, without waiting, or takes the call's place away.
                answer = await self._core.call("claim_item", at_once(slot.unseen[0]), agent=slot.agent)
                if "releases" in slot.unseen[0]:
                    slot.last_word = None
                result = answer["claimResults"][0]
                if result["outcome"] == "success":
                    released = {"itemId": result["itemId"], "fenceToken": result["fenceToken"], "reason": UNTOUCHED}
                    await self._core.call("claim_item", {"releases": [released]}, agent=slot.agent)
        except (FleetError, TimeoutError) as error:
            _log.warning("a claim of %s may be held until its time is over: %s", slot.agent, f"{error}" or UNANSWERED)
        finally:
            slot.unseen = None

    async def take(self, takers: set[asyncio.Future[Slot | None]]) -> Slot | None:
        """The next that is free. Who waits for it is among ``takers`` meanwhile, and may be sent away with None."""
        if self._free:
            return self._free.popleft()
        waiter: asyncio.Future[Slot | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        takers.add(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and (slot := waiter.result()) is not None:
                self.give(slot)
            raise
        finally:
            takers.discard(waiter)

    def is_free(self, slot: Slot) -> bool:
        return slot in self._free

    def settle_alone(self, slot: Slot) -> None:
        """Settles a slot that no loop has, and frees it then: its next claim must not overtake that."""
        if self.is_free(slot):
            self._free.remove(slot)
        self._core.background(self.settle(slot)).add_done_callback(lambda _: self.give(slot))

    def give(self, slot: Slot) -> None:
        """Frees a slot; one that has a job already goes to the loop that this is for."""
        if slot.coming is not None:
            slot.coming[1].offer(slot)
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(slot)
                return
        self._free.append(slot)


def at_once(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same claim without a wait, which is no part of what a request id is bound to."""
    return {name: value for name, value in arguments.items() if name != "waitMs"}
