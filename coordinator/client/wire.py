"""One attempt at one call: what is sent to a front-end, and what its answer means."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from coordinator.client.errors import error_of
from coordinator.client.http import Broken, Origin, Pool, Response, Sent, urls_of
from coordinator.client.retries import Retryable, retry_after, retryable

T = TypeVar("T")
REVISION = "2025-11-25"
_BUSY = (429, 502, 503, 504)
_AWAY = (502, 503, 504)
"""A process that ends, or what a proxy answers for one that is gone."""
_UNDONE = (429, 503)
"""The request was refused before anything was done for it."""
_CODES = {401: "unauthenticated", 403: "permission_denied", 404: "RESOURCE_NOT_FOUND"}
_INTERNAL = -32603

_encode = msgspec.json.Encoder().encode
_NAMES: dict[str, bytes] = {}
"""Of tools, as JSON."""


def encoded(arguments: Any) -> bytes:
    """Arguments as JSON. Raises Invalid: they have something that JSON has not."""
    try:
        text = _encode(arguments)
        # It writes null for numbers that JSON does not have.
        if b"null" in text and (path := _unwritable(msgspec.to_builtins(arguments))):
            raise ValueError(f"{path}, a number that JSON does not have")
        return text
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise error_of("VALIDATION_ERROR", f"the arguments cannot be written as JSON: {error}") from None


def _unwritable(value: Any, path: str = "") -> str:
    """Where a number is infinite or none, and which; empty: nowhere."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{path.removeprefix('.')} is {value}"
    if isinstance(value, dict):
        parts = ((f"{path}.{name}", element) for name, element in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{path}[{number}]", element) for number, element in enumerate(value))
    else:
        return ""
    return next(filter(None, (_unwritable(part, where) for where, part in parts)), "")


class _Problem(msgspec.Struct):
    code: int
    message: str = ""


class _Content(msgspec.Struct):
    text: str = ""


class _Result(msgspec.Struct):
    structured: dict[str, Any] | None = msgspec.field(name="structuredContent", default=None)
    failed: bool = msgspec.field(name="isError", default=False)
    # Not the content: it has the same as text, and takes as long to read as all the rest.


class _Texts(msgspec.Struct):
    content: list[_Content] = []


class _Said(msgspec.Struct):
    """What an answer says to people."""

    result: _Texts


class _Answer(msgspec.Struct):
    result: _Result | None = None
    error: _Problem | None = None


_answer = msgspec.json.Decoder(_Answer).decode
_said = msgspec.json.Decoder(_Said).decode


class _Place:
    """One URL of a fleet: the connections to it, and how requests to it begin."""

    def __init__(self, url: str, token: str, project: str, sent: Sent) -> None:
        base = url.rstrip("/")
        self.pool = Pool(Origin.of(base), sent)
        self._prefix = base.split("//", 1)[1].partition("/")[2]
        self._project = project
        lines = [f"host: {self.pool.origin.authority}"]
        if token:
            lines.append(f"authorization: Bearer {token}")
        self._lines = "\r\n".join(lines)
        self._heads: dict[tuple[str, str], bytes] = {}

    def get(self, path: str) -> bytes:
        """A request for what is at a path."""
        return f"GET {self._path(path)} HTTP/1.1\r\naccept: application/json\r\n{self._lines}\r\n\r\n".encode()

    def call(self, toolset: str, agent: str, body: bytes) -> bytes:
        """A call, by an agent that is named in a header if it is not empty."""
        head = self._heads.get((toolset, agent)) or self._new_head(toolset, agent)
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _path(self, path: str) -> str:
        return f"/{self._prefix}/{path}" if self._prefix else f"/{path}"

    def _new_head(self, toolset: str, agent: str) -> bytes:
        """The beginning of a call, up to the length of its body."""
        if not agent.isprintable() or not agent.isascii():
            raise error_of("VALIDATION_ERROR", "agent: must be printable ASCII for this tool")
        lines = f"{self._lines}\r\nfleet-agent: {agent}" if agent else self._lines
        endpoint = f"mcp/{toolset}" if toolset else "mcp"
        path = self._path(endpoint if self._project == "default" else f"p/{self._project}/{endpoint}")
        head = (
            f"POST {path} HTTP/1.1\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            f"mcp-protocol-version: {REVISION}\r\n{lines}\r\ncontent-length: "
        )
        return self._heads.setdefault((toolset, agent), head.encode())


class Wire:
    """A fleet as seen from one event loop, with connections of its own.

    Requests go to one of its URLs until that does not answer, then to the next.

    Args:
        url: of the fleet, without ``/mcp``; several after commas.
        token: a bearer token; empty: none.
    """

    def __init__(self, url: str, token: str, project: str) -> None:
        if not token.isprintable() or not token.isascii():
            raise ValueError("the token has characters that no token has")
        self._project = quote(project, safe="")
        self.urls = urls_of(url)
        self.sent = Sent()
        self._places = [_Place(url, token, self._project, self.sent) for url in self.urls]
        self._at = 0
        """Which place requests go to."""

    def call(
        self, toolset: str, tool: str, arguments: Any, seconds: float, agent: str = ""
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """The structured answer of a tool.

        Args:
            toolset: as in the path; empty: those that the fleet serves at ``/mcp``.
            agent: who acts, for tools that are told by a header; empty: no header.
            seconds: how long the attempt may take.

        Raises:
            Retryable: it may succeed when it is repeated.
            FleetError: it was refused.
        """
        params = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%b,"arguments":%b}}'
        body = params % (_NAMES.get(tool) or _NAMES.setdefault(tool, encoded(tool)), encoded(arguments))
        return self._request(content, seconds, toolset, agent, body)

    def get(self, path: str, seconds: float) -> Coroutine[Any, Any, Any]:
        """The JSON at a path of the project, such as ``feed``. Raises as ``call``."""
        return self._request(_json_of, seconds, path)

    @property
    def project(self) -> str:
        """The project, as it is written in a URL."""
        return self._project

    @property
    def at(self) -> str:
        return self.urls[self._at]

    def close(self) -> None:
        for place in self._places:
            place.pool.close()

    async def _request(
        self, read: Callable[[bytes], T], seconds: float, what: str, agent: str = "", body: bytes | None = None
    ) -> T:
        """What is read of the answer to a call of a toolset with this body, or without one of what is at a path."""
        unreached: list[str] = []
        while True:
            at = self._at
            place = self._places[at]
            try:
                message = place.get(what) if body is None else place.call(what, agent, body)
                response = await place.pool.request(message, seconds)
            except Broken as broken:
                self._leave(at)
                if broken.connected:
                    # No load for the fleet, which is gone or new: such a retry costs no budget.
                    raise Retryable("connection", free=True, why=str(broken)) from None
                unreached.append(str(broken))
                if len(unreached) == len(self._places):
                    raise Retryable("unreachable", free=True, why="; ".join(unreached), refused=True) from None
                continue  # nothing was sent, so the next one can be asked at once
            except TimeoutError:
                self._leave(at)
                raise Retryable("timeout", why=f"no answer for {seconds:.0f} s") from None
            if response.status == 200:
                return read(response.body)
            if response.status in _AWAY:
                self._leave(at)
            raise _refusal(response)

    def _leave(self, at: int) -> None:
        """Sends the next requests elsewhere, unless another one has seen to that."""
        if self._at == at:
            self._at = (at + 1) % len(self._places)


