"""Hears, in one process, when operations are over that its calls wait for, and when downstream servers changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from uuid import uuid4

import structlog
from redis.exceptions import RedisError

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.gateway.store.servers import CHANNEL

_log = structlog.get_logger(__name__)

_LISTEN_SECONDS = 2.0
_PAUSE_SECONDS = 0.2


class Hearing:
    """One subscription for all calls of a process.

    Args:
        on_servers: called when something is new about downstream servers, and when news may have been missed.
    """

    def __init__(self, store: Store, on_servers: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_servers = on_servers
        self.process = uuid4().hex
        """Names this process among those that are told."""
        self._events: dict[str, list[asyncio.Event]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._listens = asyncio.Event()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nobody should wait any more."""
        return self._closed

    def start(self) -> None:
        """Begins to listen."""
        if self._listening is None and not self._closed:
            self._listening = asyncio.create_task(self._listen(), name="gateway news")

    async def ready(self) -> None:
        """Waits until it listens.

        Raises:
            ToolFailure: ``store_unavailable``; ``draining``.
        """
        if self._listens.is_set():
            return
        if self._closed:
            raise ToolFailure("draining", "this process is shutting down; repeat the call", retry_after_ms=0)
        self.start()
        try:
            async with asyncio.timeout(_LISTEN_SECONDS):
                await self._listens.wait()
        except TimeoutError:
            raise ToolFailure(
                "store_unavailable", "the store does not take the subscription that waiting needs", retry_after_ms=1000
            ) from None

    @contextlib.contextmanager
    def expecting(self, project: str, workflow: str) -> Iterator[asyncio.Event]:
        """An event that is set when an operation on the instance is over, or may be."""
        key, event = f"{project} {workflow}", asyncio.Event()
        events = self._events.setdefault(key, [])
        events.append(event)
        try:
            yield event
        finally:
            events.remove(event)
            if not events:
                self._events.pop(key, None)

    async def close(self) -> None:
        """Stops listening; whoever waits looks for himself."""
        self._closed = True
        self._set_all()
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        channels = [f"fc:gate:{self.process}", CHANNEL]
        while True:
            try:
                async with self._store.client.pubsub() as messages:
                    await messages.subscribe(*channels)
                    async for message in messages.listen():
                        self._heard(message["type"], message["channel"], message["data"])
            except (RedisError, OSError) as error:
                _log.warning("the gateway's channel was lost", reason=type(error).__name__)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _heard(self, kind: str, channel: bytes, data: bytes | int) -> None:
        if kind == "subscribe":
            self._listens.set()
            # What was published meanwhile is found by looking.
            self._set_all()
            self._on_servers()
        elif kind == "message" and channel == CHANNEL.encode():
            self._on_servers()
        elif kind == "message" and isinstance(data, bytes):
            for event in self._events.get(data.decode(), ()):
                event.set()

    def _set_all(self) -> None:
        for events in self._events.values():
            for event in events:
                event.set()
