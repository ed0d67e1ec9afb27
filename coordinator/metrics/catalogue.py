"""Every metric the product exports, declared once. Ids of items, requests or agents are never labels."""

from __future__ import annotations

from coordinator.metrics.labels import OTHER, SLOT, Label
from coordinator.metrics.metric import Counter, Gauge, Histogram

ROLE = Label("role", ("frontend", "worker", "store", "supervisor"))
TOOL = Label("tool", limit=100)
SCRIPT = Label("script", limit=100)
OUTCOME = Label("outcome", ("ok", "error", "conflict", "shed", "invalid", "internal"))

REQUESTS = Counter(
    "coordinator_requests_total",
    "calls",
    "Tool calls answered. error: permanent failures, conflict: transient ones, shed: refused to protect the "
    "fleet, invalid: wrong arguments, internal: defects.",
    (TOOL, OUTCOME),
)
REQUEST_DURATION = Histogram(
    "coordinator_request_duration_seconds",
    "seconds",
    "Time from a call's arguments being read to its answer, without the time that a claim waited for an item (waitMs; "
    "coordinator_claim_wait_seconds has that). Calls that were shed or rejected before they began are left out.",
    (TOOL, Label("transport", ("fast", "sdk", "stdio", OTHER))),
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
FAST_PATH = Counter(
    "coordinator_fast_path_total",
    "requests",
    "tools/call requests that the fast path answered (hit) or handed to the SDK's server (miss).",
    (Label("result", ("hit", "miss")),),
)
SLOT_REQUESTS = Counter(
    "coordinator_slot_requests_total",
    "calls",
    "Tool calls answered by each process: how evenly load spreads.",
    (SLOT,),
)
AUTH_REFUSED = Counter(
    "coordinator_auth_refused_total",
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
TOKEN_FILE_READS = Counter(
    "coordinator_token_file_reads_total",
    "reads",
    "Reloads of a changed token file. refused: it was invalid, and the previous tokens stayed in force.",
    (Label("outcome", ("ok", "refused")),),
)
INFLIGHT = Gauge(
    "coordinator_inflight",
    "requests",
    "Requests being answered now, those that wait (for an item, a change, or room) and streams included; "
    "coordinator_calls_at_work has what is limited.",
    (SLOT,),
)
CONNECTIONS = Gauge("coordinator_connections", "connections", "Client connections open now.", (SLOT,))

STORE_CHANGED = Gauge(
    "coordinator_store_changed",
    "processes",
    "Processes that reject every call because the store is another one than the fleet had, or was flushed.",
)
STORE_WENT_BACK = Counter(
    "coordinator_store_went_back_total",
    "times",
    "How often a process found that the store had lost its last acknowledged writes (restore, failover, crash).",
)

CLAIMS = Counter(
    "coordinator_claims_total",
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
CLAIM_CONFLICTS = Counter(
    "coordinator_claim_conflicts_total",
    "conflicts",
    "Conflicts over items. busy: a claim of an item that another agent holds, not_holder: a change of such an item or "
    "a report on it, stale_fence: a claim, renewal, change, report, release or start of a session that showed the "
    "fence of an older claim, whatever it was answered; such a one is neither of the others.",
    (Label("kind", ("busy", "not_holder", "stale_fence")),),
)
CLAIM_HOLD = Histogram(
    "coordinator_claim_hold_seconds",
    "seconds",
    "How long claims were held, from an agent's first claim of an item to its end. completed: the item ended under the "
    "claim (completed or cancelled), at that moment; released: given back, or let go for another claim; expired: "
    "nobody renewed it. Each claim counts once: what follows when its item has ended, or is reopened under it, does "
    "not. Counted in the store, and collected every few seconds by one front-end of the fleet.",
    (Label("end", ("completed", "released", "expired")),),
    (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0),
)
CLAIM_LOSERS = Histogram(
    "coordinator_claim_losers",
    "claims",
    "How many claims of others failed while a claim was held, from an agent's first claim of an item to its end. "
    "Counted by claim in the store, across front-ends, and collected with coordinator_claim_hold_seconds when the "
    "claim has ended.",
    (),
    (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0),
)
ITEMS = Gauge(
    "coordinator_items",
    "items",
    "Work items by role, of all projects (the 1000 changed last), counted every few seconds by one front-end of the "
    "fleet; others say 0.",
    (Label("role", ("queue", "work", "review", "blocked", "terminal")),),
    merge="max",
)
OLDEST_READY = Gauge(
    "coordinator_oldest_ready_age_seconds",
    "seconds",
    "Age of the oldest item in the queue that agents are offered; 0: there is none. It is ready, below no item that "
    "somebody holds or whose budget is spent, what it demands is free, and the budget of its project is not spent; "
    "the 100 oldest ready ones of each project are looked at. What single agents lack (capabilities, budgets of their "
    "own) and drains do not count. Measured with coordinator_items.",
    merge="max",
)
ABANDONED = Gauge(
    "coordinator_abandoned_items",
    "items",
    "Abandoned items that anybody could take over: their claim ended in the middle. Measured with coordinator_items.",
    merge="max",
)
OLDEST_ABANDONED = Gauge(
    "coordinator_oldest_abandoned_age_seconds",
    "seconds",
    "Time since the first of these items was abandoned; 0: there is none. Measured with coordinator_items.",
    merge="max",
)
AGENTS_WAITING = Gauge(
    "coordinator_agents_waiting",
    "claims",
    "Claims that wait for an item (waitMs) in each front-end now.",
    (SLOT,),
)
CLAIM_WAIT = Histogram(
    "coordinator_claim_wait_seconds",
    "seconds",
    "How long claims waited for an item (waitMs), in order of arrival for each selector: times vary with how rare the "
    "wanted items are. served: an item was handed over; in_vain: none came in time; ended: the caller disconnected, "
    "or had to use another front-end.",
    (Label("end", ("served", "in_vain", "ended")),),
    (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0),
)
IDEMPOTENCY = Counter(
    "coordinator_idempotency_total",
    "requests",
    "Requests with a requestId. new: first seen, replay: answered again from the record, mismatch: the id was "
    "used before with other arguments.",
    (Label("result", ("new", "replay", "mismatch")),),
)

CHECKPOINTS = Counter(
    "coordinator_session_checkpoints_total",
    "calls",
    "Checkpoints of workflow sessions: yielded, and resolved by a chosen option (option_id), by the default one "
    "(auto_advance) or dismissed (condition_not_met). early: answers before their time, closed: answers to what does "
    "not wait, such as those that lost a race.",
    (Label("outcome", ("yielded", "option_id", "auto_advance", "condition_not_met", "early", "closed")),),
)
SESSION_TOKENS_REFUSED = Counter(
    "coordinator_session_tokens_refused_total",
    "tokens",
    "Session tokens and checkpoint handles that could not be used: too long (oversized), cut off (malformed), signed "
    "by no key that counts (unsigned), or without the payload of one (undecoded, incomplete).",
    (Label("reason", ("oversized", "malformed", "unsigned", "undecoded", "incomplete")),),
)

SCRIPT_DURATION = Histogram(
    "coordinator_store_script_duration_seconds",
    "seconds",
    "Time from sending a script to having its reply, or to giving up.",
    (SCRIPT,),
    (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
SCRIPT_FAILURES = Counter(
    "coordinator_store_script_failures_total",
    "calls",
    "Scripts that did not do what they were asked for. refused: by a rule, error: no result "
    "(coordinator_store_errors_total says why).",
    (SCRIPT, Label("outcome", ("refused", "error"))),
)
RESTARTS_OF_OPERATIONS = Counter(
    "coordinator_operations_restarted_total",
    "restarts",
    "Operations of several scripts that started over because what they had read changed in between, by tool. Most "
    "tools are one script, which is atomic.",
    (Label("operation", ("claim_item", "get_next_item", "workflow.submit", "workflow.get")),),
)
STORE_ERRORS = Counter(
    "coordinator_store_errors_total",
    "errors",
    "Store calls without a result. unavailable: no answer in time or no connection, full: no memory for writes, "
    "over_capacity: too many calls in flight, cancelled: the caller disconnected (what the server itself gives up, as "
    "at a deadline, is none), changed: it is not the store that the fleet had, defect: an internal error.",
    (Label("kind", ("unavailable", "changed", "full", "over_capacity", "cancelled", "defect", OTHER)),),
)

WORKER_JOBS = Counter(
    "coordinator_worker_jobs_total",
    "jobs",
    "Jobs made with plain RQ that workers finished; steps are not among them.",
    (Label("outcome", ("ok", "failed")),),
)

STEPS = Counter(
    "coordinator_steps_total",
    "attempts",
    "Attempts of steps by how they ended. ok, failed: for good; retry: failed, another one follows; returned: not "
    "executed, for another worker; lost: ended without a report, because the step was no longer this worker's.",
    (Label("outcome", ("ok", "failed", "retry", "returned", "lost")),),
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
)
STEP_LEASES_LOST = Counter(
    "coordinator_step_leases_lost_total",
    "leases",
    "Leases of steps that expired because their worker died or hung; another attempt was made.",
)
STEP_JOBS_RESTORED = Counter(
    "coordinator_step_jobs_restored_total",
    "jobs",
    "RQ jobs that had vanished from their queue and were written again.",
)
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

GATEWAY_SUBMITS = Counter(
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
LOOP_LAG = Histogram(
    "coordinator_event_loop_lag_seconds",
    "seconds",
    "How late the event loop runs a timer: time during which a process answers nobody.",
    (ROLE,),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
PROCESSES = Gauge("coordinator_processes", "processes", "Processes that the supervisor keeps running.", (ROLE,))
RESTARTS = Counter(
    "coordinator_process_restarts_total",
    "restarts",
    "Processes that the supervisor restarted, by cause: ended by themselves, ended by a signal, or killed as hung.",
    (ROLE, Label("cause", ("exit", "hung", "signal"))),
)
CPU = Counter(
    "coordinator_process_cpu_seconds_total",
    "seconds",
    "Processor time used, user and system, by all processes that have lived in the slot.",
    (SLOT,),
)
MEMORY = Gauge("coordinator_process_resident_memory_bytes", "bytes", "Resident memory of each process.", (SLOT,))
BUILD_INFO = Gauge(
    "coordinator_build_info",
    "info",
    "Always 1; the labels say what is running.",
    (Label("version", limit=4), Label("python", limit=4)),
    merge="max",
    together="max",
)
CONFIG_INFO = Gauge(
    "coordinator_config_info",
    "info",
    "1 for the settings in force, 0 for earlier ones; hash covers all settings, version those that a reload can "
    "change and tools use. Two versions at 1 mean front-ends or workers that differ.",
    (Label("hash", limit=64), Label("version", limit=64)),
    merge="max",
    together="max",
)
CONFIG_RELOADS = Counter(
    "coordinator_config_reloads_total",
    "reloads",
    "Reloads of the settings in a front-end. ok: the new ones are in force, refused: they were invalid and the old "
    "ones stay.",
    (Label("outcome", ("ok", "refused")),),
)
