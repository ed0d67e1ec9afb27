"""``GET /feed/{project}``: the change feed over HTTP, as an event stream (SSE) or, with ``waitMs``, in JSON.

A stream costs a connection and a task that sleeps until its listener has something (``feed.listener``). One task for
all of them looks once a second who needs a heartbeat, whose rights have to be checked again, and who takes nothing any
more.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Collection, Mapping
from contextvars import Context
from typing import Any, NoReturn

import structlog

from coordinator.errors import ToolFailure
from coordinator.feed import Event, FeedReader, Gap, Listener
from coordinator.feed.cursor import START
from coordinator.feed.events import frame
from coordinator.feed.listener import Batch, Item
from coordinator.identity.grants import Grant
from coordinator.metrics import recorder
from coordinator.metrics.cells import Cell
from coordinator.overload import Admission, ShardedAdmission
from coordinator.settings.feed import Feed as Limits
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Criticality
from coordinator.transport.authorization import Authorization
from coordinator.transport.calls import Hints
from coordinator.transport.endpoints import Endpoints
from coordinator.transport.feed_ids import check_ids, limited
from coordinator.transport.feed_request import FeedRequest, read_request
from coordinator.transport.replies import CONNECTION, STREAM_HEADERS, Connection, Refused, Scope, Send, reply, to_json

_log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
RECHECK_SECONDS = 20.0
"""How often the rights of a caller are checked again; with a tick and a slow key server, it takes less than 30 s."""
STUCK_SECONDS = 30.0
"""A client that has taken nothing for so long is cut off, also if there is little for it."""
DRAIN_SECONDS = 5.0
"""Over how long the ends of streams are spread when this process stops."""
RETRY_MS = 2_000
"""After about how long clients connect again."""
_FULL_MS = 5_000
"""The retry delay of clients for whom there is no room."""
_AWAY_SECONDS = 1.0
"""The pause of a listener that is behind while the store does not answer."""
_SOONER = 0.95
"""A wait in JSON ends a little earlier than asked, so that its client does not time out first."""

_ENDS = {
    "slow": "events came faster than they were taken; connect again with the last id",
    "revoked": "the rights of this token have ended or changed; connect again",
    "drain": "this process takes no new work; connect again",
    "moved": "the project is served from another store; connect to its fleet",
}


class _Open:
    """A request that listens now."""

    __slots__ = (
        "authorization",
        "connection",
        "grant",
        "listener",
        "path",
        "readable",
        "recheck_at",
        "sending",
        "since",
        "told",
        "written",
    )

    def __init__(
        self,
        listener: Listener,
        connection: Connection | None,
        grant: Grant | None,
        readable: frozenset[str] | None,
        told: Cell,
    ) -> None:
        now = asyncio.get_running_loop().time()
        self.told = told
        """Counts the events that are sent to it."""
        self.listener = listener
        self.connection = connection
        self.grant = grant
        self.readable = readable
        self.authorization: bytes | None = None
        self.path = ""
        self.since = now
        """When something was last sent to it."""
        self.sending = False
        self.written = False
        """Whether something was written since the last tick."""
        self.recheck_at = now + RECHECK_SECONDS * random.uniform(0.8, 1.0)

    @property
    def caller(self) -> Caller | None:
        """Who listens; None: an anonymous caller."""
        return None if self.grant is None else self.grant.caller

    def lost(self) -> None:
        """Its client has disconnected."""
        self.listener.end("gone")

    def write(self, batch: Batch) -> bool:
        """Writes events at once; returns whether it could. (They are framed as a chunk of the answer, once for all.)"""
        if self.sending or self.connection is None or not self.connection.write_chunk(batch.chunk):
            return False
        self.written = True
        self.told.value += len(batch.events)
        return True


class Feed:
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
        self._reader = reader
        self._endpoints = endpoints
        self._authorization = authorization
        self._admission = admission
        self.limits = limits
        self._longest_wait_ms = longest_wait_ms
        self._hints = hints
        self._open: set[_Open] = set()
        self._callers: Counter[str] = Counter()
        self._draining = False
        self._ticking: asyncio.Task[None] | None = None
        self._rechecks: set[asyncio.Task[None]] = set()
        self._metrics = recorder()
        self._told = self._metrics.feed_deliveries()

    @property
    def listeners(self) -> int:
        """Requests that listen now."""
        return len(self._open)

    def hold(self, held: bool, seconds: float = DRAIN_SECONDS) -> None:
        """Ends all streams, spread over some seconds, because this process takes no new work; or serves them again."""
        self._draining = held
        if held:
            loop = asyncio.get_running_loop()
            for one in self._open:
                loop.call_later(random.uniform(0, seconds), self._end, one, "drain")

    async def aclose(self) -> None:
        """Ends what runs in the background."""
        tasks = [task for task in (self._ticking, *self._rechecks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._reader.aclose()

    async def serve(self, scope: Scope, send: Send, head: Mapping[bytes, bytes]) -> None:
        """Answers a request.

        Raises:
            Refused: it is malformed, not permitted, or there is no room.
        """
        if scope["method"] != "GET":
            raise Refused(405, "the feed takes GET only", [(b"allow", b"GET")])
        path, credentials = scope["path"], head.get(b"authorization")
        try:
            asked = read_request(path, scope["query_string"], head)
            if (refusal := self._endpoints.project(asked.project)) is not None:
                caller = await self._authorization.identify(credentials)
                raise Refused(
                    refusal.status, refusal.message + self._endpoints.others(f"/p/{asked.project}/mcp", caller)
                )
            grant, readable = await self._authorization.admit_listener(credentials, path, asked.project, asked.needed)
            caller = None if grant is None else grant.caller
            if self._draining and asked.stream:
                # A browser would take any other status for the end, and not come back.
                await self._send_retry(send)
                return
            listener, gap, cursor = await self._begin(asked, caller, readable)
            hint = await self._hint(listener, caller)
        except ToolFailure as failure:
            _refuse(failure)
        one = _Open(listener, scope.get(CONNECTION), grant, readable, self._told)
        one.authorization, one.path = credentials, path
        self._enter(one)
        try:
            if asked.stream:
                await self._stream(one, send, _first(asked.project, cursor, gap, hint))
            else:
                await self._wait(one, asked, send, gap, hint)
        except ToolFailure as failure:
            _refuse(failure)
        finally:
            self._exit(one)

    async def _begin(
        self, asked: FeedRequest, caller: Caller | None, readable: frozenset[str] | None
    ) -> tuple[Listener, Gap | None, str]:
        """A listener, whether events are missing before its first one, and its cursor.

        Raises:
            ToolFailure: there is no room, an id is unknown, or the store does not answer.
        """
        name = caller.id if caller is not None else ""
        if len(self._open) >= self.limits.listeners_most:
            raise ToolFailure("over_capacity", f"{len(self._open)} listeners are here already", retry_after_ms=_FULL_MS)
        if name and self._callers[name] >= self.limits.caller_most:
            raise ToolFailure("actor_quota", "this caller has as many listeners as one may", retry_after_ms=_FULL_MS)
        wanted = limited(asked.filter, caller, readable)
        ticket = None
        if self._admission is not None:
            entered = self._admission.enter(Criticality.READ, name, asked.project)
            ticket = entered or await self._admission.wait(Criticality.READ, name, asked.project)
        try:
            found = await self._reader.position(asked.project, asked.after, asked.named)
        finally:
            if self._admission is not None and ticket is not None:
                self._admission.leave(ticket)
        at = await check_ids(self._reader, asked, wanted, found)
        if found.gap is not None:
            self._metrics.feed_gap(found.gap.reason)
        alone = not (asked.stream or asked.wait_ms)
        return self._reader.listen(at, wanted, alone), found.gap, str(at)

    async def _hint(self, listener: Listener, caller: Caller | None) -> str:
        """Says that nobody has written to the project, whose name may be misspelt; empty: somebody has."""
        if self._hints is None or listener.entry != START or self._hints.written(listener.project):
            return ""
        return await self._hints.hint(listener.project, caller)

    async def _stream(self, one: _Open, send: Send, first: bytes) -> None:
        listener = one.listener
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self._send(one, send, first)
        del first  # the stream may last for days
        if one.connection is not None:
            listener.sink = one.write
        while True:
            try:
                items = await listener.take()
            except ToolFailure:
                await asyncio.sleep(_AWAY_SECONDS)
                items = []
            if items:
                await self._send(one, send, b"".join([_frame(item) for item in items]))
                self._told.value += sum(isinstance(item, Event) for item in items)
            elif listener.ended is not None:
                break
            elif asyncio.get_running_loop().time() - one.since >= HEARTBEAT_SECONDS:
                await self._send(one, send, frame("heartbeat", self._reader.cursor_of(listener)))
        if listener.ended != "gone":
            last = b": %b\nretry: %d\n\n" % (_ENDS[listener.ended].encode(), _retry_ms())
            await send({"type": "http.response.body", "body": last})

    async def _send(self, one: _Open, send: Send, body: bytes) -> None:
        one.sending = True
        await send({"type": "http.response.body", "body": body, "more_body": True})
        one.sending = False
        one.since = asyncio.get_running_loop().time()

    async def _send_retry(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        last = b": %b\nretry: %d\n\n" % (_ENDS["drain"].encode(), _retry_ms())
        await send({"type": "http.response.body", "body": last})

    async def _wait(self, one: _Open, asked: FeedRequest, send: Send, gap: Gap | None, hint: str) -> None:
        """Answers in JSON, with the first events that come, or none."""
        listener, loop = one.listener, asyncio.get_running_loop()
        seconds = min(asked.wait_ms, self._longest_wait_ms) / 1000 * random.uniform(_SOONER, 1.0)
        until, items = loop.time() + seconds, list[Item]()
        # A gap is told at once, and alone; but the answer has to say whether something comes after it.
        while (gap is None or listener.behind) and not items and listener.ended is None and not self._draining:
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
            await self._admitted(one, asked.needed)
        if listener.ended == "moved":
            await self._reader.position(asked.project, None)
        if listener.ended == "gone":
            return
        answer = self._answer(listener, items, asked.limit if gap is None else 0, gap)
        self._told.value += len(answer["events"])
        if hint and not items:
            answer["hint"] = hint
        one.sending = True
        await reply(send, 200, to_json(answer), headers=[(b"cache-control", b"no-store")])

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
            cursor = gap.cursor if gap is not None else self._reader.cursor_of(listener)
        answer = {"events": [event.envelope for event in events], "cursor": cursor, "hasMore": more}
        return answer if gap is None else {**answer, "gap": {"reason": gap.reason}}

    def _enter(self, one: _Open) -> None:
        self._open.add(one)
        if one.caller is not None:
            self._callers[one.caller.id] += 1
        self._metrics.feed_listeners(len(self._open))
        if one.connection is not None:
            one.connection.on_lost = one.lost
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.create_task(self._tick(), name="feed listeners", context=Context())

    def _exit(self, one: _Open) -> None:
        if one.connection is not None:
            one.connection.on_lost = None
        if one.listener.ended not in (None, "gone"):
            self._metrics.feed_cut(str(one.listener.ended))
        self._reader.close(one.listener)
        self._open.discard(one)
        self._metrics.feed_listeners(len(self._open))
        if one.caller is not None:
            self._callers[one.caller.id] -= 1
            if not self._callers[one.caller.id]:
                del self._callers[one.caller.id]

    async def _tick(self) -> None:
        while self._open:
            await asyncio.sleep(TICK_SECONDS)
            now = asyncio.get_running_loop().time()
            for one in tuple(self._open):
                if one.written:
                    one.since, one.written = now, False
                if one.sending and (one.listener.ended is not None or now - one.since > STUCK_SECONDS):
                    self._end(one, "slow")
                elif now - one.since >= HEARTBEAT_SECONDS:
                    one.listener.nudge()
                if one.recheck_at <= now and self._authorization.enabled:
                    one.recheck_at = now + RECHECK_SECONDS
                    task = asyncio.create_task(self._recheck(one), name="feed rights")
                    self._rechecks.add(task)
                    task.add_done_callback(self._rechecks.discard)
            with contextlib.suppress(ToolFailure):
                departed = await self._reader.departed(one.listener.project for one in self._open)
                for one in tuple(self._open) if departed else ():
                    if one.listener.project in departed:
                        self._end(one, "moved")

    def _end(self, one: _Open, why: Any) -> None:
        one.listener.end(why)
        if one.sending and one.connection is not None:
            one.connection.abort()  # its client takes nothing, so it would not get the rest either

    async def _recheck(self, one: _Open) -> None:
        """Ends a stream whose caller may no longer read what it gets."""
        try:
            found = await self._admitted(one)
        except Refused as refused:
            if refused.status != 503:  # no keys to verify with, which says nothing about the token
                one.listener.end("revoked")
            return
        if found != (one.grant, one.readable):
            one.listener.end("revoked")

    async def _admitted(self, one: _Open, needed: Collection[str] = ()) -> tuple[Grant | None, frozenset[str] | None]:
        """``Authorization.admit_listener`` of a caller who listens already."""
        project = one.listener.project
        return await self._authorization.admit_listener(one.authorization, one.path, project, needed, one.grant)


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
    begin = b"retry: %d\n%b" % (_retry_ms(), frame("ready", cursor, **said))
    return begin if gap is None else begin + _frame(gap)


def _frame(item: Item) -> bytes:
    return item.frame if isinstance(item, Event) else frame("gap", item.cursor, reason=item.reason)


def _retry_ms() -> int:
    return int(RETRY_MS * random.uniform(0.5, 1.5))
