"""Metrics, logs and traces.

``catalogue`` declares every metric once, as data. ``recorder`` has a method for each thing that is counted or measured.
``cells`` keeps the numbers, in files that all processes of a host share; ``exposition`` renders them. ``logs`` sets up
structured logging. ``tracing`` makes spans if a collector is configured.

**Why files with slots.** Several processes answer ``GET /metrics`` as one, and any of them
may be killed at any moment. Each process owns a *slot* (``fe-0``, ``w-1``), and each slot
owns files of plain 8-byte numbers that the process changes through shared memory: one
store instruction per change, so a SIGKILL loses nothing and tears nothing. A restarted
process takes over its slot and goes on counting where the dead one stopped, so counters
never run backwards and the number of files stays that of the slots, however many
processes have lived in them.

Nothing here imports anything of ours, so every layer may record.
"""

from coordinator.metrics.cells import Cells, MemoryCells, SharedCells
from coordinator.metrics.exposition import CONTENT_TYPE, Exposition
from coordinator.metrics.recorder import Recorder, install, recorder
from coordinator.metrics.slots import SlotBusy, clear_free_slots, forget_gauges, reserved_slots, slot_is_free

__all__ = [
    "CONTENT_TYPE",
    "Cells",
    "Exposition",
    "MemoryCells",
    "Recorder",
    "SharedCells",
    "SlotBusy",
    "clear_free_slots",
    "forget_gauges",
    "install",
    "recorder",
    "reserved_slots",
    "slot_is_free",
]
