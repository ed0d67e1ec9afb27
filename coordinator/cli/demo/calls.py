"""Calls of an MCP client that go on through killed front-ends: the SDK's client, with retries on top.

A call that may succeed when repeated (the connection broke, the fleet sheds load, somebody else was
faster) is repeated unchanged, including its ``requestId``: a change that was already made is not made
again, only answered.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
import msgspec
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
)
from mcp_types.version import LATEST_MODERN_VERSION

from coordinator import __version__
from coordinator.cli.demo.pacing import Gate, Lanes
from coordinator.client.retries import RESERVE, Budget, Retryable, RetryPolicy, retry_after, retryable

TIMEOUT_SECONDS = 60.0
"""How long one call is repeated before it fails."""
ANSWER_SECONDS = 5.0
"""How long one attempt may take. The fleet's own deadline is shorter."""

_CALLS_AT_A_TIME = 32
_UNREACHABLE = -32050
"""An error code used only here: the fleet could not be connected to."""
_BUSY = -32051
"""An error code used only here: a front-end or a proxy answered with an HTTP status and a time to retry."""
_INFO = Implementation(name="fleet-demo", version=__version__)
_REASONS = {
    CONNECTION_CLOSED: "connection",
    _UNREACHABLE: "unreachable",
    REQUEST_TIMEOUT: "timeout",
    INTERNAL_ERROR: "server error",
}


_GONE = (_REASONS[CONNECTION_CLOSED], _REASONS[_UNREACHABLE])


class Refused(Exception):
    """The fleet refuses a call permanently, or its answer does not match its schema."""


class Meter:
    """Latencies and retries of the calls of one process."""

    def __init__(self) -> None:
        self.latencies: dict[str, list[float]] = defaultdict(list)
        """Tool -> milliseconds of each attempt that was answered, since last taken."""
        self.retries: Counter[str] = Counter()
        """Reason -> repeated attempts."""

    def take(self) -> dict[str, list[float]]:
        """The latencies since the last time."""
        taken, self.latencies = dict(self.latencies), defaultdict(list)
        return taken


