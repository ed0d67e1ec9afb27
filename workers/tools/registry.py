"""Finds the tool that a step names, checks whether the step's creator may call it, and calls it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from coordinator.service import Together
from coordinator.settings import Settings
from coordinator.steps.model import Failure, Outcome, StepRun, Success, Work
from coordinator.steps.names import StepNames
from coordinator.steps.run_kind import Executor
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import may_call
from coordinator.toolsets.flows.run_kind import ToolCall
from workers.tools.rights import WorkerRights
from workers.tools.source import Source, SourceFailed, StepTool


class Listing(NamedTuple):
    """The tools of one source."""

    source: str
    tools: Sequence[StepTool]
    problem: str
    """Why its tools cannot be listed; empty if they can."""


class StepTools(Executor):
    """The registry. It executes steps with the tools of all sources.

    Args:
        sources: if several have a tool of the same name, the first one counts.
        servers: the sources for the connections of some settings; they come last.
        rights: knows what creators of runs may do now.
        names: says what is wrong with names that no source has.
    """

    def __init__(
        self,
        settings: Settings,
        sources: Sequence[Source],
        servers: Callable[[Settings], Sequence[Source]],
        rights: WorkerRights,
        names: StepNames,
    ) -> None:
        self._own = tuple(sources)
        self._servers = servers
        self._sources = (*sources, *servers(settings))
        self.rights = rights
        """What creators of runs may do now."""
        self._names = names

    def find(self, name: str) -> StepTool | None:
        for source in self._sources:
            if (tool := source.find(name)) is not None:
                return tool
        return None

    async def permits(self, project: str, creator: Caller, tool: str) -> Caller | str:
        """Checks whether the creator of a workflow may call a tool now.

        Returns:
            The creator with their present permissions; if the call is not permitted, the reason as a sentence.
        """
        own = self.find(tool)
        if own is None:
            return creator  # the call itself will say that there is no such tool
        await self.rights.look()
        now = self.rights.last(creator, project)
        if now is not None and may_call(now.permissions, own.name, own.group, own.read_only):
            return now
        return f"permission denied: {creator.id} may not call {tool} now"

    async def execute(self, step: StepRun, work: Work) -> Outcome:
        if work.tool is None:
            return Success()
        own = self.find(work.tool)
        if own is None:
            problem = self._names.problem(work.tool) or f"unknown tool {work.tool!r}"
            return Failure(problem, "unknown_tool", retryable=False)
        caller = None
        if isinstance(work, ToolCall):
            caller = work.caller
            step = msgspec.structs.replace(step, owner=work.owner) if work.owner else step
        return await own.call(step, work.arguments or {}, caller)

    def configure(self, settings: Settings) -> None:
        self.rights.configure(settings)
        self._names.configure(settings)
        self._sources = (*self._own, *self._servers(settings))
        for source in self._own:
            source.configure(settings)

    async def list(self) -> Sequence[Listing]:
        """Lists the tools of every source. All sources are asked concurrently, and one that fails does not hide the
        others."""
        return await asyncio.gather(*(_listing(source) for source in self._sources))

    async def start(self) -> None:
        for source in self._sources:
            await source.start()

    async def stop(self, deadline: float = 0.0) -> None:
        await Together(*self._sources).stop(deadline)


async def _listing(source: Source) -> Listing:
    try:
        return Listing(source.name, await source.listed(), "")
    except SourceFailed as failed:
        return Listing(source.name, (), str(failed))
