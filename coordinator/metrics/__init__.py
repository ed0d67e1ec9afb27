"""Metrics, logs and traces.

Each metric is an object (``metric``), declared in the module ``metrics`` of the package that records it;
``coordinator.metrics_catalogue`` collects them. ``recording`` is what one process records: until a command installs
another, in memory. ``conditions`` says which states of gauges are worth an alert. ``cells`` keeps the numbers, in files
that all processes of a host share; ``exposition`` renders them. ``logs`` sets up structured logging. ``tracing`` makes
spans if a collector is configured.

**Why files with slots.** Several processes answer ``GET /metrics`` as one, and any of them may be killed at any moment.
Each process owns a *slot* (``fe-0``, ``w-1``), and each slot owns files of plain 8-byte numbers, which the process
changes through shared memory. A change is one store instruction, so a SIGKILL loses nothing and leaves no half-written
number. A restarted process takes over the slot and goes on counting where the dead one stopped. So counters never go
back, and there are only as many files as slots, however many processes have used them.

This package imports nothing of ours, so every layer may record metrics.
"""

from coordinator.metrics.cells import MemoryCells, SharedCells
from coordinator.metrics.exposition import CONTENT_TYPE, Exposition
from coordinator.metrics.labels import OTHER, SLOT, Label
from coordinator.metrics.metric import Counter, Gauge, Histogram, Metric
from coordinator.metrics.recording import Recording, install, recording, start
from coordinator.metrics.slots import SlotBusy, clear_free_slots, forget_gauges, reserved_slots, slot_is_free

__all__ = [
    "CONTENT_TYPE",
    "OTHER",
    "SLOT",
    "Counter",
    "Exposition",
    "Gauge",
    "Histogram",
    "Label",
    "MemoryCells",
    "Metric",
    "Recording",
    "SharedCells",
    "SlotBusy",
    "clear_free_slots",
    "forget_gauges",
    "install",
    "recording",
    "reserved_slots",
    "slot_is_free",
    "start",
]
