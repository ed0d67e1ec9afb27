"""``subscriptions/listen``: tells clients which resources and which lists have changed.

The answer to such a request is a stream of notifications. The first one acknowledges what the client will be told of:
URIs are checked by reading, and those that cannot be read are left out. What changes after that is told, but not how: a
client reads again. So a subscription keeps no events, only the URIs that are to be told, however slow its client is.

There is no replay. Whatever may have been missed, because the reader of the feed had to connect again, is told as a
change of every URI.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from typing import Any, Literal

import mcp_types as types
from mcp.server.context import ServerRequestContext
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
from coordinator.metrics import recorder
from coordinator.settings.feed import Feed as Limits
from coordinator.toolsets.caller import Caller
from coordinator.transport.declared import require_tasks
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.exchange import Exchange
from coordinator.transport.resources import Place, Resources, absent
from coordinator.transport.watch import Tree, Watch, lineage_of

SPACING_SECONDS = 0.25
"""The least time between two notifications about the same URI."""
MOST_URIS = 256
"""URIs of one subscription."""
LOOK_SECONDS = 1.0
"""Rights are checked before a notification if the last check is longer ago."""
RECHECK_SECONDS = 20.0
"""They are checked so often if there is nothing to tell."""
STUCK_SECONDS = 30.0
"""A client that has taken nothing for so long is cut off."""
LISTS_SECONDS = 0.25
"""How often it is looked whether lists have changed."""
AWAY_SECONDS = 1.0
"""The pause while the store does not answer."""
_FULL_MS = 5_000
_DRAIN_MS = 2_000
"""After how many milliseconds a refused client may try again."""
_AT_ONCE = 16
"""URIs that are checked at the same time."""

_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
End = Literal["drain", "revoked"]
Context = ServerRequestContext[Any]


class Listening:
    """The subscriptions of one process."""

    def __init__(self, reader: FeedReader, limits: Limits) -> None:
        self.reader = reader
        self.limits = limits
        self.metrics = recorder()
        self.open: set[Subscription] = set()
        """Those that are open now."""
        self._callers: Counter[str] = Counter()
        self._draining = False
        self._looking: asyncio.Task[None] | None = None

    def hold(self, held: bool, seconds: float) -> None:
        """Ends all streams, spread over some seconds, because this process takes no new work; or accepts them again."""
        self._draining = held
        if held:
            loop = asyncio.get_running_loop()
            for one in self.open:
                loop.call_later(random.uniform(0, seconds), one.end, "drain")

    async def aclose(self) -> None:
        """Ends what runs in the background; the reader, too."""
        await self.reader.aclose()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def handler(
        self,
        endpoint: Endpoint,
        resources: Resources,
        lists: Callable[[], frozenset[str]],
        exchange_of: Callable[[Context], Awaitable[Exchange]],
    ) -> Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]]:
        """Answers the requests of an endpoint (``serve``)."""

        async def listen(
            context: Context, params: types.SubscriptionsListenRequestParams
        ) -> types.SubscriptionsListenResult:
            return await self.serve(context, params, await exchange_of(context), endpoint, resources, lists())

        return listen

    async def serve(
        self,
        context: Context,
        params: types.SubscriptionsListenRequestParams,
        exchange: Exchange,
        endpoint: Endpoint,
        resources: Resources,
        lists: frozenset[str],
    ) -> types.SubscriptionsListenResult:
        """Answers a request; returns at its orderly end.

        Args:
            lists: those of tools, prompts and resources that the server offers.

        Raises:
            MCPError: it is malformed, there is no room, the store does not answer, or the caller's rights have ended.
        """
        if (params.notifications.model_extra or {}).get("taskIds") is not None:
            # Nothing is told of tasks, which is optional; but clients that have not declared them must hear of that.
            require_tasks(context)
        wanted = list(dict.fromkeys(str(uri) for uri in params.notifications.resource_subscriptions or ()))
        if len(wanted) > MOST_URIS:
            limit = f"notifications.resourceSubscriptions: must be at most {MOST_URIS} URIs, not {len(wanted)}"
            raise MCPError(types.INVALID_PARAMS, limit)
        asked = params.notifications
        flags = (("tools", asked.tools_list_changed), ("prompts", asked.prompts_list_changed))
        named = {name for name, on in (*flags, ("resources", asked.resources_list_changed)) if on}
        told = named & lists if endpoint.changes else set()
        name = exchange.caller.id if exchange.caller is not None else ""
        self._check_room(name, exchange)
        one = Subscription(self, context, exchange, endpoint, resources, wanted, told)
        self._enter(one, name)
        try:
            return await one.run()
        except ToolFailure as failure:
            raise _refusal(failure, exchange) from None
        finally:
            self._exit(one, name)

    def _check_room(self, name: str, exchange: Exchange) -> None:
        if self._draining:
            raise _refusal(
                ToolFailure("draining", "this process takes no new work", retry_after_ms=_DRAIN_MS), exchange
            )
        full = ""
        if len(self.open) >= self.limits.subscriptions_most:
            full = f"{len(self.open)} subscriptions are open here already"
        elif name and self._callers[name] >= self.limits.caller_subscriptions_most:
            full = f"this caller has {self._callers[name]} subscriptions open here already, as many as one may"
        if full:
            raise _refusal(ToolFailure("over_capacity", full, retry_after_ms=_FULL_MS), exchange)

    def _enter(self, one: Subscription, name: str) -> None:
        self.open.add(one)
        self._callers[name] += 1
        self.metrics.subscriptions(len(self.open))
        if one.lists and (self._looking is None or self._looking.done()):
            # In an empty context, so that its log lines do not carry the id of a request.
            self._looking = asyncio.create_task(self._look_at_lists(), name="changed lists", context=Variables())

    def _exit(self, one: Subscription, name: str) -> None:
        one.close()
        if one.ended is not None:
            self.metrics.feed_cut(one.ended)
        self.open.discard(one)
        self.metrics.subscriptions(len(self.open))
        self._callers[name] -= 1
        if not self._callers[name]:
            del self._callers[name]

    async def _look_at_lists(self) -> None:
        """Tells subscriptions whose lists have changed. Definitions are read by threads and the catalogue by tasks of
        their own, so what they have now is compared with what there was."""
        while listening := [one for one in self.open if one.lists]:
            offered = {one.endpoint.name: one.endpoint.offered() for one in listening}
            for one in listening:
                one.look_at_lists(offered[one.endpoint.name])
            await asyncio.sleep(LISTS_SECONDS)


class Subscription:
    """One stream.

    Args:
        wanted: the URIs that the client asks for.
        lists: the lists that it will be told of.
    """

    def __init__(
        self,
        home: Listening,
        context: Context,
        exchange: Exchange,
        endpoint: Endpoint,
        resources: Resources,
        wanted: list[str],
        lists: set[str],
    ) -> None:
        self._home = home
        self._context = context
        self._exchange = exchange
        self.endpoint = endpoint
        self._resources = resources
        self._wanted = wanted
        self.lists = lists
        self.ended: End | None = None
        self._offered = endpoint.offered()
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
        self._other_rights = False
        """Whether that is because of the caller's rights."""
        self._moved: set[Tree] = set()
        """Trees that may have another root now."""
        self._looked = self._loop.time()
        self._woken = asyncio.Event()
        self._meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}

    def end(self, why: End) -> None:
        """It tells nothing more."""
        self.ended = self.ended or why
        self._woken.set()

    def close(self) -> None:
        """Follows no events any more."""
        for listener in self._listeners:
            self._home.reader.close(listener)
        self._listeners = []

    def look_at_lists(self, offered: tuple[object, ...]) -> None:
        """Compares what the endpoint offers with what it offered before."""
        if offered != self._offered:
            self._offered = offered
            self._changed |= self.lists
            self._woken.set()

    async def run(self) -> types.SubscriptionsListenResult:
        """Acknowledges, and tells of changes until the end. Raises ToolFailure before it has acknowledged."""
        await self._follow()
        await self._send(
            types.SubscriptionsAcknowledgedNotification(
                params=types.SubscriptionsAcknowledgedNotificationParams(
                    notifications=types.SubscriptionFilter(
                        **{f"{name}_list_changed": True for name in self.lists},
                        resource_subscriptions=list(self._watch.uris) or None,
                    ),
                    _meta=self._meta,
                )
            )
        )
        while self.ended is None:
            try:
                await self._step()
            except ToolFailure:
                await self._sleep(AWAY_SECONDS)
        if self.ended == "revoked":
            raise MCPError(types.INVALID_REQUEST, "The rights of this token have ended or changed")
        return types.SubscriptionsListenResult(_meta=self._meta)

    async def _step(self) -> None:
        """Tells what is due, or waits for something."""
        now = self._loop.time()
        due = [uri for uri, at in self._due.items() if at <= now]
        recheck_at = self._looked + RECHECK_SECONDS
        if due or self._changed or self._stale or now >= recheck_at:
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
                    await self._tell(ResourceUpdated(uri))
            for name in sorted(self._changed) if self.ended is None else ():
                self._changed.discard(name)
                await self._tell(_LISTS[name])
            return
        self._told = {uri: at for uri, at in self._told.items() if at > now}
        if self.ended is None:
            await self._sleep(min([recheck_at, *self._due.values()]) - now)

    async def _follow_again(self) -> None:
        """Follows other events, because trees have moved or the caller's rights have changed."""
        before = self._watch.uris
        await self._follow()
        self._stale = False
        if not self._other_rights:
            # What is there no longer was deleted.
            self._due.update(dict.fromkeys(set(before).difference(self._watch.uris), self._loop.time()))
        elif self._wanted and not (self._watch.uris or self.lists):
            self.end("revoked")
        self._other_rights = False
        self.tell_all()

    async def _sleep(self, seconds: float) -> None:
        """Sleeps until the time is over or something comes."""
        self._woken.clear()
        timer = self._loop.call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    async def _look(self, now: float) -> None:
        """Checks the caller's rights, unless that was done just now."""
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
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
        watch, listeners = Watch(), list[Listener]()
        if places:
            # The position first: what changes after the reads is told then.
            found = await self._home.reader.position(self._exchange.project, None)
            at = Cursor(self._exchange.project, found.epoch, found.position)
            for first in range(0, len(places), _AT_ONCE):
                some = places[first : first + _AT_ONCE]
                for place, text in zip(some, await asyncio.gather(*map(self._read, some)), strict=True):
                    if text is not None:
                        watch.add(place, text)
            for wanted in watch.filters(self._exchange.caller):
                listener = self._home.reader.listen(at, wanted)
                listener.sink, listener.renewed = self._take, self.tell_all
                listeners.append(listener)
        self.close()
        self._watch, self._listeners = watch, listeners
        self._moved.clear()
        self._due = {uri: when for uri, when in self._due.items() if uri in watch.uris}
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
        now = self._loop.time()
        for event in batch.events:
            self._moved.update(self._watch.moved_by(event))
            for uri in self._watch.told_by(event):
                self._due.setdefault(uri, max(now, self._told.get(uri, now)))
        self._woken.set()
        return True

    def tell_all(self) -> None:
        """Tells of every URI: something may have been missed."""
        now = self._loop.time()
        for uri in self._watch.uris:
            self._due.setdefault(uri, max(now, self._told.get(uri, now)))
        self._woken.set()

    async def _tell(self, event: ServerEvent) -> None:
        await self._send(event_to_notification(event, self._meta))
        self._home.metrics.subscription_told()

    async def _send(self, notification: types.ServerNotification) -> None:
        timer = self._loop.call_later(STUCK_SECONDS, self._cut)
        try:
            await self._context.session.send_notification(notification, self._context.request_id)
        finally:
            timer.cancel()

    def _cut(self) -> None:
        """Its client takes nothing, so it is disconnected, and will listen and read again."""
        if self._exchange.connection is not None:
            self._home.metrics.feed_cut("slow")
            self._exchange.connection.abort()


def _refusal(failure: ToolFailure, exchange: Exchange) -> MCPError:
    later = failure.retry_after_ms or 1_000
    exchange.retry_after = -(-later // 1000)
    return MCPError(types.INTERNAL_ERROR, f"{failure.code}: {failure.message}", {"retryAfterMs": later})
