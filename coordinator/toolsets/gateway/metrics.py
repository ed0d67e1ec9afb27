"""The metrics of the gateway."""

from __future__ import annotations

from coordinator.metrics import OTHER, Counter, Gauge, Label

SUBMITS = Counter(
    "coordinator_gateway_submits_total",
    "submits",
    "Transitions submitted to the gateway, by outcome, with the answers to approvals: also those given in the console, "
    "or by a command on a host of the fleet.",
    (
        Label(
            "result",
            (
                "ok",
                "STALE_WORKFLOW_VERSION",
                "INVALID_TRANSITION",
                "ACTOR_MISMATCH",
                "INPUT_SCHEMA_VIOLATION",
                "GUARD_REJECTED",
                "EXECUTOR_FAILED",
                "CHAIN_FAILED",
                "WORKFLOW_NOT_FOUND",
                OTHER,
            ),
        ),
    ),
    starts_in="frontend",
)
OPEN_APPROVALS = Gauge(
    "coordinator_open_approvals",
    "approvals",
    "Decisions that instances of the gateway wait for, of all projects (the 1000 written to last), counted every few "
    "seconds by one front-end of the fleet; others say 0.",
    merge="max",
)
OLDEST_APPROVAL = Gauge(
    "coordinator_oldest_approval_age_seconds",
    "seconds",
    "Time since the first of these was asked for; 0: there is none. Measured with coordinator_open_approvals.",
    merge="max",
)
SERVERS_UNAVAILABLE = Gauge(
    "coordinator_gateway_servers_unavailable",
    "servers",
    "Downstream servers that the gateway imports tools from and that did not answer its last request.",
    merge="max",
)
