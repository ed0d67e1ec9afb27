"""The metrics of workers."""

from __future__ import annotations

from coordinator.metrics import OTHER, SLOT, Counter, Gauge, Histogram, Label

WORKER_JOBS = Counter(
    "coordinator_worker_jobs_total",
    "jobs",
    "Jobs made with plain RQ that workers finished; steps are not among them.",
    (Label("outcome", ("ok", "failed")),),
    starts_in="worker",
)
STEPS = Counter(
    "coordinator_steps_total",
    "attempts",
    "Attempts of steps by how they ended. ok, failed: for good; retry: failed, another one follows; returned: not "
    "executed, for another worker; lost: ended without a report, because the step was no longer this worker's.",
    (Label("outcome", ("ok", "failed", "retry", "returned", "lost")),),
    starts_in="worker",
)
STEP_DURATION = Histogram(
    "coordinator_step_duration_seconds",
    "seconds",
    "How long attempts took in their worker.",
    (),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
STEP_WAIT = Histogram(
    "coordinator_step_wait_seconds",
    "seconds",
    "Time from a step being ready to a worker taking it.",
    (),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
STEPS_RUNNING = Gauge("coordinator_steps_running", "steps", "Steps that each worker executes now.", (SLOT,))
STEP_REPORTS_REFUSED = Counter(
    "coordinator_step_reports_refused_total",
    "reports",
    "Reports that came too late: the step had another attempt by then, or its flow was cancelled.",
    starts_in="worker",
)
STEP_LEASES_LOST = Counter(
    "coordinator_step_leases_lost_total",
    "leases",
    "Leases of steps that expired because their worker died or hung; another attempt was made.",
    starts_in="worker",
)
STEP_JOBS_RESTORED = Counter(
    "coordinator_step_jobs_restored_total",
    "jobs",
    "RQ jobs that had vanished from their queue and were written again.",
    starts_in="worker",
)
STATES_HELD = Gauge(
    "coordinator_states_held",
    "states",
    "States of downstream servers (`state: shared` or `session`) that each worker has.",
    (SLOT,),
    starts_in="worker",
)
STATES_LOST = Counter(
    "coordinator_states_lost_total",
    "calls",
    "Calls that were not made because what their owner had done on the server before is lost (`state_lost`).",
    starts_in="worker",
)
GATEWAY_EXECUTORS = Histogram(
    "coordinator_gateway_executor_seconds",
    "seconds",
    "How long attempts of the gateway's executors took, by kind and outcome.",
    (
        Label("kind", ("noop", "cli", "rest", "mcp", "workflow", "builtin", "flow", OTHER)),
        Label(
            "outcome",
            ("ok", "timeout", "transient_error", "rate_limited", "connection_error", "permanent_error", OTHER),
        ),
    ),
    (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0),
)
AUDIT_COPIES = Counter(
    "coordinator_gateway_audit_copies_total",
    "copies",
    "Copies of new entries of the gateway's audit to the file of gateway.audit, at most 500 entries each. failed: the "
    "entries stay, and are tried again.",
    (Label("outcome", ("ok", "failed")),),
    starts_in="worker",
)
CONNECTION_USES = Counter(
    "coordinator_connection_uses_total",
    "uses",
    "Uses of connections by workers: calls, lists of tools, and attempts to connect. ok: it answered, if only with an "
    "error of its own; failed: it could not be reached or used, or broke off.",
    (Label("connection", limit=40), Label("outcome", ("ok", "failed"))),
)
