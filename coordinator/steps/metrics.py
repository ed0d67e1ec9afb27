"""The metrics of steps and runs that front-ends and workers record."""

from __future__ import annotations

from coordinator.metrics import Counter, Gauge, Label

STEPS_QUEUED = Gauge(
    "coordinator_steps_queued",
    "steps",
    "Steps that wait for a worker, of all projects, counted by the worker that sweeps and every few seconds by one "
    "front-end of the fleet; others say 0.",
    merge="max",
)
RUNS_ENDED = Counter(
    "coordinator_runs_ended_total",
    "runs",
    "Flows, and other runs of steps, that have ended; kind: flows or gateway. cancelled: a flow, by a caller, in the "
    "console or by a command on a host of the fleet.",
    (Label("kind", limit=8), Label("status", ("completed", "failed", "cancelled"))),
)
