"""What the front-end knows about a request, passed through the SDK to the handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext

from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Call, Delivery
from coordinator.transport.calls import Recheck
from coordinator.transport.http.replies import Connection

EXCHANGE = "coordinator.exchange"
"""Key of the ``Exchange`` in the ASGI scope that the SDK passes through."""


@dataclass(slots=True)
class Exchange:
    """What the front-end knows about a request."""

    project: str
    request_id: str = ""
    """Empty on stdio, where the JSON-RPC id is enough."""
    caller: Caller | None = None
    """Who presented a verified credential."""
    agent: str = ""
    """The agent that the client names."""
    recheck: Recheck | None = None
    """Checks, while a call waits, that the caller is still authorized."""
    private: bool = False
    """Whether lists depend on the caller, so that caches must not share them."""
    retry_after: int | None = None
    """Seconds, set when the call was shed; becomes the ``Retry-After`` header."""
    delivery: Delivery | None = None
    """Of a call that may wait."""
    hung_up: asyncio.Future[None] | None = None
    """Completed when the client has hung up, on stdio; over HTTP its calls are cancelled."""
    connection: Connection | None = None
    """Of a request whose answer is long; None: it did not come over HTTP by our protocol."""

    def call(self, request_id: object) -> Call:
        """The request, as handlers of tools see it.

        Args:
            request_id: of the message.
        """
        return Call(self.project, self.request_id or str(request_id), self.caller, self.agent)

    @property
    def for_some(self) -> bool:
        """Whether the answer depends on the caller."""
        return self.private or self.caller is not None


Context = ServerRequestContext[Any]
"""A request, as the SDK passes it to handlers."""
ExchangeOf = Callable[[Context], Awaitable[Exchange]]
"""Gives the exchange of a request. Raises MCPError: its caller is not known."""
