"""The metrics of calls, connections, questions and tasks."""

from __future__ import annotations

from coordinator.metrics import OTHER, SLOT, Counter, Gauge, Histogram, Label

TOOL = Label("tool", limit=100)
OUTCOME = Label("outcome", ("ok", "error", "conflict", "shed", "invalid", "internal"))
REQUESTS = Counter(
    "coordinator_requests_total",
    "calls",
    "Tool calls answered. error: permanent failures, conflict: transient ones, shed: refused to protect the "
    "fleet, invalid: wrong arguments, internal: defects.",
    (TOOL, OUTCOME),
    starts_in="frontend",
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
    starts_in="frontend",
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
    starts_in="frontend",
)
INFLIGHT = Gauge(
    "coordinator_inflight",
    "requests",
    "Requests being answered now, those that wait (for an item, a change, or room) and streams included; "
    "coordinator_calls_at_work has what is limited.",
    (SLOT,),
)
CONNECTIONS = Gauge("coordinator_connections", "connections", "Client connections open now.", (SLOT,))
QUESTIONS = Counter(
    "coordinator_questions_total",
    "questions",
    "Questions to the people behind clients (elicitation), and their answers. repeated: asked again, because the form "
    "was not filled in; refused: the state that came back was not one for the call, or too old.",
    (
        Label("tool", limit=10),
        Label("event", ("asked", "accept", "decline", "cancel", "repeated", "refused")),
    ),
)
TASK_EVENTS = Counter(
    "coordinator_tasks_total",
    "tasks",
    "Calls whose results clients ask for later (MCP tasks). created: the call has become a task; cancelled: its client "
    "wants no result any more. Requests for results are calls of tasks/get in coordinator_requests_total.",
    (Label("tool", limit=20), Label("event", ("created", "cancelled"))),
)
