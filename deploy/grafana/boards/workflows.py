"""Workflows and their workers."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Panel, gauge, most, quantile, rate

STEPS = "coordinator_steps_total"

WORKFLOWS = Dashboard(
    "fleet-workflows",
    "Fleet: workflows and workers",
    (
        (
            "Workflows",
            (
                Panel(
                    "Runs ended",
                    "Flows and other runs of steps, per minute; cancelled: flows.",
                    "short",
                    [(f"60 * {rate('coordinator_runs_ended_total', 'kind, status')}", "{{kind}} {{status}}")],
                    "LeasesLost",
                ),
                Panel(
                    "Steps by outcome",
                    "Attempts per second.",
                    "ops",
                    [(rate(STEPS, "outcome"), "{{outcome}}")],
                    "LeasesLost",
                ),
                Panel(
                    "Checkpoints",
                    "Checkpoints of workflow sessions: yielded and answered, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_session_checkpoints_total', 'outcome')}", "{{outcome}}")],
                    "CallsFail",
                ),
            ),
        ),
        (
            "Steps",
            (
                Panel(
                    "Waiting steps",
                    "Steps that wait for a worker.",
                    "short",
                    [(most("coordinator_steps_queued"), "waiting")],
                    "StepsStay",
                ),
                Panel(
                    "Wait, p95",
                    "From ready to taken by a worker.",
                    "s",
                    [(quantile(0.95, "coordinator_step_wait_seconds"), "p95")],
                    "StepsWait",
                ),
                Panel(
                    "Duration, p95",
                    "Duration of attempts in their worker.",
                    "s",
                    [(quantile(0.95, "coordinator_step_duration_seconds"), "p95")],
                    "StepsWait",
                ),
                Panel(
                    "Running steps",
                    "Steps that each worker executes now, and states of downstream servers that it has.",
                    "short",
                    [
                        (gauge("coordinator_steps_running", "instance, slot"), "{{instance}} {{slot}}"),
                        (gauge("coordinator_states_held", "instance, slot"), "{{instance}} {{slot}}: states"),
                    ],
                    "StepsWait",
                ),
                Panel(
                    "Lost",
                    "Expired leases, late reports, restored jobs and lost states of servers, per minute.",
                    "short",
                    [
                        (f"60 * {rate('coordinator_step_leases_lost_total')}", "leases"),
                        (f"60 * {rate('coordinator_step_reports_refused_total')}", "late reports"),
                        (f"60 * {rate('coordinator_step_jobs_restored_total')}", "restored jobs"),
                        (f"60 * {rate('coordinator_states_lost_total')}", "lost states of servers"),
                    ],
                    "LeasesLost",
                ),
                Panel(
                    "Workers",
                    "Running worker processes.",
                    "short",
                    [(gauge("coordinator_processes", role="worker"), "workers")],
                    "NoWorkers",
                ),
                Panel(
                    "Plain RQ jobs",
                    "Jobs made with RQ alone that workers finished, per minute; steps are not among them.",
                    "short",
                    [(f"60 * {rate('coordinator_worker_jobs_total', 'outcome')}", "{{outcome}}")],
                    "StepsStay",
                ),
            ),
        ),
        (
            "Gateway",
            (
                Panel(
                    "Submits by result",
                    "Submitted transitions per second; STALE_WORKFLOW_VERSION: another caller was faster.",
                    "ops",
                    [(rate("coordinator_gateway_submits_total", "result"), "{{result}}")],
                    "CallsFail",
                ),
                Panel(
                    "Executors, p95",
                    "Duration of executor attempts, by kind.",
                    "s",
                    [(quantile(0.95, "coordinator_gateway_executor_seconds", "kind"), "{{kind}}")],
                    "StepsWait",
                ),
                Panel(
                    "Servers unavailable",
                    "Downstream servers with imported tools that did not answer the last query.",
                    "short",
                    [(most("coordinator_gateway_servers_unavailable"), "servers")],
                    "ConnectionFails",
                ),
                Panel(
                    "Copies of the audit",
                    "Copies of new entries of the gateway's audit to its file, per minute; failed ones are repeated.",
                    "short",
                    [(f"60 * {rate('coordinator_gateway_audit_copies_total', 'outcome')}", "{{outcome}}")],
                    "ConnectionFails",
                ),
                Panel(
                    "Connections that fail",
                    "Failed uses of connections to servers and programs per second, by connection.",
                    "ops",
                    [(rate("coordinator_connection_uses_total", "connection", outcome="failed"), "{{connection}}")],
                    "ConnectionFails",
                ),
            ),
        ),
    ),
)
