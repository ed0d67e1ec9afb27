"""``subscriptions/listen``: tells clients which resources and which lists have changed.

The answer to such a request is a stream of notifications (``subscription.py``). The first one acknowledges what the
client will be told of: URIs are checked by reading, and those that cannot be read are left out. What changes after that
is told, but not how: a client reads again.

There is no replay. Whatever may have been missed, because the reader of the feed had to connect again, is told as a
change of every URI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import mcp_types as types
from mcp.shared.exceptions import MCPError

from coordinator.errors import ToolFailure
from coordinator.feed import FeedReader
from coordinator.feed.metrics import CUT, SUBSCRIPTIONS
from coordinator.settings.sections.feed import Feed as Limits
from coordinator.transport.mcp.declared import require_tasks
from coordinator.transport.mcp.exchange import Context, Exchange, ExchangeOf
from coordinator.transport.mcp.subscription import Offer, Subscription
from coordinator.transport.streams import FULL_MS, Streams

MOST_URIS = 256
"""URIs of one subscription."""
LISTS_SECONDS = 0.25
"""How often it is looked whether lists have changed."""
_DRAIN_MS = 2_000
"""After how many milliseconds a refused client may try again."""


class Listening(Streams[Subscription]):
    """The subscriptions of one process."""

    def __init__(self, reader: FeedReader, limits: Limits) -> None:
        super().__init__("subscriptions", SUBSCRIPTIONS, CUT, self._look_at_lists)
        self.reader = reader
        self.limits = limits

    def handler(
        self,
        offer: Offer,
        exchange_of: ExchangeOf,
    ) -> Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]]:
        """Answers the requests of an endpoint (``serve``)."""

        async def listen(
            context: Context, params: types.SubscriptionsListenRequestParams
        ) -> types.SubscriptionsListenResult:
            return await self.serve(context, params, await exchange_of(context), offer)

        return listen

    async def serve(
        self,
        context: Context,
        params: types.SubscriptionsListenRequestParams,
        exchange: Exchange,
        offer: Offer,
    ) -> types.SubscriptionsListenResult:
        """Answers a request; returns at its orderly end.

        Raises:
            MCPError: it is malformed, there is no room, the store does not answer, or the caller's rights have ended.
        """
        asked = params.notifications
        tasks = _task_ids(asked)
        if tasks is not None:
            require_tasks(context)
        wanted = list(dict.fromkeys(str(uri) for uri in asked.resource_subscriptions or ()))
        for field, values in (("resourceSubscriptions", wanted), ("taskIds", tasks or ())):
            if len(values) > MOST_URIS:
                raise MCPError(
                    types.INVALID_PARAMS, f"notifications.{field}: must be at most {MOST_URIS}, not {len(values)}"
                )
        flags = (("tools", asked.tools_list_changed), ("prompts", asked.prompts_list_changed))
        named = {name for name, on in (*flags, ("resources", asked.resources_list_changed)) if on}
        lists = named & offer.lists() if offer.endpoint.changes else set()
        try:
            self._check_room("" if exchange.caller is None else exchange.caller.id)
            subscription = Subscription(self.reader, context, exchange, offer, wanted, tasks or [], lists)
            with self.entered(subscription):
                return await subscription.run()
        except ToolFailure as failure:
            raise _refusal(failure, exchange) from None

    def _check_room(self, name: str) -> None:
        if self.draining:
            raise ToolFailure("draining", "this process takes no new work", retry_after_ms=_DRAIN_MS)
        full = ""
        if len(self.open) >= self.limits.subscriptions_most:
            full = f"{len(self.open)} subscriptions are open here already"
        elif name and self.callers[name] >= self.limits.caller_subscriptions_most:
            full = f"this caller has {self.callers[name]} subscriptions open here already, as many as one may"
        if full:
            raise ToolFailure("over_capacity", full, retry_after_ms=FULL_MS)

    async def _look_at_lists(self) -> None:
        """Tells subscriptions whose lists have changed. Definitions are read by threads and the catalogue by tasks of
        their own, so what they have now is compared with what there was."""
        while listening := [subscription for subscription in self.open if subscription.endpoint.changes]:
            offered = {subscription.endpoint.name: subscription.endpoint.offered() for subscription in listening}
            for one in listening:
                one.look_at_lists(offered[one.endpoint.name])
            await asyncio.sleep(LISTS_SECONDS)


def _task_ids(asked: types.SubscriptionFilter) -> list[str] | None:
    """The tasks that a client asks for; None: it does not name any.

    Raises:
        MCPError: they are malformed.
    """
    ids = (asked.model_extra or {}).get("taskIds")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(id_, str) for id_ in ids)):
        raise MCPError(types.INVALID_PARAMS, "notifications.taskIds: must be a list of ids of tasks")
    return None if ids is None else list(dict.fromkeys(ids))


def _refusal(failure: ToolFailure, exchange: Exchange) -> MCPError:
    later = failure.retry_after_ms or 1_000
    exchange.retry_after = -(-later // 1000)
    return MCPError(types.INTERNAL_ERROR, f"{failure.code}: {failure.message}", {"retryAfterMs": later})
