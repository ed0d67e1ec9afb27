"""Who waits for what."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Panel, gauge, most, quantile, rate, share

SHED = "coordinator_shed_total"
CLAIMS = "coordinator_claims_total"
HOLD = "coordinator_claim_hold_seconds"
LOSERS = "coordinator_claim_losers"
CONFLICTS = "coordinator_claim_conflicts_total"

CONTENTION = Dashboard(
    "fleet-contention",
    "Fleet: contention and shedding",
    (
        (
            "Admission",
            (
                Panel(
                    "Limit and calls at work",
                    "The limit falls when the store slows down; near it, further calls wait or are shed. Claims and "
                    "reads that wait for something, and streams, are not among them.",
                    "short",
                    [
                        (gauge("coordinator_concurrency_limit"), "limit"),
                        (gauge("coordinator_calls_at_work"), "at work"),
                        (gauge("coordinator_admission_waiting"), "wait for room"),
                    ],
                    "SheddingForLong",
                ),
                Panel(
                    "Shed by class",
                    "The least critical calls should be shed first, critical ones never.",
                    "reqps",
                    [(rate(SHED, "class"), "{{class}}")],
                    "CriticalCallsShed",
                ),
                Panel(
                    "Shed by reason",
                    "actor_quota: a few agents make too many calls; queue_timeout: too little capacity.",
                    "reqps",
                    [(rate(SHED, "reason"), "{{reason}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Waiting, p99",
                    "Time that calls waited for admission.",
                    "s",
                    [(quantile(0.99, "coordinator_admission_queue_seconds", "class"), "{{class}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Saturation",
                    "Calls at work divided by the limit, of the busiest front-end of each host.",
                    "percentunit",
                    [(most("coordinator_saturation", "instance"), "{{instance}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Breakers",
                    "Front-ends by the state of their circuit breaker over the store.",
                    "short",
                    [(gauge("coordinator_store_breaker", "state"), "{{state}}")],
                    "StoreUnavailable",
                ),
            ),
        ),
        (
            "Claims",
            (
                Panel(
                    "Claims by outcome",
                    "Claim attempts per second; renewed: heartbeats.",
                    "reqps",
                    [(rate(CLAIMS, "outcome"), "{{outcome}}")],
                    "HighContention",
                ),
                Panel(
                    "Losers per winner",
                    "Claims of items that others hold, for each item that was claimed; renewals do not count.",
                    "short",
                    [(share(rate(CONFLICTS, kind="busy"), rate(CLAIMS, outcome="success")), "losers")],
                    "HighContention",
                ),
                Panel(
                    "Losers per claim",
                    "Ended claims, by the number of failed claims of others meanwhile; best none.",
                    "short",
                    [(rate(LOSERS + "_bucket", "le"), "{{le}}")],
                    "HighContention",
                    "heat",
                ),
                Panel(
                    "Operations restarted",
                    "Operations of several scripts that restarted because their reads were stale.",
                    "ops",
                    [(rate("coordinator_operations_restarted_total", "operation"), "{{operation}}")],
                    "HighContention",
                ),
                Panel(
                    "Collisions",
                    "stale_fence: agents that continue with claims that they have lost.",
                    "reqps",
                    [(rate(CONFLICTS, "kind"), "{{kind}}")],
                    "StaleFences",
                ),
                Panel(
                    "Request ids",
                    "replay: retried calls that were answered from the record.",
                    "reqps",
                    [(rate("coordinator_idempotency_total", "result"), "{{result}}")],
                    "RequestIdsReused",
                ),
                Panel(
                    "Held, p90",
                    "Hold time of claims, by how they ended: until the item was completed or cancelled, the claim was "
                    "released, or it expired.",
                    "s",
                    [(quantile(0.9, HOLD, "end"), "{{end}}")],
                    "ClaimsExpire",
                ),
                Panel(
                    "Claims ended",
                    "completed: the item ended; released: by the agent, or for another claim; expired.",
                    "ops",
                    [(rate(HOLD + "_count", "end"), "{{end}}")],
                    "ClaimsExpire",
                ),
            ),
        ),
        (
            "Work items",
            (
                Panel(
                    "Items by role",
                    "Of all projects; terminal ones stay until they are deleted.",
                    "short",
                    [(most("coordinator_items", "role"), "{{role}}")],
                    "ItemsWait",
                ),
                Panel(
                    "Oldest ready item",
                    "Age of the oldest item that agents are offered: the best sign of too few agents.",
                    "s",
                    [(most("coordinator_oldest_ready_age_seconds"), "age")],
                    "ItemsWait",
                ),
                Panel(
                    "Abandoned items",
                    "Items whose agent is gone, not taken over yet.",
                    "short",
                    [(most("coordinator_abandoned_items"), "items")],
                    "ItemsAbandoned",
                ),
                Panel(
                    "Oldest abandoned item",
                    "Time since the first of these was abandoned.",
                    "s",
                    [(most("coordinator_oldest_abandoned_age_seconds"), "age")],
                    "ItemsAbandoned",
                ),
                Panel(
                    "Held back",
                    "Items in quarantine, in back-off after a failed attempt, and not ready before a time.",
                    "short",
                    [
                        (most("coordinator_quarantined_items"), "quarantined"),
                        (most("coordinator_backoff_items"), "in back-off"),
                        (most("coordinator_postponed_items"), "not before a time"),
                    ],
                    "ItemsQuarantined",
                ),
                Panel(
                    "Overdue items",
                    "Open items whose time to be done has passed.",
                    "short",
                    [(most("coordinator_overdue_items"), "items")],
                    "ItemsOverdue",
                ),
                Panel(
                    "Occurrences",
                    "Items made per second of templates; skipped: an earlier one is open.",
                    "ops",
                    [(rate("coordinator_occurrences_total", "outcome"), "{{outcome}}")],
                    "ItemsOverdue",
                ),
                Panel(
                    "Attempts",
                    "Claims per second that ended without taking the item further, by how.",
                    "ops",
                    [(rate("coordinator_attempts_total", "end"), "{{end}}")],
                    "ItemsQuarantined",
                ),
                Panel(
                    "Quarantines",
                    "Items that were quarantined, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_quarantines_total')}", "items")],
                    "ItemsQuarantined",
                ),
                Panel(
                    "Agents",
                    "Agents that claimed, renewed or waited in the last day, and names under which some are drained.",
                    "short",
                    [
                        (most("coordinator_agents_known"), "agents"),
                        (most("coordinator_agent_drains"), "drains"),
                    ],
                    "ItemsWait",
                ),
                Panel(
                    "Waiting agents",
                    "Claims that wait for an item (waitMs); if items are ready, their selectors do not match.",
                    "short",
                    [(gauge("coordinator_agents_waiting", "instance"), "{{instance}}")],
                    "ItemsWait",
                ),
                Panel(
                    "Waited, p90",
                    "How long claims waited for an item, by outcome; in order of arrival for each selector.",
                    "s",
                    [(quantile(0.9, "coordinator_claim_wait_seconds", "end"), "{{end}}")],
                    "ItemsWait",
                ),
            ),
        ),
        (
            "Runners",
            (
                Panel(
                    "Attempts of runners",
                    "Attempts of `fleet run` by what came of them, per minute; broken: the runner stopped.",
                    "short",
                    [(f"60 * {rate('coordinator_run_attempts_total', 'outcome')}", "{{outcome}}")],
                    "RunnersPaused",
                    width=6,
                ),
                Panel(
                    "Running and paused",
                    "Attempts that run now, and runners that claim nothing until one attempt succeeds.",
                    "short",
                    [
                        (gauge("coordinator_run_attempts_running"), "running"),
                        (gauge("coordinator_runs_paused"), "paused"),
                    ],
                    "RunnersPaused",
                    width=6,
                ),
                Panel(
                    "Duration of attempts, p90",
                    "From the claim to the end of the workspace.",
                    "s",
                    [(quantile(0.9, "coordinator_run_attempt_seconds"), "p90")],
                    "RunnersPaused",
                    width=6,
                ),
                Panel(
                    "Cost",
                    "What the commands say that they cost, per hour.",
                    "currencyUSD",
                    [(f"3600 * {rate('coordinator_run_cost_dollars_total')}", "cost")],
                    "RunnersPaused",
                    width=6,
                ),
                Panel(
                    "Refused usage",
                    "Attempts whose command says that it has used more than is counted, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_run_usage_refused_total', 'measure')}", "{{measure}}")],
                    "BudgetSpent",
                    width=6,
                ),
            ),
        ),
    ),
)
