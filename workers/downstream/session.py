"""One session with a downstream server, in a task of its own.

The client library requires that the task that opens its client also closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import mcp_types as types
import structlog
from mcp.client import Client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError

from coordinator import NAME, __version__
from coordinator.settings.sections.connections import Connection, Interpolator, hidden
from workers.connections.start_failures import start_problem
from workers.downstream.answers import MAX_ANSWER, bound_answer
from workers.downstream.asked import refuse_requests
from workers.downstream.checked import check_results
from workers.downstream.failures import ConnectionFailed
from workers.downstream.listing import Listing
from workers.downstream.reasons import (
    CONNECT_SECONDS,
    Noted,
    note_answer,
    noted,
    old_transport,
    reason_of,
    speaks_old_transport,
)
from workers.downstream.stderr import Lines
from workers.downstream.stdio import stdio_transport
from workers.downstream.watched import Watched

_log = structlog.get_logger(__name__)

_CLOSE_SECONDS = 8.0
_WHY_SECONDS = 1.0
"""How long a call that was lost waits for the reason."""
LISTEN_AGAIN_SECONDS = 10.0
"""The pause before listening again to a server that ended its stream of changes."""


class Session:
    """One session from its opening to its end.

    Args:
        listen: whether to listen for changes of the list of tools.
        keeps: whether the server is to keep a state for this session. Over HTTP that needs a revision with sessions.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        filled: Interpolator,
        on_change: Callable[[], None],
        listen: bool,
        keeps: bool = False,
    ) -> None:
        self._name = name
        self._connection = connection
        self._filled = filled
        self._on_change = on_change
        self._listen = listen
        self._keeps = keeps
        self.named = not connection.url
        """Whether the server knows this session from others: a child process does, one over HTTP if it has named it."""
        self._stderr = Lines(name, self._filled.secrets)
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._scope = anyio.CancelScope()
        """Cancels the session. Unlike the cancellation of its task, this does not interrupt the client library while
        it cleans up, for example while it ends the server."""
        self.listing = Listing()
        self.client: Client
        """Set when ``open`` has returned."""
        self.ended = False
        """Whether no further call may be made."""
        self._lost = False
        """Whether the server was lost after the session had been opened."""
        self.calls = 0
        """How many calls wait for an answer."""
        self.reason = ""
        """Why no further call can be answered; empty if one can, or if the reason is unknown."""
        self._exit: int | None = None
        """The exit code of a server that is a child process and has ended by itself; negative: by that signal."""

    async def open(self) -> None:
        """Connects to the server, or starts it.

        Raises:
            ConnectionFailed: that failed, or took longer than ``startSeconds``.
        """
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(opened), name=f"session {self._name}")
        try:
            async with asyncio.timeout(self._connection.start_seconds):
                self.client = await asyncio.shield(opened)
        except TimeoutError:
            await self.close(timeout=0)
            silent = f"it did not answer within {self._connection.start_seconds:g} s"
            raise ConnectionFailed(silent + self._last_words()) from None
        except BaseException:
            await self.close(timeout=0)
            raise
        finally:
            if opened.done() and not opened.cancelled():
                opened.exception()

    @property
    def closing(self) -> bool:
        """Whether the session is being closed, so that calls under way fail."""
        return self._leave.is_set()

    @property
    def closed(self) -> bool:
        """Whether the session has ended, and its server with it."""
        return self._task is not None and self._task.done()

    async def finish(self) -> None:
        """Accepts no more calls, and closes when those under way have ended."""
        self.ended = True
        if self.calls:
            await self._leave.wait()
        await self.close()

    def leave(self) -> None:
        """Starts closing the session, without waiting."""
        self.ended = True
        self._leave.set()

    async def close(self, timeout: float = _CLOSE_SECONDS) -> None:
        """Closes the session, and waits for that for a limited time.

        Args:
            timeout: seconds until the session is cancelled.
        """
        self.leave()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)
            if not self._task.done():
                self._scope.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    async def why_lost(self) -> str:
        """Why the session ended, as far as that becomes known soon; empty if it does not."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_WHY_SECONDS)
        return self.reason

    async def _run(self, opened: asyncio.Future[Client]) -> None:
        with self._scope:
            await self._serve(opened)
        if not opened.done():
            opened.cancel()

    async def _serve(self, opened: asyncio.Future[Client]) -> None:
        notes = Noted(lambda text: hidden(text, self._filled.secrets))
        noted.set(notes)
        try:
            async with contextlib.AsyncExitStack() as stack:
                transport = Watched(await self._transport(stack), self.listing.clean, lambda: self._gone(opened))
                info = types.Implementation(name=NAME, version=__version__)
                mode = "legacy" if self._keeps and self._connection.url else "auto"
                client = Client(transport, client_info=info, message_handler=self._heard, cache=None, mode=mode)
                await stack.enter_async_context(client)
                self.listing.version = client.session.protocol_version
                check_results(client.session, self.listing, self._name)
                refuse_requests(client.session)
                if not opened.done():
                    opened.set_result(client)
                async with anyio.create_task_group() as group:
                    if self._listen:
                        group.start_soon(self._hear, client)
                    await self._leave.wait()
                    group.cancel_scope.cancel()
            if self._lost:
                self.reason = self.reason or self._ending()
                self._log_last_words()
        except asyncio.CancelledError:
            if not opened.done():
                opened.cancel()
            raise
        except Exception as error:
            self.reason = self.reason or hidden(await self._why(error, notes), self._filled.secrets)
            self._log_last_words()
            if not opened.done():
                opened.set_exception(ConnectionFailed(self.reason, wait=notes.wait))
            elif not self._lost:
                _log.warning("connection lost", connection=self._name, reason=self.reason)
        finally:
            self.leave()

    async def _why(self, error: Exception, notes: Noted) -> str:
        """Why the session could not be opened, or ended."""
        connection = self._connection
        if isinstance(error, ConnectionFailed):
            return str(error)
        if connection.url:
            url, headers = self._target()
            if await speaks_old_transport(notes, url, headers):
                return old_transport(url)
        elif isinstance(error, OSError) or type(error) is ValueError:
            return start_problem(error, *self._program())
        return reason_of(error, notes, connection, self._ending())

    def _ending(self) -> str:
        """How a server that is a child process has ended; empty if it has not by itself."""
        if self._exit is None:
            return ""
        how = f"by signal {-self._exit}" if self._exit < 0 else f"with code {self._exit}"
        return f"the program ended {how}{self._last_words()}"

    def _last_words(self) -> str:
        return f"; it last said: {self._stderr.last[-1]}" if self._stderr.last else ""

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        connection = self._connection
        if connection.url:
            url, headers = self._target()
            # No read timeout: callers decide how long a call may take.
            timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
            http = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers={"accept-encoding": "identity", **headers},
                    timeout=timeout,
                    event_hooks={"response": [bound_answer, note_answer, self._note_name]},
                )
            )
            return streamable_http_client(url, http_client=http, max_sse_event_size=MAX_ANSWER)
        command, place = self._program()
        return stdio_transport(
            [command, *map(self._text, connection.args)],
            {name: self._text(value) for name, value in connection.env.items()},
            place,
            await self._stderr.open(stack),
            self._stderr.add,
            self._lose,
            self._exited,
        )

    def _target(self) -> tuple[str, dict[str, str]]:
        """The URL of a server, and the headers for it; raises as ``_text``."""
        connection = self._connection
        return self._text(connection.url), {name: self._text(value) for name, value in connection.headers.items()}

    def _program(self) -> tuple[str, str | None]:
        """The program that is a server, and where it starts; raises as ``_text``."""
        connection = self._connection
        place = self._text(connection.working_directory, self._filled.place)
        return self._text(connection.command, self._filled.place), place or None

    def _text(self, text: str, fill: Callable[[str], str] | None = None) -> str:
        """A text with the values of its variables. Raises ConnectionFailed: one of them is not set."""
        try:
            return (fill or self._filled)(text)
        except KeyError as missing:
            raise ConnectionFailed(f"the environment variable {missing.args[0]} is not set") from None

    def _exited(self, code: int) -> None:
        self._exit = code

    async def _note_name(self, response: httpx2.Response) -> None:
        self.named = self.named or MCP_SESSION_ID in response.headers

    def _lose(self, reason: str) -> None:
        self.reason = reason
        self._lost = True
        _log.warning("connection lost", connection=self._name, reason=reason)

    def _gone(self, opened: asyncio.Future[Client]) -> None:
        """The stream from the server has ended: it is being closed, was lost before, or has just ended by itself."""
        if opened.done() and not self.closing and not self._lost:
            self._lost = True
            _log.warning("connection lost", connection=self._name, reason="the server ended, or closed the connection")
        self.leave()

    def _log_last_words(self) -> None:
        if self._stderr.last:
            _log.warning("a connection's server said", connection=self._name, lines=list(self._stderr.last))

    async def _hear(self, client: Client) -> None:
        """Listens for changes of the list, where the protocol's revision does not send them anyway.

        The stream ends when its server restarts, or when a proxy ends idle streams. Changes until the next one are not
        sent again, so they are assumed. A server that has never given a stream is not asked again.
        """
        heard = False
        with contextlib.suppress(ListenNotSupportedError):
            while True:
                try:
                    async with client.listen(tools_list_changed=True) as events:
                        heard = True
                        async for _ in events:
                            self._on_change()
                except (MCPError, SubscriptionLost):
                    if not heard:
                        return
                await asyncio.sleep(LISTEN_AGAIN_SECONDS)
                self._on_change()

    async def _heard(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()
