"""The metrics of the console; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import SLOT, Label
from coordinator.metrics.metric import Counter, Gauge
from coordinator.metrics.recording import Recording

TABS = Gauge("coordinator_console_tabs", "tabs", "Visible tabs of the console on each front-end now.", (SLOT,))
FRAMES = Counter("coordinator_console_frames_total", "frames", "Frames sent to tabs of the console.")
BYTES = Counter("coordinator_console_frame_bytes_total", "bytes", "Bytes of these frames.")
GAPS = Counter(
    "coordinator_console_gaps_total",
    "frames",
    "How often the tabs of a project were told to look at everything: too much had changed at once, or events were "
    "missing.",
)
SHED = Counter("coordinator_console_shed_total", "reads", "Reads of the console that were shed.")
ACTIONS = Counter(
    "coordinator_console_actions_total",
    "actions",
    "What people have done in the console, by the tool or operation. refused: as the rules say; failed: otherwise.",
    (Label("action", limit=24), Label("outcome", ("ok", "refused", "failed"))),
)


class Recorder:
    """Records them; ``coordinator.metrics.Recorder.console``."""

    def __init__(self, cells: Recording, slot: str) -> None:
        self._slot = slot
        self._tabs = cells.of(TABS)
        self._frames = cells.of(FRAMES)
        self._bytes = cells.of(BYTES)
        self._gaps = cells.of(GAPS)
        self._shed = cells.of(SHED)
        self._actions = cells.of(ACTIONS)

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
