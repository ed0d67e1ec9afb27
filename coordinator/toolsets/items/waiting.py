"""Parked claims of one process: the calls that wait for an item (``lua/include/waiters.lua``).

A call is parked in Redis with the name of its request; whatever makes a suitable item ready
places the claim and publishes the reply to this process's channel. This side only holds the
futures. While it holds any it says every second that it lives, per project, and has expired
claims put back: one short script call a second for any number of parked calls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import uuid4

import msgspec
import structlog
from redis.exceptions import RedisError

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.items.rules.idempotency import Request
from coordinator.toolsets.items.store.work import ClaimReply, WorkStore

ALIVE_MS = 10_000
_TEND_SECONDS = 1.0
_SOONEST_SECONDS = 0.02
_NAME = 32
_decode = msgspec.msgpack.Decoder(ClaimReply).decode
Run = Callable[[int], Awaitable[ClaimReply]]
_log = structlog.get_logger(__name__)


class _Missed(Exception):
    """A wake-up may have been missed: the call has to be made again."""


class Parking:
    """The parked calls of this process, in any project."""

    def __init__(self, store: Store, work: WorkStore) -> None:
        self._store = store
        self._work = work
        self.process = uuid4().hex
        """Names this process among those that hold parked calls."""
        self._calls: dict[str, asyncio.Future[ClaimReply]] = {}
        self._projects: dict[str, int] = {}
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._listens = asyncio.Event()
        self._draining = False

    async def claim(self, project: str, request: Request, run: Run, wait_ms: int) -> ClaimReply:
        """A claim that waits up to ``wait_ms`` for an item; the reply says ``success`` or ``no_match``.

        ``run`` claims or parks, given how many milliseconds are left. A caller that is
        cancelled takes its place in the queue with it.

        Raises:
            ToolFailure: ``draining``, ``store_unavailable``.
        """
        await self._prepare(project)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_ms / 1000
        self._projects[project] = self._projects.get(project, 0) + 1
        if project not in self._tending:
            self._tending[project] = asyncio.create_task(self._tend(project), name=f"parked claims of {project}")
        try:
            while True:
                # Held before the call is parked: the wake-up may come before the answer does.
                woken = self._calls.setdefault(request.key, loop.create_future())
                reply = await run(max(1, int((until - loop.time()) * 1000)))
                if reply.claims[0][0] != "parked":
                    return reply
                with contextlib.suppress(_Missed):
                    return await asyncio.wait_for(asyncio.shield(woken), until - loop.time())
        except TimeoutError:
            return await self._work.end_wait(project, request, keep=True)
        except (asyncio.CancelledError, ToolFailure):
            await asyncio.shield(self._leave(project, request))
            raise
        finally:
            self._calls.pop(request.key, None)
            self._projects[project] -= 1
            if not self._projects[project]:
                del self._projects[project]
                self._tending.pop(project).cancel()

    async def drain(self) -> None:
        """Ends all parked calls with ``draining``: repeated elsewhere they park again."""
        self._draining = True
        self._end_all(ToolFailure("draining", "this front-end is shutting down; repeat the call", retry_after_ms=0))

    async def close(self) -> None:
        """Stops listening."""
        await self.drain()
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    async def _prepare(self, project: str) -> None:
        """Before a call is parked this process has to listen and to be known to live."""
        if self._draining:
            raise ToolFailure("draining", "this front-end is shutting down; repeat the call", retry_after_ms=0)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="parked claims")
        await self._listens.wait()
        if project not in self._tending:
            await self._work.sweep(project, self.process, ALIVE_MS)

    async def _leave(self, project: str, request: Request) -> None:
        with contextlib.suppress(ToolFailure):
            await self._work.end_wait(project, request, keep=False)

    async def _tend(self, project: str) -> None:
        """Says that this process lives, and puts expired claims back when one ends."""
        while True:
            pause = _TEND_SECONDS
            try:
                earliest, now = await self._work.sweep(project, self.process, ALIVE_MS)
                if earliest:
                    pause = min(pause, max((earliest - now) / 1000, _SOONEST_SECONDS))
            except ToolFailure as failure:
                _log.warning("parked claims cannot be tended", project=project, reason=failure.message)
            await asyncio.sleep(pause)

    async def _listen(self) -> None:
        channel = f"fc:wake:{self.process}"
        while True:
            try:
                async with self._store.client.pubsub() as messages:
                    await messages.subscribe(channel)
                    self._listens.set()
                    self._end_all(_Missed())  # what was published meanwhile is found by asking again
                    async for message in messages.listen():
                        if message["type"] == "message":
                            self._wake(message["data"])
            except (RedisError, OSError) as error:
                _log.warning("the wake-up channel was lost", reason=type(error).__name__)
                await asyncio.sleep(0.2)

    def _end_all(self, problem: Exception) -> None:
        calls, self._calls = self._calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(problem)
                future.exception()  # retrieved: a call that has not looked yet is no defect

    def _wake(self, data: bytes) -> None:
        future = self._calls.get(data[:_NAME].decode())
        if future is not None and not future.done():
            future.set_result(_decode(data[_NAME:]))
