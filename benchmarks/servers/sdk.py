"""The official SDK's HTTP server doing the same claim on redis-py's pool."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
import redis.asyncio
from mcp.server.lowlevel import Server

from benchmarks.servers.bare import SCRIPT, arguments, result
from coordinator.toolsets.items.contract.claims import ClaimItem
from coordinator.toolsets.items.store.claims import ClaimReply

_SCHEMA: dict[str, Any] = {"type": "object"}


async def claiming(url: str) -> Any:
    """As in the SDK's documentation."""
    return await _app(url)


async def claiming_with_hint(url: str) -> Any:
    """With ``get_tool_input_schema``, which saves the SDK a scan of the tool list."""
    return await _app(url, get_tool_input_schema={"claim_item": _SCHEMA}.get)


async def _app(url: str, **options: Any) -> Any:
    client = redis.asyncio.Redis.from_url(url)
    await client.function_load(SCRIPT.function_library.text, replace=True)
    decode = msgspec.msgpack.Decoder(ClaimReply).decode

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="claim_item", input_schema=_SCHEMA)])

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        args = msgspec.convert(params.arguments, ClaimItem)
        reply = decode(await client.fcall(SCRIPT.function, 1, b"fc:{default}:", *arguments(args)))
        content = msgspec.to_builtins(result(args, reply))
        text = msgspec.json.encode(content).decode()
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=content)

    server: Server[Any] = Server("sdk", on_list_tools=list_tools, on_call_tool=call_tool, **options)
    return server.streamable_http_app(stateless_http=True, json_response=True)
