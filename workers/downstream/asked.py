"""Refuses what servers ask of their clients: input from people, answers of models, and roots."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.client import ClientSession

REFUSED = "which nobody can answer here"
"""In each refusal, so that the failure of a tool that passes it on is known as one."""
_MAX_SHOWN = 200


class InputAsked(Exception):
    """A server answered a call by asking for input (protocol 2026-07-28). The text says what it asked for."""


def refuse_requests(session: ClientSession) -> None:
    """Makes a session refuse the requests of its server at once.

    The client library would repeat a call that asks for input, though nobody can give any. Its callbacks are not used,
    because it would announce them to the server.
    """
    call = session.call_tool

    async def called(*arguments: Any, **named: Any) -> Any:
        result = await call(*arguments, **named)
        if isinstance(result, types.InputRequiredResult):
            requests = [_described(request) for request in (result.input_requests or {}).values()]
            raise InputAsked(f"the server asked for {' and '.join(requests) or 'the same call again'}, {REFUSED}")
        return result

    async def refused(context: Any, request: types.InputRequest) -> types.InputResponse | types.ErrorData:
        return types.ErrorData(
            code=types.INVALID_REQUEST, message=f"the server asked for {_described(request)}, {REFUSED}"
        )

    session.call_tool = called  # type: ignore[method-assign]
    session.dispatch_input_request = refused  # type: ignore[method-assign, assignment]


def _described(request: types.InputRequest) -> str:
    said = request.params.message if isinstance(request, types.ElicitRequest) else ""
    return request.method + (f" ({said[:_MAX_SHOWN]})" if said else "")
