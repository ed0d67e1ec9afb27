"""A subscription to channels that survives the loss of its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

import redis.exceptions
from redis.asyncio.client import PubSub

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import end_tasks
from coordinator.store.store import Store

LISTEN_SECONDS = 2.0
"""How long a caller waits until the server has taken the subscription."""
PAUSE_SECONDS = 0.2
"""The pause before it connects again."""
SILENCE_SECONDS = 5.0
"""After this long without a message the server is pinged, and has as long to answer."""


class Subscription:
    """Listens to channels in the background. Messages published while it has no connection are missed.

    Args:
        name: its name in logs.
        on_message: gets a channel and a message. Must not fail.
        on_begin: called after each (re)subscription to a channel, because earlier messages may have been missed. Must
            not fail.
    """

    def __init__(
        self,
        store: Store,
        channels: Sequence[str],
        name: str,
        on_message: Callable[[str, bytes], None],
        on_begin: Callable[[], None],
    ) -> None:
        self._store = store
        self._channels = channels
        self._name = name
        self._on_message = on_message
        self._on_begin = on_begin
        self._task: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._closed = False
        self._tag = ""
        """That of the server at which it listens."""
        self._begun = asyncio.Event()
        self._warn = ThrottledWarnings()

    @property
    def begun(self) -> bool:
        """Whether it has ever been subscribed."""
        return self._begun.is_set()

    def start(self) -> None:
        """Starts listening, unless it already does."""
        if self._task is None:
            # In an empty context, so that its log lines do not carry the id of the request that happened to start it.
            self._task = asyncio.create_task(self._listen(), name=self._name, context=Context())

    async def ready(self) -> None:
        """Waits until it is subscribed, at most 2 s.

        Raises:
            ToolFailure: ``store_unavailable``.
        """
        if self.begun:
            return
        self.start()
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                await self._begun.wait()
        except TimeoutError:
            raise ToolFailure(
                "store_unavailable", "the store does not take the subscription that waiting needs", retry_after_ms=1000
            ) from None

    async def close(self) -> None:
        self._closed = True
        await end_tasks(*filter(None, (self._renewing, self._task)))

    def renew(self) -> None:
        """Listens at another node of the cluster: this one answers, but it does not get what others publish."""
        if not self._closed and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.create_task(self._renew(), name=self._name, context=Context())

    async def _renew(self) -> None:
        if self._task is not None:
            await end_tasks(self._task)
            self._task = None
        self.start()

    async def _listen(self) -> None:
        while True:
            try:
                # In a cluster, each node passes on what is published on any: one that failed before is avoided.
                self._tag = self._store.answering_tag(self._tag)
                async with self._store.client_of(self._tag).pubsub() as messages:
                    # A hung server accepts connections, too, and the client has no timeout for its answer.
                    async with asyncio.timeout(SILENCE_SECONDS):
                        await messages.subscribe(*self._channels)
                    await self._hear(messages)
            except (redis.exceptions.RedisError, OSError) as error:
                self._warn(
                    "lost",
                    "a subscription was lost",
                    subscription=self._name,
                    reason=f"{type(error).__name__}: {error}",
                )
                await asyncio.sleep(PAUSE_SECONDS)

    async def _hear(self, messages: PubSub) -> None:
        """Takes messages until the connection breaks, or the server stops answering.

        A hung server keeps its connections, while the calls of this process may have moved on to another.
        """
        asked = False
        while True:
            message = await messages.get_message(timeout=SILENCE_SECONDS)
            if message is not None:
                asked = False
                self._heard(message)
            elif asked:
                raise redis.exceptions.ConnectionError("the server is silent")
            else:
                asked = True
                await messages.ping()

    def _heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self._begun.set()
            self._on_begin()
        elif message["type"] == "message":
            self._on_message(message["channel"].decode(), message["data"])
