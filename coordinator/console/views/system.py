"""System: the processes of the fleet and their limits, states that alerts are about, what is drained, and the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import htpy
from htpy import Node, code, div, dl, h2, section, span, tr

from coordinator.console.acts.buttons import MODULE
from coordinator.console.acts.operating import drain_button, end_drain_button
from coordinator.console.numbers.readings import FleetState, fleet_state, held_conditions, store_facts
from coordinator.console.parts import ago, chip, number, plain, short, spaced
from coordinator.console.tables import cell, table_part
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, region_element
from coordinator.metrics.conditions import CONDITIONS, Condition
from coordinator.operations import ActRecord, AuditLog
from coordinator.operations.log import PAGE
from coordinator.store.facts import StoreFacts
from coordinator.store.fleet.drains import FLEET_SCOPE, ending
from coordinator.store.fleet.processes import Process, ProcessStatus
from coordinator.units import size

SECONDS = 5
BOARDS = (
    "Fleet: service",
    "Fleet: contention and shedding",
    "Fleet: workflows and workers",
    "Fleet: store",
    "Fleet: resources, usage and budgets",
    "Fleet: people and identity",
)
"""The dashboards of deploy/grafana."""
_LATE_MS = 100
"""A lag of the event loop from which answers are noticeably slow."""
_FULL = 0.9
_ACTS = 50
"""Records of the log that are shown."""

_FRONT_ENDS = (
    "front-end", "version", "runs since", "settings", "calls at work", "waiting", "parked", "connections", "shed/s",
    "breaker", "lag",
)  # fmt: skip
_WORKERS = ("worker", "version", "runs since", "settings", "steps", "done/min", "failed/min", "lag")

_NUMBERS = (
    "calls at work", "waiting", "parked", "connections", "shed/s", "steps", "done/min", "failed/min", "lag",
)  # fmt: skip


async def _front_ends(visit: Visit) -> Rows:
    fleet = await fleet_state(visit)
    return Rows([
        Row(_name(process), [*_process(visit, fleet, process, status, "front-end"), *_front_end(status)])
        for process, status in fleet.running("frontend")
    ], head=_differences(fleet))  # fmt: skip


async def _workers(visit: Visit) -> Rows:
    fleet = await fleet_state(visit)
    return Rows([
        Row(_name(process), [*_process(visit, fleet, process, status, "worker"), *_worker(status)])
        for process, status in fleet.running("worker")
    ], head=_silent(fleet))  # fmt: skip


def _name(process: Process) -> str:
    return f"{process.host}/{process.slot}"


def _process(visit: Visit, fleet: FleetState, process: Process, status: ProcessStatus, kind: str) -> Iterator[Node]:
    scope = f"process:{_name(process)}"
    yield cell(kind)[
        spaced(
            code[plain(_name(process))],
            span(".dim")[f"pid {status.pid}"],
            *_remarks(fleet, process, status),
            drain_button(visit, scope, process.slot) if scope not in fleet.drains else None,
        )
    ]
    yield cell("version")[plain(status.version)]
    yield cell("runs since")[ago(status.started_at)]
    yield cell("settings")[code(title=status.config_version)[short(status.config_version)]]


def _remarks(fleet: FleetState, process: Process, status: ProcessStatus) -> Iterator[Node]:
    if status.drained:
        yield chip("drained", "warning", f"as {status.drained}: it takes no new work")
    elif status.paused:
        yield chip("paused", "warning", "it takes no steps")
    if status.stopping:
        yield chip("stopping", "warning", "it finishes what it has begun")
    if fleet.is_silent(process):
        yield chip("silent", "trouble", "it has not reported in time")


def _front_end(status: ProcessStatus) -> Iterator[Node]:
    full = bool(status.limit) and status.in_flight >= _FULL * status.limit
    yield cell("calls at work", ".number")[
        span(".bad" if full else "")[f"{number(status.in_flight)} of {number(status.limit)}"]
    ]
    yield cell("waiting", ".number")[number(status.waiting)]
    yield cell("parked", ".number")[number(status.parked)]
    yield cell("connections", ".number")[number(status.connections)]
    shed = [f"{name} {rate:,.4g}" for name, rate in sorted(status.shed_per_second.items())]
    yield cell("shed/s", ".number")[span(".bad")[", ".join(shed)] if shed else "0"]
    yield cell("breaker")[status.breaker if status.breaker == "closed" else chip(status.breaker, "trouble")]
    yield _lag(status)


def _worker(status: ProcessStatus) -> Iterator[Node]:
    yield cell("steps", ".number")[f"{number(status.running)} of {number(status.slots)}"]
    yield cell("done/min", ".number")[f"{status.done_per_minute:,.4g}"]
    failed = f"{status.failed_per_minute:,.4g}"
    yield cell("failed/min", ".number")[span(".bad")[failed] if status.failed_per_minute else failed]
    yield _lag(status)


def _lag(status: ProcessStatus) -> Node:
    return cell("lag", ".number")[span(".bad" if status.lag_ms >= _LATE_MS else "")[f"{status.lag_ms:,.0f} ms"]]


def _differences(fleet: FleetState) -> Node:
    """What processes should agree on and do not."""
    statuses = [process.status for process in fleet.processes.running if process.status is not None]
    settings = {
        "releases": {status.version for status in statuses},
        "versions of the settings": {status.config_version for status in statuses},
    }
    return [chip(f"{len(values)} {what}", "warning") for what, values in settings.items() if len(values) > 1]


def _silent(fleet: FleetState) -> Node:
    """Processes whose last report is gone, so that nobody knows what they are."""
    names = [_name(process) for process in fleet.processes.running if process.status is None]
    return [chip(f"{name} silent", "trouble", "it has hung, or has just ended") for name in names]


async def _drains(visit: Visit) -> Rows:
    fleet = await fleet_state(visit)
    return Rows([
        Row(f"drain:{scope}", [
            cell("what")[plain(scope)],
            cell("since")[ago(since)],
            cell("ends by")[
                code(data_copy=ending(scope), tabindex="0")[ending(scope)], " ", end_drain_button(visit, scope)
            ],
        ])
        for scope, since in sorted(fleet.drains.items())
    ])  # fmt: skip


async def _alerts(visit: Visit) -> Rows:
    conditions = await held_conditions(visit)
    return Rows([
        Row(":".join(("alert", condition.condition.alert, *condition.labels.values())), [
            cell("alert")[_severity(condition.condition), " ", condition.condition.alert],
            cell("state")[plain(condition.summary), " ", span(".dim")[plain(condition.description)]],
            cell("runbook")[code[f"deploy/runbooks/{condition.condition.page}"]],
        ])
        for condition in conditions
    ])  # fmt: skip


def _severity(condition: Condition) -> Node:
    if condition.lasting:
        return chip("if it lasts", "", "the alert comes when it has lasted")
    return chip(condition.severity, "trouble" if condition.severity == "page" else "warning")


async def _acts(visit: Visit) -> Rows:
    log = AuditLog(visit.reads.store)
    records = await visit.reads.vital("what operators did", lambda: log.last(_ACTS, scanned=PAGE))
    visible = [act for act in reversed(records) if not act.project or visit.viewer.sees(act.project)]
    return Rows([
        Row(f"act:{act.entry}", [
            cell("when")[ago(act.at)],
            cell("who")[plain(act.who.id)],
            cell("what")[act.action.replace("_", " "), " ", code[plain(act.target.id)], " ", _outcome(act)],
            cell("project")[act.project],
            cell("why")[plain(act.reason)],
        ])
        for act in visible
    ])  # fmt: skip


def _outcome(act: ActRecord) -> Node:
    said = span(".dim")[plain(act.detail)]
    if act.outcome == "allowed":
        return said
    return [chip("perhaps not done" if act.outcome == "unknown" else act.outcome, "warning"), " ", said]


async def _store(visit: Visit) -> Rows:
    return Rows([Row(name, [htpy.dt[name], htpy.dd[value]]) for name, value in _facts(await store_facts(visit))])


def _facts(facts: StoreFacts) -> Iterator[tuple[str, Node]]:
    yield (
        "server",
        f"{facts.name} {facts.version}, up {facts.uptime_seconds // 86_400} d {facts.uptime_seconds // 3600 % 24} h",
    )
    full = bool(facts.memory_limit_bytes) and facts.memory_bytes >= _FULL * facts.memory_limit_bytes
    limit = f" of {size(facts.memory_limit_bytes)}" if facts.memory_limit_bytes else ", no limit"
    yield (
        "memory",
        [
            span(".bad" if full else "")[f"{size(facts.memory_bytes)}{limit}"],
            f", at most {size(facts.memory_peak_bytes)} so far",
        ],
    )
    evicts = facts.eviction != "noeviction"
    yield "eviction", [facts.eviction, [" ", chip("may lose keys", "trouble")] if evicts else None]
    yield "keys", number(facts.keys)
    yield "clients", f"{number(facts.clients)}, {number(facts.blocked_clients)} of them blocked"
    yield "commands", f"{number(facts.commands_per_second)} a second"
    yield (
        "persistence",
        [
            facts.persistence,
            [" ", chip("writes fail", "trouble")] if not facts.persistence_ok else None,
            [", last snapshot ", ago(facts.last_snapshot_at * 1000)] if facts.last_snapshot_at else None,
        ],
    )
    yield "replicas", number(facts.replicas)
    yield "answers in", f"{facts.latency_ms:,.1f} ms, {number(facts.in_flight)} commands on their way"


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    part = partial(table_part, visit, regions, numbers=_NUMBERS)
    return [
        part("fronts", "Front-ends", _FRONT_ENDS, "No front-end has reported in the last seconds."),
        part(
            "workers", "Workers", _WORKERS,
            ["No worker runs, so steps of flows wait. Start one: ", code(data_copy="fleet worker")["fleet worker"]],
        ),
        part(
            "alerts", "Alerts on states", ("alert", "state", "runbook"),
            f"None of {len(CONDITIONS)} states that alerts are about holds, as processes of this host measure them.",
        ),
        part("drains", "Drains", ("what", "since", "ends by"), "Nothing is drained."),
        div(".actions")[drain_button(visit, FLEET_SCOPE, "the fleet")],
        part("acts", "What operators did", ("when", "who", "what", "project", "why"), "Nothing by hand so far."),
        section(".fleet-part", aria_labelledby="of-store")[
            h2(id="of-store")["Store"], region_element(visit, "store", regions, dl, class_="fleet-facts")
        ],
        htpy.p(".dim")["Charts over time are in Grafana: ", ", ".join(BOARDS), "."],
    ]  # fmt: skip


VIEW = View(
    "system",
    "System",
    _body,
    {
        "fronts": Region(_front_ends, (), tr, seconds=SECONDS, personal=True),
        "workers": Region(_workers, (), tr, seconds=SECONDS, personal=True),
        "alerts": Region(_alerts, (), tr, seconds=SECONDS, personal=True),
        "drains": Region(_drains, (), tr, seconds=SECONDS, personal=True),
        "acts": Region(_acts, (), tr, seconds=SECONDS, personal=True),
        "store": Region(_store, (), div, seconds=SECONDS),
    },
    of_project=False,
    of_fleet=True,
    query=("project",),
    modules=(MODULE,),
)
