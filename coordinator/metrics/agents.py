"""The metrics of agents that claim items; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import Gauge

KNOWN = Gauge(
    "coordinator_agents_known",
    "agents",
    "Agents that claimed, renewed or waited in the last day, at most 10000 of a project. Measured with "
    "coordinator_items.",
    merge="max",
)
DRAINS = Gauge(
    "coordinator_agent_drains",
    "drains",
    "Names under which agents are being drained, in all projects; `fleet agents` shows them. Measured with "
    "coordinator_items.",
    merge="max",
)
