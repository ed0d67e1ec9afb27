"""Calls tools of downstream MCP servers. Imported only when needed: importing the MCP client takes a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
import msgspec

from coordinator.steps.model import Failure, Outcome, Success
from workers.downstream.contents import content_of, with_content
from workers.downstream.failures import CallRefused, ConnectionFailed, NoStateFree, StateLost
from workers.downstream.server import DownstreamServer
from workers.gateway.failures import permanent, rate_limited, state_lost, transient, unreachable
from workers.states import StateCalls


async def call_tool(
    server: DownstreamServer | StateCalls,
    tool: str,
    arguments: Mapping[str, Any],
    idempotency_key: str,
    on_progress: Callable[[], None] | None = None,
) -> Outcome:
    """Calls a tool. The output is the structured content of its result, with the content that says more; or its content
    if it has none."""
    try:
        result = await server.call(tool, arguments, idempotency_key, on_progress)
    except ConnectionFailed as failed:
        return unreachable(str(failed)) if failed.wait is None else rate_limited(str(failed), round(failed.wait * 1000))
    except CallRefused as refused:
        done = refused.carried_out
        return msgspec.structs.replace(permanent(str(refused)), retryable=not done, carried_out=done)
    except StateLost as lost:
        return state_lost(str(lost))
    except NoStateFree as full:
        return rate_limited(str(full), full.after_ms)
    if result.is_error:
        return _failure(result, server.without_secrets)
    structured, content = result.structured_content, content_of(result)
    if structured is None:
        return Success({"content": content} if content else {})
    value = with_content(structured, content, "content")
    return Success(value if isinstance(value, dict) else {"content": value})


def _failure(result: types.CallToolResult, without_secrets: Callable[[str], str]) -> Failure:
    """The failure that a result with ``isError`` describes. Servers like ours state a kind and a code, too."""
    structured = result.structured_content
    error = structured.get("error") if isinstance(structured, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        message = without_secrets(f"{error['message']} ({error.get('code', 'error')})")
        after = error.get("retryAfterMs")
        after_ms = after if isinstance(after, int) else 0
        if error.get("kind") == "transient":
            return transient(message, after_ms)
        return rate_limited(message, after_ms) if error.get("kind") == "shedding" else permanent(message)
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return permanent(without_secrets("\n".join(texts)) or "the tool failed")
