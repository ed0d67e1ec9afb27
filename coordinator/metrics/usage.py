"""The metrics of what agents use; part of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Gauge
from coordinator.metrics.recording import Recording, set_all

KINDS = ("input", "output", "cached")
PERIODS = ("day", "total")
PROJECT = Label("project", limit=50)
PERIOD = Label("period", PERIODS)

TOKENS = Gauge(
    "coordinator_usage_tokens",
    "tokens",
    "Tokens that agents have reported in a project since it began; cached ones are a part of the input. Measured with "
    "coordinator_items.",
    (PROJECT, Label("kind", KINDS)),
    merge="max",
)
COST = Gauge(
    "coordinator_usage_cost_micro_usd",
    "micro-USD",
    "Cost that agents have reported in a project since it began. Measured with coordinator_items.",
    (PROJECT,),
    merge="max",
)
SECONDS = Gauge(
    "coordinator_usage_seconds",
    "seconds",
    "Time of work that agents have reported in a project since it began. Measured with coordinator_items.",
    (PROJECT,),
    merge="max",
)
SPENT = Gauge(
    "coordinator_spent_budgets",
    "items",
    "Items that have not ended and whose budget is spent: they and what is below them are not claimed. Measured with "
    "coordinator_items.",
    merge="max",
)

TODAY_TOKENS = Gauge(
    "coordinator_usage_today_tokens",
    "tokens",
    "Input and output tokens that agents have reported today (UTC), of all projects. Measured with coordinator_items.",
    merge="max",
)
TODAY_COST = Gauge(
    "coordinator_usage_today_cost_micro_usd",
    "micro-USD",
    "Cost that agents have reported today (UTC), of all projects. Measured with coordinator_items.",
    merge="max",
)
PROJECT_BUDGET = Gauge(
    "coordinator_project_budget_spent_ratio",
    "ratio",
    "How much of the budget of a project is spent, of the limit nearest to be reached; from 1 on nothing in the "
    "project is claimed. Measured with coordinator_items.",
    (PROJECT, PERIOD),
    merge="max",
    together="max",
)
AGENT_BUDGET = Gauge(
    "coordinator_agent_budget_spent_ratio",
    "ratio",
    "How much of a budget for agents is spent by the agent that has used most of it, of the limit nearest to be "
    "reached; of the 200 agents of each project seen last, by the name in the settings. Measured with "
    "coordinator_items.",
    (Label("agents", limit=30), PERIOD),
    merge="max",
    together="max",
)


class UsageRecorder:
    """Records them."""

    def __init__(self, cells: Recording) -> None:
        self._tokens = cells.of(TOKENS)
        self._cost = cells.of(COST)
        self._seconds = cells.of(SECONDS)
        self._spent = cells.of(SPENT)
        self._today_tokens = cells.of(TODAY_TOKENS)
        self._today_cost = cells.of(TODAY_COST)
        self._project_budget = cells.of(PROJECT_BUDGET)
        self._agent_budget = cells.of(AGENT_BUDGET)

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
