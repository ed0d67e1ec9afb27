"""The page of the fleet's processes, drains and store."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Page, Route, expect

from coordinator import __version__
from coordinator.client import SyncFleet
from coordinator.console.graphs.layouts import Layouts
from coordinator.console.numbers.readings import held_conditions
from coordinator.console.reads import Reads
from coordinator.console.view import Visit
from coordinator.console.viewer import Viewer
from coordinator.console.views import system
from coordinator.metrics.conditions import Holding
from coordinator.metrics.samples import Samples
from coordinator.store import Store
from coordinator.store.fleet.drains import Drains, process_scope
from coordinator.toolsets.items.metrics.levels import QUARANTINED
from coordinator.toolsets.items.metrics.usage import PROJECT_BUDGET
from coordinator.webhooks.metrics import LAG
from tests.console.items import create
from tests.console.visitors import of_store
from tests.support.fleets import RunningFleet

DASHBOARDS = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"


def test_processes_report_what_they_do(console: Callable[..., Page], named: str) -> None:
    page = console(f"../../system?project={named}")
    fronts, workers = page.locator("[data-region='fronts'] tr"), page.locator("[data-region='workers'] tr")
    expect(fronts).to_have_count(2)
    expect(workers).to_have_count(1)
    expect(fronts.first).to_contain_text("fe-0")
    expect(fronts.first).to_contain_text(__version__)
    expect(fronts.first).to_contain_text("closed")
    expect(workers.first).to_contain_text("0 of 32")
    expect(page.get_by_text("Nothing is drained.")).to_be_visible()
    expect(page.locator("[data-key='persistence']")).to_contain_text("aof")
    expect(page.locator("[data-key='eviction']")).to_contain_text("noeviction")
    # The way back to the project that one came from.
    expect(page.get_by_role("link", name="Agents")).to_have_attribute("href", f"/console/p/{named}/agents")


def test_a_drain_appears_and_goes_without_a_reload(console: Callable[..., Page], running: RunningFleet) -> None:
    page = console("../../system")
    expect(page.get_by_text("Nothing is drained.")).to_be_visible()
    alert = page.locator("[data-region='alerts'] tr", has_text="DrainForgotten")
    scope = process_scope("elsewhere", "fe-9")
    of_store(running, lambda store: Drains(store).begin(scope))
    try:
        row = page.locator(f"[data-key='drain:{scope}']")
        expect(row).to_contain_text("fleet drain --host elsewhere --process fe-9 --end")
        expect(alert).to_contain_text("deploy/runbooks/DrainForgotten.md", timeout=30_000)
    finally:
        of_store(running, lambda store: Drains(store).end(scope))
    expect(row).to_have_count(0)
    expect(page.get_by_text("Nothing is drained.")).to_be_visible()


def test_states_of_projects_are_shown_to_those_who_see_them(running: RunningFleet) -> None:
    samples: Samples = {
        PROJECT_BUDGET.name: {
            frozenset({("project", name), ("period", "day")}): 1.5 for name in ("mine", "theirs", "other")
        },
        LAG.name: {frozenset({("webhook", "crm")}): 9e4},
        QUARANTINED.name: {frozenset(): 2.0},
    }

    def seen(projects: frozenset[str] | None) -> set[tuple[str, ...]]:
        async def read(store: Store) -> list[Holding]:
            reads = Reads(store, {}, cast(Any, None), None, samples=lambda: samples)
            return await held_conditions(Visit(Viewer(projects=projects), system.VIEW, "", "", {}, reads, Layouts()))

        return {(one.condition.alert, *one.labels.values()) for one in of_store(running, read)}

    everybody, mine = {("ItemsQuarantined",)}, ("BudgetSpent", "mine", "day")
    of_others = {("BudgetSpent", name, "day") for name in ("theirs", "other")} | {("WebhookFails", "crm")}
    assert seen(frozenset({"mine"})) == everybody | {mine}
    assert seen(None) == everybody | {mine} | of_others


def test_a_page_without_a_stream_says_when_it_is_old(console: Callable[..., Page], mishaps: list[str]) -> None:
    page = console("../../system")
    expect(page.locator("#live-text")).to_have_text("live")

    def fail(route: Route) -> None:
        route.fulfill(status=503, body="{}")

    page.route("**/system/~*", fail)
    expect(page.locator("#banner")).to_contain_text("the fleet does not answer")
    expect(page.locator("#live")).to_have_attribute("data-state", "away")
    expect(page.locator("[data-region='fronts'] tr")).to_have_count(2)
    page.unroute("**/system/~*")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator("#banner")).to_be_hidden()
    mishaps.clear()


def test_a_paused_page_stays_as_it_is(console: Callable[..., Page]) -> None:
    page = console("../../system")
    page.get_by_role("button", name="pause").click()
    expect(page.locator("#live-text")).to_have_text("paused")
    page.get_by_role("button", name="resume").click()
    with page.expect_response("**/system/~store"):
        pass
    expect(page.locator("#live-text")).to_have_text("live")


def test_boards_that_it_names_exist() -> None:
    titles = {json.loads(path.read_text())["title"] for path in DASHBOARDS.glob("*.json")}
    assert set(system.BOARDS) == titles


def test_a_page_says_when_the_store_is_away_and_goes_on_by_itself(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, mishaps: list[str]
) -> None:
    """Also a page that reads nothing meanwhile, because nothing happens."""
    page = console("board")
    expect(page.locator("#live-text")).to_have_text("live")
    # It stands still until both pages have said so, however long that takes here.
    stopped = running.state.store_pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    try:
        expect(page.locator("#banner")).to_contain_text("s old: the fleet does not answer")
        late = console("board")  # only now: what was read a moment ago is shown once more
        expect(late.get_by_text("This page tries again by itself.")).to_be_visible()
    finally:
        with contextlib.suppress(ProcessLookupError):  # the supervisor may have replaced it
            os.kill(stopped, signal.SIGCONT)
    expect(page.locator("#live-text")).to_have_text("live")
    expect(page.locator("#banner")).to_be_hidden()
    expect(late.get_by_role("heading", name="Board")).to_be_visible()
    (item,) = create(fleet, "one")
    expect(page.locator(f"[data-key='item:{item}']")).to_be_visible()
    mishaps.clear()
