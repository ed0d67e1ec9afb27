"""What operators do in the console to processes, agents and claims."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from coordinator.store.fleet.drains import FLEET_SCOPE, Drains
from tests.console.items import claim, create
from tests.console.visitors import link, of_store
from tests.support.fleets import RunningFleet


@pytest.fixture
def system(running: RunningFleet, console: Callable[..., Page]) -> Callable[[], Page]:
    """Opens the page of the system as an operator."""

    def opened() -> Page:
        page = console("agents")
        page.goto(f"{running.state.base_url}{link(running)}&next=/console/system")
        return page

    return opened


def confirm(page: Page, name: str, reason: str, typed: str = "") -> None:
    asks = page.get_by_role("dialog")
    asks.get_by_label("Reason").fill(reason)
    if typed:
        asks.get_by_label("Type").fill(typed)
    asks.get_by_role("button", name=name).click()


def test_an_agent_is_drained_and_its_claim_ended(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Slow")
    claim(fleet, item)
    page = person("agents")
    row = page.locator("[data-key='agent:orchestrator']")
    row.get_by_role("button", name="Drain").click()
    confirm(page, "Drain", "it loops")
    expect(row).to_contain_text("drained")
    row.get_by_role("button", name="End claim").click()
    confirm(page, "End claim", "it loops")
    expect(row.get_by_role("button", name="End claim")).to_have_count(0)
    outcome = fleet.call("claim_item", {"claims": [{"itemId": item}]})["claimResults"][0]["outcome"]
    assert outcome != "success"
    row.get_by_role("button", name="End drain").click()
    confirm(page, "End drain", "mended")
    expect(row.get_by_role("button", name="Drain", exact=True)).to_be_visible()
    claim(fleet, item)


def test_a_process_is_drained_with_a_reason_that_is_kept(
    system: Callable[[], Page], fleet: SyncFleet, named: str
) -> None:
    create(fleet, "Waits")
    page = system()
    workers = page.locator("[data-region=workers]")
    workers.get_by_role("button", name="Drain w-0").click()
    confirm(page, "Drain w-0", "new memory")
    expect(page.locator("[data-region=drains]")).to_contain_text("w-0")
    expect(page.locator("[data-region=acts]")).to_contain_text("new memory")
    expect(workers.get_by_role("button", name="Drain w-0")).to_have_count(0)
    page.goto(page.url.replace("system", f"p/{named}/overview"))
    expect(page.locator("[data-key=why] .bad").first).to_have_text("1 drained")  # reads may have been shed before
    page.go_back()
    page.locator("[data-region=drains]").get_by_role("button", name="End drain").click()
    confirm(page, "End drain", "it has its memory")
    expect(workers.get_by_role("button", name="Drain w-0")).to_be_visible()


def test_the_fleet_is_drained_by_its_name_only_and_that_can_be_ended_here(
    system: Callable[[], Page], running: RunningFleet
) -> None:
    page = system()
    page.get_by_role("button", name="Drain the fleet").click()
    confirm(page, "Drain the fleet", "maintenance", "fleed")
    expect(page.get_by_role("alert")).to_have_text("Type fleet to go on: this changes all processes.")
    try:
        confirm(page, "Drain the fleet", "maintenance", "fleet")
        expect(page.locator("[data-region=drains]")).to_contain_text("fleet")
        expect(page.locator("[data-region=fronts]").get_by_text("drained")).to_have_count(2)  # all have noticed
        page.reload()
        page.locator("[data-region=drains]").get_by_role("button", name="End drain").click()
        confirm(page, "End drain", "done")
        expect(page.get_by_text("Nothing is drained.")).to_be_visible()
    finally:
        of_store(running, lambda store: Drains(store).end(FLEET_SCOPE))


def test_others_see_no_buttons_of_operators(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Slow")
    claim(fleet, item)
    page = console("agents")
    expect(page.locator("[data-key='agent:orchestrator']")).to_be_visible()
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)
    expect(page.get_by_role("button", name="End claim")).to_have_count(0)
