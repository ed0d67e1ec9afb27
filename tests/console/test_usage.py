"""What pages show of resources, due times, usage and budgets, and how people change budgets and times."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from coordinator.store import Store, keys
from tests.console.items import advance, claim, create
from tests.console.looks import PHONE, USUAL, barriers, live, use
from tests.console.visitors import of_store, signed_in
from tests.support.fleets import RunningFleet

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def entry(page: Page, item: str) -> Locator:
    return page.locator(f"li.entry[data-key='item:{item}']")


def row(page: Page, region: str, text: str) -> Locator:
    return page.locator(f"[data-region={region}] tr").filter(has_text=text)


def test_cards_show_times_resources_usage_and_budgets(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    demand = [{"key": "lab/gpu", "units": 2}]
    held, waits = create(fleet, "Holds it", "Waits for it", resources=demand)
    late, soon = create(fleet, "Late", dueAt="2026-01-01T00:00Z")[0], create(fleet, "Soon", dueAt="+40d")[0]
    (root,) = create(fleet, "Budgeted", budget={"tokens": 1000})
    (plain,) = create(fleet, "Uses nothing")
    claim(fleet, held)
    use(running, named, "ana", root, inputTokens=700, outputTokens=150, costMicroUsd=1_250_000)
    page = live(console("board"))
    expect(entry(page, held)).to_contain_text("holds lab/gpu x2")
    expect(entry(page, waits)).to_contain_text("busy: lab/gpu x2")
    expect(entry(page, late)).to_contain_text("overdue: ")
    expect(entry(page, soon)).to_contain_text("due: 39 d left")
    expect(entry(page, root)).to_contain_text("85 % of budget")
    expect(entry(page, root)).to_contain_text("$1.25")
    expect(entry(page, plain).locator(".chip")).to_have_count(0)
    fleet.call("claim_item", {"releases": [{"itemId": held}]})
    expect(entry(page, waits)).to_contain_text("demands lab/gpu x2")
    use(running, named, "ana", root, inputTokens=200)
    expect(entry(page, root)).to_contain_text("budget spent")
    advance(fleet, late, "start", "complete")
    done = page.locator("[data-region=terminal] li.entry", has_text="Late")
    expect(done).to_be_visible()
    expect(done).not_to_contain_text("overdue")
    page.goto(page.url.replace("/board", "/claims?list=due"))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="overdue").click()
    expect(page.get_by_text("No open item is overdue.")).to_be_visible()


def test_the_page_of_an_item_shows_what_it_has_and_what_stops_it(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    (root,) = create(fleet, "Root", budget={"costMicroUsd": 4_000_000, "tokens": 10_000})
    item, other = create(fleet, "Train", "Evaluate", parentId=root, resources=[{"key": "lab/gpu", "units": 2}])
    claim(fleet, item)
    use(running, named, "ana", item, inputTokens=1000, outputTokens=200, cachedTokens=300, costMicroUsd=1_000_000)
    page = live(console(f"item/{item}"))
    head = page.locator("section.item-head")
    expect(head).to_contain_text("holds lab/gpu x2")
    expect(head).to_contain_text("used for it: $1.00, 1,000 tokens in, 300 of them cached, 200 out")
    expect(head).not_to_contain_text("stop")
    use(running, named, "ana", item, costMicroUsd=3_000_000)
    expect(head.locator(".chip.trouble", has_text="stop")).to_be_visible()
    expect(head).to_contain_text(f"the budget of {root[:8]} above it is spent: $4.00 of $4.00")
    page.goto(page.url.replace(item, other))
    expect(head).to_contain_text("held back")
    expect(head).to_contain_text("demands lab/gpu x2")
    expect(head.locator(".chip", has_text="busy: lab/gpu x2")).to_be_visible()
    page.goto(page.url.replace(other, root))
    expect(head).to_contain_text("with all below it: $4.00")
    expect(head).to_contain_text("budget: 100 % of $4.00 spent")
    expect(head).to_contain_text("budget: 12 % of 10k tokens")


def test_a_person_raises_a_budget_and_sets_when_an_item_is_due(
    person: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    (item,) = create(fleet, "Train", budget={"costMicroUsd": 1_000_000})
    use(running, named, "ana", item, costMicroUsd=1_000_000)
    page = person(f"item/{item}")
    head, dialog = page.locator("section.item-head"), page.get_by_role("dialog")
    actions = page.get_by_role("list", name="Actions")
    expect(head).to_contain_text("held back")
    page.get_by_role("button", name="Raise budget").click()
    expect(dialog.get_by_label("Cost")).to_have_value("1000000")
    dialog.get_by_label("Cost").fill("5000000")
    dialog.get_by_label("Tokens").fill("70000")
    dialog.get_by_role("button", name="Save budget").click()
    expect(head).to_contain_text("budget: 20 % of $5.00")
    expect(head).not_to_contain_text("held back")
    found = fleet.call("query_items", {"operation": "get", "id": item})
    assert found["budget"] == {"costMicroUsd": 5_000_000, "tokens": 70_000}
    actions.get_by_role("button", name="Edit", exact=True).click()
    dialog.get_by_label("Due").fill("soon")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("dueAt")
    dialog.get_by_label("Due").fill("+2h")
    dialog.get_by_role("button", name="Save").click()
    expect(head).to_contain_text("due 1:59")
    actions.get_by_role("button", name="Edit", exact=True).click()
    dialog.get_by_label("Due").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(head).not_to_contain_text("due")
    page.get_by_role("button", name="Remove budget").click()
    dialog.get_by_role("button", name="Remove budget").click()
    expect(page.get_by_role("button", name="Set budget")).to_be_visible()
    assert "budget" not in fleet.call("query_items", {"operation": "get", "id": item})


def test_who_may_not_raise_budgets_may_lower_them(guarded: RunningFleet, named: str) -> None:
    visitor = signed_in(guarded, "person without budgets")
    path = f"/console/p/{named}/api/call/items/manage_items"

    def change(operation: str, **fields: Any) -> Any:
        answer = visitor.change(path, {"operation": operation, "items": [fields]})
        assert answer.status == 200
        return answer.text

    made = change("create", title="Train", budget={"tokens": 50})
    item = made.partition('"id":"')[2][:36]
    assert "items.budget" in change("update", id=item, budget={"tokens": 60})
    assert "problem" not in change("update", id=item, budget={"tokens": 40})
    shown = visitor.open(f"/console/p/{named}/item/{item}").text
    assert "Lower budget" in shown
    assert "needs the permission &#39;items.budget&#39;" in shown


def test_usage_budgets_and_resources_on_one_page(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    (root,) = create(fleet, "Root")
    item, other = create(fleet, "Train", "Evaluate", parentId=root, resources=[{"key": "lab/gpu", "units": 2}])
    claim(fleet, item, agent="capped-1")
    assert fleet.call("claim_item", {"claims": [{"itemId": other}]})["claimResults"][0]["outcome"] == "resource_busy"
    page = live(console("usage"))
    expect(page.get_by_text("No agent has reported usage here.")).to_be_visible()
    use(running, named, "capped-1", item, inputTokens=1000, costMicroUsd=1_500_000, model="opus")
    use(running, named, "ana", other, outputTokens=500, costMicroUsd=250_000, wallMs=61_000, model="mini")
    expect(row(page, "usage", "Root")).to_contain_text("$1.75")  # live
    expect(page.locator("[data-key=today]")).to_contain_text("$1.75")
    expect(page.locator("svg.bars")).to_have_attribute("aria-label", re.compile(r"\$1\.75 today, at most \$1\.75, "))
    budget = row(page, "budgets", "capped-1")
    expect(budget).to_contain_text("75 % of $2.00")
    expect(budget).to_contain_text("budget of capped*")
    gpu = row(page, "resources", "lab/gpu")
    expect(gpu).to_contain_text("2 of 2")
    expect(gpu.get_by_role("link", name="Train")).to_be_visible()
    expect(gpu.get_by_role("link", name="capped-1")).to_be_visible()
    expect(gpu.locator("[data-label=waiting]")).to_have_text("1")
    page.get_by_role("link", name="by model").click()
    expect(page.locator("[data-region=usage] tr")).to_have_count(2)
    expect(row(page, "usage", "mini")).to_contain_text("0:01:01")
    page.goto(page.url.replace("by=model", "by=agent&text=CAP"))
    expect(page.locator("[data-region=usage] tr")).to_have_count(1)
    page.get_by_role("link", name="by day").click()
    page.get_by_role("searchbox", name="Name").fill("no such day")
    page.get_by_role("searchbox", name="Name").press("Enter")
    expect(page.get_by_text("Nothing here has “no such day” in its name.")).to_be_visible()
    page.goto(page.url.partition("/usage")[0] + "/agents")
    agent = page.locator("[data-key='agent:capped-1']")
    expect(agent).to_contain_text("used $1.50, 1,000 tokens today")
    expect(agent).to_contain_text("75 % of budget")


def test_hostile_names_stay_inert_and_long_ones_in_the_window(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    key = "/".join("k" * 24 for _ in range(8))
    (item,) = create(fleet, f"{HOSTILE}{'W' * 400}", resources=[{"key": key}], budget={"tokens": 5})
    agent = f"capped{HOSTILE}{'a' * 200}"
    claim(fleet, item, agent=agent)
    use(running, named, agent, item, inputTokens=9, costMicroUsd=1, model=HOSTILE + "m" * 150)
    page = console("usage", viewport=PHONE, color_scheme="dark")
    main = page.locator("main")
    for place in ("usage", "usage?by=agent", "usage?by=model", f"usage?text={HOSTILE}", "board", f"item/{item}"):
        page.goto(f"{running.state.base_url}/console/p/{named}/{place}")
        for size in (PHONE, USUAL):
            page.set_viewport_size(size)
            expect(main).to_contain_text("<img src=x")
            assert main.locator("img, [onerror]").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
            assert place == "board" or size is USUAL or not barriers(page)
        live(page)


def test_a_template_leads_to_its_occurrences_and_they_to_it(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    (root,) = create(fleet, "Chores")
    every = {"cron": "0 3 * * *"}
    (template,) = create(fleet, "Clean up", parentId=root, recurs=every, dueAt="+40d")
    page = live(console(f"item/{template}"))
    head = page.locator("section.item-head")
    expect(head).to_contain_text("due +5w5d after each occurrence")
    expect(head).to_contain_text("recurs 0 3 * * * UTC, next ")
    expect(head).to_contain_text("0 of its occurrences are open")

    async def look_two_days_late(store: Store) -> None:
        inner, two_days_ago = template.replace("-", ""), int(time.time() - 172_800) * 1000
        await store.command("HSET", keys.item.key(named, inner), "rn", two_days_ago)
        await store.command("ZADD", keys.recurring.key(named), two_days_ago, inner)

    of_store(running, look_two_days_late)
    create(fleet, "Another template", recurs=every)  # has a front-end look
    expect(head).to_contain_text("1 of its occurrences is open")
    head.get_by_role("link", name="items with its title").click()
    made = page.locator("li.entry").filter(has_not_text="template")
    expect(made).to_have_count(1)
    expect(made).to_contain_text("due: ")
    made.get_by_role("link", name="Clean up").click()
    head.get_by_role("link", name="the template").click()
    expect(head).to_contain_text("1 of its occurrences is open")
