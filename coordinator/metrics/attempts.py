"""The metrics of attempts on items; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Counter, Gauge

ENDS = ("expired", "taken_over", "failed", "gave_up", "hopeless")

ATTEMPTS = Counter(
    "coordinator_attempts_total",
    "attempts",
    "Claims that ended in work or review without taking the item further. expired: nobody renewed it; taken_over: the "
    "same, as another agent's claim showed; failed, gave_up, hopeless: released with this reason. Counted in the "
    "store, and collected every few seconds by one front-end of the fleet.",
    (Label("end", ENDS),),
)
QUARANTINES = Counter(
    "coordinator_quarantines_total",
    "items",
    "Items that were quarantined: as many attempts as allowed have failed, or one was hopeless. Collected with "
    "coordinator_attempts_total.",
)
QUARANTINED = Gauge(
    "coordinator_quarantined_items",
    "items",
    "Items in quarantine, which wait until somebody resumes or cancels them. Measured with coordinator_items.",
    merge="max",
)
IN_BACKOFF = Gauge(
    "coordinator_backoff_items",
    "items",
    "Items in back-off: not offered for a time after a failed attempt. Measured with coordinator_items.",
    merge="max",
)
