"""A downstream server as its callers see it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx2
import mcp_types as types
import structlog
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from coordinator.settings.sections.connections import Connection, Interpolator, hidden, hidden_in
from workers.downstream.asked import REFUSED, InputAsked
from workers.downstream.contents import without_secrets
from workers.downstream.failures import (
    UNREAD,
    AnswerUnusable,
    CallRefused,
    ConnectionFailed,
    NoSuchMethod,
    SessionForgotten,
)
from workers.downstream.reasons import VIOLATES, Noted, noted, unread
from workers.downstream.session import Session

_log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
LONGEST_WAIT_SECONDS = 60.0
"""The longest pause that a server may ask for (``Retry-After``)."""
_IDEMPOTENCY_KEY = "fleet-coordinator/idempotency-key"
"""Key in the ``_meta`` of each call. Its value is the same for all attempts of a step."""
_MOST_PAGES = 100
# The client library tells these errors apart only by their messages.
_TERMINATED = "Session terminated"
"""The server does not know the session any more."""
_CLOSED = "Connection closed"
"""The whole session is lost."""
_CUT_OFF = ("SSE stream ", "server answered a request with ")
"""One request over HTTP was cut off; the message begins with one of these."""
_REFUSALS = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST, types.PARSE_ERROR)
"""Codes with which a server refuses a call. It does not carry the call out then."""
_ONLY_AS_TASK = "it can only be called as a task (execution.taskSupport: required), which is not supported"
_R = TypeVar("_R")


class ListedTool(NamedTuple):
    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool
    problem: str = ""
    """Why it cannot be called; empty if it can."""


class DownstreamServer:
    """One server of the section ``connections`` with kind mcp.

    All calls share one session. If the server dies, calls in flight fail with ``ConnectionFailed``, because their
    effect is unknown. The next call opens a new session. A server that cannot be reached is tried again after a pause
    that doubles each time. Until then calls fail at once, so a dead server does not delay the others.

    Args:
        name: the name of the connection.
        environment: the values of ``${NAME}`` in the connection.
        on_change: called when the server's tools may have changed; None: changes are not listened for.
        on_outcome: called whenever it was used, or tried, with the reason why it does not work; empty: it does.
        keeps: whether the server keeps a state for its session: that is opened by ``open``, and none follows it.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        environment: Mapping[str, str] = os.environ,
        on_change: Callable[[], None] | None = None,
        on_outcome: Callable[[str], None] = lambda problem: None,
        keeps: bool = False,
    ) -> None:
        self.name = name
        self._keeps = keeps
        self._connection = connection
        self._filled = Interpolator(environment)
        self._on_change = on_change
        self._on_outcome = on_outcome
        self.session: Session | None = None
        """The one that was opened last."""
        self._opening: asyncio.Task[Session] | None = None
        self.sessions: set[Session] = set()
        """Sessions whose servers may still run: the present one, one being opened, and those that are ending."""
        self._pause = 0.0
        self._not_before = 0.0
        self._limited = False
        """Whether the server refused the last connection because it limits their rate."""
        self._reason = ""
        self._closed = False

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        idempotency_key: str,
        on_progress: Callable[[], None] | None = None,
    ) -> types.CallToolResult:
        """Calls a tool. If this is cancelled, the server is notified.

        Args:
            on_progress: called when the server reports progress; None: it is not asked to.

        Raises:
            ConnectionFailed: the server cannot be reached, or was lost during the call.
            CallRefused: it answers with a protocol error, or asks for what nobody gives it.
            AnswerUnusable: it carried the call out, but its answer cannot be used.
        """
        meta: Any = {_IDEMPOTENCY_KEY: idempotency_key}
        try:
            result = await self._asked(
                lambda client: client.call_tool(
                    tool, dict(arguments), meta=meta, progress_callback=on_progress and _ProgressHeard(on_progress)
                )
            )
        except NoSuchMethod:
            if await self._only_as_task(tool):
                raise CallRefused(f"the tool {tool!r} cannot be called: {_ONLY_AS_TASK}") from None
            raise
        content = [without_secrets(block, self._filled.secrets) for block in result.content]
        texts = [block.text for block in content if isinstance(block, types.TextContent)]
        if result.is_error and any(REFUSED in text for text in texts):
            raise CallRefused("\n".join(texts))
        structured = hidden_in(result.structured_content, self._filled.secrets)
        return result.model_copy(update={"content": content, "structured_content": structured})

    async def tools(self) -> tuple[ListedTool, ...]:
        """The server's tools, as it lists them now, and those that it has listed in a form that cannot be read.

        Raises:
            ConnectionFailed, CallRefused: as ``call``.
        """
        try:
            tools = await self._asked(_all_tools, listing=True)
        except AnswerUnusable as failed:
            raise CallRefused(f"the tools of the connection {self.name!r} cannot be listed: {failed.why}") from None
        tools = tuple(
            tool._replace(title=self.without_secrets(tool.title), description=self.without_secrets(tool.description))
            for tool in tools
        )
        dropped = self.session.listing.dropped if self.session is not None else {}
        return (*tools, *(ListedTool(name, "", "", {}, False, problem) for name, problem in dropped.items()))

    async def _only_as_task(self, tool: str) -> bool:
        try:
            return any(listed.problem == _ONLY_AS_TASK for listed in await self.tools() if listed.name == tool)
        except (ConnectionFailed, CallRefused):
            return False

    async def open(self) -> None:
        """Connects to the server, or starts it.

        Raises:
            ConnectionFailed: that failed.
            CallRefused: the server would keep no state.
        """
        session = await self._get(listing=True)
        if self._keeps and not session.named:
            session.leave()
            raise CallRefused(
                f"the connection {self.name!r} keeps no state, because its server gives no session: "
                "connect to it on stdin and stdout, or set state: none"
            )

    @property
    def alive(self) -> bool:
        """Whether its session can be used."""
        return self.session is not None and not self.session.ended

    def without_secrets(self, text: str) -> str:
        """A text of the server, without the values from the environment that it was given."""
        return hidden(text, self._filled.secrets)

    async def finish(self) -> None:
        """Accepts no more calls, and closes when those under way have been answered."""
        self._closed = True
        if self.session is not None:
            await self.session.finish()
        await self.close()

    async def close(self) -> None:
        """Ends the session, and the server if it is a child process."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        ending = (each.close(timeout=0) for each in self.sessions if each is not self.session)
        await asyncio.gather(*ending)
        if self.session is not None:
            await self.session.close()

    async def _asked(self, ask: Callable[[Client], Awaitable[_R]], listing: bool = False) -> _R:
        """Asks the server. If it does not know the session any more, asks once again over a new one."""
        session = await self._get(listing)
        try:
            with self._noting(unless=SessionForgotten):
                async with self._own_failures(session):
                    return await ask(session.client)
        except SessionForgotten:  # the server did not execute the request, so a retry is safe
            session = await self._get(listing)
        with self._noting():
            async with self._own_failures(session):
                return await ask(session.client)

    @contextlib.contextmanager
    def _noting(self, unless: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        try:
            yield
        except ConnectionFailed as failed:
            if not isinstance(failed, unless):
                self._on_outcome(str(failed).removeprefix(f"the connection {self.name!r} "))
            raise
        except CallRefused:
            self._on_outcome("")
            raise
        else:
            self._on_outcome("")

    @contextlib.asynccontextmanager
    async def _own_failures(self, session: Session) -> AsyncIterator[None]:
        """Counts a call of the session, and turns what the client library raises into our own exceptions."""
        session.calls += 1
        notes = Noted(self.without_secrets)
        before = noted.set(notes)
        try:
            yield
        except MCPError as error:
            meant = self._meaning(error, session, notes)
            raise meant or await self._lost(session) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError, httpx2.HTTPError):
            session.leave()
            raise await self._lost(session) from None
        except InputAsked as refusal:
            raise CallRefused(self.without_secrets(str(refusal))) from None
        except RuntimeError as error:
            # The result does not match the tool's own output schema.
            raise AnswerUnusable(self.without_secrets(str(error))) from None
        except ValueError:
            raise AnswerUnusable(VIOLATES) from None
        finally:
            noted.reset(before)
            session.calls -= 1
            if session.ended and not session.calls:
                session.leave()

    def _meaning(self, error: MCPError, session: Session, notes: Noted) -> ConnectionFailed | CallRefused | None:
        """Our exception for an error of the client library; None: the session is lost, or was during the call."""
        if error.message == _TERMINATED:
            # Not closed at once: the other calls that wait get the same answer.
            session.ended = True
            return SessionForgotten(f"the connection {self.name!r} does not know its session any more")
        if error.error.data == UNREAD:
            return AnswerUnusable(error.message)
        if problem := notes.problem(error, self._connection):
            words = self.without_secrets(f"the connection {self.name!r} {problem}")
            return ConnectionFailed(words, sent=True, wait=notes.wait)
        if why := unread(error):
            return AnswerUnusable(why)
        if error.code == types.METHOD_NOT_FOUND:
            return NoSuchMethod(self.without_secrets(error.message))
        if error.code in _REFUSALS:
            return CallRefused(self.without_secrets(error.message))
        if error.message == _CLOSED:
            session.leave()
        # The code alone does not tell: servers use it for errors of their own.
        if session.closing or (error.code == types.CONNECTION_CLOSED and error.message.startswith(_CUT_OFF)):
            return None
        return CallRefused(self.without_secrets(error.message))

    async def _lost(self, session: Session) -> ConnectionFailed:
        why = await session.why_lost() if session.closing else ""
        return ConnectionFailed(f"the connection {self.name!r} was lost during the call{why and ': '}{why}", sent=True)

    async def _get(self, listing: bool) -> Session:
        """The live session; opens one if there is none.

        Args:
            listing: whether the caller is about to list the tools. Otherwise ``on_change`` is called after a new
                session was opened, because its tools may have changed.
        """
        if self.session is not None and not self.session.ended:
            return self.session
        if self._keeps and self.session is not None:
            raise SessionForgotten(f"the connection {self.name!r} has lost its session")
        opening = self._opening
        if opening is None and not self._closed:
            now = asyncio.get_running_loop().time()
            if now < self._not_before:
                wait = self._not_before - now if self._limited else None
                raise ConnectionFailed(f"the connection {self.name!r} does not work: {self._reason}", wait=wait)
            opening = self._opening = asyncio.create_task(self._open(listing), name=f"connect {self.name}")
            # Reads the exception, because every caller that waits may be cancelled before the task fails.
            opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        if opening is not None:
            # All callers share the task. ``wait`` neither cancels it when a caller is cancelled, nor the reverse.
            await asyncio.wait([opening])
        if opening is None or opening.cancelled():
            raise ConnectionFailed(f"the connection {self.name!r} is closed")
        return opening.result()

    async def _open(self, listing: bool) -> Session:
        loop = asyncio.get_running_loop()
        listens = self._on_change is not None
        session = Session(self.name, self._connection, self._filled, self._changed, listens, self._keeps)
        self.sessions = {each for each in self.sessions if not each.closed} | {session}
        try:
            await session.open()
        except ConnectionFailed as failure:
            self._reason = str(failure)
            self._on_outcome(self._reason)
            self._pause = min(max(self._pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
            self._limited = failure.wait is not None
            pause = max(self._pause, min(failure.wait or 0.0, LONGEST_WAIT_SECONDS))
            self._not_before = loop.time() + pause
            _log.warning("connection failed", connection=self.name, reason=self._reason, seconds=pause)
            failed = f"the connection {self.name!r} does not work: {self._reason}"
            raise ConnectionFailed(failed, wait=pause if self._limited else None) from None
        else:
            self._pause = 0.0
            self.session = session
            if not listing:
                self._changed()
            return session
        finally:
            self._opening = None

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()


class _ProgressHeard:
    """What the client library calls with each progress that a server reports."""

    def __init__(self, on_progress: Callable[[], None]) -> None:
        self._on_progress = on_progress

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._on_progress()


async def _all_tools(client: Client) -> tuple[ListedTool, ...]:
    tools: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += map(_listed, page.tools)
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def _listed(tool: types.Tool) -> ListedTool:
    hints = tool.annotations
    return ListedTool(
        tool.name,
        tool.title or (hints.title if hints and hints.title else ""),
        tool.description or "",
        tool.input_schema,
        bool(hints and hints.read_only_hint),
        _ONLY_AS_TASK if tool.execution and tool.execution.task_support == "required" else "",
    )
