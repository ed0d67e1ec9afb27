"""The content of the dashboards, from symptoms to causes.

Every panel has a unit, a description and a runbook.
"""

from __future__ import annotations

from deploy.grafana.panels import HOST, Dashboard, Panel, gauge, quantile, rate, share

CALLS = "coordinator_requests_total"
TIME = "coordinator_request_duration_seconds"
SHED = "coordinator_shed_total"
CLAIMS = "coordinator_claims_total"
HOLD = "coordinator_claim_hold_seconds"
LOSERS = "coordinator_claim_losers"
CONFLICTS = "coordinator_claim_conflicts_total"
SCRIPT = "coordinator_store_script_duration_seconds"
STEPS = "coordinator_steps_total"

SERVICE = Dashboard(
    "fleet-service",
    "Fleet: service",
    (
        (
            "Are agents served?",
            (
                Panel(
                    "Calls",
                    "Tool calls answered per second.",
                    "reqps",
                    [(rate(CALLS), "")],
                    "FleetNotScraped",
                    "stat",
                    4,
                    5,
                ),
                Panel(
                    "Served",
                    "Share of calls without a defect or a shed critical call; the objective is 99.9 %.",
                    "percentunit",
                    [
                        (
                            f"1 - ({rate(CALLS, outcome='internal')} + {rate(SHED, **{'class': 'critical'})}) / "
                            f"({rate(CALLS)} > 0)",
                            "",
                        )
                    ],
                    "CallsFail",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Claims within 100 ms",
                    "The objective is 99 %.",
                    "percentunit",
                    [
                        (
                            share(
                                rate(TIME + "_bucket", tool="claim_item", le="0.1"),
                                rate(TIME + "_count", tool="claim_item"),
                            ),
                            "",
                        )
                    ],
                    "ClaimsSlow",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Shed",
                    "Calls shed to protect the fleet, per second.",
                    "reqps",
                    [(rate(SHED), "")],
                    "SheddingForLong",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Front-ends",
                    "Running front-end processes.",
                    "short",
                    [(gauge("coordinator_processes", role="frontend"), "")],
                    "NoFrontEnds",
                    "stat",
                    5,
                    5,
                ),
            ),
        ),
        (
            "Rate, errors, duration",
            (
                Panel(
                    "Calls by tool", "Tool calls per second.", "reqps", [(rate(CALLS, "tool"), "{{tool}}")], "CallsFail"
                ),
                Panel(
                    "Calls by outcome",
                    "conflict: transient failures such as lost races; invalid: bad arguments; internal: defects.",
                    "reqps",
                    [(rate(CALLS, "outcome"), "{{outcome}}")],
                    "CallsFail",
                ),
                Panel(
                    "Duration by tool, p99",
                    "From a call's arguments to its answer; excludes the time that claims wait for an item (waitMs).",
                    "s",
                    [(quantile(0.99, TIME, "tool"), "{{tool}}")],
                    "ClaimsSlow",
                ),
                Panel(
                    "Fast path",
                    "Share of calls that the fast path answers; it falls when clients send unusual requests.",
                    "percentunit",
                    [
                        (
                            share(
                                rate("coordinator_fast_path_total", result="hit"), rate("coordinator_fast_path_total")
                            ),
                            "hits",
                        )
                    ],
                    "ClaimsSlow",
                ),
                Panel(
                    "Unauthorized",
                    "Requests without a valid credential, per second.",
                    "reqps",
                    [(rate("coordinator_auth_refused_total", "reason"), "{{reason}}")],
                    "CallsFail",
                ),
                Panel(
                    "Verified actors",
                    "Outcomes of actors' proofs, per second.",
                    "reqps",
                    [(rate("coordinator_identity_verifications_total", "result"), "{{result}}")],
                    "IdentityDegraded",
                ),
            ),
        ),
        (
            "Change feed",
            (
                Panel(
                    "Listeners",
                    "Event streams, requests that wait for events, and subscriptions of MCP clients, now.",
                    "short",
                    [
                        (gauge("coordinator_feed_listeners"), "feed"),
                        (gauge("coordinator_subscriptions"), "subscriptions"),
                    ],
                    "FeedLate",
                ),
                Panel(
                    "Told",
                    "Events given to listeners, and notifications to subscriptions, per second.",
                    "ops",
                    [
                        (rate("coordinator_feed_deliveries_total"), "events"),
                        (rate("coordinator_subscription_notifications_total"), "notifications"),
                    ],
                    "FeedLate",
                ),
                Panel(
                    "From commit to listeners, p99",
                    "How late events are passed on, by the clocks of Redis and of the front-end.",
                    "s",
                    [(quantile(0.99, "coordinator_feed_lag_seconds"), "p99")],
                    "FeedLate",
                ),
                Panel(
                    "Cut off",
                    "Listeners ended by the server, per minute. slow: they take less than comes; they can go on.",
                    "short",
                    [(f"60 * {rate('coordinator_feed_cut_total', 'reason')}", "{{reason}}")],
                    "FeedLate",
                ),
                Panel(
                    "Gaps",
                    "How often events were missing, per minute; those who miss them are told.",
                    "short",
                    [
                        (f"60 * {rate('coordinator_feed_gaps_total', 'reason')}", "{{reason}}"),
                        (f"60 * {rate('coordinator_webhook_gaps_total', 'reason')}", "webhooks: {{reason}}"),
                    ],
                    "EventsTrimmed",
                ),
                Panel(
                    "Waiting reads",
                    "Calls that wait until what they read has come to a state, now.",
                    "short",
                    [(gauge("coordinator_reads_waiting"), "waiting")],
                    "FeedLate",
                ),
                Panel(
                    "Ends of waiting reads",
                    "How they end, and what is read for them, per second. time: nothing has happened for 10 s.",
                    "ops",
                    [
                        (rate("coordinator_waits_ended_total", "outcome"), "{{outcome}}"),
                        (rate("coordinator_wait_reads_total", "reason"), "read: {{reason}}"),
                    ],
                    "FeedLate",
                ),
            ),
        ),
        (
            "Webhooks",
            (
                Panel(
                    "Webhooks by state",
                    "failing: tried again; disabled and unusable: nothing is sent.",
                    "short",
                    [(f"max by (state) (coordinator_webhooks{{{HOST}}})", "{{state}}")],
                    "WebhookDisabled",
                ),
                Panel(
                    "Attempts",
                    "Attempts at a delivery per second, by how they ended.",
                    "reqps",
                    [(rate("coordinator_webhook_attempts_total", "outcome"), "{{outcome}}")],
                    "WebhookFails",
                ),
                Panel(
                    "Attempts, p95",
                    "How long receivers take to answer; they have 15 s.",
                    "s",
                    [(quantile(0.95, "coordinator_webhook_attempt_seconds"), "p95")],
                    "WebhookFails",
                ),
                Panel(
                    "Oldest message that waits",
                    "Of webhooks that fail; 0: nothing waits for another attempt.",
                    "s",
                    [(f"max by (webhook) (coordinator_webhook_lag_seconds{{{HOST}}})", "{{webhook}}")],
                    "WebhookFails",
                ),
            ),
        ),
        (
            "Processes",
            (
                Panel(
                    "CPU",
                    "Cores used by each process.",
                    "short",
                    [(rate("coordinator_process_cpu_seconds_total", "instance, slot"), "{{instance}} {{slot}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Memory",
                    "Resident memory of each process.",
                    "bytes",
                    [(gauge("coordinator_process_resident_memory_bytes", "instance, slot"), "{{instance}} {{slot}}")],
                    "ProcessesRestart",
                ),
                Panel(
                    "Event loop, p99",
                    "How late timers run: time in which the event loop is blocked.",
                    "s",
                    [(quantile(0.99, "coordinator_event_loop_lag_seconds", "role"), "{{role}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Calls by process",
                    "How evenly the load is balanced.",
                    "reqps",
                    [(rate("coordinator_slot_requests_total", "instance, slot"), "{{instance}} {{slot}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Restarts",
                    "Process restarts per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_process_restarts_total', 'role, cause')}", "{{role}} by {{cause}}")],
                    "ProcessesRestart",
                ),
                Panel(
                    "Connections",
                    "Client connections open now.",
                    "short",
                    [(gauge("coordinator_connections", "instance"), "{{instance}}")],
                    "EventLoopLate",
                ),
            ),
        ),
    ),
)

CONTENTION = Dashboard(
    "fleet-contention",
    "Fleet: contention and shedding",
    (
        (
            "Admission",
            (
                Panel(
                    "Limit and calls in flight",
                    "The limit falls when the store slows down; near it, further calls wait or are shed.",
                    "short",
                    [
                        (gauge("coordinator_concurrency_limit"), "limit"),
                        (gauge("coordinator_inflight"), "in flight"),
                        (gauge("coordinator_admission_waiting"), "waiting"),
                    ],
                    "SheddingForLong",
                ),
                Panel(
                    "Shed by class",
                    "The least critical calls should be shed first, critical ones never.",
                    "reqps",
                    [(rate(SHED, "class"), "{{class}}")],
                    "CriticalCallsShed",
                ),
                Panel(
                    "Shed by reason",
                    "actor_quota: a few agents make too many calls; queue_timeout: too little capacity.",
                    "reqps",
                    [(rate(SHED, "reason"), "{{reason}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Waiting, p99",
                    "Time that calls waited for admission.",
                    "s",
                    [(quantile(0.99, "coordinator_admission_queue_seconds", "class"), "{{class}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Saturation",
                    "Calls in flight divided by the limit, of the busiest front-end of each host.",
                    "percentunit",
                    [(f"max by (instance) (coordinator_saturation{{{HOST}}})", "{{instance}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Breakers",
                    "Front-ends by the state of their circuit breaker over the store.",
                    "short",
                    [(gauge("coordinator_store_breaker", "state"), "{{state}}")],
                    "StoreUnavailable",
                ),
            ),
        ),
        (
            "Claims",
            (
                Panel(
                    "Claims by outcome",
                    "Claim attempts per second.",
                    "reqps",
                    [(rate(CLAIMS, "outcome"), "{{outcome}}")],
                    "HighContention",
                ),
                Panel(
                    "Losers per winner",
                    "Claims of items that others hold, for each claim that succeeded.",
                    "short",
                    [(share(rate(CONFLICTS, kind="busy"), rate(CLAIMS, outcome="success")), "losers")],
                    "HighContention",
                ),
                Panel(
                    "Losers per claim",
                    "Ended claims, by the number of failed claims of others meanwhile; best none.",
                    "short",
                    [(rate(LOSERS + "_bucket", "le"), "{{le}}")],
                    "HighContention",
                    "heat",
                ),
                Panel(
                    "Operations restarted",
                    "Operations of several scripts that restarted because their reads were stale.",
                    "ops",
                    [(rate("coordinator_operations_restarted_total", "operation"), "{{operation}}")],
                    "HighContention",
                ),
                Panel(
                    "Collisions",
                    "stale_fence: agents that continue with claims that they have lost.",
                    "reqps",
                    [(rate(CONFLICTS, "kind"), "{{kind}}")],
                    "StaleFences",
                ),
                Panel(
                    "Request ids",
                    "replay: retried calls that were answered from the record.",
                    "reqps",
                    [(rate("coordinator_idempotency_total", "result"), "{{result}}")],
                    "RequestIdsReused",
                ),
                Panel(
                    "Held, p90",
                    "Hold time of claims, by how they ended; expired: not renewed.",
                    "s",
                    [(quantile(0.9, HOLD, "end"), "{{end}}")],
                    "ClaimsExpire",
                ),
                Panel(
                    "Claims ended",
                    "completed: the item was finished; released: by the agent, or for another claim; expired.",
                    "ops",
                    [(rate(HOLD + "_count", "end"), "{{end}}")],
                    "ClaimsExpire",
                ),
            ),
        ),
        (
            "Work items",
            (
                Panel(
                    "Items by role",
                    "Of all projects; terminal ones stay until they are deleted.",
                    "short",
                    [(f"max by (role) (coordinator_items{{{HOST}}})", "{{role}}")],
                    "ItemsWait",
                ),
                Panel(
                    "Oldest ready item",
                    "Age of the oldest ready item: the best sign of too few agents.",
                    "s",
                    [(f"max (coordinator_oldest_ready_age_seconds{{{HOST}}})", "age")],
                    "ItemsWait",
                ),
                Panel(
                    "Abandoned items",
                    "Items whose agent is gone, not taken over yet.",
                    "short",
                    [(f"max (coordinator_abandoned_items{{{HOST}}})", "items")],
                    "ItemsAbandoned",
                ),
                Panel(
                    "Held back",
                    "Items in quarantine, and in back-off after a failed attempt.",
                    "short",
                    [
                        (f"max (coordinator_quarantined_items{{{HOST}}})", "quarantined"),
                        (f"max (coordinator_backoff_items{{{HOST}}})", "in back-off"),
                    ],
                    "ItemsQuarantined",
                ),
                Panel(
                    "Attempts",
                    "Claims per second that ended without taking the item further, by how.",
                    "ops",
                    [(rate("coordinator_attempts_total", "end"), "{{end}}")],
                    "ItemsQuarantined",
                ),
                Panel(
                    "Waiting agents",
                    "Claims that wait for an item (waitMs); if items are ready, their selectors do not match.",
                    "short",
                    [(gauge("coordinator_agents_waiting", "instance"), "{{instance}}")],
                    "ItemsWait",
                ),
                Panel(
                    "Waited, p90",
                    "How long claims waited for an item, by outcome; in order of arrival for each selector.",
                    "s",
                    [(quantile(0.9, "coordinator_claim_wait_seconds", "end"), "{{end}}")],
                    "ItemsWait",
                ),
            ),
        ),
    ),
)

STORE = Dashboard(
    "fleet-store",
    "Fleet: store",
    (
        (
            "Scripts",
            (
                Panel(
                    "All scripts",
                    "Duration of scripts, from sending to reply.",
                    "s",
                    [(rate(SCRIPT + "_bucket", "le"), "{{le}}")],
                    "StoreSlow",
                    "heat",
                    12,
                ),
                Panel(
                    "Scripts, p99",
                    "The slowest scripts.",
                    "s",
                    [(quantile(0.99, SCRIPT, "script"), "{{script}}")],
                    "StoreSlow",
                    "lines",
                    12,
                ),
                Panel(
                    "Scripts per second",
                    "By script.",
                    "ops",
                    [(rate(SCRIPT + "_count", "script"), "{{script}}")],
                    "StoreSlow",
                ),
                Panel(
                    "Scripts without effect",
                    "By reason. refused: by a rule; error: no result.",
                    "ops",
                    [(rate("coordinator_store_script_failures_total", "outcome"), "{{outcome}}")],
                    "HighContention",
                ),
                Panel(
                    "Errors",
                    "Calls to the store without a result.",
                    "ops",
                    [(rate("coordinator_store_errors_total", "kind"), "{{kind}}")],
                    "StoreUnavailable",
                ),
            ),
        ),
        (
            "Keys and settings",
            (
                Panel(
                    "Age of keys",
                    "Age of the oldest keys in use; it grows while they cannot be refreshed.",
                    "s",
                    [(f"max by (source) (coordinator_identity_key_age_seconds{{{HOST}}})", "{{source}}")],
                    "KeysOld",
                ),
                Panel(
                    "Settings in force",
                    "Versions in force in front-ends and workers: two lines at 1 mean that some differ.",
                    "short",
                    [(f"max by (version) (coordinator_config_info{{{HOST}}})", "{{version}}")],
                    "ConfigsDiffer",
                ),
                Panel(
                    "Reloads",
                    "refused: the file was invalid, the old settings stay.",
                    "short",
                    [(f"60 * {rate('coordinator_config_reloads_total', 'outcome')}", "{{outcome}}")],
                    "ReloadRefused",
                ),
            ),
        ),
    ),
)

WORKFLOWS = Dashboard(
    "fleet-workflows",
    "Fleet: workflows and workers",
    (
        (
            "Workflows",
            (
                Panel(
                    "Runs ended",
                    "Flows and other runs of steps, per minute.",
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
                    [(f"max (coordinator_steps_queued{{{HOST}}})", "waiting")],
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
                    "Steps that each worker executes now.",
                    "short",
                    [(gauge("coordinator_steps_running", "instance, slot"), "{{instance}} {{slot}}")],
                    "StepsWait",
                ),
                Panel(
                    "Lost",
                    "Expired leases, late reports and restored jobs, per minute.",
                    "short",
                    [
                        (f"60 * {rate('coordinator_step_leases_lost_total')}", "leases"),
                        (f"60 * {rate('coordinator_step_reports_refused_total')}", "late reports"),
                        (f"60 * {rate('coordinator_step_jobs_restored_total')}", "restored jobs"),
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
                    [(f"max (coordinator_gateway_servers_unavailable{{{HOST}}})", "servers")],
                    "CallsFail",
                ),
            ),
        ),
    ),
)

ALL = (SERVICE, CONTENTION, STORE, WORKFLOWS)
