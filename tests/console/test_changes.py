"""What people change in the browser: on the board."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, Route, expect

from coordinator.client import SyncFleet
from tests.console.items import advance, claim, create


def card(page: Page, role: str, title: str) -> Locator:
    return page.locator(f"section[aria-label='{role}'] li").filter(has_text=title)


def toast(page: Page, text: str) -> Locator:
    return page.locator(".toast").filter(has_text=text)


def test_the_actions_of_a_card_are_those_that_its_rules_allow(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Parse <b>it</b>")
    claim(fleet, item)
    page = person("board")
    card(page, "queue", "Parse").get_by_role("button", name="Actions of").click()
    shown = page.get_by_role("dialog")
    expect(shown.get_by_role("button", name="Start")).to_be_disabled()
    expect(shown.get_by_text("orchestrator holds it").first).to_be_visible()
    expect(shown.get_by_role("button", name="End claim")).to_be_enabled()
    expect(shown.get_by_role("button", name="Resume")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(card(page, "queue", "Parse").get_by_role("button", name="Actions of")).to_be_focused()


def test_an_item_is_blocked_and_that_is_taken_back(person: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "Deploy")
    page = person("board")
    card(page, "queue", "Deploy").get_by_role("link").first.focus()
    page.keyboard.press(".")
    page.get_by_role("dialog").get_by_role("button", name="Block").click()
    expect(card(page, "blocked", "Deploy")).to_be_visible()
    toast(page, "is blocked").get_by_role("button", name="Undo").click()
    expect(card(page, "queue", "Deploy")).to_be_visible()


def test_a_claim_is_ended_with_a_reason_and_the_agents_late_completion_is_refused(
    person: Callable[..., Page], fleet: SyncFleet
) -> None:
    (item,) = create(fleet, "Slow")
    found = fleet.call("claim_item", {"claims": [{"itemId": item}]})["claimResults"][0]
    advance(fleet, item, "start")
    page = person("board")
    card(page, "work", "Slow").get_by_role("button", name="Actions of").click()
    page.get_by_role("button", name="End claim").click()
    asks = page.get_by_role("dialog").last
    expect(asks).to_contain_text("End the claim of orchestrator on “Slow”?")
    asks.get_by_role("button", name="End claim").click()
    expect(asks).to_be_visible()  # without a reason nothing is sent
    asks.get_by_label("Reason").fill("it hangs")
    asks.get_by_role("button", name="End claim").click()
    expect(card(page, "work", "Slow")).to_contain_text("given back")
    expect(page.get_by_role("dialog")).to_have_count(0)
    late = {"itemId": item, "trigger": "complete", "fenceToken": found["fenceToken"]}
    late["actor"] = {"id": "orchestrator", "kind": "orchestrator"}
    (refused,) = fleet.call("advance_item", {"transitions": [late]})["results"]
    assert refused["errorCode"] == "stale_fence"
    first = fleet.call("query_items", {"operation": "get", "id": item})["transitions"][0]
    assert (first["trigger"], first["summary"], first["actor"]) == (
        "end_claim",
        "it hangs",
        {"id": "ada", "kind": "user"},
    )


def test_what_is_refused_is_said_beside_the_button_and_a_cancel_asks(
    person: Callable[..., Page], fleet: SyncFleet
) -> None:
    (item,) = create(fleet, "Old")
    page = person("board")
    card(page, "queue", "Old").get_by_role("button", name="Actions of").click()
    page.get_by_role("button", name="Cancel item").click()
    advance(fleet, item, "complete")  # somebody else is faster
    asks = page.get_by_role("dialog").last
    asks.get_by_label("Reason").fill("not needed")
    asks.get_by_role("button", name="Cancel item").click()
    expect(asks.get_by_role("alert")).to_contain_text("already terminal")
    expect(asks.get_by_label("Reason")).to_have_value("not needed")


def test_items_are_chosen_and_changed_together(person: Callable[..., Page], fleet: SyncFleet) -> None:
    ids = create(fleet, *(f"Item {n:02}" for n in range(24)))
    page = person("board")
    expect(page.locator("#bulk")).to_be_hidden()
    card(page, "queue", "Item 00").get_by_role("link").first.focus()
    page.keyboard.press("x")
    card(page, "queue", "Item 01").get_by_role("checkbox").check()
    expect(page.locator("#chosen")).to_have_text("2 chosen")
    page.locator("#bulk").get_by_role("button", name="Priority high").click()
    expect(card(page, "queue", "Item 01")).to_contain_text("high")
    expect(page.locator("#bulk")).to_be_hidden()
    rows = page.locator("section[aria-label='queue'] li")
    for row in range(21):
        rows.nth(row).get_by_role("checkbox").check()
    page.locator("#bulk").get_by_role("button", name="Cancel items").click()
    asks = page.get_by_role("dialog")
    expect(asks).to_contain_text("Cancel 21 items?")
    name = page.locator("[data-project]").get_attribute("data-project") or ""
    asks.get_by_label("Type").fill("wrong")
    asks.get_by_role("button", name="Cancel items").click()
    expect(asks.get_by_role("alert")).to_have_text(f"Type {name} to go on: this changes more than 20 items.")
    asks.get_by_label("Type").fill(name)
    asks.get_by_role("button", name="Cancel items").click()
    expect(page.locator("section[aria-label='terminal'] li").first).to_be_visible()
    assert fleet.call("query_items", {"operation": "search", "role": "terminal"})["total"] == 21
    assert len(ids) == 24


def test_blocking_many_is_taken_back_without_typing_again(person: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, *(f"Item {n:02}" for n in range(21)))
    page = person("board")
    rows = page.locator("section[aria-label='queue'] li")
    expect(rows).to_have_count(21)
    for row in range(21):
        rows.nth(row).get_by_role("checkbox").check()
    page.locator("#bulk").get_by_role("button", name="Block").click()
    asks = page.get_by_role("dialog")
    asks.get_by_label("Type").fill(page.locator("[data-project]").get_attribute("data-project") or "")
    asks.get_by_role("button", name="Block").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("Taken back.")
    assert fleet.call("query_items", {"operation": "search", "role": "blocked"})["total"] == 0


def test_a_new_item_appears(person: Callable[..., Page]) -> None:
    page = person("board")
    page.get_by_role("button", name="New item").click()
    asks = page.get_by_role("dialog")
    asks.get_by_role("button", name="Create item").click()
    expect(asks.get_by_label("Title")).to_be_focused()
    asks.get_by_label("Title").fill("Write <i>tests</i>")
    asks.get_by_label("Priority").select_option("high")
    asks.get_by_label("Tags").fill("not a tag!")
    asks.get_by_role("button", name="Create item").click()
    expect(asks.get_by_role("alert")).to_contain_text("tags")
    expect(asks.get_by_label("Title")).to_have_value("Write <i>tests</i>")
    asks.get_by_label("Tags").fill("docs")
    asks.get_by_role("button", name="Create item").click()
    expect(card(page, "queue", "Write <i>tests</i>")).to_contain_text("docs")
    expect(asks).to_be_hidden()


def test_a_lost_answer_is_asked_for_again_without_a_second_effect(
    person: Callable[..., Page], fleet: SyncFleet, mishaps: list[str]
) -> None:
    page = person("board")
    left, sent = [True], list[str]()

    def lose(route: Route) -> None:
        sent.append(json.loads(route.request.post_data or "")["requestId"])
        if left.pop():
            left.append(False)
            route.fetch()  # it reaches the fleet
            route.abort()
        else:
            left.append(False)
            route.continue_()

    page.route(re.compile("/api/call/"), lose)
    page.get_by_role("button", name="New item").click()
    asks = page.get_by_role("dialog")
    asks.get_by_label("Title").fill("Once")
    asks.get_by_role("button", name="Create item").click()
    expect(asks).to_be_hidden()
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert fleet.call("query_items", {"operation": "search", "query": "Once"})["total"] == 1
    mishaps.clear()


def test_who_is_not_signed_in_reads_only(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "Look")
    page = console("board")
    expect(card(page, "queue", "Look").get_by_role("checkbox")).to_be_hidden()
    expect(page.get_by_role("button", name="New item")).to_have_count(0)


def test_a_workflow_of_others_is_paused_cancelled_and_retried(person: Callable[..., Page], fleet: SyncFleet) -> None:
    flow = {"start": {"name": "collect", "tool": "sleep", "args": {"ms": 3_600_000}, "done": True}}
    made = fleet.call("workflow_create", {"name": "release", "flow": flow})["id"]
    page = person(f"flow/{made}")
    state = page.locator("[data-region=state]")

    def do(name: str, reason: str = "") -> None:
        page.get_by_role("button", name=name).click()
        asks = page.get_by_role("dialog")
        expect(asks).to_contain_text("release")
        if reason:
            asks.get_by_label("Reason").fill(reason)
        asks.get_by_role("button", name=name).click()
        expect(asks).to_have_count(0)

    do("Pause workflow", "the disk is full")
    expect(state).to_contain_text("paused")
    do("Resume workflow", "it is not any more")
    expect(state).to_contain_text("running")
    do("Cancel workflow")
    expect(state).to_contain_text("by ada")
    do("Retry workflow", "by mistake")
    expect(state).to_contain_text("running")
    do("Cancel workflow")
    expect(state).to_contain_text("cancelled")


def test_a_gate_is_released_in_the_persons_name(person: Callable[..., Page], fleet: SyncFleet) -> None:
    gate = {
        "start": {"name": "ask", "tool": None, "next": "end"},
        "end": {"name": "end", "tool": "get_counter", "done": True},
    }
    made = fleet.call("workflow_create", {"name": "gated", "flow": gate})["id"]
    page = person(f"flow/{made}")
    page.get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(page.locator("[data-region=steps] tr", has_text="ask")).to_contain_text("by ada")
    expect(page.locator("[data-region=state]")).to_contain_text("completed")
