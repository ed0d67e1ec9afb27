"""The metrics of the console."""

from __future__ import annotations

from coordinator.metrics import SLOT, Counter, Gauge, Label

TABS = Gauge(
    "coordinator_console_tabs",
    "tabs",
    "Visible tabs of the console on each front-end now.",
    (SLOT,),
    starts_in="frontend",
)
FRAMES = Counter(
    "coordinator_console_frames_total", "frames", "Frames sent to tabs of the console.", starts_in="frontend"
)
BYTES = Counter("coordinator_console_frame_bytes_total", "bytes", "Bytes of these frames.", starts_in="frontend")
GAPS = Counter(
    "coordinator_console_gaps_total",
    "frames",
    "How often the tabs of a project were told to look at everything: too much had changed at once, or events were "
    "missing.",
    starts_in="frontend",
)
SHED = Counter("coordinator_console_shed_total", "reads", "Reads of the console that were shed.", starts_in="frontend")
ACTIONS = Counter(
    "coordinator_console_actions_total",
    "actions",
    "What people have done in the console, by the tool or operation. refused: as the rules say; failed: otherwise.",
    (Label("action", limit=24), Label("outcome", ("ok", "refused", "failed"))),
)
