"""Renews claims from a thread of its own, so that a program's busy event loop does not cost it a claim.

One thread serves all fleets of the process and ends with the last of them. It has an event loop and connections of its
own. A claim is renewed when a third of its time is over, a little less or more, with its fence. Time counts from the
moment at which a request was *sent*, by a clock that goes on while the machine sleeps; no remote clock is trusted. Any
answer but success means that the claim is lost, and so does none until ``deadline``: then the work has to end, early
enough that it has ended when another agent may get the item.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import msgspec

from coordinator.client.errors import FleetError
from coordinator.client.retries import Retryable
from coordinator.client.tools import new_request_id
from coordinator.client.wire import Wire

_log = logging.getLogger(__name__)
ENDS_BY = 0.95
"""The share of a claim's time by which the work on the item has ended."""
_TURN_SECONDS = 0.05
"""How often claims are looked at, at most."""
_AT_A_TIME = 16
_ATTEMPT_SECONDS = 5.0
_END_SECONDS = 10.0
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


now: Callable[[], float] = partial(time.clock_gettime, _CLOCK)
"""Seconds by a clock that nobody sets, and that goes on while the machine sleeps (where the system has one)."""


class KeptClaim(msgspec.Struct, eq=False):
    """A claim that is kept, once it is ``placed``."""

    wire: tuple[str, str, str]
    """Makes a ``Wire`` for the thread; equal ones share connections."""
    actor: dict[str, str]
    item: str
    fence: int
    ttl: int
    sent: float
    """When the request that got it, or has renewed it, was sent, as ``now()``."""
    grace: float
    """Seconds that the work needs to end when it is told to."""
    lost: Callable[[KeptClaim, str], None]
    """Called in the thread, once, with the claim and a reason, when it is lost."""
    stop: Callable[[KeptClaim, str, bool], None]
    """Called in the thread, with the claim, a reason and whether a budget is spent, when the agent is to claim no
    more."""
    renewing: bool = False
    due: float = 0.0
    """When it is to be renewed."""

    def placed(self, sent: float) -> None:
        """A request that was sent at this time has placed or renewed it."""
        self.sent, self.due = sent, sent + self.ttl * (0.3 + random.random() / 30)

    @property
    def deadline(self) -> float:
        """When it is lost, unless it was renewed before."""
        return self.sent + max(self.ttl * 2 / 3, self.ttl * ENDS_BY - self.grace)


class Keeper:
    """The thread. ``Keeper.hired()`` gives the one of the process, and ``leave`` has to follow."""

    _one: ClassVar[Keeper | None] = None
    _hiring: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._users = 0
        self._claims: set[KeptClaim] = set()
        """Other threads add and discard, which is one step; whoever goes through them needs a copy."""
        self.forget = self._claims.discard
        """Renews a claim no more; an answer that is under way is ignored."""
        self._wires: dict[tuple[str, str, str], Wire] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.looks_at = 0.0
        """When the thread looks at the claims next."""
        self._ended = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet-renewals", daemon=True)

    @classmethod
    def hired(cls) -> Keeper:
        """The keeper of the process, started if need be."""
        with cls._hiring:
            if cls._one is None:
                cls._one = cls()
                cls._one._thread.start()
                cls._one._ready.wait()
            cls._one._users += 1
            return cls._one

    async def leave(self) -> None:
        """A user of ``hired`` needs it no longer; returns when the thread has ended, if it was the last one."""
        with self._hiring:
            self._users -= 1
            if self._users:
                return
            Keeper._one = None
        self._ended = True
        self.wake()
        await asyncio.to_thread(self._thread.join, _END_SECONDS)

    @classmethod
    def forget_parent(cls) -> None:
        """In a child process: the thread is not there, and nobody may be about to hire it."""
        cls._one, cls._hiring = None, threading.Lock()

    def keep(self, claim: KeptClaim) -> None:
        """Renews this claim from now on. Cheap: the thread is woken only if it would look too late, which it would not
        for a claim that follows another one with the same time."""
        self._claims.add(claim)
        if claim.due + claim.ttl / 30 < self.looks_at:
            self.wake()

    def renew_soon(self, claim: KeptClaim) -> None:
        """Renews it at once, for what the answer may say."""
        claim.due = now()
        self.wake()

    def wake(self) -> None:
        """The thread looks at the claims at once."""
        if self._loop is not None and self._wake is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    def _run(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        while not self._ended:
            self._wake.clear()
            moment = now()
            self.looks_at = moment + 3600.0
            claims = sorted((claim for claim in self._claims.copy() if not claim.renewing), key=_deadline)
            for claim in claims:
                if claim.deadline <= moment:
                    self._lose(claim, "it could not be renewed in time")
                elif claim.due <= moment and len(self._tasks) < _AT_A_TIME:
                    claim.renewing = True
                    self._tasks.add(task := asyncio.create_task(self._renew(claim)))
                    task.add_done_callback(self._renewed)
                else:
                    # One that is due waits for a place, which the end of another renewal gives it.
                    self.looks_at = min(self.looks_at, max(claim.due, moment), claim.deadline)
            pause = max(_TURN_SECONDS, self.looks_at - moment)
            self.looks_at = moment + pause
            await asyncio.sleep(_TURN_SECONDS)
            try:
                async with asyncio.timeout(pause - _TURN_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
        for task in self._tasks:
            task.cancel()
        for wire in self._wires.values():
            wire.close()
        await asyncio.sleep(0)

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._wake is not None:
            self._wake.set()

    async def _renew(self, claim: KeptClaim) -> None:
        """Asks until there is an answer, or until the deadline."""
        try:
            pause = min(0.1, claim.ttl / 30)
            while (left := claim.deadline - (sent := now())) > 0 and claim in self._claims:
                try:
                    answer = await self._ask(claim, min(_ATTEMPT_SECONDS, left, max(0.5, claim.ttl / 6)))
                except Retryable as failure:
                    await asyncio.sleep(min(max(pause, failure.after) * random.uniform(1.0, 1.25), left, claim.ttl / 6))
                    pause = min(2 * pause, 2.0)
                    continue
                except FleetError as error:
                    self._lose(claim, str(error))
                    return
                except Exception as error:  # whatever it is, the work must not go on without a claim
                    _log.exception("a renewal has failed")
                    self._lose(claim, f"{type(error).__name__}: {error}")
                    return
                if answer["outcome"] != "success":
                    self._lose(claim, answer["outcome"])
                elif answer.get("stop"):
                    why = answer.get("stopReason") or answer.get("reason", "an operator drains this agent")
                    claim.stop(claim, str(why), "budget" in answer)
                claim.placed(sent)
                return
        finally:
            claim.renewing = False

    async def _ask(self, claim: KeptClaim, seconds: float) -> dict[str, Any]:
        wire = self._wires.get(claim.wire)
        if wire is None:
            wire = self._wires[claim.wire] = Wire(*claim.wire)
        renewal = {"itemId": claim.item, "fenceToken": claim.fence, "ttlSeconds": claim.ttl}
        arguments = {"actor": claim.actor, "requestId": new_request_id(), "claims": [renewal]}
        answer = await wire.call("items", "claim_item", arguments, seconds)
        result: dict[str, Any] = answer["claimResults"][0]
        return result

    def _lose(self, claim: KeptClaim, why: str) -> None:
        if claim in self._claims:
            self._claims.discard(claim)
            claim.lost(claim, why)


os.register_at_fork(after_in_child=Keeper.forget_parent)


def _deadline(claim: KeptClaim) -> float:
    return claim.deadline
