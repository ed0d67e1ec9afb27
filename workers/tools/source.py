"""What a source of tools is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.steps.model import Outcome, StepRun
from coordinator.toolsets.caller import Caller

CallTool = Callable[[StepRun, dict[str, Any], Caller | None], Awaitable[Outcome]]
"""Takes the step, its arguments and the creator of its workflow, if he is known."""


@dataclass(slots=True, frozen=True)
class StepTool:
    """One tool as steps see it."""

    name: str
    call: CallTool
    description: str = ""
    group: str = ""
    """What it belongs to, for permissions: the toolset or the connection; empty: nothing."""
    read_only: bool = False


class Source(Protocol):
    """Tools of one kind."""

    name: str
    """What people call it."""

    def find(self, name: str) -> StepTool | None:
        """The tool of that name, as far as that can be told without asking anybody."""
        ...

    async def listed(self) -> Sequence[StepTool]:
        """All its tools, asked from whatever serves them.

        Raises:
            SourceFailed: the list cannot be read.
        """
        ...

    async def open(self) -> None:
        """Called before the first call."""
        ...

    async def close(self) -> None:
        """Called after the last."""
        ...


class SourceFailed(Exception):
    """A source cannot list its tools now; the text says why."""
