"""The metrics of what agents use; part of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.metrics.cells import Cells
from coordinator.metrics.families import Family, set_all
from coordinator.metrics.metric import Label, Metric

KINDS = ("input", "output", "cached")
PERIODS = ("day", "total")
PROJECT = Label("project", limit=50)
PERIOD = Label("period", PERIODS)

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
    "Items that have not ended and whose budget is spent: they and what is below them are not claimed. Measured with "
    "coordinator_items.",
    merge="max",
)

TODAY_TOKENS = Metric(
    "coordinator_usage_today_tokens",
    "gauge",
    "tokens",
    "Input and output tokens that agents have reported today (UTC), of all projects. Measured with coordinator_items.",
    merge="max",
)
TODAY_COST = Metric(
    "coordinator_usage_today_cost_micro_usd",
    "gauge",
    "micro-USD",
    "Cost that agents have reported today (UTC), of all projects. Measured with coordinator_items.",
    merge="max",
)
PROJECT_BUDGET = Metric(
    "coordinator_project_budget_spent_ratio",
    "gauge",
    "ratio",
    "How much of the budget of a project is spent, of the limit nearest to be reached; from 1 on nothing in the "
    "project is claimed. Measured with coordinator_items.",
    (PROJECT, PERIOD),
    merge="max",
    together="max",
)
AGENT_BUDGET = Metric(
    "coordinator_agent_budget_spent_ratio",
    "gauge",
    "ratio",
    "How much of a budget for agents is spent by the agent that has used most of it, of the limit nearest to be "
    "reached; of the 200 agents of each project seen last, by the name in the settings. Measured with "
    "coordinator_items.",
    (Label("agents", limit=30), PERIOD),
    merge="max",
    together="max",
)

ALL = (TOKENS, COST, SECONDS, SPENT, TODAY_TOKENS, TODAY_COST, PROJECT_BUDGET, AGENT_BUDGET)


class UsageRecorder:
    """Records them."""

    def __init__(self, cells: Cells) -> None:
        self._tokens = Family(TOKENS, cells.number)
        self._cost = Family(COST, cells.number)
        self._seconds = Family(SECONDS, cells.number)
        self._spent = Family(SPENT, cells.number)
        self._today_tokens = Family(TODAY_TOKENS, cells.number)
        self._today_cost = Family(TODAY_COST, cells.number)
        self._project_budget = Family(PROJECT_BUDGET, cells.number)
        self._agent_budget = Family(AGENT_BUDGET, cells.number)

    def projects(self, used: Mapping[str, Sequence[int]]) -> None:
        """What was used in each project since it began: input, output and cached tokens, micro-USD, ms."""
        tokens = {(project, kind): sums[n] for project, sums in used.items() for n, kind in enumerate(KINDS)}
        set_all(self._tokens, tokens)
        set_all(self._cost, {(project,): sums[3] for project, sums in used.items()})
        set_all(self._seconds, {(project,): sums[4] / 1000 for project, sums in used.items()})

    def spent_budgets(self, count: int) -> None:
        """Open items whose budget is spent; 0 as in ``items``."""
        self._spent().set(count)

    def today(self, tokens: int, cost: int) -> None:
        """What was used today; both 0 as in ``items``."""
        self._today_tokens().set(tokens)
        self._today_cost().set(cost)

    def budgets(self, projects: Mapping[tuple[str, str], float], agents: Mapping[tuple[str, str], float]) -> None:
        """The spent shares of budgets, by the project, or the name in the settings, and period (``day``, ``total``)."""
        set_all(self._project_budget, projects)
        set_all(self._agent_budget, agents)
