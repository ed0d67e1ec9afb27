"""Supervises the embedded server while a fleet runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from coordinator.cli.stores import store_failed
from coordinator.cli.supervision.backoff import Backoff
from coordinator.metrics import recorder
from coordinator.store import StoreError
from coordinator.store.embedded import EmbeddedServer

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.05


class StoreSupervisor:
    """Starts the embedded server, starts it again when it ends, and stops it.

    Args:
        server: the server on the fleet's data directory.
        on_moved: called when a restarted server has another URL than before.
        on_change: called when the server has started or ended.
    """

    def __init__(
        self, server: EmbeddedServer, on_moved: Callable[[], None], on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._server = server
        self._on_moved = on_moved
        self._on_change = on_change
        self._backoff = Backoff()
        self._watching: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The server's URL, password included."""
        return self._server.url

    @property
    def pid(self) -> int | None:
        """The server's process id."""
        return self._server.pid

    async def start(self) -> None:
        """Starts the server and begins to watch it.

        Raises:
            CommandFailed: it cannot be started.
        """
        recorder().start_supervisor(["store"])
        try:
            await asyncio.to_thread(self._server.start)
        except StoreError as error:
            raise store_failed(error) from None
        recorder().processes("store", 1)
        self._watching = asyncio.create_task(self._watch(), name="store-supervisor")

    async def stop(self) -> None:
        """Stops the server. Everything acknowledged is on disk."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await asyncio.to_thread(self._server.stop)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        ready_at = loop.time()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            status = self._server.poll()
            if status is None:
                continue
            recorder().processes("store", 0)
            self._on_change()
            delay = self._backoff.delay(loop.time() - ready_at)
            _log.error(
                "the embedded store ended",
                status=status,
                said=self._server.last_words(),
                log=str(self._server.log),
                restart_seconds=round(delay, 3),
            )
            await asyncio.sleep(delay)
            recorder().restart("store", "signal" if status < 0 else "exit")
            ready_at = await self._restart()

    async def _restart(self) -> float:
        """Restarts the server, with as many attempts as it takes; returns when it was back."""
        before = self._server.url
        while True:
            try:
                await asyncio.to_thread(self._server.start)
                break
            except StoreError as error:
                delay = self._backoff.delay(0.0)
                _log.error("the embedded store does not start", reason=str(error), restart_seconds=round(delay, 3))
                await asyncio.sleep(delay)
        recorder().processes("store", 1)
        _log.info("the embedded store is back")
        self._on_change()
        if self._server.url != before:
            self._on_moved()
        return asyncio.get_running_loop().time()
