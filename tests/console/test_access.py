"""Everybody can use the console: no barriers that axe finds, narrow and enlarged pages that do not scroll sideways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize

from coordinator.console.view import View
from coordinator.console.views import VIEWS
from tests.console.busy import address_of, fill_project
from tests.support.fleets import RunningFleet

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PROJECT = "console-access"
PHONE: ViewportSize = {"width": 390, "height": 844}
ENLARGED: ViewportSize = {"width": 640, "height": 400}
"""What a window of 1280 px has at 200 %."""


@pytest.fixture(scope="module")
def ids(running: RunningFleet) -> dict[str, Any]:
    """Of what views show in a project where agents work."""
    return fill_project(running.state.base_url, PROJECT)


@pytest.fixture
def page(browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]) -> Iterator[Page]:
    context = browser.new_context()
    yield watch(context.new_page())
    context.close()
    assert not mishaps


def address(running: RunningFleet, view: View, ids: dict[str, Any]) -> str:
    return running.state.base_url + address_of(view, PROJECT, ids)


def barriers(page: Page) -> list[str]:
    found = Axe().run(page, options={"runOnly": WCAG}).response["violations"]
    return [f"{one['id']}: {node['html']}: {node['failureSummary']}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_axe_finds_no_barriers(running: RunningFleet, page: Page, ids: dict[str, Any], view: View) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(address(running, view, ids))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert barriers(page) == []
    page.set_viewport_size(PHONE)
    assert barriers(page) == []


@pytest.mark.parametrize("key", ["?", "Control+k"])
def test_axe_finds_no_barriers_in_dialogs(running: RunningFleet, page: Page, ids: dict[str, Any], key: str) -> None:
    page.goto(address(running, VIEWS["board"], ids))
    page.keyboard.press(key)
    page.get_by_role("dialog").wait_for()
    if key == "Control+k":
        page.keyboard.type("pay")
        page.locator("#found a", has_text="Retry a failed payment").wait_for()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert barriers(page) == []


def test_axe_finds_no_barriers_where_one_signs_in(running: RunningFleet, page: Page, mishaps: list[str]) -> None:
    for path in ("signin", "nowhere"):
        page.goto(f"{running.state.base_url}/console/{path}")
        assert barriers(page) == []
    mishaps.clear()  # nowhere is not found


@pytest.mark.parametrize("size", [PHONE, ENLARGED], ids=["phone", "200 %"])
def test_no_page_scrolls_sideways(running: RunningFleet, page: Page, ids: dict[str, Any], size: ViewportSize) -> None:
    page.set_viewport_size(size)
    wide = []
    for view in VIEWS.values():
        page.goto(address(running, view, ids))
        if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
            wide.append(view.name)
    assert wide == []
