"""The methods tasks/get, tasks/update and tasks/cancel of one endpoint (``rounds/tasks.py``).

Each is a call of the tool that the task began with: with the same permission, admission and deadline. Its client must
have declared the extension in the request, and over HTTP name the task in the header ``Mcp-Name``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from hashlib import blake2b
from typing import Any, NamedTuple

import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import decode_header_value
from mcp_types import HEADER_MISMATCH
from pydantic import ConfigDict, Field

from coordinator.errors import CATALOGUE, ToolFailure
from coordinator.identity.callers.rights import cut
from coordinator.toolsets.deferral import LATER_POLL_MS, Pending, Stopped
from coordinator.toolsets.questions import Question
from coordinator.toolsets.tool import Call, Criticality, Deferral, Handler, Tool
from coordinator.transport.calls import Calls, Done
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.envelope import MODERN, TASKS
from coordinator.transport.mcp.declared import require_tasks
from coordinator.transport.mcp.exchange import Context, ExchangeOf
from coordinator.transport.metrics import QUESTIONS, TASK_EVENTS
from coordinator.transport.rounds.asking import elicitation, filled_in, form_of
from coordinator.transport.rounds.tasks import Task, Tasks

NAMES = ("tasks/get", "tasks/update", "tasks/cancel")


class TaskParams(types.RequestParams):
    """Parameters of tasks/get and tasks/cancel."""

    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    """Parameters of tasks/update."""

    input_responses: dict[str, Any] = Field(alias="inputResponses")


class NotNow(MCPError):
    """A request that fails for the moment only."""


class _Begun(NamedTuple):
    """A tool whose calls may become tasks."""

    name: str
    """Its published name."""
    tool: Tool
    deferral: Deferral


class _Opened(NamedTuple):
    """A task that a request is about."""

    id: str
    task: Task
    now: int
    begun: _Begun
    call: Call
    state: msgspec.Struct


class TaskMethods:
    """The methods of tasks of one endpoint.

    Args:
        transport: sdk or stdio, for metrics.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        calls: Calls,
        tasks: Tasks,
        transport: str,
        exchange_of: ExchangeOf,
    ) -> None:
        self._endpoint = endpoint
        self._calls = calls
        self._tasks = tasks
        self._transport = transport
        self._exchange_of = exchange_of
        self._tools = {
            tool.name: _Begun(name, tool, tool.deferral)
            for name, tool in endpoint.tools.items()
            if tool.deferral is not None
        }

    async def get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """The task as it stands, with the result of its call if there is one."""
        self._check_name(context, params.task_id)
        opened = await self._opened(context, params.task_id)
        try:
            return _detailed(opened, await self._read(opened, NAMES[0]))
        except NotNow:
            # Nothing is known of it now; an error could make the client give up.
            message = "cannot be read now; ask again"
            return opened.task.shown(opened.id, opened.now, "working", message, LATER_POLL_MS)

    async def detailed(self, context: Context, id: str) -> dict[str, Any]:
        """The same for a request that names other tasks as well. Raises MCPError: -32021, -32602 or -32603."""
        opened = await self._opened(context, id)
        return _detailed(opened, await self._read(opened, NAMES[0]))

    async def about(self, context: Context, id: str) -> str:
        """The path of the document about what a task waits for; empty: there is none. Raises as ``detailed``."""
        opened = await self._opened(context, id)
        return opened.begun.deferral.about(opened.state)

    async def update(self, context: Context, params: UpdateParams) -> dict[str, Any]:
        """Takes answers to questions that the task waits for; others are ignored."""
        self._check_name(context, params.task_id)
        opened = await self._opened(context, params.task_id)
        questions = {question.key: question for question in _questions(await self._read(opened, NAMES[0]))}
        for key, response in params.input_responses.items():
            question = questions.get(key)
            if question is None:
                continue
            once = blake2b(f"{opened.id}\0{key}".encode(), digest_size=16).hexdigest()
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(question.state))
            answer = filled_in(form_of(question), response, state, once)
            if answer is None:
                raise MCPError(types.INVALID_PARAMS, f"inputResponses: {key[:80]!r} does not fill in the form")
            QUESTIONS.labels(opened.begun.tool.name, answer.action).inc()
            answered = opened._replace(call=msgspec.structs.replace(opened.call, answer=answer))
            _check(await self._read(answered, NAMES[1]))
        return {}

    async def cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Stops what the call has begun, if it is the call's own. Otherwise only its client stops asking."""
        self._check_name(context, params.task_id)
        opened = await self._opened(context, params.task_id)
        TASK_EVENTS.labels(opened.begun.tool.name, "cancelled").inc()
        if opened.begun.deferral.stop is not None:
            _check(await self._run(opened, NAMES[2], opened.begun.deferral.stop))
        return {}

    def _check_name(self, context: Context, id: str) -> None:
        """Raises MCPError: -32601, -32021, or -32020 if the header names another task."""
        if context.protocol_version != MODERN:
            raise MCPError(types.METHOD_NOT_FOUND, f"Method not found: {context.method}")
        require_tasks(context)
        # On stdio there is no request, and there are no headers.
        if context.request is not None and decode_header_value(context.request.headers.get("mcp-name")) != id:
            raise MCPError(HEADER_MISMATCH, "the mcp-name header must be the taskId")

    async def _opened(self, context: Context, id: str) -> _Opened:
        """The task of a request.

        Raises:
            MCPError: -32021, -32602, or -32603 if the store does not answer.
        """
        client = require_tasks(context)
        exchange = await self._exchange_of(context)
        caller = exchange.caller
        task = await _told(self._tasks.find(id, exchange.project, caller))
        if task is not None and caller is not None and task.caller is not None:
            caller = cut(caller, task.caller)
        begun = self._tools.get(task.tool) if task is not None else None
        if task is None or begun is None or not (caller is None or self._endpoint.access[begun.name].permits(caller)):
            raise _unknown()
        try:
            state = msgspec.msgpack.decode(task.state, type=begun.deferral.state)
        except msgspec.MsgspecError:
            raise _unknown() from None  # of a release with other states
        answering = self._endpoint.answering.get(begun.name)
        can_ask = client.form and answering is not None and (caller is None or answering.permits(caller))
        try:
            now = await self._tasks.now()
        except ToolFailure:
            now = task.created  # what follows cannot be read either
        call = Call(
            exchange.project,
            exchange.request_id or str(context.request_id),
            caller,
            can_ask=can_ask,
            can_defer=True,
            elapsed_ms=max(0, now - task.created),
        )
        return _Opened(id, task, now, begun, call, state)

    async def _read(self, opened: _Opened, name: str) -> Done:
        return await self._run(opened, name, opened.begun.deferral.read)

    async def _run(self, opened: _Opened, name: str, handler: Handler) -> Done:
        """Runs a handler of the deferral as a call of a tool.

        Raises:
            NotNow: it was shed, or the store does not answer.
        """
        tool = Tool(
            name,
            "",
            opened.begun.deferral.state,
            (),
            handler,
            polled=True,
            read_only=name == NAMES[0],
            criticality=Criticality.READ if name == NAMES[0] else Criticality.CRITICAL,
            refusal=opened.begun.tool.refusal,
        )
        done = await self._calls.run(tool, opened.call, opened.state, self._transport)
        if done.code in CATALOGUE and CATALOGUE[done.code].kind != "permanent":
            raise NotNow(types.INTERNAL_ERROR, f"not now: {done.code}", {"code": done.code})
        return done


