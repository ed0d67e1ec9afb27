"""The metrics of states that downstream servers keep; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.cells import Cells
from coordinator.metrics.families import Family
from coordinator.metrics.metric import SLOT, Metric

HELD = Metric(
    "coordinator_states_held",
    "gauge",
    "states",
    "States of downstream servers (`state: shared` or `session`) that each worker has.",
    (SLOT,),
)
LOST = Metric(
    "coordinator_states_lost_total",
    "counter",
    "calls",
    "Calls that were not made because what their owner had done on the server before is lost (`state_lost`).",
)

ALL = (HELD, LOST)


class StateRecorder:
    """Records the states of one worker.

    Args:
        slot: the process's stable name on its host.
    """

    def __init__(self, cells: Cells, slot: str) -> None:
        self._held = Family(HELD, cells.number)
        self._lost = Family(LOST, cells.number)
        self._slot = slot

    def start(self) -> None:
        """Starts the numbers of a worker at zero."""
        self.held(0)
        self._lost.start_at_zero()

    def held(self, count: int) -> None:
        """How many this worker has now."""
        self._held(self._slot).set(count)

    def lost(self) -> None:
        """A call was not made, because the state that its owner used before is gone."""
        self._lost().inc()
