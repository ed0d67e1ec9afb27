"""The metrics of the console; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.cells import Cells
from coordinator.metrics.families import Family
from coordinator.metrics.metric import SLOT, Label, Metric

TABS = Metric(
    "coordinator_console_tabs", "gauge", "tabs", "Visible tabs of the console on each front-end now.", (SLOT,)
)
FRAMES = Metric("coordinator_console_frames_total", "counter", "frames", "Frames sent to tabs of the console.")
BYTES = Metric("coordinator_console_frame_bytes_total", "counter", "bytes", "Bytes of these frames.")
GAPS = Metric(
    "coordinator_console_gaps_total",
    "counter",
    "frames",
    "How often the tabs of a project were told to look at everything: too much had changed at once, or events were "
    "missing.",
)
SHED = Metric("coordinator_console_shed_total", "counter", "reads", "Reads of the console that were shed.")
ACTIONS = Metric(
    "coordinator_console_actions_total",
    "counter",
    "actions",
    "What people have done in the console, by the tool or operation. refused: as the rules say; failed: otherwise.",
    (Label("action", limit=24), Label("outcome", ("ok", "refused", "failed"))),
)

ALL = (TABS, FRAMES, BYTES, GAPS, SHED, ACTIONS)


class Recorder:
    """Records them; ``coordinator.metrics.Recorder.console``."""

    def __init__(self, cells: Cells, slot: str) -> None:
        self._slot = slot
        self._tabs = Family(TABS, cells.number)
        self._frames = Family(FRAMES, cells.number)
        self._bytes = Family(BYTES, cells.number)
        self._gaps = Family(GAPS, cells.number)
        self._shed = Family(SHED, cells.number)
        self._actions = Family(ACTIONS, cells.number)

    def start(self) -> None:
        """Starts the numbers of a front-end at zero."""
        self.tabs(0)
        for family in (self._frames, self._bytes, self._gaps, self._shed):
            family.start_at_zero()

    def tabs(self, count: int) -> None:
        """Visible tabs in this process."""
        self._tabs(self._slot).set(count)

    def frames(self, count: int, size: int) -> None:
        """Frames were sent to tabs; ``size`` in bytes, together."""
        self._frames().inc(count)
        self._bytes().inc(size)

    def gap(self) -> None:
        """Tabs were told to look at everything."""
        self._gaps().inc()

    def shed(self) -> None:
        """A read was shed."""
        self._shed().inc()

    def action(self, name: str, outcome: str) -> None:
        """A person has done something: ``ok``, ``refused`` or ``failed``."""
        self._actions(name, outcome).inc()
