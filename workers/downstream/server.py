"""A downstream server as its callers see it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx2
import mcp_types as types
import structlog
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from coordinator.settings.connections import Connection
from workers.downstream.failures import CallRefused, ConnectionFailed
from workers.downstream.session import Session

_log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
_IDEMPOTENCY_KEY = "fleet-coordinator/idempotency-key"
"""Key in the ``_meta`` of each call: the same for all attempts of a step."""
_MOST_PAGES = 100
_TERMINATED = "Session terminated"
"""What the client library says when a server does not know its session any more."""
_CLOSED = "Connection closed"
"""What it says of a whole session."""
_CUT_OFF = ("SSE stream ", "server answered a request with ")
"""How it begins where one request over HTTP was cut off."""
_HTTP_ERROR = "Server returned an error response"
"""What it says of an HTTP status that it knows nothing else about."""
_NEVER_SENT = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST, types.PARSE_ERROR)
_R = TypeVar("_R")


class ListedTool(NamedTuple):
    """A tool of a server."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool


class DownstreamServer:
    """One server of the section ``connections`` with kind mcp.

    Calls share its session. Where the server dies, what is in flight fails as ``ConnectionFailed``,
    nobody knowing how far it came; the next call opens a new session. A server that cannot be reached
    is asked again after a while that doubles, and until then calls fail at once: so one dead
    server costs the others nothing.

    Args:
        name: of the connection.
        environment: what ``${NAME}`` in the connection stands for.
        on_change: called when its tools may be others than before; without it nobody listens for that.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        environment: Mapping[str, str] = os.environ,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._connection = connection
        self._environment = environment
        self._on_change = on_change
        self._session: Session | None = None
        self._opening: asyncio.Task[Session] | None = None
        self._sessions: set[Session] = set()
        """Those whose servers may still run: the present one, one that is being opened, and some that are ending."""
        self._pause = 0.0
        self._not_before = 0.0
        self._reason = ""
        self._closed = False

    async def call(self, tool: str, arguments: Mapping[str, Any], idempotency_key: str) -> types.CallToolResult:
        """Calls a tool; cancelling this tells the server.

        Raises:
            ConnectionFailed: the server cannot be reached, or was lost on the way.
            CallRefused: it answers with a protocol error.
        """
        meta: Any = {_IDEMPOTENCY_KEY: idempotency_key}
        return await self._asked(lambda client: client.call_tool(tool, dict(arguments), meta=meta))

    async def tools(self) -> tuple[ListedTool, ...]:
        """Its tools, as it lists them now.

        Raises:
            ConnectionFailed, CallRefused: as ``call``.
        """
        return await self._asked(_all_tools, listing=True)

    async def finish(self) -> None:
        """Takes no more calls, and closes when those under way have their answers."""
        self._closed = True
        if self._session is not None:
            await self._session.finish()
        await self.close()

    async def close(self) -> None:
        """Ends the session, and its server if that is a process of ours."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        ending = (one.close(patience=0) for one in self._sessions if one is not self._session)
        await asyncio.gather(*ending)
        if self._session is not None:
            await self._session.close()

    async def _asked(self, ask: Callable[[Client], Awaitable[_R]], listing: bool = False) -> _R:
        """What the server answers; asks over a new session if it does not know this one any more."""
        session = await self._get(listing)
        try:
            async with self._failing(session):
                return await ask(session.client)
        except _Forgotten:  # so it did not look at what it was asked
            session = await self._get(listing)
        async with self._failing(session):
            return await ask(session.client)

    @contextlib.asynccontextmanager
    async def _failing(self, session: Session) -> AsyncIterator[None]:
        """Turns what the client library raises into our failures."""
        session.calls += 1
        try:
            yield
        except MCPError as error:
            if error.message == _TERMINATED:
                # Others that wait for their answers are told the same.
                session.ended = True
                raise _Forgotten(f"the connection {self.name!r} does not know its session any more") from None
            if error.code in _NEVER_SENT:
                raise CallRefused(error.message) from None
            if error.message == _CLOSED:
                session.leave()
            # Servers have errors of their own with the code that means a closed connection to the library.
            if session.gone or (error.code == types.CONNECTION_CLOSED and error.message.startswith(_CUT_OFF)):
                raise self._lost(session) from None
            if error.message == _HTTP_ERROR and self._connection.url:
                raise ConnectionFailed(f"the connection {self.name!r} answered with an HTTP error", sent=True) from None
            raise CallRefused(error.message) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError, httpx2.HTTPError):
            session.leave()
            raise self._lost(session) from None
        except RuntimeError as error:
            # A result that departs from the tool's own output schema.
            raise CallRefused(str(error)) from None
        except ValueError:
            raise CallRefused(f"the connection {self.name!r} answered with what the protocol does not know") from None
        finally:
            session.calls -= 1
            if session.ended and not session.calls:
                session.leave()

    def _lost(self, session: Session) -> ConnectionFailed:
        why = f": {session.reason}" if session.reason else ""
        return ConnectionFailed(f"the connection {self.name!r} was lost during the call{why}", sent=True)

    async def _get(self, listing: bool) -> Session:
        """The live session; opens one if there is none, perhaps with other tools: ``listing`` is about to see."""
        if self._session is not None and not self._session.ended:
            return self._session
        opening = self._opening
        if opening is None and not self._closed:
            now = asyncio.get_running_loop().time()
            if now < self._not_before:
                raise ConnectionFailed(f"the connection {self.name!r} does not work: {self._reason}")
            opening = self._opening = asyncio.create_task(self._open(listing), name=f"connect {self.name}")
            # All that wait may leave before it fails.
            opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        if opening is not None:
            # Shared by all that wait; neither does one of them end it by leaving, nor its end cancel them.
            await asyncio.wait([opening])
        if opening is None or opening.cancelled():
            raise ConnectionFailed(f"the connection {self.name!r} is closed")
        return opening.result()

    async def _open(self, listing: bool) -> Session:
        loop = asyncio.get_running_loop()
        session = Session(self.name, self._connection, self._environment, self._changed, self._on_change is not None)
        self._sessions = {one for one in self._sessions if not one.over} | {session}
        try:
            await session.open()
        except ConnectionFailed as failure:
            self._reason = str(failure)
            self._pause = min(max(self._pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
            self._not_before = loop.time() + self._pause
            _log.warning("connection failed", connection=self.name, reason=self._reason, seconds=self._pause)
            raise ConnectionFailed(f"the connection {self.name!r} does not work: {self._reason}") from None
        else:
            self._pause = 0.0
            self._session = session
            if not listing:
                self._changed()
            return session
        finally:
            self._opening = None

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()


class _Forgotten(ConnectionFailed):
    """A server does not know the session any more, and has done nothing."""


def content_of(result: types.CallToolResult) -> list[dict[str, Any]]:
    """The content blocks of a result as the protocol writes them in JSON."""
    return [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]


async def _all_tools(client: Client) -> tuple[ListedTool, ...]:
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += map(_listed, page.tools)
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(found)


def _listed(tool: types.Tool) -> ListedTool:
    hints = tool.annotations
    return ListedTool(
        tool.name,
        tool.title or (hints.title if hints and hints.title else ""),
        tool.description or "",
        tool.input_schema,
        bool(hints and hints.read_only_hint),
    )
