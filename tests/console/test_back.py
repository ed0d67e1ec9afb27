"""Back finds the place: how far lists were scrolled, and which items were chosen."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from tests.console.asking import ask_gate
from tests.console.items import create
from tests.console.looks import live


def test_back_to_a_long_list(person: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, *(f"Item {n:03}" for n in range(300)))
    page = person("board")
    queue = page.locator("[data-region=queue]")
    queue.evaluate("(box) => { box.scrollTop = 200 * 100; }")
    for title in ("Item 200", "Item 201"):
        queue.get_by_role("checkbox", name=f"Choose {title}").check()
    queue.get_by_role("link", name="Item 202").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Item 202")
    page.go_back()
    live(page)
    link = queue.get_by_role("link", name="Item 202")
    expect(link).to_be_in_viewport()
    assert queue.evaluate("(box) => box.scrollTop") == 200 * 100
    expect(page.locator("#chosen")).to_have_text("2 chosen")
    expect(queue.get_by_role("checkbox", name="Choose Item 201")).to_be_checked()
    page.locator("#bulk").get_by_role("button", name="Priority high").click()
    expect(page.locator("#bulk")).to_be_hidden()
    assert fleet.call("query_items", {"operation": "search", "priority": "high"})["total"] == 2
    page.get_by_role("link", name="Agents").click()
    page.get_by_role("link", name="Board").click()  # another visit begins anew
    live(page)
    assert queue.evaluate("(box) => box.scrollTop") == 0
    expect(page.locator("#bulk")).to_be_hidden()


def test_back_to_a_page_and_to_what_was_searched(person: Callable[..., Page], fleet: SyncFleet) -> None:
    for number in range(12):
        ask_gate(fleet, f"Flow {number:02}")
    page = person("flows", viewport={"width": 900, "height": 300})
    page.get_by_role("link", name="Flow 03", exact=True).scroll_into_view_if_needed()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 0
    page.get_by_role("link", name="Flow 03", exact=True).click()
    expect(page.locator("[data-region=steps]")).to_be_visible()
    page.go_back()
    live(page)
    assert page.evaluate("scrollY") == scrolled
