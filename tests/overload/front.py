"""An admission with a clock of its own, and what it records."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.overload import Admission, Ticket
from coordinator.overload.metrics import BREAKER_STATE, SHED
from coordinator.settings.sections.overload import Overload
from coordinator.toolsets.tool import Criticality
from tests.support.counts import all_counted

SMALL = Overload(least_limit=8, most_limit=8, hard_limit=12, queue_most=4, queue_ms=10_000, parked_most=3)


def shed_calls() -> dict[tuple[str, str], int]:
    """How many calls were shed, by class and reason."""
    return all_counted(SHED)


def breaker_state() -> str:
    """What was reported last."""
    (state,) = (labels[0] for labels, cell in BREAKER_STATE.cells.items() if cell.value)
    return state


class Front:
    """An admission with a clock of its own."""

    def __init__(self, given: Overload = SMALL, **changes: Any) -> None:
        self.now = 0.0
        self.admission = Admission(msgspec.structs.replace(given, **changes), lambda: self.now, lambda: 0.5)
        self.names = 0

    def enter(self, criticality: Criticality, actor: str = "", project: str = "", **more: bool) -> Ticket | None:
        self.names += 1
        return self.admission.enter(criticality, actor or f"a{self.names}", project or f"p{self.names}", **more)

    def fill(self, criticality: Criticality, count: int) -> list[Ticket]:
        tickets = [self.enter(criticality) for _ in range(count)]
        assert None not in tickets
        return [ticket for ticket in tickets if ticket is not None]

    def configure(self, **changes: Any) -> None:
        self.admission.configure(msgspec.structs.replace(SMALL, **changes))

    async def wait_in_vain(self, criticality: Criticality) -> None:
        with pytest.raises(ToolFailure) as refused:
            await self.wait(criticality)
        assert code(refused) == "queue_timeout"

    def wait(self, criticality: Criticality) -> asyncio.Task[Ticket]:
        self.names += 1
        return asyncio.ensure_future(self.admission.wait(criticality, f"a{self.names}", f"p{self.names}"))


def code(failure: pytest.ExceptionInfo[ToolFailure]) -> str:
    assert failure.value.kind == "shedding"
    assert failure.value.retry_after_ms
    return failure.value.code
