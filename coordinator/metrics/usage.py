"""The metrics of what agents use; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.cells import Cells
from coordinator.metrics.families import Family
from coordinator.metrics.metric import Label, Metric

KINDS = ("input", "output", "cached")
PROJECT = Label("project", limit=50)

TOKENS = Metric(
    "coordinator_usage_tokens",
    "gauge",
    "tokens",
    "Tokens that agents have reported in a project since it began; cached ones are a part of the input. Measured with "
    "coordinator_items.",
    (PROJECT, Label("kind", KINDS)),
    merge="max",
)
COST = Metric(
    "coordinator_usage_cost_micro_usd",
    "gauge",
    "micro-USD",
    "Cost that agents have reported in a project since it began. Measured with coordinator_items.",
    (PROJECT,),
    merge="max",
)
SECONDS = Metric(
    "coordinator_usage_seconds",
    "gauge",
    "seconds",
    "Time of work that agents have reported in a project since it began. Measured with coordinator_items.",
    (PROJECT,),
    merge="max",
)
SPENT = Metric(
    "coordinator_spent_budgets",
    "gauge",
    "items",
    "Items whose budget is spent: nothing below them is claimed. Measured with coordinator_items.",
    merge="max",
)

ALL = (TOKENS, COST, SECONDS, SPENT)


class UsageRecorder:
    """Records them."""

    def __init__(self, cells: Cells) -> None:
        self._tokens = Family(TOKENS, cells.number)
        self._cost = Family(COST, cells.number)
        self._seconds = Family(SECONDS, cells.number)
        self._spent = Family(SPENT, cells.number)

    def project(self, project: str, input_tokens: int, output: int, cached: int, cost: int, wall_ms: int) -> None:
        """What was used in a project since it began; all 0 as in ``items``."""
        for kind, count in zip(KINDS, (input_tokens, output, cached), strict=True):
            self._tokens(project, kind).set(count)
        self._cost(project).set(cost)
        self._seconds(project).set(wall_ms / 1000)

    def spent_budgets(self, count: int) -> None:
        """Items whose budget is spent; 0 as in ``items``."""
        self._spent().set(count)
