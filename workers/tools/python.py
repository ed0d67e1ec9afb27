"""Python callables that the configuration or installed packages name.

They get the step's args as keyword arguments, and ``idempotency_key`` if they have a parameter of that name. A
coroutine function runs on the worker's event loop, and should be used for calls that wait for the network. Any other
function runs in a child process, where it may compute, block and be killed without affecting other steps.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any

import msgspec
import structlog

from coordinator.steps.model import Failure, Outcome, StepRun, Success
from coordinator.steps.run_kind import CallFailed, Isolated
from coordinator.toolsets.caller import Caller
from workers.children.isolated_child import BAD_ARGUMENTS, TOO_DEEP, BadArguments, message_of, prepared
from workers.tools.source import Source, StepTool

_log = structlog.get_logger(__name__)


class PythonTools(Source):
    """All callables by name.

    Args:
        targets: ``module:function`` by tool name.
        isolated: runs those that are not coroutine functions.
    """

    name = "python"

    def __init__(self, targets: Mapping[str, str], isolated: Isolated) -> None:
        self._targets = targets
        self._isolated = isolated
        self._tools: dict[str, StepTool] = {}

    def find(self, name: str) -> StepTool | None:
        return self._tools.get(name)

    async def listed(self) -> Sequence[StepTool]:
        await self.start()
        return list(self._tools.values())

    async def start(self) -> None:
        """Imports the modules. If one cannot be imported, only the steps that need it fail."""
        for name, target in self._targets.items():
            if name in self._tools:
                continue
            try:
                function = await asyncio.to_thread(_resolved, target)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                reason = f"{target} cannot be used: {type(error).__name__}: {message_of(error)}"
                _log.error("a step tool is missing", tool=name, reason=reason)
                self._tools[name] = StepTool(name, partial(_broken, reason), f"({reason})")
                continue
            about = inspect.getdoc(function) or ""
            if inspect.iscoroutinefunction(function):
                self._tools[name] = StepTool(name, partial(_await, function), about)
            else:
                self._tools[name] = StepTool(name, partial(self._isolate, target), about)

    async def _isolate(self, target: str, step: StepRun, arguments: dict[str, Any], caller: Caller | None) -> Outcome:
        del caller
        try:
            return Success(await self._isolated.call(target, arguments, step.idempotency_key))
        except CallFailed as failed:
            return Failure(str(failed), failed.type, retryable=failed.type != BAD_ARGUMENTS)


async def _await(
    function: Callable[..., Any], step: StepRun, arguments: dict[str, Any], caller: Caller | None
) -> Outcome:
    del caller
    try:
        arguments = prepared(function, arguments, step.idempotency_key)
    except BadArguments as problem:
        return Failure(str(problem), BAD_ARGUMENTS, retryable=False)
    try:
        # A copy: templates insert parts of the run's input, which later steps and attempts get, too.
        return _kept(await function(**msgspec.to_builtins(arguments)))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # BaseException: SystemExit would end the worker, and others the slot that runs the tool.
        _log.info("a step tool raised", function=function.__qualname__, exc_info=True)
        return Failure(message_of(error), type(error).__name__)


def _kept(value: Any) -> Outcome:
    try:
        return Success(msgspec.to_builtins(value))
    except RecursionError:
        return Failure(TOO_DEEP, "invalid_result")


async def _broken(reason: str, step: StepRun, arguments: dict[str, Any], caller: Caller | None) -> Outcome:
    del step, arguments, caller
    return Failure(reason, "unknown_tool", retryable=False)


def _resolved(target: str) -> Callable[..., Any]:
    value: Any = resolve_name(target)
    if not callable(value):
        raise TypeError("it is not callable")
    return value  # type: ignore[no-any-return]
