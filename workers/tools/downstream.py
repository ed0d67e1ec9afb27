"""Tools of downstream MCP servers: ``<connection>.<tool>``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mcp_types as types
import msgspec

from coordinator.client.retries import retryable
from coordinator.steps.model import STATE_LOST, Failure, Outcome, StepRun, Success
from coordinator.toolsets.caller import Caller
from workers.downstream.contents import content_of, with_content
from workers.downstream.failures import AnswerUnusable, CallRefused, ConnectionFailed, NoStateFree, StateLost
from workers.downstream.server import DownstreamServer
from workers.states import StateCalls
from workers.tools.results import failure_of, value_of
from workers.tools.retrying import RetryableFailure, Retrying
from workers.tools.source import Source, SourceFailed, StepTool


class ServerTools(Source):
    """The tools of one server. Every name is accepted: the server itself rejects calls of unknown tools.

    Args:
        name: the name of the connection.
        server: returns the server as it is configured now; None if there is no such connection any more.
        callee: the same, as a step calls it.
    """

    def __init__(
        self,
        name: str,
        server: Callable[[], DownstreamServer | None],
        callee: Callable[[StepRun], DownstreamServer | StateCalls | None],
    ) -> None:
        self.name = name
        self._server = server
        self._callee = callee
        self._prefix = f"{name}."
        self._retrying = Retrying()

    def find(self, name: str) -> StepTool | None:
        tool = name.removeprefix(self._prefix)
        return StepTool(name, partial(self._call, tool), group=self.name) if tool and tool != name else None

    async def listed(self) -> Sequence[StepTool]:
        server = self._server()
        if server is None:
            raise SourceFailed(f"there is no connection {self.name!r} now")
        try:
            tools = await server.tools()
        except (ConnectionFailed, CallRefused) as failed:
            raise SourceFailed(str(failed)) from None
        return [
            StepTool(
                self._prefix + tool.name,
                partial(self._call, tool.name),
                tool.description or tool.title,
                self.name,
                tool.read_only,
            )
            for tool in tools
            if not tool.problem
        ]

    async def stop(self, deadline: float = 0.0) -> None:
        server = self._server()
        if server is not None:
            await server.close()

    async def _call(self, tool: str, step: StepRun, arguments: dict[str, Any], caller: Caller | None) -> Outcome:
        del caller  # our identities mean nothing to a foreign server
        return await self._retrying(partial(self._once, tool, step, arguments))

    async def _once(self, tool: str, step: StepRun, arguments: dict[str, Any]) -> Outcome:
        server = self._callee(step)
        if server is None:
            return Failure(f"there is no connection {self.name!r} now", "connection_error")
        try:
            result = await server.call(tool, arguments, step.idempotency_key)
        except ConnectionFailed as failed:
            return Failure(str(failed), "connection_error", after_ms=round((failed.wait or 0) * 1000))
        except AnswerUnusable as failed:
            return Failure(str(failed), "invalid_result", retryable=False, carried_out=True)
        except CallRefused as refused:
            return Failure(str(refused), "call_refused", retryable=False)
        except StateLost as lost:
            return Failure(str(lost), STATE_LOST, retryable=False)
        except NoStateFree as full:
            return Failure(str(full), "rate_limited", after_ms=full.after_ms)
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        if result.is_error:
            failure = failure_of(result.structured_content, texts)
            failure = msgspec.structs.replace(failure, message=server.without_secrets(failure.message))
            if _nothing_done(result.structured_content):
                raise RetryableFailure(failure)
            return failure
        structured, content = result.structured_content, content_of(result)
        if structured is None and len(texts) != len(content):
            return Success(content)
        if structured is not None:
            structured = with_content(structured, content, "result")
        return Success(value_of(structured, texts))


def _nothing_done(structured: Any) -> bool:
    """Whether the server says that the call had no effect: it was shed, or it lost a race there."""
    retry = retryable(structured)
    if retry is None or retry.reason == "store_unavailable":  # then the effect of the call is unknown
        return False
    return retry.reason == "conflict" or structured["error"]["kind"] == "shedding"
