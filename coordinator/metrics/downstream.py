"""The metrics of connections to other servers and programs; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Counter, Gauge
from coordinator.metrics.recording import Recording

USES = Counter(
    "coordinator_connection_uses_total",
    "uses",
    "Uses of connections by workers: calls, lists of tools, and attempts to connect. ok: it answered, if only with an "
    "error of its own; failed: it could not be reached or used, or broke off.",
    (Label("connection", limit=40), Label("outcome", ("ok", "failed"))),
)
SERVERS_DOWN = Gauge(
    "coordinator_gateway_servers_unavailable",
    "servers",
    "Downstream servers that the gateway imports tools from and that did not answer its last request.",
    merge="max",
)


class DownstreamRecorder:
    """Records them."""

    def __init__(self, cells: Recording) -> None:
        self._uses = cells.of(USES)
        self._servers_down = cells.of(SERVERS_DOWN)

    def known(self, connection: str) -> None:
        """There is such a connection: its metrics start at 0."""
        for outcome in ("ok", "failed"):
            self._uses(connection, outcome).inc(0)

    def used(self, connection: str, outcome: str) -> None:
        """A connection was used: ``ok`` or ``failed``."""
        self._uses(connection, outcome).inc()

    def servers_unavailable(self, count: int) -> None:
        """Downstream servers of the gateway that do not answer."""
        self._servers_down().set(count)
