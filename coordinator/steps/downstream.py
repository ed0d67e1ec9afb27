"""Downstream MCP servers: one session each, opened when first needed, kept, and opened again when it died.

A session belongs to a task of its own, because what the client library opens must be closed
by the task that opened it. Calls share it. Where a server dies, what is in flight fails as
``connection_error``, nobody knowing how far it came; the next call opens a new session. A server
that cannot be reached is asked again after a while that doubles, and until then calls fail at
once: so one dead server costs the others nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import Any, NamedTuple, Self, TextIO, TypeVar

import anyio
import httpx2
import mcp_types as types
import structlog
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError

from coordinator import __version__
from coordinator.settings.connections import Connection, Filling, hidden

_log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer over HTTP; the client library bounds the events of streams, at less."""
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 8.0
_MOST_PAGES = 100
_LONGEST_LINE = 500
_KEPT_BYTES = 65_536
_TERMINATED = "Session terminated"
"""What the client library says when a server does not know its session any more."""
_CLOSED = "Connection closed"
"""What it says of a whole session."""
_CUT_OFF = ("SSE stream ", "server answered a request with ")
"""How it begins where one request over HTTP was cut off."""
_HTTP_ERROR = "Server returned an error response"
"""What it says of an HTTP status that it knows nothing else about."""
_R = TypeVar("_R")
_NEVER_SENT = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST, types.PARSE_ERROR)


