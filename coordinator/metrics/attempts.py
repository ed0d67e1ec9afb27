"""The metrics of attempts on items; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import Label, Metric

ENDS = ("expired", "taken_over", "failed", "gave_up", "hopeless")

ATTEMPTS = Metric(
    "coordinator_attempts_total",
    "counter",
    "attempts",
    "Claims that ended in work or review without taking the item further. expired: nobody renewed it; taken_over: the "
    "same, as another agent's claim showed; failed, gave_up, hopeless: released with this reason. Counted in the "
    "store, and collected every few seconds by one front-end of the fleet.",
    (Label("end", ENDS),),
)
QUARANTINES = Metric(
    "coordinator_quarantines_total",
    "counter",
    "items",
    "Items that were quarantined: as many attempts as allowed have failed, or one was hopeless. Collected with "
    "coordinator_attempts_total.",
)
QUARANTINED = Metric(
    "coordinator_quarantined_items",
    "gauge",
    "items",
    "Items in quarantine, which wait until somebody resumes or cancels them. Measured with coordinator_items.",
    merge="max",
)
IN_BACKOFF = Metric(
    "coordinator_backoff_items",
    "gauge",
    "items",
    "Items in back-off: not offered for a time after a failed attempt. Measured with coordinator_items.",
    merge="max",
)

ALL = (ATTEMPTS, QUARANTINES, QUARANTINED, IN_BACKOFF)
