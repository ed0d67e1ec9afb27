"""The complete MCP server: the SDK's, with our tools behind its handlers.

Each endpoint has one lowlevel ``Server`` behind two of the SDK's session managers, both stateless. The first answers
with plain JSON. The second serves calls that wait (``Tool.may_wait``): it can answer with an event stream, which keeps
the connection alive while the call waits, and it ends the call if its client disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import mcp_types as types
import msgspec
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace
from starlette.requests import Request

from coordinator import NAME, __version__
from coordinator.errors import ToolFailure, that_exist
from coordinator.metrics import tracing
from coordinator.toolsets.arguments import decoded
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Call, Notice, Tool
from coordinator.transport.calls import Calls, Done
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.envelope import (
    CAPABILITIES_KEY,
    LEGACY,
    MODERN,
    VERSION_KEY,
)
from coordinator.transport.http.bodies import replayed
from coordinator.transport.http.replies import JSON, Header, Message, Receive, Scope, Send, to_json
from coordinator.transport.mcp.declared import client_in
from coordinator.transport.mcp.exchange import EXCHANGE, Context, Exchange
from coordinator.transport.mcp.guide import Guide
from coordinator.transport.mcp.listening import Listening
from coordinator.transport.mcp.malformed import naming_fields
from coordinator.transport.mcp.progress import reported
from coordinator.transport.mcp.resources import Resources, check_cursor
from coordinator.transport.mcp.subscription import Offer
from coordinator.transport.mcp.task_methods import add_tasks
from coordinator.transport.rounds.asking import InvalidState

LIST_TTL_MS = 300_000
"""How long a client may keep a tool list, which changes only with a deployment."""

_CACHED: tuple[CacheableMethod, ...] = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "server/discover",
)

ServerFactory = Callable[[Endpoint, Calls, Listening | None], "Server[Any]"]


def server_info() -> dict[str, Any]:
    """The server description in each result."""
    return types.Implementation(name=NAME, version=__version__).model_dump(
        by_alias=True, mode="json", exclude_none=True
    )


class _Server(Server[Any]):
    """The SDK's server, which would announce changes of its lists wherever it serves subscriptions."""

    def __init__(self, endpoint: Endpoint, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._endpoint = endpoint

    def get_capabilities(self, *args: Any, **more: Any) -> types.ServerCapabilities:
        capabilities = super().get_capabilities(*args, **more)
        for capability in (capabilities.tools, capabilities.prompts, capabilities.resources):
            if capability is not None:
                capability.list_changed = capability.list_changed and self._endpoint.changes
        return capabilities


def build_server(
    endpoint: Endpoint,
    calls: Calls,
    listening: Listening | None = None,
    stdio: Callable[[], Awaitable[Exchange]] | None = None,
) -> Server[Any]:
    """The SDK's server for one endpoint.

    Args:
        listening: serves subscriptions; None: there are none.
        stdio: gives the exchange of a request that came without HTTP. Raises ToolFailure.
    """
    listing = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in endpoint.listing])
    for_callers = [types.Tool.model_validate(tool) for tool in endpoint.callers_listing]
    transport = "sdk" if stdio is None else "stdio"

    async def exchange_of(context: Context) -> Exchange:
        try:
            return await stdio() if stdio is not None else _exchange(context)
        except ToolFailure as failure:
            raise MCPError(types.INVALID_REQUEST, failure.message) from None

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        check_cursor(params)
        exchange = await exchange_of(context)
        if not exchange.for_some:
            return listing
        tools = listing.tools
        if exchange.caller is not None:
            tools = [tool for tool in for_callers if endpoint.access[tool.name].permits(exchange.caller)]
        return types.ListToolsResult(tools=tools, cache_scope="private")

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        tool = endpoint.tools.get(params.name)
        if tool is None:
            raise _unknown(params.name, endpoint, (await exchange_of(context)).caller)
        call, notice = Call("", str(context.request_id)), Notice()
        try:
            exchange = await stdio() if stdio is not None else _exchange(context)
            trace = tracing.trace_in(context.meta or {})
            name = exchange.request_id or call.request_id
            call = Call(
                exchange.project,
                name,
                exchange.caller,
                exchange.agent,
                trace,
                delivery=exchange.delivery,
                hung_up=exchange.hung_up,
                notice=notice,
            )
            _check_permission(params.name, endpoint, exchange.caller)
            arguments = decoded(tool, endpoint.input_schemas[params.name], params.arguments or {})
            answer = await _asked(calls, endpoint, tool, call, arguments, params, context)
            if isinstance(answer, dict):
                return answer
            call = answer
        except ToolFailure as failure:
            return _result(calls.refused(tool, failure, transport, call), context)
        async with _progress(context, tool, calls.wait_seconds(tool, arguments), notice):
            done = await calls.run(tool, call, arguments, transport, exchange.recheck)
        exchange.retry_after = done.retry_after
        if exchange.delivery is not None:
            exchange.delivery.answered = True
        return _result(done, context)

    resources = Resources(endpoint, calls, transport, exchange_of)
    listen = None
    if listening is not None and (resources.templates or endpoint.changes):
        listen = listening.handler(Offer(endpoint, resources, lambda: _lists(server), lambda: tasks), exchange_of)
    hint = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    server: Server[Any] = _Server(
        endpoint,
        NAME,
        version=__version__,
        instructions=endpoint.instructions or None,
        cache_hints=dict.fromkeys(_CACHED, hint),
        get_tool_input_schema=endpoint.input_schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.list_entries if resources.some else None,
        on_list_resource_templates=resources.list_templates if resources.templates else None,
        on_read_resource=resources.read_one if resources.some else None,
        **Guide(endpoint, calls, transport, exchange_of).handlers(),
        on_subscriptions_listen=listen,
    )
    tasks = add_tasks(server, endpoint, calls, transport, exchange_of)
    # ``Calls`` creates the spans of calls, on both paths.
    server.middleware[:] = [naming_fields]
    return server


