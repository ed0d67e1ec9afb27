"""One stream of ``subscriptions/listen``.

It keeps no events, only what is to be told: URIs of resources, lists, and tasks. So there is a bound however slow its
client is, and a burst of changes is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, TypeVar

import mcp_types as types
import pydantic
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
    event_to_notification,
)

from coordinator.errors import ToolFailure
from coordinator.feed import Cursor, Event, FeedReader, Listener
from coordinator.feed.listener import Batch
from coordinator.feed.metrics import TOLD
from coordinator.store.fences.known import Fenced
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import document_uri
from coordinator.transport import streams
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.mcp.exchange import Context, Exchange
from coordinator.transport.mcp.resources import Place, Resources, absent
from coordinator.transport.mcp.task_methods import TaskMethods
from coordinator.transport.mcp.watch import Tree, Watch, lineage_of
from coordinator.transport.streams import Stream

SPACING_SECONDS = 0.25
"""The least time between two notifications about the same URI."""
LOOK_SECONDS = 1.0
"""Rights are checked before a notification if the last check is longer ago."""
_AT_ONCE = 16
"""URIs that are checked at the same time."""
_FLEETING = ("lastUpdatedAt", "pollIntervalMs")
"""Members of a task that change by time alone."""

_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
_Answer = TypeVar("_Answer")


class Offer(NamedTuple):
    """What an endpoint's subscriptions can be about."""

    endpoint: Endpoint
    resources: Resources
    lists: Callable[[], frozenset[str]]
    """Those of tools, prompts and resources that its server has."""
    tasks: Callable[[], TaskMethods | None]
    """Its methods of tasks; None: no call becomes a task."""


