"""Parked claims of one process: the calls that wait for an item (``lua/parked/waiters.lua``).

A call is parked in Redis under its request. The script that makes a matching item ready also claims it for that call,
and publishes the reply to each process that holds it. This side only holds the futures. While it holds any, it runs one
short script per project and second, for any number of parked calls. That script registers this process as alive, and
puts expired claims back. In a cluster, whose nodes pass messages on to each other, one may be lost: the script also
says how many were published, and if not all have arrived a moment later, the calls of the project are repeated.

An item may be handed to a call whose client has hung up: this process notices a moment later, or only when it sends the
answer. Then the item is given back, unless another call with the same request got the answer or may still get it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from uuid import uuid4

import msgspec

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Service
from coordinator.store import Store, StoreError
from coordinator.store.fences.known import Fenced
from coordinator.store.idempotency import IdempotencyKey
from coordinator.store.subscription import Subscription
from coordinator.toolsets.items.metrics.claims import AGENTS_WAITING, CLAIM_WAIT, CLAIMS
from coordinator.toolsets.items.store.claims import ClaimReply, ClaimStore, Swept
from coordinator.toolsets.tool import Call

ALIVE_MS = 10_000
_TEND_SECONDS = 1.0
_SOONEST_SECONDS = 0.02
LATE_SECONDS = 0.1
"""How long a message may take from its publication in a cluster."""
_NAME = 32
_decode = msgspec.msgpack.Decoder(ClaimReply).decode
Run = Callable[[int, bool], Awaitable[ClaimReply]]


class _Missed(Exception):
    """A wake-up may have been missed, so the call must be retried."""


class _HungUp(ToolFailure):
    """The client has ended its input while its call waited."""

    def __init__(self) -> None:
        super().__init__("draining", "the input has ended, and no claim waits any longer", retry_after_ms=0)


class _Parked:
    """A parked request, and its calls here (clients retry calls)."""

    def __init__(self) -> None:
        self.calls = 0
        """Calls that wait for the answer, or whose clients have not received it yet."""
        self.arrived = False
        """Whether a client has received the answer."""
        self.woken: asyncio.Future[ClaimReply] = asyncio.get_running_loop().create_future()

    def renewed(self) -> asyncio.Future[ClaimReply]:
        """A future that the next wake-up completes."""
        if self.woken.done():
            self.woken = asyncio.get_running_loop().create_future()
        return self.woken

    def end(self, outcome: ClaimReply | Exception) -> None:
        """Wakes the calls."""
        if self.woken.done():
            return
        if isinstance(outcome, Exception):
            self.woken.set_exception(outcome)
            self.woken.exception()  # marks it as retrieved, in case nobody awaits it
        else:
            self.woken.set_result(outcome)


class Parking(Service):
    """The parked calls of this process, in any project."""

    def __init__(self, store: Store, claims: ClaimStore) -> None:
        self._claims = claims
        self.process = uuid4().hex
        """The id of this process among those that hold parked calls."""
        self._parked: dict[tuple[str, str], _Parked] = {}
        """By project and request."""
        self._projects: dict[str, int] = {}
        self._calls = 0
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._heard: Counter[str] = Counter()
        """Messages heard, by project, of those that the store has counted."""
        self._arrived = 0
        """All messages heard."""
        self._deaf_since: int | None = None
        """``_arrived`` when a message was last found to be lost."""
        channels = (f"fc:wake:{self.process}",)
        self._subscription = Subscription(store, channels, "parked claims", self._wake, self._ask_again)
        self._draining = False
        self._warn = ThrottledWarnings()

    async def claim(
        self, call: Call, request: IdempotencyKey, run: Run, wait_ms: int, *, keep: bool = False
    ) -> ClaimReply:
        """A claim that waits up to ``wait_ms`` for an item; the outcome is ``success`` or ``no_match``.

        If the call is cancelled, its client hangs up, or its answer does not arrive, its place in the queue or its item
        is given up, unless another call has the same request.

        Args:
            run: claims or parks, given how many milliseconds are left, and whether there is no other such call here.
            keep: the call stays parked for others that hold it when its time is over; the outcome is ``parked`` then.

        Raises:
            ToolFailure: ``draining``, also if the client hangs up; ``store_unavailable``, and what ``run`` raises.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + wait_ms / 1000
        parked = self._enter(call.project, request, await self._prepare(call.project))
        settle = partial(self._settle, call.project, request, parked)
        waited = False
        reply: ClaimReply | None = None
        try:
            while True:
                if self._draining:  # begun since _prepare; hold() has notified only the calls parked then
                    raise _draining()
                # Created before the call is parked, because the wake-up may come before the script's reply.
                woken = parked.renewed()
                reply = await run(max(1, int((until - loop.time()) * 1000)), parked.calls == 1)
                if reply.claims[0].outcome != "parked":
                    parked.end(reply)  # for retries of the call here
                    break
                waited = True
                parked_at = loop.time()
                try:
                    events = (woken,) if call.hung_up is None else (woken, call.hung_up)
                    left, again = until - parked_at, reply.claims[0].expires / 1000
                    timeout = min(left, again) if again else left
                    await asyncio.wait(events, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    # Also if the call is cancelled because its credential expired: it is still answered and counted.
                    if call.idle is not None:
                        call.idle(loop.time() - parked_at)
                if not woken.done():
                    if call.hung_up is not None and call.hung_up.done():
                        raise _HungUp
                    if timeout < left:
                        continue
                    ended = await self._claims.end_wait(call.project, request, self.process, keep=not keep)
                    if not keep or ended.claims[0].outcome == "success":
                        reply = ended
                    break
                with contextlib.suppress(_Missed):
                    reply = woken.result()
                    request.replayed = True  # the claim was counted when the wake-up came
                    break
        except (asyncio.CancelledError, _HungUp):
            await asyncio.shield(settle(False))
            raise
        except Exception:
            # The client is still connected; if it was handed an item, its retry finds it.
            if parked.calls == 1:
                await asyncio.shield(self._end_wait(call.project, request))
            self._forget(call.project, request, parked)
            raise
        finally:
            self._exit(call.project)
            if waited:
                CLAIM_WAIT.labels(_end_of(reply)).observe(loop.time() - began)
        if call.delivery is None or reply.claims[0].outcome != "success":
            await settle(True)
        else:
            await call.delivery.tell(settle)
        return reply

    async def hold(self, held: bool) -> None:
        """Ends all parked calls with ``draining``, so that they are retried elsewhere (True); or parks calls again."""
        self._draining = held
        if held:
            self._end_all(_draining())

    async def stop(self, deadline: float = 0.0) -> None:
        """Stops listening."""
        await self.hold(True)
        await self._subscription.close()

    async def _prepare(self, project: str) -> Swept | None:
        """Makes sure, before a call is parked, that this process listens and is registered as alive; returns what the
        sweep has told, if that took one."""
        if self._draining:
            raise _draining()
        await self._subscription.ready()
        return None if project in self._tending else await self._sweep(project)

    def _enter(self, project: str, request: IdempotencyKey, swept: Swept | None) -> _Parked:
        parked = self._parked.setdefault((project, request.key), _Parked())
        parked.calls += 1
        self._calls += 1
        AGENTS_WAITING.set(self._calls)
        self._projects[project] = self._projects.get(project, 0) + 1
        if swept is not None and project not in self._tending:
            # In an empty context, because it continues for later calls after this one.
            self._tending[project] = asyncio.create_task(
                self._tend(project, swept), name=f"parked claims of {project}", context=Context()
            )
        return parked

    def _exit(self, project: str) -> None:
        """A call no longer waits."""
        self._calls -= 1
        AGENTS_WAITING.set(self._calls)
        self._projects[project] -= 1
        if not self._projects[project]:
            del self._projects[project]
            self._tending.pop(project).cancel()

    async def _settle(self, project: str, request: IdempotencyKey, parked: _Parked, arrived: bool) -> None:
        """Handles the end of a call. The last one gives up its item if the answer was not delivered."""
        parked.arrived = parked.arrived or arrived
        # First, so that a call that arrives meanwhile and gets the item keeps it: it may overtake the rest.
        self._forget(project, request, parked)
        if not parked.calls and not parked.arrived:
            await self._leave(project, request)

    def _forget(self, project: str, request: IdempotencyKey, parked: _Parked) -> None:
        parked.calls -= 1
        if not parked.calls:
            del self._parked[project, request.key]

    async def _leave(self, project: str, request: IdempotencyKey) -> None:
        try:
            await self._claims.leave_wait(project, request, self.process)
        except ToolFailure as failure:
            if failure.code == "store_full":
                await self._end_wait(project, request)

    async def _end_wait(self, project: str, request: IdempotencyKey) -> None:
        with contextlib.suppress(ToolFailure, StoreError):
            await self._claims.end_wait(project, request, self.process, keep=False)

    async def _tend(self, project: str, swept: Swept) -> None:
        """Registers this process as alive once a second, and puts claims back as soon as they expire."""
        earliest, now, begun = swept.next_end, swept.now, swept.drained
        while True:
            pause = max((earliest - now) / 1000, _SOONEST_SECONDS) if earliest else _TEND_SECONDS
            await asyncio.sleep(min(pause, _TEND_SECONDS))
            earliest = 0
            try:
                swept = await self._sweep(project)
                earliest, now, published = swept.next_end, swept.now, swept.published
                if published < 0:  # this process was presumed dead, and its calls were removed from their queues
                    self._ask_again()
                if published > self._heard[project]:
                    await self._hear_late(project, published)
                if swept.drained > begun:  # usually these agents' calls are answered; but its operator may have died
                    begun = swept.drained
                    self._ask_again()
            except (ToolFailure, StoreError) as failure:
                if isinstance(failure, Fenced) and failure.for_good:  # they wait in another store now
                    self._end_all(failure, project)
                else:
                    self._warn("tend", "parked claims cannot be maintained", project=project, reason=str(failure))

    async def _sweep(self, project: str) -> Swept:
        before = self._heard[project]
        swept = await self._claims.sweep(project, self.process, ALIVE_MS)
        if (published := max(0, swept.published)) < before:  # it counts anew, or a failover has lost its last writes
            self._heard[project] += published - before
        return swept

    async def _hear_late(self, project: str, published: int) -> None:
        """Retries the parked calls of a project if messages to it do not arrive a moment later."""
        await asyncio.sleep(LATE_SECONDS)
        if published > self._heard[project]:
            self._heard[project] = published
            self._ask_again(project)
            if self._deaf_since == self._arrived:  # none has come since one was lost
                self._subscription.renew()
            self._deaf_since = self._arrived

    def _ask_again(self, project: str = "") -> None:
        """Retries all parked calls, or those of a project, because wake-ups may have been missed."""
        self._end_all(_Missed(), project)

    def _end_all(self, problem: Exception, project: str = "") -> None:
        """Ends all parked calls, or those of a project."""
        for (name, _), parked in self._parked.items():
            if project in ("", name):
                parked.end(problem)

    def _wake(self, channel: str, data: bytes) -> None:
        project, _, message = data.partition(b" ")
        self._heard[project.decode()] += 1
        self._arrived += 1
        reply = _decode(message[_NAME:]) if len(message) > _NAME else None
        if reply is not None and reply.holders.startswith(self.process):
            CLAIMS.labels("success").inc()  # once, for any number of calls that get the reply
        parked = self._parked.get((project.decode(), message[:_NAME].decode()))
        if parked is not None:
            parked.end(reply or _Missed())


def _end_of(reply: ClaimReply | None) -> str:
    """How a wait ended, from the last reply."""
    outcome = reply.claims[0].outcome if reply is not None else "parked"
    return {"success": "served", "parked": "ended"}.get(outcome, "in_vain")


def _draining() -> ToolFailure:
    return ToolFailure("draining", "this front-end takes no new work; repeat the call", retry_after_ms=0)
