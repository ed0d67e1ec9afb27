"""Drops malformed tools from a server's lists: the client library would reject the whole list because of one of
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import pydantic
import structlog
from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCResponse
from mcp_types.version import LATEST_HANDSHAKE_VERSION

_log = structlog.get_logger(__name__)

_LIST = "tools/list"
_MAX_SHOWN = 200
"""Most characters of a server's text in the log."""


class Listing:
    """Filters the messages of one session's server.

    Args:
        connection: the name of the connection.
    """

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self._logged: set[tuple[str, str]] = set()
        self.version: str | None = None
        """The revision of the protocol that was agreed on; None: the one that is assumed before."""

    def clean(self, message: Any) -> None:
        """Drops from a message, if it is a list of tools, those that break the protocol, and logs each once."""
        if not isinstance(message, JSONRPCResponse) or not isinstance(message.result.get("tools"), list):
            return
        listed = message.result["tools"]
        if self._problem(listed):
            message.result["tools"] = [tool for tool in listed if not self._dropped(tool)]

    def _dropped(self, tool: Any) -> bool:
        problem = self._problem([tool])
        if not problem:
            return False
        name = tool.get("name") if isinstance(tool, Mapping) else tool
        problem_key = str(name)[:_MAX_SHOWN], problem
        if problem_key not in self._logged:
            self._logged.add(problem_key)
            _log.warning(
                "a malformed tool is left out", connection=self._connection, tool=problem_key[0], reason=problem
            )
        return True

    def _problem(self, tools: list[Any]) -> str:
        """What is wrong with the first malformed one of the tools; empty if all are well-formed."""
        # The library checks the other fields of the result.
        found = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            methods.validate_server_result(_LIST, self.version or LATEST_HANDSHAKE_VERSION, found)
            types.ListToolsResult.model_validate({"tools": tools})
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"][2:])) or "tool"
            return f"{place}: {first['msg']}"[:_MAX_SHOWN]
        return ""
