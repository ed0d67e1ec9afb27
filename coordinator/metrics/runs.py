"""The metrics of runners (`fleet run`); part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import Label, Metric

ATTEMPTS = Metric(
    "coordinator_run_attempts_total",
    "counter",
    "attempts",
    "Attempts of `fleet run` by what came of them. later: handed back, uncounted; failed: counted; hopeless: the item "
    "was quarantined; blocked: the command has set it aside, or asks a question; broken: the runner stops, because the "
    "fault is its own; lost: the claim was.",
    (Label("outcome", ("done", "later", "failed", "hopeless", "blocked", "broken", "lost")),),
)
DURATION = Metric(
    "coordinator_run_attempt_seconds",
    "histogram",
    "seconds",
    "How long attempts of `fleet run` took, from the claim to the end of the workspace, whatever came of them.",
    (),
    (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0),
)
COST = Metric(
    "coordinator_run_cost_dollars_total",
    "counter",
    "dollars",
    "What the commands of `fleet run` say that they have cost, as far as it is counted.",
)
USAGE_REFUSED = Metric(
    "coordinator_run_usage_refused_total",
    "counter",
    "attempts",
    "Attempts of `fleet run` whose command says that it has used more than `--usage-per-attempt`. What is above is not "
    "counted; the note of the attempt and the event `item.usage_refused` have it.",
    (Label("measure", ("cost", "tokens")),),
)
RUNNING = Metric("coordinator_run_attempts_running", "gauge", "attempts", "Attempts of `fleet run` that run now.")
PAUSED = Metric(
    "coordinator_runs_paused",
    "gauge",
    "runners",
    "Runners that claim nothing for now: attempts failed in a row, the provider refuses, or there is no room for logs.",
)

ALL = (ATTEMPTS, DURATION, COST, USAGE_REFUSED, RUNNING, PAUSED)
