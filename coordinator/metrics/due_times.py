"""The metrics of the times that items name; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import Label, Metric

POSTPONED = Metric(
    "coordinator_postponed_items",
    "gauge",
    "items",
    "Items that are not ready before a time (notBefore). Measured with coordinator_items.",
    merge="max",
)
OVERDUE = Metric(
    "coordinator_overdue_items",
    "gauge",
    "items",
    "Open items whose time to be done (dueAt) has passed. Measured with coordinator_items.",
    merge="max",
)
OCCURRENCES = Metric(
    "coordinator_occurrences_total",
    "counter",
    "items",
    "Times of templates. made: an item was made; skipped: not, because an earlier one is open. Missed times for which "
    "none is to be made do not count.",
    (Label("outcome", ("made", "skipped")),),
)

ALL = (POSTPONED, OVERDUE, OCCURRENCES)
