"""The base of all sources of tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.service import Service
from coordinator.steps.model import Outcome, StepRun
from coordinator.toolsets.caller import Caller

CallTool = Callable[[StepRun, dict[str, Any], Caller | None], Awaitable[Outcome]]
"""Takes the step, its arguments and the creator of its workflow, if known."""


@dataclass(slots=True, frozen=True)
class StepTool:
    name: str
    call: CallTool
    description: str = ""
    group: str = ""
    """The toolset or connection that it belongs to, for permissions; empty if none."""
    read_only: bool = False


class Source(Service, ABC):
    """Some tools. It is started before the first call of one."""

    name: str
    """Its name in messages."""

    @abstractmethod
    def find(self, name: str) -> StepTool | None:
        """The tool with this name, found without any communication. It may turn out not to exist when it is called."""

    @abstractmethod
    async def listed(self) -> Sequence[StepTool]:
        """All its tools. Servers are asked for theirs.

        Raises:
            SourceFailed: the list cannot be read.
        """


class SourceFailed(Exception):
    """A source cannot list its tools now. The text says why."""
