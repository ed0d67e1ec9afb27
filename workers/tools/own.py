"""The coordinator's own tools, called in this process. The same contracts and policies apply as to calls by agents."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.identity.actors.attribution import attribute_call
from coordinator.identity.actors.resolver import Actors
from coordinator.service import ServiceGroup
from coordinator.settings import Settings
from coordinator.steps.model import Failure, Outcome, StepRun, Success
from coordinator.steps.names import owners
from coordinator.toolsets.arguments import decoded
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.schema import input_schema
from coordinator.toolsets.tool import Call, Reply, Tool, Toolset
from workers.tools.results import failure_of, value_of
from workers.tools.retrying import RetryableFailure, Retrying
from workers.tools.source import Source, StepTool

_log = structlog.get_logger(__name__)

_REQUESTS = uuid.UUID("6f1d53a8-0a39-4b8e-9d5e-0f5f0c5f6a11")
"""The namespace of request ids, which are derived from steps so that all attempts of a step have the same id."""


class OwnTools(Source):
    """The tools of all toolsets.

    Args:
        toolsets: the toolsets, made with the worker's own services.
        actors: resolves actors for them; started and stopped with this source.
    """

    name = "coordinator"

    def __init__(self, toolsets: Mapping[str, Toolset], actors: Actors) -> None:
        self._toolsets = toolsets
        self._services = ServiceGroup(actors, *(toolset.service for toolset in toolsets.values()))
        self._retrying = Retrying()
        names = {name: [tool.name for tool in toolset.tools] for name, toolset in toolsets.items()}
        tools = {(name, tool.name): tool for name, toolset in toolsets.items() for tool in toolset.tools}
        self._tools: dict[str, StepTool] = {}
        for name, toolsets_with_it in owners(names).items():
            if len(toolsets_with_it) == 1:
                toolset = toolsets_with_it[0]
                tool = tools.get((toolset, name)) or tools[toolset, name.removeprefix(f"{toolset}.")]
                self._tools[name] = self._made(name, toolset, tool)

    def find(self, name: str) -> StepTool | None:
        return self._tools.get(name)

    async def listed(self) -> Sequence[StepTool]:
        """One entry for each tool, under the shortest unambiguous name."""
        return [
            self._tools.get(tool.name) or self._tools[f"{name}.{tool.name}"]
            for name, toolset in self._toolsets.items()
            for tool in toolset.tools
        ]

    def configure(self, settings: Settings) -> None:
        """Applies new settings, including which identities to trust, to every call that begins later."""
        self._services.configure(settings)

    async def start(self) -> None:
        await self._services.start()

    async def stop(self, deadline: float = 0.0) -> None:
        await self._services.stop(deadline)

    def _made(self, name: str, toolset: str, tool: Tool) -> StepTool:
        return StepTool(name, partial(self._call, tool), tool.description, toolset, tool.read_only)

    async def _call(self, tool: Tool, step: StepRun, arguments: dict[str, Any], caller: Caller | None) -> Outcome:
        return await self._retrying(partial(self._once, tool, step, arguments, caller))

    async def _once(self, tool: Tool, step: StepRun, arguments: dict[str, Any], caller: Caller | None) -> Outcome:
        try:
            args = decoded(tool, input_schema(tool.arguments), _linked(tool, arguments, step))
            if caller is not None:
                attribute_call(args, caller)
            result = await tool.handler(Call(step.project, step.job_id, caller, owner=step.state_owner), args)
        except ToolFailure as failure:
            failed = Failure(
                failure.message, failure.code, failure.kind != "permanent", after_ms=failure.retry_after_ms or 0
            )
            # Calling again is safe: every call that changes something has a request id here, so a call that was carried
            # out is answered from the record.
            if failure.kind == "shedding" or failure.code == "conflict":
                raise RetryableFailure(failed) from None
            return failed
        except Exception:
            _log.exception("tool failed", tool=tool.name, step=step.job_id)
            return Failure("a defect of the coordinator stopped this call", "INTERNAL_ERROR")
        if not isinstance(result, Reply):
            return Success(value_of(msgspec.to_builtins(result), ()))
        structured = msgspec.to_builtins(result.structured)
        if result.is_error:
            return failure_of(structured, result.text)
        return Success(value_of(structured, result.text))


def _linked(tool: Tool, arguments: dict[str, Any], step: StepRun) -> dict[str, Any]:
    """Adds to the arguments what follows from the step: a request id and, for a new workflow, its parent.

    Values that the arguments have already are kept.
    """
    more: dict[str, Any] = {}
    if any(field.encode_name == "requestId" for field in msgspec.structs.fields(tool.arguments)):
        more["requestId"] = str(uuid.uuid5(_REQUESTS, f"{step.project} {step.run_kind} {step.idempotency_key}"))
    if tool.name == "workflow_create" and step.run_kind == "flows":
        more["parent"] = int(step.run)
    return {**more, **arguments}
