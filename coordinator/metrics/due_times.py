"""The metrics of the times that items name; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.cells import Cells
from coordinator.metrics.families import Family
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


class TimesRecorder:
    """Records them."""

    def __init__(self, cells: Cells) -> None:
        self._postponed = Family(POSTPONED, cells.number)
        self._overdue = Family(OVERDUE, cells.number)
        self.made = Family(OCCURRENCES, cells.number)
        """The counter that front-ends start at zero."""

    def items(self, postponed: int, overdue: int) -> None:
        """Items of the fleet that are not ready before a time, and overdue ones; both 0 as in ``items``."""
        self._postponed().set(postponed)
        self._overdue().set(overdue)

    def occurrences(self, made: int, skipped: int) -> None:
        """Times of templates for which an item was made, or not because an earlier one is open."""
        for outcome, count in (("made", made), ("skipped", skipped)):
            if count > 0:
                self.made(outcome).inc(count)