def _lists(server: Server[Any]) -> frozenset[str]:
    return frozenset(name for name in ("tools", "prompts", "resources") if server.get_request_handler(f"{name}/list"))


def _progress(context: Context, tool: Tool, seconds: float, notice: Notice) -> AbstractAsyncContextManager[None]:
    """Reports on a call that waits for at most ``seconds``, if its caller has sent a progress token."""
    meta: Mapping[str, Any] = context.meta or {}
    if not seconds or meta.get("progress_token") is None:
        return contextlib.nullcontext()
    return reported(context.session.report_progress, tool.name, seconds, notice)


def _check_permission(name: str, endpoint: Endpoint, caller: Caller | None) -> None:
    # Over HTTP this was checked before the body reached the SDK; on stdio it is checked only here.
    access = endpoint.access[name]
    if caller is not None and not access.permits(caller):
        raise ToolFailure("permission_denied", f"{name} needs the permission '{access.least}'")


def _unknown(name: str, endpoint: Endpoint, caller: Caller | None) -> MCPError:
    known = [tool for tool in endpoint.tools if caller is None or endpoint.access[tool].permits(caller)]
    return MCPError(types.INVALID_PARAMS, f"Unknown tool: {name[:200]}{that_exist(name, known)}")


def _exchange(context: Context) -> Exchange:
    exchange: Exchange = cast("Request", context.request).scope[EXCHANGE]
    return exchange


