"""Hears, in one process, when operations are over that its calls wait for, and when downstream servers changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from uuid import uuid4

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.store.subscription import Subscription
from coordinator.toolsets.gateway.store.servers import CHANNEL


class Hearing:
    """One subscription for all calls of a process.

    Args:
        on_servers: called when something is new about downstream servers, and when news may have been missed.
    """

    def __init__(self, store: Store, on_servers: Callable[[], None] = lambda: None) -> None:
        self._on_servers = on_servers
        self.process = uuid4().hex
        """Names this process among those that are told."""
        self._events: dict[str, list[asyncio.Event]] = {}
        channels = (f"fc:gate:{self.process}", CHANNEL)
        self._subscription = Subscription(store, channels, "gateway news", self._heard, self._begun)
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nobody should wait any more."""
        return self._closed

    def start(self) -> None:
        """Begins to listen."""
        if not self._closed:
            self._subscription.start()

    async def ready(self) -> None:
        """Waits until it listens.

        Raises:
            ToolFailure: ``store_unavailable``; ``draining``.
        """
        if self._closed and not self._subscription.begun:
            raise ToolFailure("draining", "this process is shutting down; repeat the call", retry_after_ms=0)
        await self._subscription.ready()

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
        await self._subscription.close()

    def _begun(self) -> None:
        # What was published meanwhile is found by looking.
        self._set_all()
        self._on_servers()

    def _heard(self, channel: str, data: bytes) -> None:
        if channel == CHANNEL:
            self._on_servers()
            return
        for event in self._events.get(data.decode(), ()):
            event.set()

    def _set_all(self) -> None:
        for events in self._events.values():
            for event in events:
                event.set()
