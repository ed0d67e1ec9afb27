"""Every metric the product exports, declared once. Ids of items, requests or agents are never labels."""

from __future__ import annotations

from coordinator.metrics import (
    agents,
    attempts,
    console,
    downstream,
    due_times,
    feed,
    fleet,
    gateway,
    identity,
    protocol,
    resources,
    runs,
    shards,
    states,
    usage,
    webhooks,
)
from coordinator.metrics.metric import OTHER, SLOT, Label, Metric

ROLE = Label("role", ("frontend", "worker", "store", "supervisor"))
TOOL = Label("tool", limit=100)
SCRIPT = Label("script", limit=100)
OUTCOME = Label("outcome", ("ok", "error", "conflict", "shed", "invalid", "internal"))

REQUESTS = Metric(
    "coordinator_requests_total",
    "counter",
    "calls",
    "Tool calls answered. error: permanent failures, conflict: transient ones, shed: refused to protect the "
    "fleet, invalid: wrong arguments, internal: defects.",
    (TOOL, OUTCOME),
)
REQUEST_DURATION = Metric(
    "coordinator_request_duration_seconds",
    "histogram",
    "seconds",
    "Time from a call's arguments being read to its answer, without the time that a claim waited for an item (waitMs; "
    "coordinator_claim_wait_seconds has that). Calls that were shed or rejected before they began are left out.",
    (TOOL, Label("transport", ("fast", "sdk", "stdio", OTHER))),
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
FAST_PATH = Metric(
    "coordinator_fast_path_total",
    "counter",
    "requests",
    "tools/call requests that the fast path answered (hit) or handed to the SDK's server (miss).",
    (Label("result", ("hit", "miss")),),
)
SLOT_REQUESTS = Metric(
    "coordinator_slot_requests_total",
    "counter",
    "calls",
    "Tool calls answered by each process: how evenly load spreads.",
    (SLOT,),
)
AUTH_REFUSED = Metric(
    "coordinator_auth_refused_total",
    "counter",
    "requests",
    "Requests rejected by authentication or authorization. missing: no bearer token; malformed: something else; "
    "unknown: no such token; rejected: it does not verify; audience: it is for another server; project and "
    "permission: it does not grant these; unavailable: it cannot be verified now.",
    (
        Label(
            "reason",
            (
                "missing",
                "malformed",
                "unknown",
                "expired",
                "rejected",
                "audience",
                "project",
                "permission",
                "unavailable",
                OTHER,
            ),
        ),
    ),
)
TOKEN_FILE_READS = Metric(
    "coordinator_token_file_reads_total",
    "counter",
    "reads",
    "Reloads of a changed token file. refused: it was invalid, and the previous tokens stayed in force.",
    (Label("outcome", ("ok", "refused")),),
)
INFLIGHT = Metric(
    "coordinator_inflight",
    "gauge",
    "requests",
    "Requests being answered now, those that wait (for an item, a change, or room) and streams included; "
    "coordinator_calls_at_work has what is limited.",
    (SLOT,),
)
CONNECTIONS = Metric("coordinator_connections", "gauge", "connections", "Client connections open now.", (SLOT,))

CLASS = Label("class", ("sheddable", "normal", "read", "critical"))
SHED = Metric(
    "coordinator_shed_total",
    "counter",
    "calls",
    "Calls shed to protect the fleet. over_capacity: no room, and the queue was full; queue_timeout: no room in time; "
    "actor_quota: more than the caller's share; store_unavailable: the store does not answer; draining: an operator "
    "asked for it.",
    (
        CLASS,
        Label("reason", ("over_capacity", "queue_timeout", "actor_quota", "store_unavailable", "draining", OTHER)),
    ),
)
ADMISSION_QUEUE = Metric(
    "coordinator_admission_queue_seconds",
    "histogram",
    "seconds",
    "Time that calls waited for room before they were admitted; those that did not wait are not counted.",
    (CLASS,),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)
CONCURRENCY_LIMIT = Metric(
    "coordinator_concurrency_limit",
    "gauge",
    "calls",
    "How many calls each front-end admits to the store at a time; it falls when the store slows down.",
    (SLOT,),
)
CALLS_AT_WORK = Metric(
    "coordinator_calls_at_work",
    "gauge",
    "calls",
    "Calls that each front-end has admitted and not answered yet, which coordinator_concurrency_limit limits. Claims "
    "and reads that wait, and streams, are not among them.",
    (SLOT,),
)
SATURATION = Metric(
    "coordinator_saturation",
    "gauge",
    "ratio",
    "coordinator_calls_at_work divided by the limit, of the busiest front-end: how busy a host is. For autoscaling.",
    merge="max",
)
ADMISSION_WAITING = Metric(
    "coordinator_admission_waiting", "gauge", "calls", "Calls in the queue of each front-end now.", (SLOT,)
)
BREAKER_STATE = Metric(
    "coordinator_store_breaker",
    "gauge",
    "processes",
    "Front-ends by the state of their circuit breaker over the store.",
    (Label("state", ("closed", "open", "half-open")),),
)

STORE_CHANGED = Metric(
    "coordinator_store_changed",
    "gauge",
    "processes",
    "Processes that reject every call because the store is another one than the fleet had, or was flushed.",
)
STORE_WENT_BACK = Metric(
    "coordinator_store_went_back_total",
    "counter",
    "times",
    "How often a process found that the store had lost its last acknowledged writes (restore, failover, crash).",
)

CLAIMS = Metric(
    "coordinator_claims_total",
    "counter",
    "claims",
    "Claim attempts by outcome; replays of a repeated call do not count. success: an item was claimed; renewed: the "
    "agent held it already (heartbeats).",
    (
        Label(
            "outcome",
            (
                "success",
                "renewed",
                "already_claimed",
                "agent_draining",
                "budget_exhausted",
                "resource_busy",
                "not_found",
                "terminal_item",
                "stale_fence",
                "superseded",
                "no_match",
                "rejected_by_policy",
                OTHER,
            ),
        ),
    ),
)
CLAIM_CONFLICTS = Metric(
    "coordinator_claim_conflicts_total",
    "counter",
    "conflicts",
    "Conflicts over items. busy: a claim of an item that another agent holds, not_holder: a change of such an item or "
    "a report on it, stale_fence: a claim, renewal, change, report, release or start of a session that showed the "
    "fence of an older claim, whatever it was answered; such a one is neither of the others.",
    (Label("kind", ("busy", "not_holder", "stale_fence")),),
)
CLAIM_HOLD = Metric(
    "coordinator_claim_hold_seconds",
    "histogram",
    "seconds",
    "How long claims were held, from an agent's first claim of an item to its end. completed: the item ended under the "
    "claim (completed or cancelled), at that moment; released: given back, or let go for another claim; expired: "
    "nobody renewed it. Each claim counts once: what follows when its item has ended, or is reopened under it, does "
    "not. Counted in the store, and collected every few seconds by one front-end of the fleet.",
    (Label("end", ("completed", "released", "expired")),),
    (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0),
)
CLAIM_LOSERS = Metric(
    "coordinator_claim_losers",
    "histogram",
    "claims",
    "How many claims of others failed while a claim was held, from an agent's first claim of an item to its end. "
    "Counted by claim in the store, across front-ends, and collected with coordinator_claim_hold_seconds when the "
    "claim has ended.",
    (),
    (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0),
)
ITEMS = Metric(
    "coordinator_items",
    "gauge",
    "items",
    "Work items by role, of all projects (the 1000 changed last), counted every few seconds by one front-end of the "
    "fleet; others say 0.",
    (Label("role", ("queue", "work", "review", "blocked", "terminal")),),
    merge="max",
)
OLDEST_READY = Metric(
    "coordinator_oldest_ready_age_seconds",
    "gauge",
    "seconds",
    "Age of the oldest item in the queue that agents are offered; 0: there is none. It is ready, below no item that "
    "somebody holds or whose budget is spent, what it demands is free, and the budget of its project is not spent; "
    "the 100 oldest ready ones of each project are looked at. What single agents lack (capabilities, budgets of their "
    "own) and drains do not count. Measured with coordinator_items.",
    merge="max",
)
ABANDONED = Metric(
    "coordinator_abandoned_items",
    "gauge",
    "items",
    "Abandoned items that anybody could take over: their claim ended in the middle. Measured with coordinator_items.",
    merge="max",
)
OLDEST_ABANDONED = Metric(
    "coordinator_oldest_abandoned_age_seconds",
    "gauge",
    "seconds",
    "Time since the first of these items was abandoned; 0: there is none. Measured with coordinator_items.",
    merge="max",
)
AGENTS_WAITING = Metric(
    "coordinator_agents_waiting",
    "gauge",
    "claims",
    "Claims that wait for an item (waitMs) in each front-end now.",
    (SLOT,),
)
CLAIM_WAIT = Metric(
    "coordinator_claim_wait_seconds",
    "histogram",
    "seconds",
    "How long claims waited for an item (waitMs), in order of arrival for each selector: times vary with how rare the "
    "wanted items are. served: an item was handed over; in_vain: none came in time; ended: the caller disconnected, "
    "or had to use another front-end.",
    (Label("end", ("served", "in_vain", "ended")),),
    (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0),
)
IDEMPOTENCY = Metric(
    "coordinator_idempotency_total",
    "counter",
    "requests",
    "Requests with a requestId. new: first seen, replay: answered again from the record, mismatch: the id was "
    "used before with other arguments.",
    (Label("result", ("new", "replay", "mismatch")),),
)

CHECKPOINTS = Metric(
    "coordinator_session_checkpoints_total",
    "counter",
    "calls",
    "Checkpoints of workflow sessions: yielded, and resolved by a chosen option (option_id), by the default one "
    "(auto_advance) or dismissed (condition_not_met). early: answers before their time, closed: answers to what does "
    "not wait, such as those that lost a race.",
    (Label("outcome", ("yielded", "option_id", "auto_advance", "condition_not_met", "early", "closed")),),
)
SESSION_TOKENS_REFUSED = Metric(
    "coordinator_session_tokens_refused_total",
    "counter",
    "tokens",
    "Session tokens and checkpoint handles that could not be used: too long (oversized), cut off (malformed), signed "
    "by no key that counts (unsigned), or without the payload of one (undecoded, incomplete).",
    (Label("reason", ("oversized", "malformed", "unsigned", "undecoded", "incomplete")),),
)

SCRIPT_DURATION = Metric(
    "coordinator_store_script_duration_seconds",
    "histogram",
    "seconds",
    "Time from sending a script to having its reply, or to giving up.",
    (SCRIPT,),
    (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
SCRIPT_FAILURES = Metric(
    "coordinator_store_script_failures_total",
    "counter",
    "calls",
    "Scripts that did not do what they were asked for. refused: by a rule, error: no result "
    "(coordinator_store_errors_total says why).",
    (SCRIPT, Label("outcome", ("refused", "error"))),
)
RESTARTS_OF_OPERATIONS = Metric(
    "coordinator_operations_restarted_total",
    "counter",
    "restarts",
    "Operations of several scripts that started over because what they had read changed in between, by tool. Most "
    "tools are one script, which is atomic.",
    (Label("operation", ("claim_item", "get_next_item", "workflow.submit", "workflow.get")),),
)
STORE_ERRORS = Metric(
    "coordinator_store_errors_total",
    "counter",
    "errors",
    "Store calls without a result. unavailable: no answer in time or no connection, full: no memory for writes, "
    "over_capacity: too many calls in flight, cancelled: the caller disconnected (what the server itself gives up, as "
    "at a deadline, is none), changed: it is not the store that the fleet had, defect: an internal error.",
    (Label("kind", ("unavailable", "changed", "full", "over_capacity", "cancelled", "defect", OTHER)),),
)

WORKER_JOBS = Metric(
    "coordinator_worker_jobs_total",
    "counter",
    "jobs",
    "Jobs made with plain RQ that workers finished; steps are not among them.",
    (Label("outcome", ("ok", "failed")),),
)

STEPS = Metric(
    "coordinator_steps_total",
    "counter",
    "attempts",
    "Attempts of steps by how they ended. ok, failed: for good; retry: failed, another one follows; returned: not "
    "executed, for another worker; lost: ended without a report, because the step was no longer this worker's.",
    (Label("outcome", ("ok", "failed", "retry", "returned", "lost")),),
)
STEP_DURATION = Metric(
    "coordinator_step_duration_seconds",
    "histogram",
    "seconds",
    "How long attempts took in their worker.",
    (),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
STEP_WAIT = Metric(
    "coordinator_step_wait_seconds",
    "histogram",
    "seconds",
    "Time from a step being ready to a worker taking it.",
    (),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
STEPS_RUNNING = Metric("coordinator_steps_running", "gauge", "steps", "Steps that each worker executes now.", (SLOT,))
STEP_REPORTS_REFUSED = Metric(
    "coordinator_step_reports_refused_total",
    "counter",
    "reports",
    "Reports that came too late: the step had another attempt by then, or its flow was cancelled.",
)
STEP_LEASES_LOST = Metric(
    "coordinator_step_leases_lost_total",
    "counter",
    "leases",
    "Leases of steps that expired because their worker died or hung; another attempt was made.",
)
STEP_JOBS_RESTORED = Metric(
    "coordinator_step_jobs_restored_total",
    "counter",
    "jobs",
    "RQ jobs that had vanished from their queue and were written again.",
)
STEPS_QUEUED = Metric(
    "coordinator_steps_queued",
    "gauge",
    "steps",
    "Steps that wait for a worker, of all projects, counted by the worker that sweeps and every few seconds by one "
    "front-end of the fleet; others say 0.",
    merge="max",
)
RUNS_ENDED = Metric(
    "coordinator_runs_ended_total",
    "counter",
    "runs",
    "Flows, and other runs of steps, that have ended; kind: flows or gateway. cancelled: a flow, by a caller, in the "
    "console or by a command on a host of the fleet.",
    (Label("kind", limit=8), Label("status", ("completed", "failed", "cancelled"))),
)

GATEWAY_SUBMITS = Metric(
    "coordinator_gateway_submits_total",
    "counter",
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
)
GATEWAY_EXECUTORS = Metric(
    "coordinator_gateway_executor_seconds",
    "histogram",
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
LOOP_LAG = Metric(
    "coordinator_event_loop_lag_seconds",
    "histogram",
    "seconds",
    "How late the event loop runs a timer: time during which a process answers nobody.",
    (ROLE,),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
PROCESSES = Metric(
    "coordinator_processes", "gauge", "processes", "Processes that the supervisor keeps running.", (ROLE,)
)
RESTARTS = Metric(
    "coordinator_process_restarts_total",
    "counter",
    "restarts",
    "Processes that the supervisor restarted, by cause: ended by themselves, ended by a signal, or killed as hung.",
    (ROLE, Label("cause", ("exit", "hung", "signal"))),
)
CPU = Metric(
    "coordinator_process_cpu_seconds_total",
    "counter",
    "seconds",
    "Processor time used, user and system, by all processes that have lived in the slot.",
    (SLOT,),
)
MEMORY = Metric(
    "coordinator_process_resident_memory_bytes", "gauge", "bytes", "Resident memory of each process.", (SLOT,)
)
BUILD_INFO = Metric(
    "coordinator_build_info",
    "gauge",
    "info",
    "Always 1; the labels say what is running.",
    (Label("version", limit=4), Label("python", limit=4)),
    merge="max",
    together="max",
)
CONFIG_INFO = Metric(
    "coordinator_config_info",
    "gauge",
    "info",
    "1 for the settings in force, 0 for earlier ones; hash covers all settings, version those that a reload can "
    "change and tools use. Two versions at 1 mean front-ends or workers that differ.",
    (Label("hash", limit=64), Label("version", limit=64)),
    merge="max",
    together="max",
)
CONFIG_RELOADS = Metric(
    "coordinator_config_reloads_total",
    "counter",
    "reloads",
    "Reloads of the settings in a front-end. ok: the new ones are in force, refused: they were invalid and the old "
    "ones stay.",
    (Label("outcome", ("ok", "refused")),),
)

CATALOGUE: tuple[Metric, ...] = (
    REQUESTS,
    REQUEST_DURATION,
    FAST_PATH,
    AUTH_REFUSED,
    TOKEN_FILE_READS,
    SLOT_REQUESTS,
    INFLIGHT,
    CONNECTIONS,
    SHED,
    ADMISSION_QUEUE,
    CONCURRENCY_LIMIT,
    CALLS_AT_WORK,
    SATURATION,
    ADMISSION_WAITING,
    BREAKER_STATE,
    STORE_CHANGED,
    STORE_WENT_BACK,
    CLAIMS,
    CLAIM_CONFLICTS,
    CLAIM_HOLD,
    CLAIM_LOSERS,
    ITEMS,
    OLDEST_READY,
    ABANDONED,
    OLDEST_ABANDONED,
    AGENTS_WAITING,
    CLAIM_WAIT,
    *(agents.ALL + attempts.ALL + due_times.ALL + resources.ALL + usage.ALL + feed.ALL),
    *(console.ALL + webhooks.ALL + protocol.ALL + runs.ALL),
    IDEMPOTENCY,
    CHECKPOINTS,
    SESSION_TOKENS_REFUSED,
    SCRIPT_DURATION,
    SCRIPT_FAILURES,
    *shards.ALL,
    RESTARTS_OF_OPERATIONS,
    STORE_ERRORS,
    WORKER_JOBS,
    STEPS,
    STEP_DURATION,
    STEP_WAIT,
    STEPS_RUNNING,
    STEP_REPORTS_REFUSED,
    STEP_LEASES_LOST,
    STEP_JOBS_RESTORED,
    STEPS_QUEUED,
    RUNS_ENDED,
    *states.ALL,
    GATEWAY_SUBMITS,
    GATEWAY_EXECUTORS,
    *(gateway.ALL + downstream.ALL + fleet.ALL),
    LOOP_LAG,
    PROCESSES,
    RESTARTS,
    CPU,
    MEMORY,
    BUILD_INFO,
    CONFIG_INFO,
    CONFIG_RELOADS,
    *identity.ALL,
)
