"""The metrics of webhooks."""

from __future__ import annotations

from coordinator.metrics import Counter, Gauge, Histogram, Label

_WEBHOOK = Label("webhook", limit=20)
ATTEMPTS = Counter(
    "coordinator_webhook_attempts_total",
    "attempts",
    "Attempts at a delivery to each webhook. status: the receiver refused it; redirect: it redirects, which is not "
    "followed; gone: it answered 410; refused: its address is not public.",
    (_WEBHOOK, Label("outcome", ("delivered", "status", "redirect", "gone", "timeout", "unreachable", "refused"))),
)
DURATION = Histogram(
    "coordinator_webhook_attempt_seconds",
    "seconds",
    "How long attempts at a delivery to a webhook took, whatever came of them.",
    (),
    (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0),
)
STATES = Gauge(
    "coordinator_webhooks",
    "webhooks",
    "Webhooks of the settings by how they go. failing: the last attempt failed, and another follows; disabled: the "
    "receiver is gone, or has failed for 5 days; unusable: it has no secret. Measured by the process that delivers.",
    (Label("state", ("active", "failing", "paused", "disabled", "unusable")),),
)
LAG = Gauge(
    "coordinator_webhook_lag_seconds",
    "seconds",
    "How long ago that happened which a webhook could not be told yet, because attempts fail; 0: nothing waits for "
    "another attempt, or the webhook is paused or disabled. Measured by the process that delivers.",
    (_WEBHOOK,),
    merge="max",
    together="max",
)
GAPS = Counter(
    "coordinator_webhook_gaps_total",
    "gaps",
    "How often events were missing at the position that a webhook had reached; its receiver is told. Reasons as in "
    "coordinator_feed_gaps_total.",
    (Label("reason", ("failover", "lost", "trimmed")),),
    starts_in="frontend",
)
