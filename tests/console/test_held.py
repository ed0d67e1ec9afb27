"""Rows under a pointer or a focus keep their places, in all lists; and what was typed stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from tests.console.asking import ask_checkpoint, ask_gate, ask_question
from tests.console.items import claim, create


def keys(page: Page, region: str) -> list[str]:
    found: list[str] = page.locator(f"[data-region={region}] > [data-key]").evaluate_all(
        "(all) => all.map((one) => one.dataset.key)"
    )
    return found


def news(page: Page) -> Locator:
    return page.locator(".news:visible")


def hold(fleet: SyncFleet, agent: str) -> None:
    claim(fleet, create(fleet, f"For {agent}")[0], agent=agent)


LISTS: dict[str, tuple[str, Callable[[SyncFleet, int], object]]] = {
    "agents": ("agents", lambda fleet, n: hold(fleet, f"agent-{n}")),
    "approvals": ("open", lambda fleet, n: ask_gate(fleet, f"Flow {n}")),
    "flows": ("flows", lambda fleet, n: ask_gate(fleet, f"Flow {n}")),
    "sessions": ("sessions", lambda fleet, n: ask_checkpoint(fleet)),
    "claims?list=held": ("claims", lambda fleet, n: hold(fleet, f"agent-{n}")),
}
"""Views with a list: its region, and what adds a row to it, at its beginning or end."""


@pytest.mark.parametrize(
    ("view", "way"),
    [
        pytest.param(view, way, marks=pytest.mark.chaos if number % 2 == (way == "focus") else ())
        for way in ("pointer", "focus")
        for number, view in enumerate(LISTS)
    ],
)
def test_rows_keep_their_places_while_somebody_is_at_them(
    person: Callable[..., Page], fleet: SyncFleet, view: str, way: str
) -> None:
    region, add = LISTS[view]
    for number in range(3):
        add(fleet, number)
    page = person(view)
    before = keys(page, region)
    assert len(before) == 3
    row = page.locator(f"[data-region={region}] > [data-key]").nth(1)
    if way == "pointer":
        row.hover()
    else:
        row.get_by_role("link").first.focus()
    place = row.bounding_box()
    with page.expect_response(lambda answer: f"~{region}" in answer.url):
        add(fleet, 3)
    if region != "claims":  # the longest held is its first: a new claim is added behind the others, and moves none
        expect(news(page)).to_have_text("1 new")
        assert keys(page, region) == before
    else:
        expect(page.locator(f"[data-region={region}] > [data-key]")).to_have_count(4)
        assert keys(page, region)[:3] == before
    assert row.bounding_box() == place
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    expect(page.locator(f"[data-region={region}] > [data-key]")).to_have_count(4)
    expect(news(page)).to_have_count(0)


@pytest.mark.parametrize("way", ["pointer", "focus"])
def test_a_row_stays_where_it_is_when_what_is_above_it_grows(
    person: Callable[..., Page], fleet: SyncFleet, way: str
) -> None:
    (item,) = create(fleet, "Tall")
    for n in range(30):
        fleet.call(
            "manage_notes",
            {"operation": "upsert", "notes": [{"itemId": item, "key": f"n-{n}", "role": "queue", "body": "x\n\ny"}]},
        )
    page = person(f"item/{item}")
    row = page.locator("[data-region=texts] > [data-key^='note:']").nth(2)
    if way == "pointer":
        row.hover()
    else:
        row.get_by_role("button").first.focus()
    place = row.bounding_box()
    assert place
    title = "A title of many words " * 9
    fleet.call("manage_items", {"operation": "update", "items": [{"id": item, "title": title}]})
    expect(page.get_by_role("heading", name=title.strip())).to_be_visible()
    now = row.bounding_box()
    assert now
    assert now["y"] == pytest.approx(place["y"], abs=1)


def test_what_waits_is_shown_by_its_button(person: Callable[..., Page], fleet: SyncFleet) -> None:
    ask_question(fleet, "First")
    page = person("approvals")
    page.get_by_role("link", name="First").focus()
    ask_question(fleet, "Second")
    news(page).click()
    expect(page.get_by_role("link", name="Second")).to_be_visible()
