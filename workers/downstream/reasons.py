"""Why a downstream server does not work, in words without its address and secrets."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Callable

import anyio
import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from coordinator.connect_failures import cause_of
from coordinator.settings.sections.connections import Connection
from workers.connections.http_statuses import seconds_to_wait, status_problem

CONNECT_SECONDS = 10.0
"""How long connecting to an HTTP server may take."""
PROBE_SECONDS = 2.0
"""How long a server that takes no requests may take to show that it speaks the old transport."""
_LONGEST = 200
_ANSWERS = ("application/json", "text/event-stream")
"""The content types in which servers answer requests."""
# The client library tells these errors apart only by their messages, and has the words for them instead of the server.
_STAND_INS = (
    "Server returned an error response",
    "Not Found",
    "Redirect to ",
    "Unexpected content type: ",
    "Failed to parse JSON response: ",
)
_UNREAD = re.compile(
    r"Failed to parse (?:JSON response|SSE message): |SSE stream failed: (?=Server-sent event exceeded)"
)
"""One answer over HTTP cannot be read."""
VIOLATES = "it violates the protocol"
_UNKNOWN_REVISION = "Unsupported protocol version from the server: "
_BY_STATUS_ALONE = (401, 403, 429)
"""Statuses that say what is wrong even where the body has an error of the protocol."""
_NOT_STREAMABLE = (400, 404, 405, 406, 415)
"""Statuses with which a server of the old transport refuses a request of the present one."""


class Noted:
    """The last answer over HTTP to what one task asks, if it is none of the protocol.

    Args:
        hide: takes secrets out of what the server says.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._answer: httpx2.Response | None = None

    def take(self, answer: httpx2.Response) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        fine = answer.is_success and (kind in _ANSWERS or answer.status_code == 202)
        self._answer = None if fine else answer

    @property
    def status(self) -> int:
        """Its status; 0: there is no such answer."""
        return 0 if self._answer is None else self._answer.status_code

    @property
    def wait(self) -> float | None:
        """How many seconds it asks to wait; None: it does not say that the rate of calls is limited."""
        return None if self._answer is None or self.status != 429 else seconds_to_wait(self._answer)

    def said(self, error: MCPError) -> str:
        """The beginning of an error's message, which does not end within a secret."""
        return self._hide(error.message)[:_LONGEST]

    def problem(self, error: MCPError, connection: Connection) -> str:
        """What the answer says about the connection; empty: the error is the server's own, and says more."""
        if self._answer is None:
            return ""
        answer, own = self._answer, not error.message.startswith(_STAND_INS)
        if own and self.status not in _BY_STATUS_ALONE:
            return ""
        if answer.is_success:
            kind = answer.headers.get("content-type", "").partition(";")[0][:_LONGEST] or "no content type"
            return f"answered with {kind} instead of MCP: is the path of its URL right?"
        return status_problem(answer, connection, self.said(error) if own else "")


noted: contextvars.ContextVar[Noted | None] = contextvars.ContextVar("noted", default=None)
"""What notes the answers to the present task's requests. The client library sends each in the context of its caller."""


async def note_answer(response: httpx2.Response) -> None:
    """A response hook of httpx2 for ``noted``."""
    if (notes := noted.get()) is not None:
        notes.take(response)


def unread(error: MCPError) -> str:
    """Why an answer over HTTP cannot be read; empty: the error is another one."""
    match = _UNREAD.match(error.message)
    why = error.message[match.end() :] if match else ""
    return why if not match or why.startswith(("it ", "Server-")) else VIOLATES


def reason_of(error: BaseException, notes: Noted, connection: Connection, ending: str) -> str:
    """Why a session could not be opened, or ended; completes "the connection does not work: ...".

    Args:
        ending: how its program ended; empty: that is unknown, or it has none.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return ending or "it ended without an answer"
    if isinstance(error, MCPError):
        return _refused(error, notes, connection)
    if isinstance(error, RuntimeError) and str(error).startswith(_UNKNOWN_REVISION):
        return _other_revision([str(error).removeprefix(_UNKNOWN_REVISION)])
    if isinstance(error, httpx2.ConnectTimeout):
        return f"it cannot be connected to within {CONNECT_SECONDS:g} s"
    if isinstance(error, httpx2.TimeoutException):
        return "it takes too long to answer"
    if isinstance(error, httpx2.ProxyError):
        return "the proxy that this process's environment names refuses to lead to it"
    if isinstance(error, httpx2.ConnectError | ConnectionError):
        return f"it cannot be connected to ({cause_of(error)[0]})"
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "its URL is none"
    if isinstance(error, httpx2.HTTPError):
        return f"the connection broke off ({type(error).__name__})"
    if isinstance(error, ValueError):
        return "it gave an answer that violates the protocol"
    return f"it failed with {type(error).__name__}"


def _refused(error: MCPError, notes: Noted, connection: Connection) -> str:
    if error.code == types.UNSUPPORTED_PROTOCOL_VERSION:
        supported = error.error.data.get("supported") if isinstance(error.error.data, dict) else None
        return _other_revision(supported if isinstance(supported, list) else [])
    if problem := notes.problem(error, connection):
        return f"it {problem}"
    if why := unread(error):
        elsewhere = " (is the path of its URL right?)" if why == VIOLATES else ""
        return f"its answer cannot be used: {why}{elsewhere}"
    return f"it answered with an error: {notes.said(error)}"


def _other_revision(offered: list[object]) -> str:
    said = ", ".join(str(version)[:40] for version in offered[:10]) or "none that it names"
    return f"it offers the protocol revision {said}; spoken here: {', '.join(KNOWN_PROTOCOL_VERSIONS)}"


async def speaks_old_transport(notes: Noted, url: str, headers: dict[str, str]) -> bool:
    """Whether a server that refused to be connected to speaks the transport HTTP+SSE of the revision 2024-11-05."""
    if notes.status not in _NOT_STREAMABLE:
        return False
    with (
        contextlib.suppress(httpx2.HTTPError, httpx2.SSEError, OSError, ValueError),
        anyio.move_on_after(PROBE_SECONDS),
    ):
        async with httpx2.AsyncClient(headers=headers, timeout=PROBE_SECONDS) as http, http.sse(url) as events:
            async for event in events:
                return event.event == "endpoint"  # the first one, says the transport
    return False


def old_transport(url: str) -> str:
    """What is wrong with a server that speaks the old transport only."""
    usual = ", which is usually at /mcp instead of /sse" if url.partition("?")[0].rstrip("/").endswith("/sse") else ""
    return f"it speaks the old transport HTTP+SSE only, and Streamable HTTP is needed{usual}"
