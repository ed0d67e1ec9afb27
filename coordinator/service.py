"""What the parts of a process have in common: how they start, stop and take over reloaded settings.

A process has one list of services (``ServiceGroup``), composed in one place. It starts them in order and stops them in
reverse, so each may rely on those before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import structlog

from coordinator.settings import Settings

T = TypeVar("T")
_log = structlog.get_logger(__name__)

CANCEL_AGAIN_SECONDS = 0.5


class Service:
    """A part of a process. These do nothing; a service has those that it needs.

    ``tests/processes/test_services.py`` tries with every service: a stop while it starts, a start that is cancelled, a
    second stop, and new settings while it stops and after.
    """

    async def start(self) -> None:
        """Starts it; returns when it can be used. If it fails or is cancelled, ``stop`` is called all the same."""

    async def stop(self, deadline: float = 0.0) -> None:
        """Stops it, whatever its state is. Afterwards nothing of it runs, and nothing starts any more.

        Args:
            deadline: until when work under way may be finished, by the clock of the event loop.
        """

    def configure(self, settings: Settings) -> None:
        """Takes over reloaded settings, for whatever begins later. Does not fail."""


class Functions(Service):
    """A service made of functions; None does nothing."""

    def __init__(
        self,
        start: Callable[[], Awaitable[None] | None] | None = None,
        stop: Callable[[], Awaitable[None] | None] | None = None,
        configure: Callable[[Settings], None] | None = None,
    ) -> None:
        self._start, self._stop, self._configure = start, stop, configure

    async def start(self) -> None:
        if self._start is not None and inspect.isawaitable(begun := self._start()):
            await begun

    async def stop(self, deadline: float = 0.0) -> None:
        if self._stop is not None and inspect.isawaitable(ended := self._stop()):
            await ended

    def configure(self, settings: Settings) -> None:
        if self._configure is not None:
            self._configure(settings)


class Background(Service):
    """Runs a coroutine in the background until it is stopped."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._run, self._name = run, name
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self, deadline: float = 0.0) -> None:
        if self.task is not None:
            await end_tasks(self.task)


class Tasks:
    """Background tasks of a service."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._stopped = False

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Runs a coroutine in the background, unless they are stopped."""
        if self._stopped:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def stop(self) -> None:
        """Cancels all, and waits until they have ended. No further one begins."""
        self._stopped = True
        await end_tasks(*self._running)


class ServiceGroup(Service):
    """Services that a process starts in this order and stops in reverse."""

    def __init__(self, *services: Service) -> None:
        self._services = services
        self._left = list(services)
        """What is to be stopped: those that have begun to start; all, if none was started here."""
        self._starting: asyncio.Future[None] | None = None
        self._stopped = False
        self._stopping = asyncio.Lock()

    def __iter__(self) -> Iterator[Service]:
        return iter(self._services)

    async def start(self) -> None:
        """Starts them; if one fails, or this is cancelled, those that have begun are stopped.

        Returns without having started all if ``stop`` is called meanwhile, which then stops them by its deadline.
        """
        if not self._stopped:
            self._left.clear()
        for service in self._services:
            if self._stopped:
                return
            self._left.append(service)
            self._starting = asyncio.ensure_future(service.start())
            try:
                await self._starting
            except BaseException as error:
                if self._stopped and isinstance(error, asyncio.CancelledError):
                    return
                await self.stop()
                raise
            finally:
                self._starting = None

    async def stop(self, deadline: float = 0.0) -> None:
        self._stopped = True
        if self._starting is not None:
            await end_tasks(self._starting)
        async with self._stopping:
            await self._stop_left(deadline)

    async def _stop_left(self, deadline: float) -> None:
        while self._left:
            await _stopped(self._left.pop(), deadline)

    def configure(self, settings: Settings) -> None:
        for service in self._services:
            service.configure(settings)


class Together(ServiceGroup):
    """Services that do not rely on each other: they are stopped at once."""

    async def _stop_left(self, deadline: float) -> None:
        left, self._left = self._left, []
        await asyncio.gather(*(_stopped(service, deadline) for service in left))


async def _stopped(service: Service, deadline: float) -> None:
    """Stops a service. If that fails, the others are stopped all the same."""
    try:
        await service.stop(deadline)
    except Exception:
        _log.exception("a service did not stop as it should", service=type(service).__name__)


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancels tasks that use a client, and waits until they have ended.

    It cancels again and again, because before Python 3.12 a cancellation is lost if it comes just when a command has
    been sent (``asyncio.wait_for``). Then a task that tries for ever goes on.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)  # or asyncio reports failures that nobody has looked at


async def in_thread(work: Callable[[], T]) -> T:
    """Runs ``work`` in a thread. A thread cannot be cancelled, so a cancellation waits for its end, too."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise
