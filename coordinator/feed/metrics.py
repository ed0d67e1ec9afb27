"""The metrics of the change feed, of subscriptions to it and of waiting reads."""

from __future__ import annotations

from coordinator.metrics import SLOT, Counter, Gauge, Histogram, Label

LISTENERS = Gauge(
    "coordinator_feed_listeners",
    "listeners",
    "Listeners of the change feed in each front-end now: event streams, and requests that wait for events. Tabs of the "
    "console, webhooks and subscriptions have metrics of their own.",
    (SLOT,),
    starts_in="frontend",
)
DELIVERIES = Counter(
    "coordinator_feed_deliveries_total",
    "events",
    "Events sent to the listeners that coordinator_feed_listeners counts; one for each event and listener.",
    starts_in="frontend",
)
CUT = Counter(
    "coordinator_feed_cut_total",
    "listeners",
    "Listeners and subscriptions that the server has cut off. slow: they took less than came; revoked: their callers' "
    "rights ended or changed; drain: the process stops, or takes no new work; moved: the project is served from "
    "another store.",
    (Label("reason", ("slow", "revoked", "drain", "moved")),),
    starts_in="frontend",
)
GAPS = Counter(
    "coordinator_feed_gaps_total",
    "gaps",
    "How often events were missing at a position that a front-end or a listener had reached. failover: another server "
    "answers, whose history differs; lost: the store has lost its last events; trimmed: they were older than kept.",
    (Label("reason", ("failover", "lost", "trimmed")),),
    starts_in="frontend",
)
LAG = Histogram(
    "coordinator_feed_lag_seconds",
    "seconds",
    "Time from an event's commit, by the clock of Redis, until a front-end passed it to its listeners, by its own "
    "clock; of the oldest of those read together.",
    (),
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0),
    starts_in="frontend",
)
SUBSCRIPTIONS = Gauge(
    "coordinator_subscriptions",
    "subscriptions",
    "Streams of the MCP request subscriptions/listen now.",
    starts_in="frontend",
)
TOLD = Counter(
    "coordinator_subscription_notifications_total",
    "notifications",
    "Notifications sent to subscriptions: a resource or a list has changed.",
    starts_in="frontend",
)
READS_WAITING = Gauge(
    "coordinator_reads_waiting",
    "calls",
    "Waiting reads in each front-end now: calls with waitMs and waitFor.",
    (SLOT,),
    starts_in="frontend",
)
WAIT_READS = Counter(
    "coordinator_wait_reads_total",
    "reads",
    "Reads of what waiting reads wait for; one for any number of them that wait for the same. call: one has come; "
    "event: something has happened to it; time: it was not read for 10 s; reader: events may be missing; failure: the "
    "read before failed.",
    (Label("reason", ("call", "event", "time", "reader", "failure")),),
    starts_in="frontend",
)
WAITS_ENDED = Counter(
    "coordinator_waits_ended_total",
    "calls",
    "Waiting reads that have ended. met: what they waited for is there; unmet: their time was over, or the process "
    "takes no new work; gone: it does not exist (any more); cancelled: their clients have left; failed: the store does "
    "not answer, or the caller may not read any longer.",
    (Label("outcome", ("met", "unmet", "gone", "cancelled", "failed")),),
    starts_in="frontend",
)
