"""Long lists: a window of many items, keys, and rows that keep their places under the pointer.

With `make chaos` it is a window of a hundred thousand items, which take long to create.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from coordinator.client import SyncFleet
from tests.console.items import advance, create
from tests.support.fleets import RunningFleet

MANY = [10_000, pytest.param(100_000, marks=pytest.mark.chaos)]
HEIGHT = 100
"""Of a row, in px."""


@pytest.fixture(scope="module")
def many(running: RunningFleet, count: int) -> Iterator[str]:
    """A project with many items, which tests leave as they are."""
    project = f"console-{uuid.uuid4().hex[:12]}"
    with SyncFleet(running.state.base_url, project=project, agent="maker") as maker, ThreadPoolExecutor(4) as threads:
        parts = [range(start, start + 500) for start in range(0, count, 500)]
        assert sum(threads.map(lambda part: len(create(maker, *(f"Item {n:06}" for n in part))), parts)) == count
        yield project


def queue(page: Page) -> Locator:
    return page.locator("[data-region='queue']")


def place(page: Page, n: int) -> Locator:
    """The row with a number, from 1."""
    return queue(page).locator(f"li[aria-posinset='{n}']")


def opened(
    console: Callable[..., Page], running: RunningFleet, project: str, count: int, tallest: str = "15_000_000"
) -> Page:
    page = console("agents")

    def shortened(route: Route) -> None:
        script = route.fetch()
        route.fulfill(response=script, body=script.text().replace("15_000_000", tallest))

    page.route("**/*-list-*.js", shortened)
    page.goto(f"{running.state.base_url}/console/p/{project}/board")
    expect(page.locator("[data-head-of='queue']")).to_have_text(f"{count:,}")
    return page


@pytest.mark.parametrize("count", MANY, scope="module")
@pytest.mark.parametrize("tallest", [pytest.param("15_000_000", marks=pytest.mark.chaos), "100_000"])
def test_jumps_to_the_end_and_the_middle(
    console: Callable[..., Page], running: RunningFleet, many: str, count: int, tallest: str
) -> None:
    """A list that is taller than so many px scrolls by share."""
    page = opened(console, running, many, count, tallest)
    expect(place(page, 1)).to_be_in_viewport()
    for n, share in ((count, 1), (count // 2, 0.5), (1, 0)):
        queue(page).evaluate("(box, share) => { box.scrollTop = share * (box.scrollHeight - box.clientHeight) }", share)
        expect(place(page, n)).to_be_in_viewport()
        expect(place(page, n)).to_have_attribute("aria-setsize", str(count))
        assert page.locator("li.entry").count() <= 400
        assert queue(page).evaluate("(box) => box.scrollHeight") == min(HEIGHT * count, int(tallest))
        rows = [int(row.get_attribute("aria-posinset") or 0) for row in queue(page).locator("li").all()]
        assert rows == list(range(rows[0], rows[0] + len(rows)))
    titles = queue(page).locator("li a.item").all_inner_texts()
    assert len({*titles}) == len(titles)


@pytest.mark.parametrize("count", MANY, scope="module")
def test_keys_walk_through_a_list(console: Callable[..., Page], running: RunningFleet, many: str, count: int) -> None:
    page = opened(console, running, many, count)
    place(page, 1).get_by_role("link").focus()
    for key, n in (("j", 2), ("ArrowDown", 3), ("k", 2), ("End", count), ("ArrowUp", count - 1), ("Home", 1)):
        page.keyboard.press(key)
        expect(place(page, n).get_by_role("link")).to_be_focused()
        expect(place(page, n)).to_be_in_viewport()
    for _ in range(60):  # further than a window
        page.keyboard.press("j")
    expect(place(page, 61).get_by_role("link")).to_be_focused()
    title = place(page, 61).get_by_role("link").inner_text()
    expect(queue(page).locator("a[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Enter")
    assert title
    page.wait_for_url("**/item/*")


def test_rows_stay_under_the_pointer(console: Callable[..., Page], fleet: SyncFleet) -> None:
    ids = create(fleet, *(f"Item {n:02}" for n in range(10)))
    page = console("board")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    place(page, 2).hover()
    second = place(page, 2).get_by_role("link").inner_text()
    create(fleet, "Urgent", "More urgent", priority="high")
    news = page.get_by_role("button", name="2 new")
    expect(news).to_be_visible()
    expect(place(page, 2).get_by_role("link")).to_have_text(second)
    update = {"id": ids[1], "title": "Renamed", "retryBackoffSeconds": 0}
    fleet.call("manage_items", {"operation": "update", "items": [update]})  # what a row says is not held back
    expect(place(page, 2).get_by_role("link")).to_have_text("Renamed")
    expect(page.locator("[data-head-of='queue']")).to_have_text("12")
    news.evaluate("button => button.click()")  # without a pointer, which would leave the rows on its way
    expect(place(page, 1)).to_contain_text("rgent")
    expect(news).to_be_hidden()


def test_keys_lead_to_other_columns(console: Callable[..., Page], fleet: SyncFleet) -> None:
    ids = create(fleet, "One", "Two", "Three")
    advance(fleet, ids[2], "hold")
    page = console("board")
    place(page, 2).get_by_role("link").focus()
    page.keyboard.press("l")  # over columns without rows
    expect(page.get_by_role("link", name="Three")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(place(page, 2).get_by_role("link")).to_be_focused()


def test_rows_come_when_the_pointer_leaves(console: Callable[..., Page], fleet: SyncFleet) -> None:
    ids = create(fleet, *(f"Item {n:02}" for n in range(3)))
    page = console("board")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    place(page, 1).get_by_role("link").focus()
    fleet.call("manage_items", {"operation": "delete", "ids": ids[1:2]})
    expect(place(page, 2)).to_have_class("entry gone")
    create(fleet, "Urgent", priority="high")
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    page.get_by_role("searchbox").focus()
    expect(place(page, 1)).to_contain_text("Urgent")
    expect(queue(page).locator("li")).to_have_count(3)
