"""Tasks for the official client: an extension that polls for the results of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim


class Created(types.Result):
    """The answer to a call that has become a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int


class Got(types.Result):
    """The answer to tasks/get."""

    status: str
    result: dict[str, Any] | None = None


class _TaskParams(types.RequestParams):
    task_id: str


class _Get(types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param: ClassVar[str | None] = "taskId"


class Tasks(ClientExtension):
    """Declares tasks, and polls for their results."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.polls = 0

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Created, resolve=self._result),)

    async def _result(self, created: Created, context: ClaimContext) -> types.CallToolResult:
        while True:
            self.polls += 1
            got = await context.session.send_request(_Get(params=_TaskParams(task_id=created.task_id)), Got)
            if got.status != "working":
                assert got.status == "completed", got
                return types.CallToolResult.model_validate(got.result)
            await asyncio.sleep(created.poll_interval_ms / 1000)
