"""The metrics of admission."""

from __future__ import annotations

from coordinator.metrics import OTHER, SLOT, Counter, Gauge, Histogram, Label

CLASS = Label("class", ("sheddable", "normal", "read", "critical"))
SHED = Counter(
    "coordinator_shed_total",
    "calls",
    "Calls shed to protect the fleet. over_capacity: no room, and the queue was full; queue_timeout: no room in time; "
    "actor_quota: more than the caller's share; store_unavailable: the store does not answer; draining: an operator "
    "asked for it.",
    (
        CLASS,
        Label("reason", ("over_capacity", "queue_timeout", "actor_quota", "store_unavailable", "draining", OTHER)),
    ),
    starts_in="frontend",
)
ADMISSION_QUEUE = Histogram(
    "coordinator_admission_queue_seconds",
    "seconds",
    "Time that calls waited for room before they were admitted; those that did not wait are not counted.",
    (CLASS,),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)
CONCURRENCY_LIMIT = Gauge(
    "coordinator_concurrency_limit",
    "calls",
    "How many calls each front-end admits to the store at a time; it falls when the store slows down.",
    (SLOT,),
)
CALLS_AT_WORK = Gauge(
    "coordinator_calls_at_work",
    "calls",
    "Calls that each front-end has admitted and not answered yet, which coordinator_concurrency_limit limits. Claims "
    "and reads that wait, and streams, are not among them.",
    (SLOT,),
)
SATURATION = Gauge(
    "coordinator_saturation",
    "ratio",
    "coordinator_calls_at_work divided by the limit, of the busiest front-end: how busy a host is. For autoscaling.",
    merge="max",
)
ADMISSION_WAITING = Gauge(
    "coordinator_admission_waiting", "calls", "Calls in the queue of each front-end now.", (SLOT,)
)
BREAKER_STATE = Gauge(
    "coordinator_store_breaker",
    "processes",
    "Front-ends by the state of their circuit breaker over the store.",
    (Label("state", ("closed", "open", "half-open")),),
)


def report(at_work: int, limit: int, waiting: int, breaker: str) -> None:
    """Records the present state of the admission of this process."""
    CONCURRENCY_LIMIT.set(limit)
    CALLS_AT_WORK.set(at_work)
    SATURATION.set(at_work / limit)
    ADMISSION_WAITING.set(waiting)
    BREAKER_STATE.set_one(breaker)
