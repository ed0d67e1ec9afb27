"""``GET /feed/{project}``: the change feed over HTTP, as an event stream (SSE) or, with ``waitMs``, in JSON.

A stream (``streams.py``) is a task that sleeps until its listener has something (``feed.listener``).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from coordinator.errors import ToolFailure
from coordinator.feed import Event, FeedReader, Gap, Listener
from coordinator.feed.cursor import START
from coordinator.feed.events import frame
from coordinator.feed.listener import Batch, End, Item
from coordinator.feed.metrics import CUT, DELIVERIES, GAPS, LISTENERS
from coordinator.overload import Admission, ShardedAdmission
from coordinator.settings.sections.feed import Feed as Limits
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Criticality
from coordinator.transport import streams
from coordinator.transport.calls import Hints
from coordinator.transport.endpoints import Endpoints
from coordinator.transport.feed.ids import check_ids, limited
from coordinator.transport.feed.request import FeedRequest, read_request
from coordinator.transport.http.authorization import Admitted, Authorization
from coordinator.transport.http.replies import Refused, Scope, Send, reply, to_json
from coordinator.transport.streams import FULL_MS, EventStream, Streams, send_away

_SOONER = 0.95
"""A wait in JSON ends a little earlier than asked, so that its client does not time out first."""


class _Request(EventStream):
    """A request that listens now, for an event stream or for JSON.

    Args:
        admitted: what ``Authorization.admit_listener`` gave for it.
    """

    __slots__ = ("_admitted", "_credentials", "_feed", "_path", "listener")

    def __init__(
        self, feed: Feed, scope: Scope, send: Send, credentials: bytes | None, admitted: Admitted, listener: Listener
    ) -> None:
        grant, _ = admitted
        super().__init__("" if grant is None else grant.caller.id, scope, send)
        self._feed = feed
        self._path = scope["path"]
        self._credentials = credentials
        self._admitted = admitted
        self.listener = listener

    @property
    def ended(self) -> End | None:
        return self.listener.ended

    def end(self, why: End) -> None:
        self.listener.end(why)

    def wake(self) -> None:
        self.listener.nudge()

    beat = wake

    def close(self) -> None:
        super().close()
        self._feed.reader.close(self.listener)

    async def permitted(self) -> bool:
        try:
            return await self.admitted() == self._admitted
        except Refused as refused:
            return refused.status == 503  # no keys to verify with, which says nothing about the token

    async def admitted(self, needed: Collection[str] = ()) -> Admitted:
        """``Authorization.admit_listener``, as it is now."""
        grant, _ = self._admitted
        admit, project = self._feed.authorization.admit_listener, self.listener.project
        return await admit(self._credentials, self._path, project, needed, grant)

    def take(self, batch: Batch) -> bool:
        """Writes events at once; returns whether it could. (They are framed as a chunk of the answer, once for all.)"""
        if self.untaken_since is not None or self.connection is None or not self.connection.write_chunk(batch.chunk):
            return False
        self.written = True
        DELIVERIES.cells[()].value += len(batch.events)
        return True

    async def send_events(self, first: bytes) -> None:
        """Sends the first events, and then what comes, until it ends."""
        listener, loop = self.listener, asyncio.get_running_loop()
        await self.begin(first)
        del first  # the stream may last for days
        listener.sink = self.take
        while True:
            try:
                items = await listener.take()
            except ToolFailure:
                await asyncio.sleep(streams.AWAY_SECONDS)
                items = []
            if items:
                await self.send(b"".join([_frame(item) for item in items]))
                DELIVERIES.cells[()].value += sum(isinstance(item, Event) for item in items)
            elif listener.ended is not None:
                break
            elif loop.time() >= self.beat_at:
                await self.send(frame("heartbeat", self._feed.reader.cursor_of(listener)))
        await self.finish()


class Feed(Streams[_Request]):
    """The feed endpoint of one process."""

    def __init__(
        self,
        reader: FeedReader,
        endpoints: Endpoints,
        authorization: Authorization,
        admission: Admission | ShardedAdmission | None,
        limits: Limits,
        longest_wait_ms: int,
        hints: Hints | None = None,
    ) -> None:
        super().__init__("feed listeners", LISTENERS, CUT, self._end_departed)
        self.reader = reader
        self._endpoints = endpoints
        self.authorization = authorization
        self._admission = admission
        self.limits = limits
        self._longest_wait_ms = longest_wait_ms
        self._hints = hints

    async def serve(self, scope: Scope, send: Send, head: Mapping[bytes, bytes]) -> None:
        """Answers a request.

        Raises:
            Refused: it is malformed, not permitted, or there is no room.
        """
        if scope["method"] != "GET":
            raise Refused(405, "the feed takes GET only", [(b"allow", b"GET")])
        path, credentials = scope["path"], head.get(b"authorization")
        try:
            request = read_request(path, scope["query_string"], head)
            if (refusal := self._endpoints.project(request.project)) is not None:
                caller = await self.authorization.identify(credentials)
                raise Refused(
                    refusal.status, refusal.message + self._endpoints.others(f"/p/{request.project}/mcp", caller)
                )
            admitted = await self.authorization.admit_listener(credentials, path, request.project, request.needed)
            grant, readable = admitted
            caller = None if grant is None else grant.caller
            if self.draining and request.stream:
                await send_away(send)
                return
            listener, gap, cursor = await self._begin(request, caller, readable)
            hint = await self._hint(listener, caller)
            reader = _Request(self, scope, send, credentials, admitted, listener)
            with self.entered(reader):
                if request.stream:
                    await reader.send_events(_first(request.project, cursor, gap, hint))
                else:
                    await self._wait(reader, request, send, gap, hint)
        except ToolFailure as failure:
            _refuse(failure)

    async def _begin(
        self, request: FeedRequest, caller: Caller | None, readable: frozenset[str] | None
    ) -> tuple[Listener, Gap | None, str]:
        """A listener, whether events are missing before its first one, and its cursor.

        Raises:
            ToolFailure: there is no room, an id is unknown, or the store does not answer.
        """
        name = caller.id if caller is not None else ""
        if len(self.open) >= self.limits.listeners_most:
            raise ToolFailure("over_capacity", f"{len(self.open)} listeners are here already", retry_after_ms=FULL_MS)
        if name and self.callers[name] >= self.limits.caller_most:
            raise ToolFailure("actor_quota", "this caller has as many listeners as one may", retry_after_ms=FULL_MS)
        wanted = limited(request.filter, caller, readable)
        ticket = None
        if self._admission is not None:
            entered = self._admission.enter(Criticality.READ, name, request.project)
            ticket = entered or await self._admission.wait(Criticality.READ, name, request.project)
        try:
            position = await self.reader.position(request.project, request.after, request.named)
        finally:
            if self._admission is not None and ticket is not None:
                self._admission.leave(ticket)
        at = await check_ids(self.reader, request, wanted, position)
        if position.gap is not None:
            GAPS.labels(position.gap.reason).inc()
        alone = not (request.stream or request.wait_ms)
        return self.reader.listen(at, wanted, alone), position.gap, str(at)

    async def _hint(self, listener: Listener, caller: Caller | None) -> str:
        """Says that nobody has written to the project, whose name may be misspelt; empty: somebody has."""
        if self._hints is None or listener.entry != START or self._hints.written(listener.project):
            return ""
        return await self._hints.hint(listener.project, caller)

    async def _wait(self, reader: _Request, request: FeedRequest, send: Send, gap: Gap | None, hint: str) -> None:
        """Answers in JSON, with the first events that come, or none."""
        listener, loop = reader.listener, asyncio.get_running_loop()
        seconds = min(request.wait_ms, self._longest_wait_ms) / 1000 * random.uniform(_SOONER, 1.0)
        until, items = loop.time() + seconds, list[Item]()
        # A gap is told at once, and alone; but the answer has to say whether something comes after it.
        while (gap is None or listener.behind) and not items and listener.ended is None and not self.draining:
            left = until - loop.time()
            if left <= 0 and not listener.behind:
                break
            try:
                # A listener that is behind has to look at the stream before there can be nothing for it.
                async with asyncio.timeout(left if not listener.behind else None):
                    items = await listener.take()
            except TimeoutError:
                break
        # What has come as the time ended must not be passed over: the cursor of an answer without events is behind it.
        items = items or listener.taken()
        if listener.ended == "revoked":
            await reader.admitted(request.needed)
        if listener.ended == "moved":
            await self.reader.position(request.project, None)
        if listener.ended == "gone":
            return
        answer = self._answer(listener, items, request.limit if gap is None else 0, gap)
        DELIVERIES.cells[()].value += len(answer["events"])
        if hint and not items:
            answer["hint"] = hint
        await reader.taken(reply(send, 200, to_json(answer), headers=[(b"cache-control", b"no-store")]))

    def _answer(self, listener: Listener, items: list[Item], limit: int, gap: Gap | None) -> dict[str, Any]:
        if items and isinstance(found := items[0], Gap):
            gap = found
            del items[0]
        # A later gap is found again by the next request.
        until = next((n for n, item in enumerate(items) if isinstance(item, Gap)), len(items))
        events = [item for item in items[: min(until, limit)] if isinstance(item, Event)]
        more = len(events) < len(items)
        if events:
            cursor = events[-1].cursor
            more = more or listener.behind
        else:
            cursor = gap.cursor if gap is not None else self.reader.cursor_of(listener)
        answer = {"events": [event.envelope for event in events], "cursor": cursor, "hasMore": more}
        return answer if gap is None else {**answer, "gap": {"reason": gap.reason}}

    def recheck(self, stream: _Request) -> None:
        if self.authorization.enabled:
            super().recheck(stream)

    async def _end_departed(self) -> None:
        """Ends the streams of projects that are served from another store."""
        while self.open:
            await asyncio.sleep(streams.TICK_SECONDS)
            with contextlib.suppress(ToolFailure):
                departed = await self.reader.departed(wait.listener.project for wait in self.open)
                for one in self.open if departed else ():
                    if one.listener.project in departed:
                        one.end("moved")


def _refuse(failure: ToolFailure) -> NoReturn:
    """Answers a failure.

    Raises:
        Refused: always.
    """
    if failure.code == "RESOURCE_NOT_FOUND":
        raise Refused(404, failure.message) from None
    if failure.kind == "permanent":
        raise Refused(400, failure.message) from None
    seconds = max(1, -(-(failure.retry_after_ms or 1_000) // 1000))
    raise Refused(503, failure.message, [(b"retry-after", b"%d" % seconds)]) from None


def _first(project: str, cursor: str, gap: Gap | None, hint: str) -> bytes:
    """What a stream begins with."""
    said = {"project": project, **({"hint": hint} if hint else {})}
    begin = frame("ready", cursor, **said)
    return begin if gap is None else begin + _frame(gap)


def _frame(item: Item) -> bytes:
    return item.frame if isinstance(item, Event) else frame("gap", item.cursor, reason=item.reason)