def add_tasks(
    server: Server[Any],
    endpoint: Endpoint,
    calls: Calls,
    transport: str,
    exchange_of: ExchangeOf,
) -> TaskMethods | None:
    """Adds the methods and announces them, if calls of the endpoint may become tasks. Arguments as ``TaskMethods``."""
    if calls.rounds is None or all(tool.deferral is None for tool in endpoint.tools.values()):
        return None
    methods = TaskMethods(endpoint, calls, calls.rounds.tasks, transport, exchange_of)
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, methods.get)
    server.add_request_handler("tasks/update", UpdateParams, methods.update)
    server.add_request_handler("tasks/cancel", TaskParams, methods.cancel)
    return methods


def _unknown() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "Failed to retrieve task: Task not found")


async def _told(reading: Awaitable[Any]) -> Any:
    """Awaits the store; raises MCPError in place of ToolFailure."""
    try:
        return await reading
    except ToolFailure as failure:
        raise MCPError(types.INTERNAL_ERROR, failure.message, {"code": failure.code}) from None


def _check(done: Done) -> None:
    """Raises MCPError if a change has failed."""
    if done.code:
        raise MCPError(types.INTERNAL_ERROR, f"refused: {done.code}", {"code": done.code})


def _questions(done: Done) -> tuple[Question, ...]:
    unfinished = done.unfinished
    if isinstance(unfinished, Question):
        return (unfinished,)
    return unfinished.questions if isinstance(unfinished, Pending) else ()


def _detailed(opened: _Opened, done: Done) -> dict[str, Any]:
    """The task with what belongs to its status."""
    task, unfinished, questions = opened.task, done.unfinished, _questions(done)

    def shown(status: str, message: str = "") -> dict[str, Any]:
        return task.shown(opened.id, opened.now, status, message)

    if questions:
        requests = {question.key: elicitation(question.message, form_of(question)) for question in questions}
        return {**shown("input_required"), "inputRequests": requests}
    if isinstance(unfinished, Pending):
        return shown("working", unfinished.message)
    if isinstance(unfinished, Stopped):
        return shown("cancelled", "its caller has cancelled it")
    if done.code == "INTERNAL_ERROR":
        message = "a defect of the coordinator stopped this call"
        return {**shown("failed", message), "error": {"code": types.INTERNAL_ERROR, "message": message}}
    result: dict[str, Any] = {"content": done.content(modern=True)}
    if structured := done.structured(modern=True):
        result["structuredContent"] = msgspec.json.decode(structured)
    result["isError"] = done.failed
    if done.meta:
        result["_meta"] = dict(done.meta)
    return {**shown("completed"), "result": result}
