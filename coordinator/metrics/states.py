"""The metrics of states that downstream servers keep; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import SLOT
from coordinator.metrics.metric import Counter, Gauge
from coordinator.metrics.recording import Recording

HELD = Gauge(
    "coordinator_states_held",
    "states",
    "States of downstream servers (`state: shared` or `session`) that each worker has.",
    (SLOT,),
)
LOST = Counter(
    "coordinator_states_lost_total",
    "calls",
    "Calls that were not made because what their owner had done on the server before is lost (`state_lost`).",
)


class StateRecorder:
    """Records the states of one worker.

    Args:
        slot: the process's stable name on its host.
    """

    def __init__(self, cells: Recording, slot: str) -> None:
        self._held = cells.of(HELD)
        self._lost = cells.of(LOST)
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
