"""The metrics of the change feed; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import SLOT, Label, Metric

LISTENERS = Metric(
    "coordinator_feed_listeners",
    "gauge",
    "listeners",
    "Listeners of the change feed in each front-end now: event streams, and requests that wait for events.",
    (SLOT,),
)
DELIVERIES = Metric(
    "coordinator_feed_deliveries_total",
    "counter",
    "events",
    "Events given to listeners of the change feed; one for each event and listener, those read to catch up included.",
)
CUT = Metric(
    "coordinator_feed_cut_total",
    "counter",
    "listeners",
    "Listeners and subscriptions that the server has cut off. slow: they took less than came; revoked: their callers' "
    "rights ended or changed; drain: the process stops, or takes no new work.",
    (Label("reason", ("slow", "revoked", "drain")),),
)
GAPS = Metric(
    "coordinator_feed_gaps_total",
    "counter",
    "gaps",
    "How often events were missing at a position that a front-end or a listener had reached. failover: another server "
    "answers, whose history differs; lost: the store has lost its last events; trimmed: they were older than kept.",
    (Label("reason", ("failover", "lost", "trimmed")),),
)
LAG = Metric(
    "coordinator_feed_lag_seconds",
    "histogram",
    "seconds",
    "Time from an event's commit, by the clock of Redis, until a front-end passed it to its listeners, by its own "
    "clock; of the oldest of those read together.",
    (),
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0),
)

SUBSCRIPTIONS = Metric(
    "coordinator_subscriptions",
    "gauge",
    "subscriptions",
    "Streams of the MCP request subscriptions/listen now.",
)
TOLD = Metric(
    "coordinator_subscription_notifications_total",
    "counter",
    "notifications",
    "Notifications sent to subscriptions: a resource or a list has changed.",
)

ALL = (LISTENERS, DELIVERIES, CUT, GAPS, LAG, SUBSCRIPTIONS, TOLD)
