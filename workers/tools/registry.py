"""Finds the tool that a step names, checks who may call it, and calls it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from coordinator.settings import Settings
from coordinator.steps.model import Failure, Outcome, StepRun, Success, Work
from coordinator.steps.run_kind import Configurable
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import may_call
from coordinator.toolsets.flows.run_kind import ToolCall
from workers.tools.rights import Rights
from workers.tools.source import Source, SourceFailed, StepTool

_log = structlog.get_logger(__name__)


class Listing(NamedTuple):
    """What one source has."""

    source: str
    tools: Sequence[StepTool]
    problem: str
    """Why its tools are not known; empty: they are."""


class StepTools:
    """The registry: an executor over all sources (``coordinator.steps.run_kind.Executor``).

    Args:
        sources: where several have a name, the first counts.
        rights: knows what creators of workflows may do now.
    """

    def __init__(self, sources: Sequence[Source], rights: Rights) -> None:
        self._sources = sources
        self._rights = rights

    def find(self, name: str) -> StepTool | None:
        """The tool that a step means."""
        for source in self._sources:
            if (found := source.find(name)) is not None:
                return found
        return None

    async def permits(self, project: str, creator: Caller, tool: str) -> Caller | str:
        """The creator of a workflow as he is now, if he may have a tool called; else what he lacks, as a sentence."""
        found = self.find(tool)
        if found is None:
            return creator  # that there is no such tool is said when it is called
        now = await self._rights.now(project, creator)
        if now is not None and may_call(now.permissions, found.name, found.group, found.read_only):
            return now
        return f"permission denied: {creator.id} may not call {tool} now"

    async def execute(self, step: StepRun, work: Work) -> Outcome:
        """Calls the tool."""
        if work.tool is None:
            return Success()
        found = self.find(work.tool)
        if found is None:
            return Failure(f"there is no tool {work.tool!r} now", "unknown_tool", retryable=False)
        caller = work.caller if isinstance(work, ToolCall) else None
        return await found.call(step, work.arguments or {}, caller)

    def configure(self, settings: Settings) -> None:
        """Goes by other settings, for every call that begins later."""
        self._rights.configure(settings)
        for source in self._sources:
            if isinstance(source, Configurable):
                source.configure(settings)

    async def list(self) -> Sequence[Listing]:
        """Every source with its tools; all are asked at once, and one that fails hides no other."""
        return await asyncio.gather(*(_listing(source) for source in self._sources))

    async def open(self) -> None:
        """Called in the worker's event loop before the first attempt."""
        for source in self._sources:
            await source.open()

    async def close(self) -> None:
        """Called after the last attempt."""
        outcomes = await asyncio.gather(*(source.close() for source in self._sources), return_exceptions=True)
        for source, outcome in zip(self._sources, outcomes, strict=True):
            if isinstance(outcome, Exception):
                _log.warning("a source of step tools did not close", source=source.name, error=str(outcome))


async def _listing(source: Source) -> Listing:
    try:
        return Listing(source.name, await source.listed(), "")
    except SourceFailed as failed:
        return Listing(source.name, (), str(failed))
