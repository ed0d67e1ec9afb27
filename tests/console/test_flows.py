"""The pages of workflows: the list with its filters, and one of them, live, with its graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from tests.console.asking import agree

GATE: dict[str, Any] = {"start": {"name": "wait", "tool": None, "done": True}}
RELEASE: dict[str, Any] = {
    "start": {"name": "collect", "tool": "get_greeting", "args": {"name": "{{input.who}}"}, "next": "ask"},
    "ask": {"name": "ask <b>Ada</b>", "tool": None, "next": "lint"},
    "lint": {
        "name": "flaky",
        "tool": "fail",
        "args": {"until_attempt": 2},
        "retry": {"max_attempts": 3, "delay_ms": 1},
        "next": "fork",
    },
    "fork": {"name": "fork", "tool": None, "parallel": ["count", "sleep"]},
    "count": {"name": "count", "tool": "get_counter", "join": "end"},
    "sleep": {"name": "sleep", "tool": "sleep", "args": {"ms": 3_600_000}, "join": "end"},
    "end": {"name": "end", "tool": "get_counter", "done": True},
}


def create(fleet: SyncFleet, name: str, flow: dict[str, Any], **given: str) -> int:
    created: int = fleet.call("workflow_create", {"name": name, "flow": flow, "input": given})["id"]
    return created


def node(page: Page, name: str) -> Any:
    return page.locator(".node", has_text=name)


def step(page: Page, name: str) -> Any:
    return page.locator("[data-region=steps] tr", has_text=name)


def places(page: Page) -> list[str | None]:
    return [one.get_attribute("transform") for one in page.locator(".node").all()]


def test_a_workflow_is_followed_step_by_step(console: Callable[..., Page], fleet: SyncFleet) -> None:
    flow = create(fleet, "release", RELEASE, who="Ada")
    page = console(f"flow/{flow}")
    expect(page.locator(".node")).to_have_count(len(RELEASE))
    expect(page.locator(".edges path")).to_have_count(7)
    expect(node(page, "ask <b>Ada</b>")).to_contain_text("waits for release")
    expect(node(page, "end")).to_contain_text("not begun")
    expect(page.locator("[data-region=state]")).to_contain_text("1 of 7 steps ended")
    before = places(page)
    gate = next(one for one in fleet.call("workflow_get", {"id": flow})["steps"] if one["tool"] is None)
    fleet.call("workflow_step_ready", {"step_id": gate["id"], "actor": {"id": "ada", "kind": "user"}})
    expect(node(page, "flaky")).to_contain_text("done, attempt 2")
    expect(node(page, "count")).to_contain_text("done")
    expect(node(page, "sleep")).to_contain_text("running")
    expect(page.locator(".edges.strong path")).to_have_count(5)
    expect(step(page, "ask <b>Ada</b>")).to_contain_text("by ada")
    expect(step(page, "flaky")).to_contain_text("2 of 3")
    history = page.locator("[data-region=events]")
    expect(history).to_contain_text("flaky attempt 1 retrying")
    expect(history).to_contain_text("ask <b>Ada</b> released by ada")
    fleet.call("workflow_cancel", {"id": flow})
    expect(node(page, "sleep")).to_contain_text("cancelled")
    expect(node(page, "end")).to_contain_text("not taken")
    expect(page.locator("[data-region=state]")).to_contain_text("cancelled")
    assert places(page) == before  # states have changed, nothing has moved


def test_results_are_folded_and_cut(console: Callable[..., Page], fleet: SyncFleet) -> None:
    fleet.call("workflow_create", {"name": "other", "flow": GATE})
    flow = create(
        fleet, "large", {"start": {**RELEASE["start"], "next": "ask"}, "ask": GATE["start"]}, who="x" * 70_000
    )
    page = console(f"flow/{flow}")
    expect(node(page, "collect")).to_contain_text("done")
    assert "x" * 100 not in page.locator("[data-region=steps]").inner_html()
    page.get_by_role("link", name="show the result").click()
    shown = step(page, "collect").locator("details[open]")
    expect(shown.locator("summary")).to_have_text("result: first 65,536 of 70,010 characters")
    expect(shown.locator("pre")).to_contain_text("Hello")
    assert len(shown.locator("pre").inner_text()) == 65_536
    definition = step(page, "collect").get_by_text("definition")
    expect(step(page, "collect").get_by_text("{{input.who}}")).to_be_hidden()
    definition.click()
    expect(step(page, "collect").get_by_text("{{input.who}}")).to_be_visible()


def test_of_a_result_that_was_cut_the_beginning_is_shown(console: Callable[..., Page], fleet: SyncFleet) -> None:
    greet = {**RELEASE["start"], "args": {"name": "{{input.who}} {{input.who}}"}, "next": "ask"}
    flow = create(fleet, "long", {"start": greet, "ask": GATE["start"]}, who="x" * 600_000)
    page = console(f"flow/{flow}")
    page.get_by_role("link", name="show the result").click()
    shown = step(page, "collect").locator("details[open]")
    expect(shown.locator("summary")).to_have_text("result: first 65,536 characters of 1,200,011 bytes")
    expect(shown.locator("pre")).to_have_text(re.compile('^"Hello, x'))


def test_what_is_unfolded_stays_so_when_its_row_changes(console: Callable[..., Page], fleet: SyncFleet) -> None:
    flow = create(fleet, "gate", GATE)
    page = console(f"flow/{flow}")
    step(page, "wait").get_by_text("definition").click()
    fleet.call("workflow_cancel", {"id": flow})
    expect(step(page, "wait")).to_contain_text("cancelled")
    expect(step(page, "wait").locator("details[open]")).to_have_count(1)


def test_a_list_is_filtered_by_its_url(console: Callable[..., Page], fleet: SyncFleet) -> None:
    page = console("flows")
    expect(page.get_by_text("No workflow yet.")).to_be_visible()
    first = create(fleet, "first", GATE)
    row = page.locator(f"[data-key='flow:{first}']")
    expect(row).to_contain_text("waits for wait, step 1 of 1")
    fleet.call("workflow_cancel", {"id": first})
    expect(row).to_contain_text("cancelled")
    second = create(fleet, "second", GATE)
    page.get_by_label("status").select_option("running")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("[data-region=flows] [data-key]")).to_have_count(1)
    expect(page.get_by_text("first 1 of 1")).to_be_visible()
    page = console("flows?creator=orchestrator&name=FIR")
    expect(page.locator("[data-region=flows]")).to_contain_text("first")
    expect(page.get_by_text("second")).to_have_count(0)
    page.get_by_role("link", name="first").click()
    expect(page.locator("h2").first).to_contain_text(str(first))
    assert second > first


def test_a_list_is_paged(console: Callable[..., Page], fleet: SyncFleet) -> None:
    for number in range(52):
        create(fleet, f"flow {number}", GATE)
    page = console("flows")
    expect(page.get_by_text("first 50 of 52")).to_be_visible()
    page.get_by_role("link", name="older").click()
    expect(page.locator("[data-region=flows] tr")).to_have_count(2)
    expect(page.get_by_role("link", name="older")).to_have_count(0)
    page.get_by_role("link", name="newest").click()
    expect(page.locator("[data-region=flows] tr")).to_have_count(50)


def test_an_unknown_workflow_is_not_found(console: Callable[..., Page], fleet: SyncFleet, mishaps: list[str]) -> None:
    for wrong in ("1", "x", "9" * 40, "%F0%9F%98%80"):
        page = console(f"flow/{wrong}")
        expect(page.get_by_text("there is no such workflow")).to_be_visible()
    mishaps.clear()


def test_a_workflow_that_waits_for_a_person_says_so(person: Callable[..., Page], fleet: SyncFleet) -> None:
    flow = create(fleet, "Release 3", RELEASE, who="Ada")
    create(fleet, "Long", {"start": {"name": "sleep", "tool": "sleep", "args": {"ms": 3_600_000}, "done": True}})
    page = person("flows")
    rows = page.locator("[data-region=flows] tr")
    expect(rows.filter(has_text="Release 3")).to_contain_text("waits for ask <b>Ada</b>, step 2 of 7 since")
    expect(rows.filter(has_text="Long")).to_contain_text("running")
    page.get_by_label("status").select_option("waits")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Release 3")
    inbox = person("approvals", "bob")
    expect(inbox.locator("[data-region=open] li")).to_contain_text("step 2 of 7")
    inbox.get_by_role("link", name="Release 3: ask <b>Ada</b>").click()
    seen = person(f"flow/{flow}", "cleo").locator("[data-region=state]")
    expect(seen).to_contain_text("waits for ask <b>Ada</b>")
    inbox.get_by_role("button", name="Release the gate").click()
    agree(inbox)
    expect(rows).to_have_count(0)
    expect(seen).not_to_contain_text("waits for")
