"""Supervises the embedded server while a fleet, or a session of ``fleet stdio``, runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import structlog

from coordinator.backoff import Backoff
from coordinator.processes.metrics import PROCESSES, RESTARTS, start_restarts
from coordinator.processes.supervision.lifecycle import RESTART_FIRST, RESTART_MOST
from coordinator.service import Service, in_thread
from coordinator.store import StoreError
from coordinator.store.checks.kept_moment import MomentKeeper
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.metrics import DISK_FREE, DISK_RATIO

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.05
PROBE_SECONDS = 1.0
"""How often the server is pinged."""
DISK_SECONDS = 10.0
"""How often the free space of its disk is measured."""
START_SECONDS = 60.0
"""How long a server may take to answer for the first time."""


class StoreSupervisor(Service):
    """Starts, restarts and stops the embedded server.

    Args:
        server: the server on the fleet's data directory.
        on_moved: called when a restarted server has a new URL.
        on_change: called when the server has started or exited.
        watchdog_seconds: how long the server may be silent before it is killed and restarted; 0: for ever.
        keeper: notices what the store lost while it did not run; None: somebody else does.
    """

    def __init__(
        self,
        server: EmbeddedServer,
        on_moved: Callable[[], None],
        on_change: Callable[[], None] = lambda: None,
        watchdog_seconds: float = 0,
        keeper: MomentKeeper | None = None,
    ) -> None:
        self._server = server
        self._on_moved = on_moved
        self._on_change = on_change
        self.watchdog_seconds = watchdog_seconds
        """May be changed while it runs, unless it was 0."""
        self._keeper = keeper
        self._hung = False
        self._backoff = Backoff(RESTART_FIRST, RESTART_MOST)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """The server's URL, password included."""
        return self._server.url

    @property
    def pid(self) -> int | None:
        return self._server.pid

    async def start(self) -> None:
        """Starts and supervises the server.

        Raises:
            StoreError: it cannot be started.
        """
        start_restarts(["store"])
        await in_thread(self._server.start)
        PROCESSES.labels("store").set(1)
        if self._keeper is not None:
            await self._keeper.start()
        self._tasks = [
            asyncio.create_task(self._watch(), name="store-supervisor"),
            asyncio.create_task(self._measure_disk(), name="store-disk"),
        ]
        if self.watchdog_seconds:
            self._tasks.append(asyncio.create_task(self._kill_frozen(), name="store-watchdog"))

    async def stop(self, deadline: float = 0.0) -> None:
        """Stops the server. Everything acknowledged is on disk."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._keeper is not None:
            await self._keeper.stop()
        await in_thread(self._server.stop)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        ready_at = loop.time()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            status = self._server.poll()
            if status is None:
                continue
            PROCESSES.labels("store").set(0)
            self._on_change()
            delay = self._backoff.next(loop.time() - ready_at)
            _log.error(
                "the embedded store ended",
                status=status,
                said=self._server.last_words(),
                log=str(self._server.log),
                restart_seconds=round(delay, 3),
            )
            await asyncio.sleep(delay)
            RESTARTS.labels("store", "hung" if self._hung else "signal" if status < 0 else "exit").inc()
            self._hung = False
            ready_at = await self._restart()

    async def _measure_disk(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                disk = await asyncio.to_thread(os.statvfs, self._server.data_dir)
                DISK_FREE.set(disk.f_bavail * disk.f_frsize)
                DISK_RATIO.set(
                    disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0
                )  # some file systems have no size
            await asyncio.sleep(DISK_SECONDS)

    async def _kill_frozen(self) -> None:
        """Kills the server when it has been silent for too long; ``_watch`` restarts it.

        At least two pings must have gone unanswered, so time in which this process was stopped does not count. While
        the server starts and loads its data, it has at least a minute.
        """
        loop = asyncio.get_running_loop()
        pid, alive_at, silent, loaded = self._server.pid, loop.time(), 0, True  # ``start`` has waited for it
        while True:
            await asyncio.sleep(min(self.watchdog_seconds / 4, PROBE_SECONDS))
            if self._server.pid is None or self._server.poll() is not None or self._server.pid != pid:
                pid, alive_at, silent, loaded = self._server.pid, loop.time(), 0, False
                continue
            if sign := await asyncio.to_thread(self._server.sign_of_life):
                alive_at, silent, loaded = loop.time(), 0, sign == "ready"
                continue
            silent += 1
            limit = self.watchdog_seconds if loaded else max(self.watchdog_seconds, START_SECONDS)
            if silent < 2 or loop.time() - alive_at < limit or self._server.poll() is not None:
                continue
            _log.error("the embedded store hangs, killing it", pid=pid, seconds=round(loop.time() - alive_at, 1))
            self._hung = True
            self._server.kill()

    async def _restart(self) -> float:
        """Restarts the server, retrying until it succeeds; returns the time."""
        before = self._server.url
        while True:
            try:
                await in_thread(self._server.start)
                break
            except StoreError as error:
                delay = self._backoff.next()
                _log.error("the embedded store does not start", reason=str(error), restart_seconds=round(delay, 3))
                await asyncio.sleep(delay)
        PROCESSES.labels("store").set(1)
        _log.info("the embedded store is back")
        self._on_change()
        if self._server.url != before:
            self._on_moved()
        return asyncio.get_running_loop().time()