def _json_of(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise error_of("INTERNAL_ERROR", "the answer is not JSON: is this the URL of a fleet?") from None


def _last_message(body: bytes) -> bytes:
    """The JSON-RPC message of an answer that is a stream of events, as that of a call that waited."""
    events = body.replace(b"\r\n", b"\n").split(b"\n\n")
    lines = [line[5:].strip() for event in events for line in event.split(b"\n") if line.startswith(b"data:")]
    return next((line for line in reversed(lines) if line), b"")


def content(body: bytes) -> dict[str, Any]:
    """The structured content of an answer in JSON-RPC. Raises Retryable, FleetError: the call failed."""
    message = body if body.startswith(b"{") else _last_message(body)
    try:
        answer = _answer(message)
    except msgspec.MsgspecError:
        raise error_of("INTERNAL_ERROR", "the answer is not one of MCP: is this the URL of a fleet?") from None
    if answer.error is not None:
        if answer.error.code == _INTERNAL:
            raise Retryable("server error", why=answer.error.message)
        raise error_of("VALIDATION_ERROR", answer.error.message)
    result = answer.result
    if result is None:
        raise error_of("INTERNAL_ERROR", "the answer has neither result nor error")
    content = result.structured
    if not result.failed:
        return {} if content is None else content
    failure = retryable(content)
    if failure is not None:
        raise failure
    problem = (content or {}).get("error")
    if not isinstance(problem, dict):
        text = " ".join(part.text for part in _said(message).result.content) or "it failed without saying why"
        raise error_of("VALIDATION_ERROR", text, content)
    raise error_of(str(problem.get("code")), str(problem.get("message")), content)


def _refusal(response: Response) -> Exception:
    """What an HTTP status other than 200 means."""
    try:
        message = msgspec.json.decode(response.body, type=_Answer).error or _Problem(0)
    except msgspec.MsgspecError:
        message = _Problem(0)
    text = message.message or f"HTTP status {response.status}"
    if response.status in _BUSY:
        after = retry_after(response.header(b"retry-after"), time.time())
        return Retryable("busy", after, why=text, refused=response.status in _UNDONE)
    if 300 <= response.status < 400 and (elsewhere := response.header(b"location")):
        text = f"the fleet is at {elsewhere}, not here"
    if response.status >= 500:
        return Retryable("server error", why=text)
    return error_of(_CODES.get(response.status, "VALIDATION_ERROR"), text)
