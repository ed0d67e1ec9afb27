"""``fleet doctor`` says which conditions of alerts hold now."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.cli.commands import COMMANDS
from coordinator.cli.exits import Exit
from coordinator.doctor import alerts, connections, fleet, store
from coordinator.doctor.alerts import Gauges, check, read_gauges, unseen
from coordinator.doctor.findings import Finding, lines_of
from coordinator.metrics import SharedCells
from coordinator.metrics.conditions import CONDITIONS, REPORTED, UNCHECKED, Condition, Level
from coordinator.metrics_catalogue import CATALOGUE
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fleet.connection_states import ConnectionStatus
from coordinator.store.fleet.processes import Process, Processes, ProcessStatus
from tests.support.fleets import fleet_command

ALERTS = {one.alert: one for one in CONDITIONS}
GAUGES = {metric.name: metric for metric in CATALOGUE if metric.kind == "gauge"}
Series = Sequence[tuple[str, dict[str, str], float]]
"""Gauges to set."""


def at(level: Level, value: float) -> Series:
    """Gauges that make a level; labels that do not matter have any value, and each value of ``by`` its name."""
    label, values = level.where
    if level.how == "count":
        return [(level.gauge, labelled(level.gauge, **{level.by[0]: str(n)}), 1) for n in range(round(value))]
    if level.how == "max" or len(values) < 2:
        given = {label: values[0]} if label else {}
        return [(level.gauge, labelled(level.gauge, **given), value)]
    return [(level.gauge, labelled(level.gauge, **{label: one}), value / len(values)) for one in values]


def labelled(gauge: str, **given: str) -> dict[str, str]:
    return {one.name: given.get(one.name, one.values[0] if one.values else "any") for one in GAUGES[gauge].dimensions}


def around(condition: Condition) -> tuple[float, list[float]]:
    """A level at which a condition holds, and levels just beyond its bounds, at which it does not."""
    inside, outside = 0.0, list[float]()
    for sign, bound in condition.bounds:
        step = max(1.0, bound / 100) if bound >= 1 or bound == 0 else 0.01
        inside = bound + (step if sign == ">" else 0.0) if sign != "<" else inside
        outside += {">": [bound], "==": [bound + step], ">=": [bound - 0.01], "<": [bound]}[sign]
    return inside, outside


@contextmanager
def measured(folder: Path, gauges: Series, slot: str = "fe-0") -> Iterator[Gauges]:
    """What doctor reads of a process that measures this."""
    cells = SharedCells(folder / "run" / "metrics", slot)
    try:
        for gauge, labels, value in gauges:
            cells.number(GAUGES[gauge], labels).set(value)
        yield read_gauges(folder / "run" / "metrics")
    finally:
        cells.close()


@pytest.mark.parametrize("alert", ALERTS)
def test_each_condition_is_found_with_alert_and_runbook(tmp_path: Path, alert: str) -> None:
    condition = ALERTS[alert]
    inside, outside = around(condition)
    with measured(tmp_path, at(condition.level, inside)) as gauges:
        (found,) = [one for one in check(gauges, []) if one.alert == alert]
    assert found.verdict == ("note" if condition.lasting else {"page": "fails", "ticket": "warns"}[condition.severity])
    *_, last = lines_of([found])
    assert last == f"       alert {alert}; runbook deploy/runbooks/{condition.page}"
    assert (Path(__file__).parents[2] / found.runbook).exists()
    assert not any(sign in found.said for sign in "{}")
    for value in outside:
        with measured(tmp_path, at(condition.level, value)) as gauges:
            assert alert not in [one.alert for one in check(gauges, [])]


def test_texts_name_labels_and_values(tmp_path: Path) -> None:
    cells = SharedCells(tmp_path / "run" / "metrics", "fe-0")
    told = {
        "WebhookFails": "The webhook any takes no messages. The first that waits is 1:00:00 old.",
        "BudgetAlmostSpent": "The budget of a project is almost spent. 85.0% of the budget of any (day) is spent.",
        "NoFrontEnds": "No front-end process runs. The fleet serves no calls.",
        "ItemsOverdue": "Work items are not done at the time at which they are due. Open items that are overdue: 3.",
    }
    for alert, value in (("WebhookFails", 3600), ("BudgetAlmostSpent", 0.85), ("NoFrontEnds", 0), ("ItemsOverdue", 3)):
        for gauge, labels, number in at(ALERTS[alert].level, value):
            cells.number(GAUGES[gauge], labels).set(number)
    found = {one.alert: one.said for one in check(read_gauges(tmp_path / "run" / "metrics"), [])}
    cells.close()
    assert found == told


def test_what_another_check_has_looked_at_is_not_repeated(tmp_path: Path) -> None:
    """It reads the store, and knows of workers on all hosts."""
    with measured(tmp_path, at(ALERTS["NoWorkers"].level, 3)) as gauges:
        both = [one.alert for one in check(gauges, [])]
        looked = [one.alert for one in check(gauges, [Finding("ok", "steps.queues", "")])]
        told = [one.alert for one in check(gauges, [Finding("warns", "steps.queues", "", "", "StepsStay")])]
    assert (both, looked, told) == (["NoWorkers", "StepsStay"], ["StepsStay"], [""])


def test_processes_of_other_hosts_are_named(tmp_path: Path) -> None:
    here = socket.gethostname()
    running = Processes(
        0, [Process(here, "fe-0", 0, ProcessStatus("frontend")), Process("web-2", "fe-0", 0, ProcessStatus("frontend"))]
    )
    with measured(tmp_path, []) as gauges:
        (found,) = unseen(running, gauges)
    assert (found.verdict, found.said) == ("note", "the gauges of other processes were not looked at: web-2/fe-0")


def test_gauges_are_read_after_the_list_of_processes(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of a fleet that starts meanwhile are taken for another host's."""
    order = list[str]()

    async def listed(opened: Store) -> Processes:
        order.append("processes")
        return Processes(0, [])

    def gauges() -> Gauges:
        order.append("gauges")
        return Gauges({}, frozenset())

    monkeypatch.setattr(fleet, "read_processes", listed)
    asyncio.run(fleet.check_store(own_server.url, 5000, gauges=gauges))
    assert order == ["processes", "gauges"]


