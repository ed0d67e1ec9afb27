"""Listens for the end of operations that calls of this process wait for, and for changes of downstream servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from uuid import uuid4

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.store.subscription import Subscription
from coordinator.toolsets.gateway.store.servers import CHANNEL


class Listener:
    """The Redis subscription that all calls of a process share.

    Args:
        on_servers: called when the tools of downstream servers have changed, and when a message about that may have
            been missed.
    """

    def __init__(self, store: Store, on_servers: Callable[[], None] = lambda: None) -> None:
        self._on_servers = on_servers
        self.process = uuid4().hex
        """The id of this process; its channel has it in its name."""
        self._events: dict[str, list[asyncio.Event]] = {}
        channels = (f"fc:gate:{self.process}", CHANNEL)
        self._subscription = Subscription(store, channels, "gateway news", self._heard, self._begun)
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether calls should stop waiting, because the process ends."""
        return self._closed

    def start(self) -> None:
        """Begins to subscribe, without waiting."""
        if not self._closed:
            self._subscription.start()

    async def ready(self) -> None:
        """Waits until the subscription is active, so that no later message is missed.

        Raises:
            ToolFailure: ``store_unavailable``; ``draining``.
        """
        if self._closed and not self._subscription.begun:
            raise ToolFailure("draining", "this process is shutting down; repeat the call", retry_after_ms=0)
        await self._subscription.ready()

    @contextlib.contextmanager
    def expecting(self, project: str, workflow: str) -> Iterator[asyncio.Event]:
        """Provides an event that is set when an operation on the instance is over, or may be over."""
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
        """Ends the subscription. Sets all events, so that waiting calls read their instance once more and return."""
        self._closed = True
        self._set_all()
        await self._subscription.close()

    def _begun(self) -> None:
        # Messages published before the subscription were missed, so all waiting calls read.
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
