"""Listens, in one process, for the end of operations that its calls wait for, and for changes of downstream servers."""

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
        on_servers: called when the tools of downstream servers have changed, and when a message that says so may have
            been missed.
    """

    def __init__(self, store: Store, on_servers: Callable[[], None] = lambda: None) -> None:
        self._on_servers = on_servers
        self.process = uuid4().hex
        """The id of this process, which its channel is named after."""
        self._events: dict[str, list[asyncio.Event]] = {}
        channels = (f"fc:gate:{self.process}", CHANNEL)
        self._subscription = Subscription(store, channels, "gateway news", self._heard, self._begun)
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nobody should wait any more."""
        return self._closed

    def start(self) -> None:
        """Begins to subscribe; does not wait until that is done."""
        if not self._closed:
            self._subscription.start()

    async def ready(self) -> None:
        """Waits until messages arrive: whatever is published from then on is heard.

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
        """Ends the subscription, and sets all events: all waiting calls read their instance once more."""
        self._closed = True
        self._set_all()
        await self._subscription.close()

    def _begun(self) -> None:
        # What was published before is found by reading.
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