def test_alerts_on_rates_whose_state_another_check_finds() -> None:
    full = store.check({"used_memory": 10, "maxmemory": 10}, {}, 0.1, 0.0)
    used = ConnectionStatus("web", "mcp", "failing", "connection refused", 1, 1)
    found = [
        *full,
        *connections.check(Processes(2, [Process("h", "w-0", 0, ProcessStatus("worker", uses=[used]))]), {}),
    ]
    assert {one.alert: one.what for one in found if one.alert} == REPORTED


def test_gauges_of_another_user_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(directory: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(directory))

    monkeypatch.setattr(alerts, "owned", refused)
    assert read_gauges(tmp_path / "run" / "metrics") == Gauges({}, frozenset())


def test_help_names_what_is_not_checked() -> None:
    page = COMMANDS["doctor"].text
    missing = [one for one in UNCHECKED if not any(word in page for word in (one, _family(one)) if word)]
    assert not missing
    assert not [one for one in ALERTS if f" {one}," in page or f" {one}." in page]


def _family(alert: str) -> str:
    """Four alerts are one objective at four speeds."""
    return next((name for name in ("CallsFail", "ClaimsSlow") if alert.startswith(name)), "")


def test_the_command_says_all_at_once(tmp_path: Path, own_server: EmbeddedServer) -> None:
    gauges = [one for condition in CONDITIONS for one in at(condition.level, around(condition)[0])]
    # The last one counts: the budget is spent, and nearly.
    gauges.append((ALERTS["BudgetSpent"].level.gauge, {"project": "near", "period": "day"}, 0.9))
    with measured(tmp_path, gauges):
        place = str(tmp_path / "run" / "metrics")
        done = fleet_command("doctor", "--format", "json", FLEET_REDIS_URL=own_server.url, FLEET_METRICS_DIR=place)
    found = {one["alert"]: one for one in json.loads(done.stdout) if one.get("alert")}
    # Of these the store says more.
    assert found.keys() == ALERTS.keys() - {"ItemsAbandoned", "NoWorkers", "StoreGrows", "DrainForgotten"}
    assert found["StoreShardDown"]["verdict"] == "fails"
    assert found["BudgetAlmostSpent"]["runbook"] == "deploy/runbooks/BudgetSpent.md"
    assert done.returncode == Exit.FAILED
