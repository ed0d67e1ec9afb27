"""Says what is wrong with a message, where the SDK only says that something is, or quotes its validator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import pydantic
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from coordinator.transport.envelope import MODERN
from coordinator.transport.http.replies import WRONG_ID

_MOST = 4
"""Problems that are named."""
_CHARS = 80
"""Of each part of a place: clients choose some of them."""
_NOT_BEGUN = (
    f"the session has not begun: send initialize first, or name the revision {MODERN} in params._meta "
    "(io.modelcontextprotocol/protocolVersion, clientInfo and clientCapabilities)"
)
_OURS = {"valid dictionary": "an object", "valid list": "an array"}
"""Words of JSON for those of Python."""
_Choice = tuple[tuple[int | str, ...], str]
"""A place that holds a union, and the name of one of its types, which errors have between the names of fields."""


async def naming_fields(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Middleware of a server: malformed parameters are refused with the names of the fields.

    Raises:
        MCPError: -32602.
    """
    try:
        return await call_next(ctx)
    except pydantic.ValidationError as error:
        raise MCPError(types.INVALID_PARAMS, problems(error)) from None
    except MCPError as error:
        # The SDK's words for a request before the handshake.
        if (error.message, error.data) == ("Invalid request parameters", ""):
            raise MCPError(types.INVALID_PARAMS, _NOT_BEGUN) from None
        raise


def problems(error: pydantic.ValidationError) -> str:
    """What is wrong, by field; nothing of what was given but the names of fields."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    lacks: dict[_Choice, int] = {}
    for one in errors:
        for choice in _choices(one["loc"]):
            lacks[choice] = lacks.get(choice, 0) + (one["type"] == "missing")
    least: dict[tuple[int | str, ...], int] = {}
    for (place, _), count in lacks.items():
        least[place] = min(count, least.get(place, count))
    # Of a union, the types that the value looks most like.
    nearest = (error for error in errors if all(lacks[choice] == least[choice[0]] for choice in _choices(error["loc"])))
    texts = dict.fromkeys(f"{_place(error['loc'])}: {_problem(error['msg'])}" for error in nearest)
    more = [f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return "; ".join([*list(texts)[:_MOST], *more])


def message_problem(message: Mapping[str, Any], request_id: int | str | None) -> str:
    """Why an object is no JSON-RPC message; empty if it is one.

    Args:
        request_id: its id; None: it has none, or an invalid one.
    """
    if message.get("jsonrpc") != "2.0":
        return "jsonrpc: must be '2.0'"
    if "method" not in message:
        answers = any(isinstance(message.get(name), dict) for name in ("result", "error"))
        return "" if answers else "method: is required"
    if not isinstance(message["method"], str):
        return "method: must be a string"
    if "id" in message and request_id is None:
        return WRONG_ID
    return "" if isinstance(message.get("params"), dict | None) else "params: must be an object"


def _choices(parts: tuple[int | str, ...]) -> list[_Choice]:
    return [(parts[:n], part) for n, part in enumerate(parts) if isinstance(part, str) and hasattr(types, part)]


def _place(parts: tuple[int | str, ...]) -> str:
    named = [part for part in parts if isinstance(part, int) or not hasattr(types, part)]
    if len(named) > 1 and named[0] == "params":
        del named[0]
    places = (f"[{part}]" if isinstance(part, int) else f".{part[:_CHARS]}" for part in named)
    return "".join(places).removeprefix(".")


def _problem(text: str) -> str:
    if text == "Field required":
        return "is required"
    problem = text.removeprefix("Input ").split(" or instance of ")[0]
    for theirs, ours in _OURS.items():
        problem = problem.replace(f"a {theirs}", ours)
    return problem
