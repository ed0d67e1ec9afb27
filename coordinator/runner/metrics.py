"""The metrics of runners (`fleet run`)."""

from __future__ import annotations

from coordinator.metrics import Counter, Gauge, Histogram, Label

ATTEMPTS = Counter(
    "coordinator_run_attempts_total",
    "attempts",
    "Attempts of `fleet run` by what came of them. later: handed back, uncounted; failed: counted; hopeless: the item "
    "was quarantined; blocked: the command has set it aside, or asks a question; broken: the runner stops, because the "
    "fault is its own; lost: the claim was.",
    (Label("outcome", ("done", "later", "failed", "hopeless", "blocked", "broken", "lost")),),
    starts_in="runner",
)
DURATION = Histogram(
    "coordinator_run_attempt_seconds",
    "seconds",
    "How long attempts of `fleet run` took, from the claim to the end of the workspace, whatever came of them.",
    (),
    (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0),
    starts_in="runner",
)
COST = Counter(
    "coordinator_run_cost_dollars_total",
    "dollars",
    "What the commands of `fleet run` say that they have cost, as far as it is counted.",
    starts_in="runner",
)
USAGE_REFUSED = Counter(
    "coordinator_run_usage_refused_total",
    "attempts",
    "Attempts of `fleet run` whose command says that it has used more than `--usage-per-attempt`. What is above is not "
    "counted; the note of the attempt and the event `item.usage_refused` have it.",
    (Label("measure", ("cost", "tokens")),),
    starts_in="runner",
)
RUNNING = Gauge(
    "coordinator_run_attempts_running", "attempts", "Attempts of `fleet run` that run now.", starts_in="runner"
)
PAUSED = Gauge(
    "coordinator_runs_paused",
    "runners",
    "Runners that claim nothing for now: attempts failed in a row, the provider refuses, or there is no room for logs.",
    starts_in="runner",
)
