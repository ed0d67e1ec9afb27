"""The metrics of what agents use; part of the catalogue."""

from __future__ import annotations

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
