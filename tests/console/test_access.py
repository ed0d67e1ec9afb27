"""Everybody can use the console: no barriers that axe finds, narrow and enlarged pages that do not scroll sideways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from coordinator.console.view import View
from coordinator.console.views import VIEWS
from tests.console.busy import address_of, fill_project
from tests.console.looks import PHONE, USUAL, barriers
from tests.support.fleets import RunningFleet

COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules whose outcome colours change."""
DARK = ("item", "board", "system", "instance")
"""Views with cards, chips, tables and drawn states. Their colours are looked at in the dark, too; those of all views by
``make chaos``."""
PROJECT = "console-access"
ENLARGED: ViewportSize = {"width": 640, "height": 400}
"""What the usual window has at 200 %."""


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


def scrolls_sideways(page: Page) -> bool:
    wide: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return wide


def header_lines(page: Page) -> int:
    height: float = page.locator("header").evaluate("(one) => one.offsetHeight")
    return round(height / 52)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_page_has_no_barriers_in_any_size(running: RunningFleet, page: Page, ids: dict[str, Any], view: View) -> None:
    page.emulate_media(reduced_motion="reduce", color_scheme="light")
    page.set_viewport_size(PHONE)
    page.goto(address(running, view, ids))
    assert not scrolls_sideways(page)
    assert header_lines(page) == 1
    page.set_viewport_size(ENLARGED)
    assert header_lines(page) == 1
    assert not scrolls_sideways(page)
    page.set_viewport_size(USUAL)
    assert barriers(page) == []


@pytest.mark.parametrize(
    "view",
    [pytest.param(view, marks=[] if name in DARK else pytest.mark.chaos) for name, view in VIEWS.items()],
    ids=VIEWS,
)
def test_colours_have_contrast_in_the_dark(running: RunningFleet, page: Page, ids: dict[str, Any], view: View) -> None:
    page.emulate_media(reduced_motion="reduce", color_scheme="dark")
    page.goto(address(running, view, ids))
    assert barriers(page, COLOURS) == []


@pytest.mark.parametrize("key", ["?", "Control+k"])
def test_axe_finds_no_barriers_in_dialogs(running: RunningFleet, page: Page, ids: dict[str, Any], key: str) -> None:
    page.emulate_media(reduced_motion="reduce", color_scheme="light")
    page.goto(address(running, VIEWS["board"], ids))
    page.keyboard.press(key)
    page.get_by_role("dialog").wait_for()
    if key == "Control+k":
        page.keyboard.type("pay")
        page.locator("#found a", has_text="Retry a failed payment").wait_for()
    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert barriers(page, COLOURS) == []


def test_axe_finds_no_barriers_where_one_signs_in(running: RunningFleet, page: Page, mishaps: list[str]) -> None:
    for path in ("signin", "nowhere"):
        page.goto(f"{running.state.base_url}/console/{path}")
        assert barriers(page) == []
    expect(page.get_by_text("There is no such page.", exact=True)).to_be_visible()
    mishaps.clear()  # nowhere is not found
