"""The page of agents."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet


def test_a_claim_appears_and_goes_without_a_reload(console: Callable[..., Page], fleet: SyncFleet) -> None:
    fleet.call("manage_items", {"operation": "create", "items": [{"title": "Parse <b>it</b>"}]})
    page = console("agents")
    expect(page.get_by_text("No agent has claimed or waited here")).to_be_visible()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    claimed = fleet.call("claim_item", {"claims": [{"selector": {}}]})["claimResults"][0]
    row = page.locator("[data-key='agent:orchestrator']")
    expect(row).to_contain_text("holds")
    expect(row.locator("time[data-left]")).to_contain_text("left")
    expect(page.get_by_text("No agent has claimed or waited here")).to_be_hidden()
    fleet.call("claim_item", {"releases": [{"itemId": claimed["itemId"], "fenceToken": claimed["fenceToken"]}]})
    expect(row).to_contain_text("idle")
