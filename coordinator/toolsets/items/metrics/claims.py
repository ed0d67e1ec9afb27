"""The metrics of claims and of attempts on items."""

from __future__ import annotations

from coordinator.metrics import OTHER, SLOT, Counter, Gauge, Histogram, Label

CLAIMS = Counter(
    "coordinator_claims_total",
    "claims",
    "Claim attempts by outcome; replays of a repeated call do not count. success: an item was claimed; renewed: the "
    "agent held it already (heartbeats).",
    (
        Label(
            "outcome",
            (
                "success",
                "renewed",
                "already_claimed",
                "agent_draining",
                "project_paused",
                "budget_exhausted",
                "resource_busy",
                "not_found",
                "terminal_item",
                "stale_fence",
                "superseded",
                "no_match",
                "rejected_by_policy",
                OTHER,
            ),
        ),
    ),
    starts_in="frontend",
)
CLAIM_HOLD = Histogram(
    "coordinator_claim_hold_seconds",
    "seconds",
    "How long claims were held, from an agent's first claim of an item to its end. completed: the item ended under the "
    "claim (completed or cancelled), at that moment; released: given back, or let go for another claim; expired: "
    "it was not renewed. Each claim counts once: what follows when its item has ended, or is reopened under it, does "
    "not. Counted in the store, and collected every few seconds by one front-end of the fleet.",
    (Label("end", ("completed", "released", "expired")),),
    (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0),
    starts_in="frontend",
)
CLAIM_LOSERS = Histogram(
    "coordinator_claim_losers",
    "claims",
    "How many claims of others failed while a claim was held, from an agent's first claim of an item to its end. "
    "Counted by claim in the store, across front-ends, and collected with coordinator_claim_hold_seconds when the "
    "claim has ended.",
    (),
    (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0),
    starts_in="frontend",
)
AGENTS_WAITING = Gauge(
    "coordinator_agents_waiting",
    "claims",
    "Claims that wait for an item (waitMs) in each front-end now.",
    (SLOT,),
    starts_in="frontend",
)
CLAIM_WAIT = Histogram(
    "coordinator_claim_wait_seconds",
    "seconds",
    "How long claims waited for an item (waitMs), in order of arrival for each selector: times vary with how rare the "
    "wanted items are. served: an item was handed over; in_vain: none came in time; ended: the caller disconnected, "
    "or had to use another front-end.",
    (Label("end", ("served", "in_vain", "ended")),),
    (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0),
    starts_in="frontend",
)
ENDS = ("expired", "taken_over", "failed", "gave_up", "hopeless")
ATTEMPTS = Counter(
    "coordinator_attempts_total",
    "attempts",
    "Claims that ended in work or review without taking the item further. expired: it was not renewed; taken_over: the "
    "same, as another agent's claim showed; failed, gave_up, hopeless: released with this reason. Counted in the "
    "store, and collected every few seconds by one front-end of the fleet.",
    (Label("end", ENDS),),
)
QUARANTINES = Counter(
    "coordinator_quarantines_total",
    "items",
    "Items that were quarantined: as many attempts as allowed have failed, or one was hopeless. Collected with "
    "coordinator_attempts_total.",
    starts_in="frontend",
)