class Endpoint:
    """The fleet as the callers of one process share it: address, retries, limits and what was measured.

    Args:
        url: the fleet's MCP endpoint.
        per_second: retries that time earns.
        wait_seconds: how long calls that wait ask the fleet to.
    """

    def __init__(self, url: str, per_second: float, wait_seconds: float = 0.0) -> None:
        self.url = url
        self.answer_seconds = ANSWER_SECONDS + wait_seconds
        parts = urlsplit(url)
        self.gate = Gate(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self.lanes = Lanes(_CALLS_AT_A_TIME)
        self.meter = Meter()
        budget = Budget(time.monotonic, per_second, most=max(RESERVE, 2 * per_second))
        self.retries = RetryPolicy(budget, TIMEOUT_SECONDS, self._noted)
        self.context = ssl.create_default_context()

    def _noted(self, failure: Retryable) -> None:
        self.meter.retries[failure.reason] += 1
        if failure.reason in _GONE:
            self.gate.close()


class Caller:
    """One MCP client with a connection of its own; an async context manager.

    Args:
        endpoint: what the callers of a process share.
        careful: check every answer against the schema that the fleet publishes for it. Takes more CPU
            than everything else a client does.
    """

    def __init__(self, endpoint: Endpoint, careful: bool = True) -> None:
        self._endpoint = endpoint
        self._careful = careful
        self._stack = AsyncExitStack()
        self._client: Client | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            http = httpx2.AsyncClient(
                transport=_SurvivingTransport(self._endpoint.context),
                timeout=self._endpoint.answer_seconds,
                trust_env=False,
            )
            await stack.enter_async_context(http)
            transport = streamable_http_client(self._endpoint.url, http_client=http)
            client = Client(
                transport,
                mode=LATEST_MODERN_VERSION,
                client_info=_INFO,
                read_timeout_seconds=2 * self._endpoint.answer_seconds,
            )
            self._client = await stack.enter_async_context(client)
            self._stack = stack.pop_all()
        if self._careful:
            try:
                await self._endpoint.retries.retrying()(self._list_tools)
            except BaseException as error:
                await self.__aexit__(type(error), error, error.__traceback__)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            # The client would wrap it in a group.
            kind = error = trace = None
        await self._stack.__aexit__(kind, error, trace)

    async def call(
        self, tool: str, arguments: dict[str, Any], *, urgent: bool = False, waits: bool = False
    ) -> dict[str, Any]:
        """The tool's structured answer.

        Args:
            urgent: whether an item is at stake, so that the call should not wait for those that look for one.
            waits: whether the fleet may take its time to answer, which keeps no other call from being made.

        Raises:
            Retryable: it failed for ``TIMEOUT_SECONDS``.
            Refused: it was refused for good, or the answer does not fit the tool's schema.
        """
        retrying = self._endpoint.retries.retrying()
        result: dict[str, Any] = await retrying(self._attempt, tool, arguments, urgent, waits)
        return result

    async def _attempt(self, tool: str, arguments: dict[str, Any], urgent: bool, waits: bool) -> dict[str, Any]:
        await self._endpoint.gate.wait()
        async with contextlib.nullcontext() if waits else self._endpoint.lanes.lane(urgent):
            began = time.perf_counter()
            try:
                result = await self._send(tool, arguments)
            except MCPError as error:
                raise _failure(error) from None
            except RuntimeError as error:
                raise Refused(f"{tool}: {error}") from None
            self._endpoint.meter.latencies[tool].append((time.perf_counter() - began) * 1000)
        return _content(tool, result)

    async def _send(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        if self._careful:
            return await self._connected.call_tool(tool, arguments)
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        return await self._connected.session.send_request(request, CallToolResult)

    async def _list_tools(self) -> None:
        await self._endpoint.gate.wait()
        began = time.perf_counter()
        try:
            await self._connected.list_tools()
        except MCPError as error:
            raise _failure(error) from None
        self._endpoint.meter.latencies["tools/list"].append((time.perf_counter() - began) * 1000)

    @property
    def _connected(self) -> Client:
        assert self._client is not None, "used outside its context"  # noqa: S101
        return self._client


def _failure(error: MCPError) -> Retryable | Refused:
    if error.code == _BUSY:
        return Retryable("busy", float(error.error.data))
    reason = _REASONS.get(error.code)
    return Retryable(reason) if reason else Refused(f"error {error.code}: {error.message}")


def _content(tool: str, result: CallToolResult) -> dict[str, Any]:
    content = result.structured_content
    if not isinstance(content, dict):
        raise Refused(f"{tool}: the answer has no structured content")
    if not result.is_error:
        return content
    failure = retryable(content)
    if failure is not None:
        raise failure
    error = content.get("error")
    if not isinstance(error, dict):
        raise Refused(f"{tool}: {content}")
    raise Refused(f"{tool}: {error.get('code')}: {error.get('message')}")


def _code(error: Exception) -> int:
    if isinstance(error, httpx2.ConnectError):
        return _UNREACHABLE
    return REQUEST_TIMEOUT if isinstance(error, httpx2.TimeoutException) else CONNECTION_CLOSED


class _SurvivingTransport(httpx2.AsyncBaseTransport):
    """Turns a broken connection into an error answer to the one request that it broke.

    The SDK's client ends with the first exception from its HTTP client; an agent is to go on.
    Answers are read whole here: a front-end can be killed in the middle of one.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        # One connection, so that the kernel spreads agents, not requests, over the front-ends.
        self._inner = httpx2.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=httpx2.Limits(max_connections=2, keepalive_expiry=60.0)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
            try:
                body = await response.aread()
            finally:
                await response.aclose()
        except Exception as error:
            # Not only TransportError: a connection that ends at the wrong moment shows itself in other ways too.
            problem = {"code": _code(error), "message": f"{type(error).__name__}: {error}"}
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem})
            return httpx2.Response(503, headers={"content-type": "application/json"}, content=answer)
        after = retry_after(response.headers.get("retry-after"), time.time())
        if response.status_code in (429, 503) and after:
            problem = {"code": _BUSY, "message": f"HTTP status {response.status_code}", "data": after}
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem})
            return httpx2.Response(503, headers={"content-type": "application/json"}, content=answer)
        # The body's length is said anew; that it came in chunks, or compressed, is no longer so.
        framing = (b"content-length", b"transfer-encoding", b"content-encoding")
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in framing]
        return httpx2.Response(response.status_code, headers=headers, content=body)

    async def aclose(self) -> None:
        await self._inner.aclose()
