"""The metrics of what the gateway keeps: approvals and the audit; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Counter, Gauge
from coordinator.metrics.recording import Recording

OPEN = Gauge(
    "coordinator_open_approvals",
    "approvals",
    "Decisions that instances of the gateway wait for, of all projects (the 1000 written to last), counted every few "
    "seconds by one front-end of the fleet; others say 0.",
    merge="max",
)
OLDEST_OPEN = Gauge(
    "coordinator_oldest_approval_age_seconds",
    "seconds",
    "Time since the first of these was asked for; 0: there is none. Measured with coordinator_open_approvals.",
    merge="max",
)
COPIES = Counter(
    "coordinator_gateway_audit_copies_total",
    "copies",
    "Copies of new entries of the gateway's audit to the file of gateway.audit, at most 500 entries each. failed: the "
    "entries stay, and are tried again.",
    (Label("outcome", ("ok", "failed")),),
)


class GatewayRecorder:
    """Records them; ``Recorder.gateway``."""

    def __init__(self, cells: Recording) -> None:
        self._open = cells.of(OPEN)
        self._oldest_open = cells.of(OLDEST_OPEN)
        self.copies = cells.of(COPIES)
        """The counter that workers start at zero."""

    def approvals(self, count: int, oldest_seconds: float) -> None:
        """Open approvals of the fleet, and the age of the oldest; both 0 if another process counts them."""
        self._open().set(count)
        self._oldest_open().set(oldest_seconds)

    def audit_copied(self, outcome: str) -> None:
        """Entries of the audit were copied, ``ok``, or could not be, ``failed``."""
        self.copies(outcome).inc()
