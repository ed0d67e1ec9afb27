"""Spent budgets: they are named as what stops the work, wherever people look for it, with what raises them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from tests.console.items import claim, create
from tests.console.looks import live, tile, use
from tests.support.fleets import RunningFleet

CAPPED = "console-capped"


@pytest.fixture
def capped(running: RunningFleet) -> Iterator[SyncFleet]:
    """A client of a project with a budget."""
    with SyncFleet(running.state.base_url, project=CAPPED, agent="orchestrator") as opened:
        yield opened


def idle(fleet: SyncFleet, item: str, agent: str = "idler") -> None:
    """Makes an agent known that holds nothing."""
    claim(fleet, item, agent=agent)
    call = {"actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4())}
    fleet.call("claim_item", {**call, "releases": [{"itemId": item}]})


def test_the_budget_of_a_project_stops_all(
    console: Callable[..., Page], capped: SyncFleet, running: RunningFleet, named: str
) -> None:
    item, _ = create(capped, "One", "Two")
    idle(capped, item)
    page = console("overview")
    page.goto(page.url.replace(named, CAPPED))
    tile(page, "ready", 2)
    use(running, CAPPED, "ana", item, inputTokens=1_000)
    why = page.locator("[data-key=why]")
    expect(why).to_contain_text("budget spent")
    expect(why).to_contain_text("The budget of the project is spent: 1,000 tokens of 1,000 tokens.")
    expect(why).to_contain_text("raise budgets.projects.console-capped.total in the settings, and run fleet reload")
    tile(page, "ready", 0)
    tile(page, "budgets", 1)
    expect(page.locator("[data-key=budgets]")).to_contain_text("the budget of the project")
    page.locator("[data-key=ready] .tile").click()
    expect(page.get_by_role("region", name="queue")).to_contain_text("0: the budget of the project is spent")
    expect(page.locator("li.entry")).to_have_count(0)
    page.goto(page.url.partition("/board")[0] + "/agents")
    row = page.locator("[data-region=agents] tr", has_text="idler")
    expect(row).to_contain_text("idle")
    expect(row).to_contain_text("the budget of the project is spent")
    page.goto(page.url.replace("/agents", "/approvals"))
    entry = page.locator("[data-region=budgets] > li")
    expect(entry).to_contain_text("The budget of the project is spent")
    expect(entry).to_contain_text("fleet reload")
    page.goto(page.url.partition("/approvals")[0] + f"/item/{item}")
    head = page.locator("section.item-head")
    expect(head).to_contain_text("held back")
    expect(head).not_to_contain_text("can move forward")


def test_spent_budgets_of_items_are_raised_from_the_inbox(
    person: Callable[..., Page], console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    (root,) = create(fleet, "Budgeted", budget={"tokens": 1000})
    children = create(fleet, "One", "Two", "Three", parentId=root)
    idle(fleet, children[0])
    page = live(console("overview"))
    tile(page, "ready", 3)
    use(running, named, "ana", root, inputTokens=1000)
    why = page.locator("[data-key=why]")
    expect(why).to_contain_text("budget spent")
    expect(why).to_contain_text("Nothing is offered, because of spent budgets (the budget of “Budgeted”)")
    tile(page, "ready", 0)
    tile(page, "budgets", 1)
    expect(page.locator("[data-key=budgets]").get_by_role("link", name="raise")).to_be_visible()
    board = live(console("board?state=available"))
    expect(board.locator("[data-region=queue] li.entry")).to_have_count(0)
    agents = live(console("agents"))
    expect(agents.get_by_text("Nothing is offered: ").first).to_be_visible()
    expect(agents.locator("[data-region=agents] tr", has_text="idler")).to_contain_text("below spent budgets")
    item = live(console(f"item/{children[0]}"))
    expect(item.locator("section.item-head")).to_contain_text("held back")
    expect(item.locator("section.item-head")).not_to_contain_text("can move forward")
    inbox = live(person("approvals"))
    entry, dialog = inbox.locator("[data-region=budgets] > li"), inbox.get_by_role("dialog")
    expect(entry).to_contain_text("The budget of “Budgeted” is spent")
    entry.get_by_role("button", name="Raise budget").click()
    expect(dialog.get_by_label("Tokens")).to_have_value("1000")
    dialog.get_by_label("Tokens").fill("5000")
    dialog.get_by_role("button", name="Save budget").click()
    inbox.get_by_role("heading", name="Answered").click()  # rows stay while they have the focus
    expect(entry).to_have_count(0)
    tile(page, "ready", 3)
    expect(page.locator("[data-key=budgets]")).to_have_count(0)
    expect(why).not_to_contain_text("budget spent")
    expect(item.locator("section.item-head")).to_contain_text("can move forward")
    expect(item.locator("section.item-head")).not_to_contain_text("held back")
    board.reload()
    expect(board.locator("[data-region=queue] li.entry")).to_have_count(3)


def test_what_waits_for_a_time_is_named_as_held_back(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Later")
    idle(fleet, item)
    fleet.call("manage_items", {"operation": "update", "items": [{"id": item, "notBefore": "+1h"}]})
    agents = live(console("agents"))
    expect(agents.get_by_text("Nothing is offered: 1 not before a later time").first).to_be_visible()


def test_what_is_free_beside_a_spent_budget_is_counted_alone(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    (root,) = create(fleet, "Budgeted", budget={"tokens": 1000})
    create(fleet, "Below", parentId=root)
    free, taken = create(fleet, "Free", "Taken")
    claim(fleet, taken)
    use(running, named, "ana", root, inputTokens=1000)
    page = console("overview")
    tile(page, "ready", 1)
    expect(page.locator("[data-key=why]")).not_to_contain_text("budget spent")
    page.locator("[data-key=ready] .tile").click()
    expect(page.locator("li.entry")).to_have_count(1)
    expect(page.locator(f"li.entry[data-key='item:{free}']")).to_be_visible()
