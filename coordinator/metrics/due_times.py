"""The metrics of the times that items name; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Counter, Gauge
from coordinator.metrics.recording import Recording

POSTPONED = Gauge(
    "coordinator_postponed_items",
    "items",
    "Items that are not ready before a time (notBefore). Measured with coordinator_items.",
    merge="max",
)
OVERDUE = Gauge(
    "coordinator_overdue_items",
    "items",
    "Open items whose time to be done (dueAt) has passed. Measured with coordinator_items.",
    merge="max",
)
OCCURRENCES = Counter(
    "coordinator_occurrences_total",
    "items",
    "Times of templates. made: an item was made; skipped: not, because an earlier one is open. Missed times for which "
    "none is to be made do not count.",
    (Label("outcome", ("made", "skipped")),),
)


class TimesRecorder:
    """Records them."""

    def __init__(self, cells: Recording) -> None:
        self._postponed = cells.of(POSTPONED)
        self._overdue = cells.of(OVERDUE)
        self.made = cells.of(OCCURRENCES)
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
