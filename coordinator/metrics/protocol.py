"""The metrics of what the protocol offers beyond calls and answers; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Counter
from coordinator.metrics.recording import Recording

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

TASKS = Counter(
    "coordinator_tasks_total",
    "tasks",
    "Calls whose results clients ask for later (MCP tasks). created: the call has become a task; cancelled: its client "
    "wants no result any more. Requests for results are calls of tasks/get in coordinator_requests_total.",
    (Label("tool", limit=20), Label("event", ("created", "cancelled"))),
)


class ProtocolRecorder:
    """Records them; ``Recorder.protocol``."""

    def __init__(self, cells: Recording) -> None:
        self._questions = cells.of(QUESTIONS)
        self._tasks = cells.of(TASKS)

    def question(self, tool: str, event: str) -> None:
        """A question to a person was asked or answered; see ``QUESTIONS``."""
        self._questions(tool, event).inc()

    def task(self, tool: str, event: str) -> None:
        """A call became a task, or the task was cancelled; see ``TASKS``."""
        self._tasks(tool, event).inc()
