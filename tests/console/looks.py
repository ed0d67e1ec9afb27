"""What tests of views look at: whether a page is live, its tiles, sizes and barriers."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from coordinator.client import SyncFleet
from tests.support.fleets import RunningFleet

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PHONE: ViewportSize = {"width": 390, "height": 844}
USUAL: ViewportSize = {"width": 1280, "height": 720}


def barriers(page: Page, rules: list[str] = WCAG) -> list[str]:
    # Without resultTypes axe also makes a selector for each element without a barrier, which takes most of the time.
    found = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]}).response["violations"]
    return [f"{one['id']}: {node['html']}: {node['failureSummary']}" for one in found for node in one["nodes"]]


def live(page: Page) -> Page:
    """The page, once it hears of changes."""
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return page


def tile(page: Page, key: str, number: int | str) -> None:
    """Expects a number."""
    expect(page.locator(f"[data-key='{key}'] .figure")).to_have_text(str(number))


def use(running: RunningFleet, project: str, agent: str, item: str, **used: Any) -> None:
    """Reports usage of an item as an agent."""
    with SyncFleet(running.state.base_url, project=project, agent=agent) as opened:
        note = {"itemId": item, "key": "log", "role": "work", "body": "x", "usage": used}
        assert opened.call("manage_notes", {"operation": "upsert", "notes": [note]})["upserted"] == 1
