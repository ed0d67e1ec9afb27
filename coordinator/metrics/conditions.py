"""The states that an alert is about: one table for the alerts of Prometheus, ``fleet doctor`` and the console.

Each row is a condition on gauges, so it holds or not at any moment. deploy/prometheus/alerts.yml has the same
expression, severity, texts and runbook (tests/deploy compares them), and adds for how long the state has to last.
Alerts on rates and latencies have no row: one look cannot see these (``UNCHECKED``).

A new alert on a state needs a row here, its rule in alerts.yml, a case in tests/deploy/test_alerts.py and a runbook.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from coordinator.metrics.samples import Samples

Severity = Literal["page", "ticket"]
Unit = Literal["count", "seconds", "ratio"]
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "==": operator.eq
}  # fmt: skip
_TEMPLATES: dict[Unit, str] = {
    "count": "{{ $value }}",
    "seconds": "{{ $value | humanizeDuration }}",
    "ratio": "{{ $value | humanizePercentage }}",
}
_PLACE = re.compile(r"\{(\w+)(?::([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Level:
    """A number for each fleet, computed from a gauge.

    Args:
        how: of its series the sum, the largest, or how many different values of the label ``by`` are at 1.
        where: only series with one of these values of a label.
        by: a number for each value of this label.
    """

    how: Literal["sum", "max", "count"]
    gauge: str
    where: tuple[str, tuple[str, ...]] = ("", ())
    by: tuple[str, ...] = ()

    @property
    def expr(self) -> str:
        """In PromQL."""
        label, values = self.where
        match = f'{{{label}{"=~" if len(values) > 1 else "="}"{"|".join(values)}"}}' if label else ""
        by = ", ".join(("fleet", *self.by))
        if self.how == "count":
            return f"count by (fleet) (max by ({by}) ({self.gauge}{match}) == 1)"
        return f"{self.how} by ({by}) ({self.gauge}{match})"

    def of(self, samples: Samples) -> dict[tuple[str, ...], float]:
        """The numbers by the values of the labels ``by``; empty: there are no such series."""
        label, values = self.where
        groups: dict[tuple[str, ...], list[float]] = {}
        for labels, value in samples.get(self.gauge, {}).items():
            named = dict(labels)
            if not label or named.get(label) in values:
                groups.setdefault(tuple(named.get(name, "") for name in self.by), []).append(value)
        if self.how == "count":
            at_one = sum(max(each) == 1 for each in groups.values())
            return {(): float(at_one)} if groups else {}
        return {key: sum(each) if self.how == "sum" else max(each) for key, each in groups.items()}


@dataclass(frozen=True, slots=True)
class Condition:
    """A state that is worth an alert.

    Args:
        alert: the name of the alert.
        severity: of the alert.
        bounds: the condition on the level.
        summary: what is wrong. Labels are in braces, with what is said if there is none: ``{instance:The host}``.
        description: more of it; ``{value}`` is the level, in ``unit``.
        unless: it does not hold while this level is above 0.
        or_else: a further condition, in PromQL, that only Prometheus can see.
        runbook: the page that says what to do, without its suffix; the alert's name if empty.
        lasting: it is a trouble only if it lasts, so a single look notes it and no more.
        told_by: the check of ``fleet doctor`` that knows more about it than the gauge says.
    """

    alert: str
    severity: Severity
    level: Level
    summary: str
    description: str
    bounds: tuple[tuple[str, float], ...] = ((">", 0),)
    unit: Unit = "count"
    unless: Level | None = None
    or_else: str = ""
    runbook: str = ""
    lasting: bool = False
    told_by: str = ""

    @property
    def page(self) -> str:
        """The file of the runbook, in deploy/runbooks."""
        return f"{self.runbook or self.alert}.md"

    @property
    def expr(self) -> str:
        """In PromQL, on one line."""
        parts = [self.level.expr, *(f"{sign} {bound:g}" for sign, bound in self.bounds)]
        if self.unless is not None:
            parts += ["unless", self.unless.expr, "> 0"]
        if self.or_else:
            parts += ["or", self.or_else]
        return " ".join(parts)

    def template(self, text: str) -> str:
        """A text of this condition as a template of Prometheus."""

        def placed(place: re.Match[str]) -> str:
            name, other = place.groups()
            if name == "value":
                return _TEMPLATES[self.unit]
            return f'{{{{ or $labels.{name} "{other}" }}}}' if other else f"{{{{ $labels.{name} }}}}"

        return _PLACE.sub(placed, text)


class Holding(NamedTuple):
    """A condition that holds."""

    condition: Condition
    value: float
    labels: dict[str, str]

    @property
    def summary(self) -> str:
        return self._filled(self.condition.summary)

    @property
    def description(self) -> str:
        return self._filled(self.condition.description)

    def _filled(self, text: str) -> str:
        named = {**self.labels, "value": _shown(self.value, self.condition.unit)}
        return _PLACE.sub(lambda found: named.get(found[1]) or found[2] or "", text)


def holding(samples: Samples) -> Iterator[Holding]:
    """The conditions of the table that hold.

    Args:
        samples: the metrics of one host or more of one fleet.
    """
    for condition in CONDITIONS:
        level = condition.level
        if condition.unless is not None and any(value > 0 for value in condition.unless.of(samples).values()):
            continue
        for key, value in level.of(samples).items():
            if all(_COMPARE[sign](value, bound) for sign, bound in condition.bounds):
                yield Holding(condition, value, dict(zip(level.by, key, strict=False)))


def _shown(value: float, unit: Unit) -> str:
    if unit == "seconds":
        return str(dt.timedelta(seconds=round(value)))
    return f"{value:.1%}" if unit == "ratio" else f"{value:.10g}"


_BUDGET = Level("max", "coordinator_project_budget_spent_ratio", by=("project", "period"))
_BUDGET_SPENT = "{value} of the budget of {project} ({period}) is spent."
_MEMORY = Level("max", "coordinator_store_memory_ratio")
_DISK = Level("max", "coordinator_store_disk_free_ratio", by=("instance",))
_QUEUED = Level("max", "coordinator_steps_queued")


def _in_a_day(series: str, bound: str, six_hours_ago: str) -> str:
    """In PromQL: as for six hours, and for the last one, a level is beyond a bound in a day. Neither one step, such as
    an import, nor a fleet that has just begun is a slope."""
    slopes = (f"predict_linear({series}[{time}:5m], 86400) {bound}" for time in ("6h", "1h"))
    return " and ".join((*slopes, six_hours_ago))


CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "NoFrontEnds",
        "page",
        Level("sum", "coordinator_processes", ("role", ("frontend",)), by=("instance",)),
        "No front-end process runs.",
        "{instance:The fleet} serves no calls.",
        bounds=(("==", 0),),
        # Only workers are scraped, because no front-end pod is left.
        or_else='max by (fleet) (up{job="coordinator"}) == 1 unless on (fleet) coordinator_processes{role="frontend"}',
    ),
    Condition(
        "StoreUnavailable",
        "page",
        Level("sum", "coordinator_store_breaker", ("state", ("open",))),
        "The Redis does not answer.",
        "Calls fail with store_unavailable.",
        or_else='sum by (fleet) (rate(coordinator_store_errors_total{kind="unavailable"}[1m])) > 0',
    ),
    Condition(
        "StoreChanged",
        "page",
        Level("sum", "coordinator_store_changed"),
        "The Redis was replaced or emptied; every call is refused.",
        "Processes that found another Redis, or an emptied one: {value}.",
    ),
    Condition(
        "StoreShardDown",
        "page",
        Level("sum", "coordinator_store_shard_away", by=("shard",)),
        "A shard of the store does not answer.",
        "Front-ends without a connection to shard {shard}: {value}.",
    ),
    Condition(
        "StoreSlotsUncovered",
        "page",
        Level("max", "coordinator_store_slots_uncovered"),
        "No node of the store has some of its slots.",
        "Slots that no node has: {value}; calls for the projects there fail.",
    ),
    Condition(
        "StoreGrows",
        "ticket",
        _MEMORY,
        "The Redis will soon take no writes: its memory is almost used up.",
        "{value} of maxmemory is used.",
        bounds=((">", 0.8),),
        unit="ratio",
        # It is 0 until a front-end has measured it.
        or_else=f"{_MEMORY.expr} > 0.5 and "
        + _in_a_day(f"({_MEMORY.expr} > 0)", "> 1", "max by (fleet) (coordinator_store_memory_ratio offset 6h) > 0"),
        told_by="store.memory",
    ),
    Condition(
        "StoreDiskFills",
        "ticket",
        _DISK,
        "The disk of the embedded Redis is almost full.",
        "{value} of the disk of {instance:the host} is left.",
        bounds=(("<", 0.1),),
        unit="ratio",
        or_else=f"{_DISK.expr} < 0.5 and "
        + _in_a_day(_DISK.expr, "< 0", "max by (fleet, instance) (coordinator_store_disk_free_ratio offset 6h)"),
    ),
    Condition(
        "DrainForgotten",
        "ticket",
        Level("max", "coordinator_process_drains"),
        "Processes are drained for long: they take no new work.",
        "Drains that nobody has ended: {value}.",
        lasting=True,
        told_by="fleet.drains",
    ),
    Condition(
        "ItemsWait",
        "ticket",
        Level("max", "coordinator_oldest_ready_age_seconds"),
        "Ready work items are not claimed.",
        "The oldest one is {value} old.",
        bounds=((">", 14400),),
        unit="seconds",
    ),
    Condition(
        "ItemsAbandoned",
        "ticket",
        Level("max", "coordinator_oldest_abandoned_age_seconds"),
        "Abandoned work items are not taken over.",
        "The first one was abandoned {value} ago.",
        bounds=((">", 900),),
        unit="seconds",
        told_by="items.abandoned",
    ),
    Condition(
        "ItemsQuarantined",
        "ticket",
        Level("max", "coordinator_quarantined_items"),
        "Work items are quarantined because agents keep failing with them, or call them hopeless.",
        "Items that wait to be resumed or cancelled: {value}.",
    ),
    Condition(
        "ItemsOverdue",
        "ticket",
        Level("max", "coordinator_overdue_items"),
        "Work items are not done at the time at which they are due.",
        "Open items that are overdue: {value}.",
    ),
    Condition(
        "ResourceBusy",
        "ticket",
        Level("max", "coordinator_resource_wait_seconds", by=("resource",)),
        "Items wait for a resource, and none of them gets it.",
        "For {value} callers have passed over items that demand {resource}.",
        bounds=((">", 1800),),
        unit="seconds",
    ),
    Condition(
        "BudgetAlmostSpent",
        "ticket",
        _BUDGET,
        "The budget of a project is almost spent.",
        _BUDGET_SPENT,
        bounds=((">", 0.8), ("<", 1)),
        unit="ratio",
        runbook="BudgetSpent",
    ),
    Condition(
        "BudgetSpent",
        "ticket",
        _BUDGET,
        "The budget of a project is spent: nothing in it is claimed any more.",
        _BUDGET_SPENT,
        bounds=((">=", 1),),
        unit="ratio",
    ),
    Condition(
        "RunnersPaused",
        "ticket",
        Level("sum", "coordinator_runs_paused"),
        "Runners claim nothing, because no attempt succeeds.",
        "Runners that are paused: {value}.",
    ),
    Condition(
        "WebhookDisabled",
        "ticket",
        Level("sum", "coordinator_webhooks", ("state", ("disabled", "unusable"))),
        "Nothing is sent to a webhook any more.",
        "Webhooks that are disabled, or have no secret: {value}.",
    ),
    Condition(
        "WebhookFails",
        "ticket",
        Level("max", "coordinator_webhook_lag_seconds", by=("webhook",)),
        "The webhook {webhook} takes no messages.",
        "The first that waits is {value} old.",
        bounds=((">", 1800),),
        unit="seconds",
    ),
    Condition(
        "IdentityDegraded",
        "ticket",
        Level("sum", "coordinator_identity_state", ("state", ("stale", "unavailable"))),
        "Keys that verify actors cannot be refreshed.",
        "The degraded-mode policy decides who is trusted.",
    ),
    Condition(
        "KeysOld",
        "ticket",
        Level("max", "coordinator_identity_key_age_seconds", by=("source",)),
        "Keys have not been refreshed for more than an hour.",
        "Those of {source} are {value} old.",
        bounds=((">", 3600),),
        unit="seconds",
    ),
    Condition(
        "ConfigsDiffer",
        "ticket",
        Level("count", "coordinator_config_info", by=("version",)),
        "Processes run with different settings.",
        "Some processes rejected or missed a reload, or a host has another file.",
        bounds=((">", 1),),
    ),
    Condition(
        "NoWorkers",
        "page",
        _QUEUED,
        "Steps wait and no worker runs.",
        "Steps that wait: {value}.",
        unless=Level("sum", "coordinator_processes", ("role", ("worker",))),
        told_by="steps.queues",
    ),
    Condition(
        "ApprovalsWait",
        "ticket",
        Level("max", "coordinator_oldest_approval_age_seconds"),
        "Workflows wait for decisions of people, and nobody decides.",
        "The first approval was asked for {value} ago.",
        bounds=((">", 259200),),
        unit="seconds",
    ),
    Condition(
        "StepsStay",
        "ticket",
        _QUEUED,
        "The queues of steps never drain.",
        "Steps that wait now: {value}. Does a worker serve their pool?",
        lasting=True,
    ),
)

UNCHECKED = (
    "CallsFailFast",
    "CallsFailMedium",
    "CallsFailSlow",
    "CallsFailCreeping",
    "ClaimsSlowFast",
    "ClaimsSlowMedium",
    "ClaimsSlowSlow",
    "ClaimsSlowCreeping",
    "FleetNotScraped",
    "ProcessesRestart",
    "StoreWentBack",
    "ForeignFunctions",
    "StoreRedirects",
    "StoreSlow",
    "CriticalCallsShed",
    "SheddingForLong",
    "EventLoopLate",
    "StaleFences",
    "RequestIdsReused",
    "HighContention",
    "ClaimsExpire",
    "FeedLate",
    "EventsTrimmed",
    "ReloadRefused",
    "StepsWait",
    "LeasesLost",
)
"""The alerts that one look at a fleet cannot see: they are on rates and latencies, or on what only Prometheus knows."""

REPORTED = {"StoreFull": "store.memory", "ConnectionFails": "connections"}
"""Alerts on rates whose state a check of ``fleet doctor`` finds, and that check."""
