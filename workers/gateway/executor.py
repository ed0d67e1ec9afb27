"""Executes attempts of the gateway's transitions, each within its time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from time import monotonic
from typing import Any, Protocol

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.service import Tasks
from coordinator.settings import Settings
from coordinator.settings.sections.gateway.model import PROXY
from coordinator.steps.model import Failure, Outcome, StepRun, Success, Work
from coordinator.steps.run_kind import Executor
from coordinator.steps.run_kind import timeout as attempt_timeout
from coordinator.store.fleet.connection_states import ConnectionStatus
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.gateway.operations import Operations, StartRequest
from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.bundle import Packed
from coordinator.toolsets.gateway.rules.calls import (
    BuiltinCall,
    CliCall,
    FlowCall,
    McpCall,
    Noop,
    RestCall,
    SubWorkflow,
)
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.task import MAX_NESTING, Task
from coordinator.toolsets.gateway.run_kind import ERROR_CLASSES, Job
from workers.connections.pool import Connections
from workers.gateway.cli import run_command
from workers.gateway.failures import permanent, problem_of, rate_limited, timeout, transient, unreachable
from workers.gateway.rest import RestClient
from workers.metrics import GATEWAY_EXECUTORS
from workers.tools.source import StepTool

_log = structlog.get_logger(__name__)

_ARGUMENT_KEY = "_idempotencyKey"
_SHED = ("store_unavailable", "store_full", "over_capacity", "draining")
RESTART_SECONDS = 5.0
"""The pause before a background task that failed is started again."""
_CREATE, _GET = "workflow_create", "workflow_get"


class Background(Protocol):
    """A background task that runs beside the attempts."""

    async def run(self) -> None: ...

    def configure(self, settings: Settings) -> None: ...


class GatewayExecutor(Executor):
    """The gateway's executor.

    Args:
        operations: starts sub-workflows.
        own: finds the coordinator's own tools.
        background: background tasks that run from ``start`` to ``stop``.
    """

    def __init__(
        self,
        connections: Connections,
        operations: Operations,
        own: Callable[[str], StepTool | None],
        background: tuple[Background, ...],
    ) -> None:
        self._connections = connections
        self._operations = operations
        self._own = own
        self._background = background
        self._rest = RestClient()
        self._tasks = Tasks()

    def configure(self, settings: Settings) -> None:
        self._connections.configure(settings)
        for task in self._background:
            task.configure(settings)

    async def start(self) -> None:
        for task in self._background:
            self._tasks.spawn(_restarting(task), type(task).__name__)

    async def stop(self, deadline: float = 0.0) -> None:
        await self._tasks.stop()
        await self._rest.close()
        await self._connections.close()

    def connections(self) -> Sequence[ConnectionStatus]:
        return self._connections.outcomes.statuses()

    async def execute(self, step: StepRun, work: Work) -> Outcome:
        """Makes the call; ``Job.retries`` decides whether a failure is retried."""
        if not isinstance(work, Job):
            return permanent("this is not work of the gateway")
        began = monotonic()
        if work.task.owner:
            step = msgspec.structs.replace(step, owner=work.task.owner)
        # Only calls of servers report progress and wait for their turn.
        limit = _Limit(work) if isinstance(work.call, McpCall) else None
        try:
            async with asyncio.timeout(work.limit_ms / 1000) if limit is None else limit.applied():
                outcome = await self._call(step, work, None if limit is None else limit.on_progress)
        except TimeoutError:
            outcome = timeout(_reached(work.limit_ms) if limit is None else limit.reached)
        ended = "ok" if isinstance(outcome, Success) else outcome.type
        GATEWAY_EXECUTORS.labels(work.tool or "", ended).observe(monotonic() - began)
        return outcome

    async def _call(self, step: StepRun, job: Job, on_progress: Callable[[], None] | None) -> Outcome:
        match job.call:
            case Noop(result):
                return Success(result)
            case CliCall() as call:
                return await self._cli(call)
            case RestCall() as call:
                return await self._rest_request(call)
            case McpCall() as call:
                return await self._mcp(step, job.task, call, on_progress)
            case BuiltinCall() as call:
                return await self._call_own(call.tool, step, call.arguments, job.task.principal.caller)
            case SubWorkflow() as call:
                return await self._sub_workflow(step, job, call)
            case FlowCall() as call:
                return await self._flow(step, job.task, call)

    # --- kinds ------------------------------------------------------------------------------------

    async def _cli(self, call: CliCall) -> Outcome:
        connection = None
        if call.connection:
            connection = self._connections.get(call.connection, "cli")
            if connection is None:
                return _no_connection(call.connection)
        note = self._connections.outcomes.noting(call.connection)
        outcome = await run_command(call, connection, os.environ)
        note(problem_of(outcome))
        return outcome

    async def _rest_request(self, call: RestCall) -> Outcome:
        connection = self._connections.get(call.connection, "rest")
        if connection is None:
            return _no_connection(call.connection)
        note = self._connections.outcomes.noting(call.connection)
        outcome = await self._rest.request(call, connection, os.environ)
        note(problem_of(outcome))
        return outcome

    async def _mcp(self, step: StepRun, task: Task, call: McpCall, on_progress: Callable[[], None] | None) -> Outcome:
        # The MCP client is there when there is a server. A session belongs to its caller, who may be unknown.
        server = self._connections.callee(call.connection, step, owned=bool(task.owner) or task.definition != PROXY)
        if server is None:
            return _no_connection(call.connection)
        from workers.gateway.mcp import call_tool

        key = call.key or step.idempotency_key
        arguments = {**call.arguments, _ARGUMENT_KEY: key} if call.key_argument else call.arguments
        outcome = await call_tool(server, call.tool, arguments, key, on_progress)
        if isinstance(outcome, Failure) and outcome.type == "connection_error":
            # Its tools may have to be listed as unavailable.
            self._connections.lost(call.connection)
        return outcome

    async def _sub_workflow(self, step: StepRun, job: Job, call: SubWorkflow) -> Outcome:
        """Starts a sub-workflow; the hop continues when that has ended."""
        task, name = job.task, call.definition
        if task.nesting >= MAX_NESTING:
            return permanent(f"sub-workflows may be nested {MAX_NESTING} deep")
        workflow = job.bundle.definitions.get(name)
        if workflow is None:
            return permanent(f"there is no workflow {name!r} among the definitions that this one started with")
        # All attempts start the same one.
        identity = "\0".join((task.workflow, task.place, str(task.candidate), str(task.tries)))
        child = "wf_" + blake2b(identity.encode(), digest_size=8).hexdigest()
        try:
            checked_input = checks.checked(workflow.input_schema, call.input, "input")
            await self._operations.start(
                StartRequest(
                    step.project,
                    task.principal,
                    name,
                    Packed(job.hash, b"", job.bundle),
                    checked_input,
                    new_id=child,
                    parent=f"{task.workflow} {task.op}",
                    nesting=task.nesting + 1,
                    owner=step.state_owner,
                    wait=False,
                )
            )
        except Rejected as rejected:
            return permanent(f"the sub-workflow {name!r} was not started: {rejected.message}")
        except ToolFailure as failure:
            return _store_failure(failure)
        return Success({"child": child})

    async def _flow(self, step: StepRun, task: Task, call: FlowCall) -> Outcome:
        caller = task.principal.caller
        if not task.wait:
            arguments = {"name": call.name or task.definition, "flow": call.flow, "input": call.input}
            outcome = await self._call_own(_CREATE, step, arguments, caller)
            if isinstance(outcome, Failure):
                return outcome
            return Success({"id": outcome.value["id"], "status": "running"})
        outcome = await self._call_own(_GET, step, {"id": int(task.wait), "whole": True}, caller)
        if isinstance(outcome, Failure):
            return outcome
        flow = outcome.value
        if flow["status"] in ("running", "paused"):
            return Success({"id": flow["id"], "status": "running"})
        if flow["status"] != "completed":
            reason = flow.get("reason", "no reason is recorded")
            return Success({"id": flow["id"], "status": flow["status"], "reason": reason})
        results = {
            entry["name"]: msgspec.json.decode(entry["result_json"])
            for entry in flow["steps"]
            if entry.get("result_json") is not None
        }
        return Success({"id": flow["id"], "status": "completed", "steps": results})

    async def _call_own(self, tool: str, step: StepRun, arguments: Mapping[str, Any], caller: Caller | None) -> Outcome:
        own = self._own(tool)
        if own is None:
            return permanent(f"the coordinator has no tool {tool!r} now")
        outcome = await own.call(step, dict(arguments), caller)
        if isinstance(outcome, Success) or outcome.type in ERROR_CLASSES:
            return outcome
        message = f"{outcome.message} ({outcome.type})"
        if outcome.type in _SHED:
            return rate_limited(message, outcome.after_ms)
        return transient(message, outcome.after_ms) if outcome.retryable else permanent(message)


def _reached(milliseconds: int) -> str:
    return f"it took longer than {milliseconds} ms"


class _Limit:
    """The limit of an attempt (``coordinator.steps.run_kind.Timeout``). An executor can suspend it, and progress that
    the call reports starts it anew, where the configuration says so."""

    def __init__(self, job: Job) -> None:
        self._seconds, self._total = job.limit_ms / 1000, job.total_ms / 1000
        self._outer = attempt_timeout.get()
        self._end = self._now() + self._total
        self._progressed = self._over = False
        self._clock = asyncio.timeout_at(self._now() + self._seconds)
        self.on_progress = self._extend if job.total_ms > job.limit_ms else None
        """Called with each progress; None: that makes no difference."""

    @asynccontextmanager
    async def applied(self) -> AsyncIterator[None]:
        """Limits what is done meanwhile. Raises TimeoutError."""
        async with self._clock:
            token = attempt_timeout.set(self)
            try:
                yield
            finally:
                self._over = True
                attempt_timeout.reset(token)

    @property
    def reached(self) -> str:
        """What an attempt did that has taken too long."""
        if not self._progressed:
            return _reached(round(self._seconds * 1000))
        if self._clock.when() == self._end:
            return f"{_reached(round(self._total * 1000))}, although it reported progress"
        return f"it reported no progress for {round(self._seconds * 1000)} ms"

    def suspend(self) -> None:
        self._clock.reschedule(None)
        if self._outer is not None:
            self._outer.suspend()

    def restart(self) -> None:
        self._end = self._now() + self._total
        self._clock.reschedule(self._now() + self._seconds)
        if self._outer is not None:
            self._outer.restart()

    def _extend(self) -> None:
        if not self._over and not self._clock.expired():
            self._progressed = True
            self._clock.reschedule(min(self._now() + self._seconds, self._end))
            if self._outer is not None:
                self._outer.restart()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _restarting(task: Background) -> None:
    """Runs a background task until it is cancelled, and starts it again after each failure."""
    while True:
        try:
            await task.run()
        except Exception:
            _log.exception("a background task of the gateway failed", part=type(task).__name__)
        await asyncio.sleep(RESTART_SECONDS)


def _no_connection(connection: str) -> Failure:
    return unreachable(f"there is no connection {connection!r} of this kind now")


def _store_failure(failure: ToolFailure) -> Failure:
    if failure.kind == "permanent":
        return permanent(failure.message)
    return transient(failure.message, failure.retry_after_ms or 0)
