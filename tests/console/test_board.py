"""The board: columns, filters, search, and cards that move while somebody looks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from coordinator.client import SyncFleet
from tests.console.items import advance, claim, create
from tests.console.looks import live


def column(page: Page, role: str) -> Locator:
    return page.locator(f"section[aria-label='{role}']")


def card(page: Page, role: str, title: str) -> Locator:
    return column(page, role).locator("li").filter(has_text=title)


def count(page: Page, role: str) -> Locator:
    return column(page, role).locator("[data-head-of]")


def test_counts_are_those_of_the_tools(console: Callable[..., Page], fleet: SyncFleet) -> None:
    ids = create(fleet, *(f"Item {n}" for n in range(40)))
    advance(fleet, ids[0], "start")
    advance(fleet, ids[1], "hold")
    advance(fleet, ids[2], "start", "complete")
    page = console("board")
    for role in ("queue", "work", "review", "blocked", "terminal"):
        total = fleet.call("query_items", {"operation": "search", "role": role})["total"]
        expect(count(page, role)).to_have_text(str(total))
    expect(column(page, "queue").locator("li").first).to_have_attribute("aria-setsize", "37")
    expect(column(page, "queue").locator("li").nth(4)).to_have_attribute("aria-posinset", "5")
    expect(column(page, "review")).to_contain_text("Nothing waits for a review")


def test_a_claim_moves_the_card_and_its_countdown_runs(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Parse the form", tags="api,ui", priority="high")
    page = live(console("board"))
    expect(card(page, "queue", "Parse the form")).to_contain_text("high")
    claim(fleet, item)
    expect(card(page, "queue", "Parse the form").get_by_role("link", name="orchestrator")).to_be_visible()
    advance(fleet, item, "start")
    moved = card(page, "work", "Parse the form")
    expect(moved).to_contain_text("api")
    expect(count(page, "work")).to_have_text("1")
    expect(count(page, "queue")).to_have_text("0")
    expect(column(page, "queue")).to_contain_text("Nothing waits to be done")
    shown = moved.locator("time[data-left]").inner_text()
    expect(moved.locator("time[data-left]")).not_to_have_text(shown)


def test_an_expired_claim_brings_the_card_back(console: Callable[..., Page], fleet: SyncFleet) -> None:
    first, second = create(fleet, "Never begun", "Left in the middle", retryBackoffSeconds=1)
    page = live(console("board"))
    claim(fleet, first, seconds=2)
    expect(card(page, "queue", "Never begun").locator("time[data-left]")).to_be_visible()
    expect(card(page, "queue", "Never begun").locator("time[data-left]")).to_have_count(0)
    claim(fleet, second, seconds=2)
    advance(fleet, second, "start")
    expect(card(page, "work", "Left in the middle")).to_contain_text("1 failed")
    expect(card(page, "work", "Left in the middle")).to_contain_text("failed")  # after its back-off


def test_cards_say_what_holds_an_item_back(console: Callable[..., Page], fleet: SyncFleet) -> None:
    first, second, parent = create(fleet, "First", "Second", "Parent")
    edge = {"fromItemId": first, "toItemId": second}
    fleet.call("manage_dependencies", {"operation": "create", "dependencies": [edge]})
    advance(fleet, *create(fleet, "Child", "Other", parentId=parent)[:1], "start", "complete")
    page = live(console("board"))
    expect(card(page, "queue", "Second")).to_contain_text("waits for 1")
    expect(card(page, "queue", "Parent").or_(card(page, "work", "Parent"))).to_contain_text("1/2 children")
    advance(fleet, first, "start", "complete")
    expect(card(page, "queue", "Second")).not_to_contain_text("waits for")


def test_filters_are_in_the_address(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "Api one", "Api two", tags="api", priority="high")
    create(fleet, "Low api", tags="api", priority="low")
    (parent,) = create(fleet, "Epic")
    create(fleet, "Below it", parentId=parent, tags="api", priority="high")
    page = console("board")
    page.get_by_label("tags").fill("api")
    page.get_by_label("priority").select_option("high")  # leads there at once
    expect(count(page, "queue")).to_have_text("3 of 5")
    address = page.url
    assert address.endswith("board?priority=high&tags=api")
    page.reload()
    expect(count(page, "queue")).to_have_text("3 of 5")
    query = address.split("?")[1]
    other = console(f"board?{query}")
    expect(count(other, "queue")).to_have_text("3 of 5")
    expect(other.get_by_label("tags")).to_have_value("api")
    expect(count(console(f"board?below={parent[:8]}"), "queue")).to_have_text("1 of 5")
    column(page, "queue").get_by_role("link", name="queue", exact=True).click()
    expect(column(page, "work")).to_have_count(0)
    assert {"role=queue", "tags=api"} < {*page.url.split("?")[1].split("&")}
    page.get_by_role("link", name="Show all").click()
    expect(count(page, "queue")).to_have_text("5")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("priority=urgent", "'urgent' is not one of high, medium, low"),
        ("role=ready", "'ready' is not one of queue"),
        ("state=free", "'free' is not one of claimed, unclaimed, available, waiting"),
        ("tags=%3Cb%3E", "tags"),
        ("below=abc", "must be a UUID or a hex prefix"),
        ("below=00000000-0000-0000-0000-000000000000", "no such item"),
    ],
)
def test_a_wrong_filter_is_named_beside_it(console: Callable[..., Page], query: str, problem: str) -> None:
    page = console(f"board?{query}&type=task")
    expect(page.get_by_role("alert")).to_contain_text(problem)
    expect(page.get_by_label("type")).to_have_value("task")
    expect(page.locator("section.column")).to_have_count(0)


def test_a_search_waits_for_the_last_key(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "Find the needle", "Hay", "More hay")
    page = live(console("board"))
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url) if "~queue" in request.url else None)
    page.get_by_role("searchbox").press_sequentially("ne")
    page.get_by_role("searchbox").press_sequentially("edle")
    expect(count(page, "queue")).to_have_text("1 of 3")
    expect(card(page, "queue", "needle")).to_have_count(1)
    assert [url.split("?")[1] for url in asked] == ["text=needle"]
    assert page.url.endswith("board?text=needle")
    page.get_by_role("searchbox").fill("")
    expect(count(page, "queue")).to_have_text("3")
    assert page.url.endswith("/board")


def test_an_older_answer_never_wins(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "alpha beta", "alpha")
    page = live(console("board"))
    held = list[Route]()
    page.route(lambda url: url.endswith("~queue?text=alpha"), lambda route: held.append(route))
    with page.expect_request("**/~queue?text=alpha"):
        page.get_by_role("searchbox").fill("alpha")
    with page.expect_event("requestfailed", lambda request: request.url.endswith("~queue?text=alpha")):
        page.get_by_role("searchbox").fill("alpha beta")
    expect(count(page, "queue")).to_have_text("1 of 2")
    assert len(held) == 1


def test_a_search_stops_at_200_hits(console: Callable[..., Page], fleet: SyncFleet) -> None:
    ids = create(fleet, *(f"needle {n}" for n in range(230)), priority="high")
    advance(fleet, ids[0], "start")
    page = live(console("board?text=needle"))
    expect(count(page, "queue")).to_have_text("199 of first 200")
    expect(count(page, "work")).to_have_text("1 of first 200")
    advance(fleet, ids[1], "start")  # the hits stay current
    expect(count(page, "work")).to_have_text("2 of first 200")
    expect(card(page, "work", "needle 1")).to_be_visible()


def test_a_phone_has_tabs_for_columns(console: Callable[..., Page], fleet: SyncFleet) -> None:
    advance(fleet, create(fleet, "In the queue", "At work")[1], "start")
    page = console("board", viewport={"width": 390, "height": 844})
    expect(card(page, "queue", "In the queue")).to_be_visible()
    expect(column(page, "work")).to_be_hidden()
    page.get_by_role("navigation", name="Roles").get_by_role("link", name="work").click()
    expect(card(page, "work", "At work")).to_be_visible()
    assert page.url.endswith("board?role=work")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_board_can_be_read_without_scripts(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, *(f"Item {n:02}" for n in range(50)))
    page = console("board", java_script_enabled=False)
    expect(column(page, "queue").locator("li")).to_have_count(30)
    page.get_by_role("link", name="from 31 on").click()
    expect(column(page, "queue").locator("li")).to_have_count(20)
