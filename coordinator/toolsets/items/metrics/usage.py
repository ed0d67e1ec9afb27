"""The metrics of what agents use."""

from __future__ import annotations

from coordinator.metrics import Gauge, Label

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
