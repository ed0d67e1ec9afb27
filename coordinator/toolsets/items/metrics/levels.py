"""The metrics of how many items and agents there are, and of items made by templates."""

from __future__ import annotations

from coordinator.metrics import Counter, Gauge, Label

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
    "an agent holds or whose budget is spent, what it demands is free, and the budget of its project is not spent; "
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
QUARANTINED = Gauge(
    "coordinator_quarantined_items",
    "items",
    "Items in quarantine, which wait until somebody resumes or cancels them. Measured with coordinator_items.",
    merge="max",
)
IN_BACKOFF = Gauge(
    "coordinator_backoff_items",
    "items",
    "Items in back-off: not offered for a time after a failed attempt. Measured with coordinator_items.",
    merge="max",
)
POSTPONED = Gauge(
    "coordinator_postponed_items",
    "items",
    "Items that are not ready before a time (notBefore). Measured with coordinator_items.",
    merge="max",
)
OVERDUE = Gauge(
    "coordinator_overdue_items",
    "items",
    "Open items whose time to be done (dueAt) has passed. Measured with coordinator_items.",
    merge="max",
)
OCCURRENCES = Counter(
    "coordinator_occurrences_total",
    "items",
    "Times of templates. made: an item was made; skipped: not, because an earlier one is open. Missed times for which "
    "none is to be made do not count.",
    (Label("outcome", ("made", "skipped")),),
    starts_in="frontend",
)
AGENTS_KNOWN = Gauge(
    "coordinator_agents_known",
    "agents",
    "Agents that claimed, renewed or waited in the last day, at most 10000 of a project. Measured with "
    "coordinator_items.",
    merge="max",
)
AGENT_DRAINS = Gauge(
    "coordinator_agent_drains",
    "drains",
    "Names under which agents are being drained, in all projects; `fleet agents` shows them. Measured with "
    "coordinator_items.",
    merge="max",
)
