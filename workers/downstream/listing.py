"""Mends and drops malformed tools in a server's lists: the client library would reject the whole list because of one of
them. Keeps the schemas of results from the library, too, which would read their patterns as Python's (``checked``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import pydantic
from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCResponse
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from coordinator.toolsets.gateway.rules.schemas.lenient import mended

_LIST = "tools/list"
_MAX_SHOWN = 200
"""Most characters of a server's text in a reason."""
MOST_DROPPED = 1_000
"""Of how many dropped tools the reason is kept."""


class Listing:
    """Filters the messages of one session's server."""

    def __init__(self) -> None:
        self.dropped: dict[str, str] = {}
        """Tools that were dropped from the last list, and why."""
        self.outputs: dict[str, dict[str, Any]] = {}
        """The schemas of the results of tools."""
        self._complete = True
        self.version: str | None = None
        """The revision of the protocol that was agreed on; None: the one that is assumed before."""

    def clean(self, message: Any) -> None:
        """Drops from a message, if it is a list of tools, those that break the protocol and cannot be mended."""
        if not isinstance(message, JSONRPCResponse) or not isinstance(message.result.get("tools"), list):
            return
        if self._complete:
            self.dropped = {}
        self._complete = not message.result.get("nextCursor")
        listed = message.result["tools"]
        if self._problem(listed):
            tried = [_mended(tool) if self._problem([tool]) else tool for tool in listed]
            listed = [tool for tool in tried if not self._dropped(tool)]
        message.result["tools"] = [self._without_output(tool) for tool in listed]

    def _dropped(self, tool: Any) -> bool:
        problem = self._problem([tool])
        if problem and len(self.dropped) < MOST_DROPPED:
            name = tool.get("name") if isinstance(tool, Mapping) else tool
            self.dropped[str(name)[:_MAX_SHOWN]] = problem
        return bool(problem)

    def _without_output(self, tool: dict[str, Any]) -> dict[str, Any]:
        """A tool of which the library checks only whether its result has structured content, if it is to have some."""
        self.outputs.pop(tool["name"], None)
        if tool.get("outputSchema") is None:
            return tool
        self.outputs[tool["name"]] = tool["outputSchema"]
        return {**tool, "outputSchema": {"type": "object"}}

    def _problem(self, tools: list[Any]) -> str:
        """What is wrong with the first malformed one of the tools; empty if all are well-formed."""
        # The library checks the other fields of the result.
        result = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            methods.validate_server_result(_LIST, self.version or LATEST_HANDSHAKE_VERSION, result)
            types.ListToolsResult.model_validate({"tools": tools})
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"][2:])) or "tool"
            return f"{place}: {first['msg']}"[:_MAX_SHOWN]
        return ""


def _mended(tool: Any) -> Any:
    """A tool, with an input schema that keeps to JSON Schema and has no ``true`` as that of a property."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("inputSchema"), Mapping):
        return tool
    schema = mended(tool["inputSchema"])
    if isinstance(schema.get("properties"), Mapping):
        whole: dict[bool, Any] = {True: {}, False: {"not": {}}}
        parts = schema["properties"].items()
        schema["properties"] = {name: whole[part] if isinstance(part, bool) else part for name, part in parts}
    return {**tool, "inputSchema": schema}
