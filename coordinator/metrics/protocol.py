"""The metrics of what the protocol offers beyond calls and answers; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import Label, Metric

QUESTIONS = Metric(
    "coordinator_questions_total",
    "counter",
    "questions",
    "Questions to the people behind clients (elicitation), and their answers. repeated: asked again, because the form "
    "was not filled in; refused: the state that came back was not one for the call, or too old.",
    (
        Label("tool", limit=10),
        Label("event", ("asked", "accept", "decline", "cancel", "repeated", "refused")),
    ),
)

TASKS = Metric(
    "coordinator_tasks_total",
    "counter",
    "tasks",
    "Calls whose results clients ask for later (MCP tasks). created: the call has become a task; cancelled: its client "
    "wants no result any more. Requests for results are calls of tasks/get in coordinator_requests_total.",
    (Label("tool", limit=30), Label("event", ("created", "cancelled"))),
)

ALL = (QUESTIONS, TASKS)