class ConnectionFailed(Exception):
    """A server cannot be reached, or was lost; the text is a sentence without its address.

    Attributes:
        sent: whether the call may have reached the server.
    """

    def __init__(self, message: str, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class _Forgotten(ConnectionFailed):
    """A server does not know the session any more, and has done nothing."""


class CallRefused(Exception):
    """A server answered a call with a protocol error: there is no such tool, or its arguments are wrong."""


class ListedTool(NamedTuple):
    """A tool of a server."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool


class DownstreamServer:
    """One server of the section ``connections`` with kind mcp.

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
        self._session: _Session | None = None
        self._opening: asyncio.Task[_Session] | None = None
        self._opened: _Session | None = None
        """The last one that was to be opened."""
        self._pause = 0.0
        self._not_before = 0.0
        self._reason = ""
        self._closed = False

    async def call(self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> types.CallToolResult:
        """Calls a tool; cancelling this tells the server.

        Raises:
            ConnectionFailed: the server cannot be reached, or was lost on the way.
            CallRefused: it answers with a protocol error.
        """
        params: Any = dict(meta)
        return await self._asked(lambda client: client.call_tool(tool, dict(arguments), meta=params))

    async def tools(self) -> tuple[ListedTool, ...]:
        """Its tools, as it lists them now.

        Raises:
            ConnectionFailed, CallRefused: as ``call``.
        """
        return await self._asked(_all_tools)

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
        if self._opened is not None and self._opened is not self._session:
            # It may be ending just now, and its server with it.
            await self._opened.close(patience=0)
        if self._session is not None:
            await self._session.close()

    async def _asked(self, ask: Callable[[Client], Awaitable[_R]]) -> _R:
        """What the server answers; asks over a new session if it does not know this one any more."""
        session = await self._get()
        try:
            async with self._failing(session):
                return await ask(session.client)
        except _Forgotten:  # so it did not look at what it was asked
            session = await self._get()
        async with self._failing(session):
            return await ask(session.client)

    @contextlib.asynccontextmanager
    async def _failing(self, session: _Session) -> AsyncIterator[None]:
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
                raise self._lost() from None
            if error.message == _HTTP_ERROR and self._connection.url:
                raise ConnectionFailed(f"the connection {self.name!r} answered with an HTTP error", sent=True) from None
            raise CallRefused(error.message) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError, httpx2.HTTPError):
            session.leave()
            raise self._lost() from None
        except RuntimeError as error:
            # A result that departs from the tool's own output schema.
            raise CallRefused(str(error)) from None
        except ValueError:
            raise CallRefused(f"the connection {self.name!r} answered with what the protocol does not know") from None
        finally:
            session.calls -= 1
            if session.ended and not session.calls:
                session.leave()

    def _lost(self) -> ConnectionFailed:
        return ConnectionFailed(f"the connection {self.name!r} was lost during the call", sent=True)

    async def _get(self) -> _Session:
        """The live session; opens one if there is none."""
        if self._session is not None and not self._session.ended:
            return self._session
        opening = self._opening
        if opening is None and not self._closed:
            now = asyncio.get_running_loop().time()
            if now < self._not_before:
                raise ConnectionFailed(f"the connection {self.name!r} does not work: {self._reason}")
            opening = self._opening = asyncio.create_task(self._open(), name=f"connect {self.name}")
            # All that wait may leave before it fails.
            opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        if opening is not None:
            # Shared by all that wait; neither does one of them end it by leaving, nor its end cancel them.
            await asyncio.wait([opening])
        if opening is None or opening.cancelled():
            raise ConnectionFailed(f"the connection {self.name!r} is closed")
        return opening.result()

    async def _open(self) -> _Session:
        loop = asyncio.get_running_loop()
        session = _Session(self.name, self._connection, self._environment, self._changed, self._on_change is not None)
        self._opened = session
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
            self._changed()
            return session
        finally:
            self._opening = None

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()


class _Session:
    """One session from its opening to its end."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        environment: Mapping[str, str],
        on_change: Callable[[], None],
        listen: bool,
    ) -> None:
        self._name = name
        self._connection = connection
        self._filled = Filling(environment)
        self._on_change = on_change
        self._listen = listen
        self._stderr = _Lines(name, self._filled.secrets)
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._scope = anyio.CancelScope()
        """What the client library does while it is cancelled by this goes on to its end, such as ending the server;
        the cancellation of a task would interrupt that."""
        self.client: Client
        """There once ``open`` returned."""
        self.ended = False
        """Whether no further call may be made."""
        self.calls = 0
        """Those that wait for an answer."""

    async def open(self) -> None:
        """Connects, or starts the server.

        Raises:
            ConnectionFailed: within ``startSeconds``.
        """
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(opened), name=f"session {self._name}")
        try:
            async with asyncio.timeout(self._connection.start_seconds):
                self.client = await asyncio.shield(opened)
        except TimeoutError:
            await self.close(patience=0)
            raise ConnectionFailed(f"it did not answer within {self._connection.start_seconds:g} s") from None
        except BaseException:
            await self.close(patience=0)
            raise
        finally:
            if opened.done() and not opened.cancelled():
                opened.exception()

    @property
    def gone(self) -> bool:
        """Whether it is being closed, so that calls fail."""
        return self._leave.is_set()

    async def finish(self) -> None:
        """Takes no more calls, and ends when those under way have."""
        self.ended = True
        if self.calls:
            await self._leave.wait()
        await self.close()

    def leave(self) -> None:
        """Ends it, without waiting."""
        self.ended = True
        self._leave.set()

    async def close(self, patience: float = _CLOSE_SECONDS) -> None:
        """Ends it and waits, but not for ever."""
        self.leave()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=patience)
            if not self._task.done():
                self._scope.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    async def _run(self, opened: asyncio.Future[Client]) -> None:
        with self._scope:
            await self._serve(opened)
        if not opened.done():
            opened.cancel()

    async def _serve(self, opened: asyncio.Future[Client]) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                transport = _Watched(await self._transport(stack), self.leave)
                info = types.Implementation(name="fleet-coordinator", version=__version__)
                client = Client(transport, client_info=info, message_handler=self._heard, cache=None)
                await stack.enter_async_context(client)
                if not opened.done():
                    opened.set_result(client)
                async with anyio.create_task_group() as group:
                    if self._listen:
                        group.start_soon(self._hear, client)
                    await self._leave.wait()
                    group.cancel_scope.cancel()
        except asyncio.CancelledError:
            if not opened.done():
                opened.cancel()
            raise
        except Exception as error:
            reason = _reason(error)
            if self._stderr.last:
                _log.warning("a connection's server said", connection=self._name, lines=list(self._stderr.last))
            if not opened.done():
                opened.set_exception(ConnectionFailed(reason))
            else:
                _log.warning("connection lost", connection=self._name, reason=reason)
        finally:
            self.leave()

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        given = self._connection

        def filled(text: str) -> str:
            try:
                return self._filled(text)
            except KeyError as missing:
                raise ConnectionFailed(f"the environment variable {missing.args[0]} is not set") from None

        if given.url:
            headers = {name: filled(value) for name, value in given.headers.items()}
            # How long a call may take is for who makes it to say.
            timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
            http = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers={"accept-encoding": "identity", **headers},
                    timeout=timeout,
                    event_hooks={"response": [_bounded]},
                )
            )
            return streamable_http_client(filled(given.url), http_client=http)
        return stdio_client(
            StdioServerParameters(
                command=filled(given.command),
                args=[filled(text) for text in given.args],
                env={name: filled(value) for name, value in given.env.items()},
                cwd=filled(given.working_directory) or None,
            ),
            errlog=await self._stderr.open(stack),
        )

    async def _hear(self, client: Client) -> None:
        """Listens for changes of the list, where the protocol's revision does not send them anyway."""
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._on_change()

    async def _heard(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()


class _Answer(httpx2.AsyncByteStream):
    """The body of an answer, up to the bound; what is compressed has none that could be told."""

    def __init__(self, response: httpx2.Response) -> None:
        self._inner: Any = response.stream
        self._packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise httpx2.StreamError("it is compressed, which was not asked for")
        left = MAX_ANSWER
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"it has more than {MAX_ANSWER} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bounded(response: httpx2.Response) -> None:
    """Bounds an answer that the client library would read whole."""
    if response.status_code == 404 and MCP_SESSION_ID in response.request.headers:
        # So servers say that they have forgotten the session; the library would go by what they write beside it.
        response.headers.pop("content-type", None)
    if response.headers.get("content-type", "").lower().startswith("application/json"):
        response.stream = _Answer(response)


class _Lines(asyncio.Protocol):
    """What a server of ours writes on stderr: lines for our log, and the last of them, without its secrets."""

    def __init__(self, name: str, secrets: AbstractSet[str]) -> None:
        self._secrets = secrets
        self.last: deque[str] = deque(maxlen=5)
        self._name = name
        self._rest = b""

    async def open(self, stack: contextlib.AsyncExitStack) -> TextIO:
        """The file for the server to write into."""
        reading, writing = os.pipe()
        file = os.fdopen(writing, "w")
        stack.callback(file.close)
        pipe = os.fdopen(reading, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)
        stack.callback(transport.close)
        return file

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_KEPT_BYTES:]
        for line in lines:
            text = hidden(line.decode(errors="replace"), self._secrets)[:_LONGEST_LINE].rstrip()
            if text:
                self.last.append(text)
                _log.debug("a connection's server says", connection=self._name, line=text)


class _Watched:
    """A transport that says when its server is gone, also while nobody calls."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._inner.__aenter__()
        return _WatchedStream(read, self._on_end), write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._inner.__aexit__(kind, error, trace)
        return ended


class _WatchedStream:
    """The reading side of a transport."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._on_end()
            raise


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


def _reason(error: BaseException) -> str:
    """What went wrong, in a few words that name no address and no secret."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConnectionFailed):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "the program, or its working directory, is not there"
    if isinstance(error, PermissionError):
        return "the program may not be executed"
    if isinstance(error, MCPError):
        if error.code == types.CONNECTION_CLOSED:
            return "it ended without an answer"
        return f"it answered with an error: {error.message[:200]}"
    if isinstance(error, httpx2.ConnectError | ConnectionError):
        return "nobody answers at its address"
    if isinstance(error, httpx2.TimeoutException):
        return "it takes too long to answer"
    return f"{type(error).__name__}"