async def _asked(
    calls: Calls,
    endpoint: Endpoint,
    tool: Tool,
    call: Call,
    arguments: Any,
    params: types.CallToolRequestParams,
    context: Context,
) -> Call | dict[str, Any]:
    """The call, with what its client can do, and with the answer to a question if it comes with one; or the result that
    asks again.

    Raises:
        MCPError: a state that is not one for this call.
        ToolFailure: as ``Asking.answer``.
    """
    if tool.asks or tool.deferral is not None:
        client, answering = client_in(context), endpoint.answering.get(params.name)
        can_ask = client.form and answering is not None and (call.caller is None or answering.permits(call.caller))
        call = replace(call, can_ask=can_ask, can_defer=client.tasks and tool.deferral is not None)
    if params.request_state is None or context.protocol_version != MODERN:
        return call
    answers = {key: one.model_dump(by_alias=True, mode="json") for key, one in (params.input_responses or {}).items()}
    try:
        if calls.rounds is None:
            raise InvalidState
        answer = await calls.rounds.asking.answer(tool, call, arguments, params.request_state, answers)
    except InvalidState:
        reason = {"reason": "invalid_request_state"}
        raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState", reason) from None
    return answer if isinstance(answer, dict) else replace(call, answer=answer)


def _result(done: Done, context: Context) -> types.CallToolResult | dict[str, Any]:
    if done.interim is not None:
        return dict(done.interim)
    modern = context.protocol_version == MODERN
    structured = done.structured(modern)
    return types.CallToolResult.model_validate(
        {
            "content": done.content(modern),
            "structuredContent": msgspec.json.decode(structured) if structured else None,
            "isError": done.failed,
            "_meta": dict(done.meta) if done.meta is not None else None,
        }
    )


_WARMING: tuple[tuple[str, dict[str, Any]], ...] = (
    (LEGACY[0], {}),
    (MODERN, {"_meta": {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}}),
)
"""A protocol version of each era, with the parameters of a request of that era."""


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


async def _drop(_message: Message) -> None:
    pass


class SdkApp:
    """The SDK's HTTP handling of one endpoint; serves between ``start`` and ``stop``."""

    def __init__(self, server: Server[Any], max_body: int) -> None:
        # Host, Origin and body size were checked before; the SDK's own size check is a safety net.
        self._plain = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=max_body
        )
        self._streaming = StreamableHTTPSessionManager(
            server, json_response=False, stateless=True, max_request_body_size=max_body
        )
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts serving; idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="mcp session managers")
        await self._ready.wait()

    async def warm_up(self) -> None:
        """Requests the tool list in both protocol eras, so that the SDK builds its models before the first client."""
        for version, params in _WARMING:
            body = to_json({"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": params})
            headers: list[Header] = [
                (b"content-type", JSON),
                (b"accept", JSON),
                (b"host", b"localhost"),
                (b"mcp-protocol-version", version.encode()),
                (b"mcp-method", b"tools/list"),
            ]
            scope: Scope = {
                "type": "http",
                "method": "POST",
                "path": "/",
                "query_string": b"",
                "headers": headers,
                EXCHANGE: Exchange(""),
            }
            await self.handle(scope, replayed(body, _nothing), _drop, streaming=False)

    async def stop(self) -> None:
        """Cancels requests in flight and waits for them."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def handle(self, scope: Scope, receive: Receive, send: Send, streaming: bool) -> None:
        manager = self._streaming if streaming else self._plain
        await manager.handle_request(scope, receive, send)

    async def _run(self) -> None:
        # A separate task, because a manager's task group must be exited by the task that entered it.
        async with self._plain.run(), self._streaming.run():
            self._ready.set()
            await self._stopping.wait()


class SdkApps:
    """The SDK's HTTP handling of all endpoints, made when first needed.

    Args:
        factory: makes an endpoint's server.
    """

    def __init__(self, calls: Calls, max_body: int, factory: ServerFactory, listening: Listening | None) -> None:
        self._calls = calls
        self._listening = listening
        self._max_body = max_body
        self._factory = factory
        self._apps: dict[str, SdkApp] = {}

    async def get(self, endpoint: Endpoint) -> SdkApp:
        app = self._apps.get(endpoint.name)
        if app is None:
            app = self._apps[endpoint.name] = SdkApp(
                self._factory(endpoint, self._calls, self._listening), self._max_body
            )
        await app.start()
        return app

    async def stop(self) -> None:
        await asyncio.gather(*(app.stop() for app in self._apps.values()))