class TaskNotification(pydantic.BaseModel):
    """A task as it stands now (the extension ``io.modelcontextprotocol/tasks``)."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class Subscription(Stream):
    """One stream.

    Args:
        wanted: the URIs that the client asks for.
        tasks: the ids of tasks that it asks for.
        lists: the lists that it will be told of.
    """

    def __init__(
        self,
        reader: FeedReader,
        context: Context,
        exchange: Exchange,
        offer: Offer,
        wanted: list[str],
        tasks: list[str],
        lists: set[str],
    ) -> None:
        super().__init__("" if exchange.caller is None else exchange.caller.id, exchange.connection)
        self._reader = reader
        self._context = context
        self._exchange = exchange
        self.endpoint = offer.endpoint
        self._resources = offer.resources
        self._methods = offer.tasks()
        self._wanted = wanted
        self._tasks: dict[str, dict[str, Any]] = {}
        """Task -> what was last told of it."""
        self._wanted_tasks = tasks if self._methods is not None else []
        self.lists = lists
        self._offered = offer.endpoint.offered()
        self._loop = asyncio.get_running_loop()
        self._watch = Watch()
        self._listeners: list[Listener] = []
        self._due: dict[str, float] = {}
        """URI -> when it is to be told at the earliest."""
        self._told: dict[str, float] = {}
        """URI -> until when it is not to be told again."""
        self._changed: set[str] = set()
        """Lists that are to be told."""
        self._stale = False
        """Whether the URIs have to be checked again."""
        self._doubted = False
        """Whether the caller's rights have to be."""
        self._other_rights = False
        """Whether the URIs have to be because the rights have changed."""
        self._moved: set[Tree] = set()
        """Trees that may have another root now."""
        self._looked = self._loop.time()
        self._woken = asyncio.Event()
        self._meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}

    def wake(self) -> None:
        self._woken.set()

    def beat(self) -> None:
        pass  # the protocol knows no sign of life

    async def permitted(self) -> bool:
        self._doubted = True  # rights are checked where their change can be told
        self.wake()
        return True

    def close(self) -> None:
        for listener in self._listeners:
            self._reader.close(listener)
        self._listeners = []

    def look_at_lists(self, offered: tuple[object, ...]) -> None:
        """Compares what the endpoint offers with what it offered before."""
        if offered != self._offered:
            self._offered = offered
            self._changed |= self.lists
            self._due.update(dict.fromkeys(self._watch.offers, self._loop.time()))
            self.wake()

    async def run(self) -> types.SubscriptionsListenResult:
        """Acknowledges, and tells of changes until the end. Raises ToolFailure before it has acknowledged."""
        await self._follow()
        flags: dict[str, Any] = {f"{name}_list_changed": True for name in self.lists}
        if self._tasks:
            flags["taskIds"] = list(self._tasks)
        await self._send(
            types.SubscriptionsAcknowledgedNotification(
                params=types.SubscriptionsAcknowledgedNotificationParams(
                    notifications=types.SubscriptionFilter(
                        **flags,
                        resource_subscriptions=[uri for uri in self._watch.uris if uri not in self._tasks] or None,
                    ),
                    _meta=self._meta,
                )
            )
        )
        self._look_at_tasks()
        while self.ended is None:
            try:
                await self._step()
            except ToolFailure as failure:
                if isinstance(failure, Fenced) and failure.for_good:
                    self.end("moved")
                else:
                    await asyncio.sleep(streams.AWAY_SECONDS)
        if self.ended == "revoked":
            raise MCPError(types.INVALID_REQUEST, "The rights of this token have ended or changed")
        return types.SubscriptionsListenResult(_meta=self._meta)

    async def _step(self) -> None:
        """Tells what is due, or waits for something."""
        now = self._loop.time()
        due = [uri for uri, at in self._due.items() if at <= now]
        if due or self._changed or self._stale or self._doubted:
            if self._doubted:
                self._doubted = False
                self._look_at_tasks()  # some end by time alone
            await self._look(now)
            while self._moved and not self._stale and self.ended is None:
                tree = next(iter(self._moved))
                self._stale = tree.lineage != lineage_of(tree.place, await self._read(tree.place))
                self._moved.discard(tree)
            if self._stale and self.ended is None:
                await self._follow_again()
            for uri in due:
                if self.ended is None and self._due.pop(uri, None) is not None:
                    self._told[uri] = now + SPACING_SECONDS
                    await (self._tell_task(uri) if uri in self._tasks else self._tell(ResourceUpdated(uri)))
            for name in sorted(self._changed) if self.ended is None else ():
                self._changed.discard(name)
                await self._tell(_LISTS[name])
            return
        self._told = {uri: at for uri, at in self._told.items() if at > now}
        if self.ended is None:
            await self._sleep(min(self._due.values(), default=now + streams.RECHECK_SECONDS) - now)

    async def _follow_again(self) -> None:
        """Follows other events, because trees have moved or the caller's rights have changed."""
        await self._follow()
        self._stale = False
        if self._other_rights and self._wanted and not (self._watch.uris or self.lists):
            self.end("revoked")
        self._other_rights = False
        self.tell_all()

    async def _sleep(self, seconds: float) -> None:
        """Sleeps until the time is over or something comes."""
        self._woken.clear()
        timer = self._loop.call_later(seconds, self.wake)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    async def _look(self, now: float) -> None:
        """Checks the caller's rights, unless that was done just now."""
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        self.recheck_at = now + streams.RECHECK_SECONDS
        try:
            caller = await self._exchange.recheck() if self._exchange.recheck is not None else None
        except ToolFailure as failure:
            if failure.kind == "permanent":
                self.end("revoked")
            return
        if isinstance(caller, Caller) and caller != self._exchange.caller:
            self._exchange.caller = caller
            self._changed |= self.lists
            self._stale = self._other_rights = True

    async def _follow(self) -> None:
        """Checks the URIs by reading, and follows the events of those that can be read.

        Raises:
            ToolFailure: the store does not answer, or there is no room for the reads.
        """
        places = [place for uri in self._wanted if (place := self._resources.place(self._exchange, uri))]
        places += [place for task in self._wanted_tasks if (place := await self._place_of(task))]
        watch, listeners = Watch(), list[Listener]()
        if places:
            # The position first: what changes after the reads is told then.
            position = await self._reader.position(self._exchange.project, None)
            at = Cursor(self._exchange.project, position.epoch, position.position)
            for first in range(0, len(places), _AT_ONCE):
                some = places[first : first + _AT_ONCE]
                for place, text in zip(some, await asyncio.gather(*map(self._read, some)), strict=True):
                    if text is not None:
                        watch.add(place, text)
            for wanted in watch.filters(self._exchange.caller):
                listener = self._reader.listen(at, wanted)
                listener.sink, listener.renewed = self._take, self.tell_all
                listeners.append(listener)
        self.close()
        gone = set(self._watch.uris).difference(watch.uris)
        self._watch, self._listeners = watch, listeners
        self._moved.clear()
        if self._other_rights:
            self._due = {uri: when for uri, when in self._due.items() if uri in watch.uris}
        else:
            self._due.update(dict.fromkeys(gone, self._loop.time()))  # it was deleted
        # A task stays, because it has a result when what it is about was deleted.
        known = self._tasks
        self._tasks = {task: known.get(task, {}) for task in self._wanted_tasks if task in watch.uris or task in known}
        for listener in listeners:
            while listener.behind:
                for item in await listener.take():
                    self._take(Batch([item])) if isinstance(item, Event) else self.tell_all()

    async def _read(self, place: Place) -> bytes | None:
        """The thing that a resource is about; None: there is none, or not for this caller."""
        done = await self._resources.answer(self._exchange, self._resources.thing(place), str(self._context.request_id))
        if not done.failed:
            return done.body
        if absent(done):
            return None
        raise ToolFailure(
            "store_unavailable",
            f"a resource cannot be checked now: {done.body.decode()}",
            retry_after_ms=1000 * (done.retry_after or 1),
        )

    def _take(self, batch: Batch) -> bool:
        """Notes what events are about; called by the reader."""
        now, before = self._loop.time(), len(self._due) + len(self._moved)
        for event in batch.events:
            self._moved.update(self._watch.moved_by(event))
            for uri in self._watch.told_by(event):
                self._due.setdefault(uri, max(now, self._told.get(uri, now)))
        if len(self._due) + len(self._moved) != before:  # not for each event of a burst
            self.wake()
        return True

    def tell_all(self) -> None:
        """Tells of every URI: something may have been missed."""
        now = self._loop.time()
        for uri in self._watch.uris:
            self._due.setdefault(uri, max(now, self._told.get(uri, now)))
        self._woken.set()

    async def _place_of(self, id: str) -> Place | None:
        """The document about what a task waits for, under the id of the task."""
        path = await self._of_task(id, TaskMethods.about)
        place = self._resources.place(self._exchange, document_uri(self._exchange.project, path)) if path else None
        return None if place is None else place._replace(uri=id)

    async def _of_task(self, id: str, ask: Callable[[TaskMethods, Context, str], Awaitable[_Answer]]) -> _Answer | None:
        """Asks about a task; None: there is none, or not for this caller. Raises ToolFailure."""
        if self._methods is None:
            return None
        try:
            return await ask(self._methods, self._context, id)
        except MCPError as error:
            if error.error.code != types.INTERNAL_ERROR:
                return None
            raise ToolFailure("store_unavailable", error.error.message) from None

    def _look_at_tasks(self) -> None:
        now = self._loop.time()
        for task in self._tasks:
            self._due.setdefault(task, now)

    async def _tell_task(self, id: str) -> None:
        """Tells of a task what was not told yet."""
        try:
            task = await self._of_task(id, TaskMethods.detailed)
        except ToolFailure:
            self._due[id] = self._loop.time()
            raise
        if task is None:
            return
        state = {name: value for name, value in task.items() if name not in _FLEETING}
        known, self._tasks[id] = self._tasks[id] or {"status": "working"}, state
        if known["status"] != state["status"] or known.get("inputRequests") != state.get("inputRequests"):
            await self._send(TaskNotification(params={**task, "_meta": self._meta}))
            TOLD.inc()

    async def _tell(self, event: ServerEvent) -> None:
        await self._send(event_to_notification(event, self._meta))
        TOLD.inc()

    async def _send(self, notification: Any) -> None:
        await self.taken(self._context.session.send_notification(notification, self._context.request_id))
