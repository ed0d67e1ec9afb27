"""The slots of a fleet, and the jobs that they do."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from coordinator.client.core import Core
from coordinator.client.errors import FleetError
from coordinator.client.job import RELEASE_SECONDS, UNANSWERED, UNTOUCHED, Job
from coordinator.client.renewals import KeptClaim, now
from coordinator.client.slot import Loop, Slot

_log = logging.getLogger(__name__)


class Slots:
    """The slots of a fleet, one for each of ``agents``, shared by all of its loops, and the jobs that they do."""

    def __init__(self, core: Core, agents: Sequence[str]) -> None:
        self._core = core
        self.all: list[Slot[Job]] = [Slot(agent) for agent in agents]
        self._free = deque(self.all)
        self._waiting: deque[asyncio.Future[Slot[Job] | None]] = deque()
        self.loops: set[Loop[Job]] = set()
        """Those that have not ended."""
        self.running: dict[Job, tuple[Loop[Job], Slot[Job], float]] = {}
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

    def begun(self, job: Job, jobs: Loop[Job], slot: Slot[Job], seconds: float) -> None:
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

    def with_claim(self, claim: KeptClaim) -> list[Job]:
        """The job that has this claim, if it has not ended."""
        return [job for job in self.running if job.claim is claim]

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

    async def settle(self, slot: Slot[Job]) -> None:
        """Gives back and says what the next claim of a slot would see to."""
        await self._recall(slot)
        if slot.last_word is not None:
            released, slot.last_word = slot.last_word, None
            try:
                await self._core.call("claim_item", {"releases": [released]}, agent=slot.agent)
            except FleetError as error:
                _log.warning("'%s' could not be released: %s", released["itemId"], error)

    async def _recall(self, slot: Slot[Job]) -> None:
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

    async def take(self, takers: set[asyncio.Future[Slot[Job] | None]]) -> Slot[Job] | None:
        """The next that is free. Who waits for it is among ``takers`` meanwhile, and may be sent away with None."""
        if self._free:
            return self._free.popleft()
        waiter: asyncio.Future[Slot[Job] | None] = asyncio.get_running_loop().create_future()
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

    def is_free(self, slot: Slot[Job]) -> bool:
        return slot in self._free

    def settle_alone(self, slot: Slot[Job]) -> None:
        """Settles a slot that no loop has, and frees it then: its next claim must not overtake that."""
        if self.is_free(slot):
            self._free.remove(slot)
        self._core.background(self.settle(slot)).add_done_callback(lambda _: self.give(slot))

    def give(self, slot: Slot[Job]) -> None:
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
