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
        Label("tool", limit=100),
        Label("event", ("asked", "accept", "decline", "cancel", "repeated", "refused")),
    ),
)

ALL = (QUESTIONS,)
