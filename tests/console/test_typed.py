"""What somebody has typed stays, whatever others do meanwhile, and the page says who was faster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from tests.console.asking import agree, ask_approval, ask_question
from tests.console.items import advance, create

TYPED = "half of my answer"


def kept(page: Page) -> Locator:
    return page.locator(".kept")


def field(page: Page) -> Locator:
    """That for the answer to a question."""
    return page.locator("[data-region=shown] form textarea")


def is_kept(page: Page, who: str, text: str = TYPED) -> None:
    expect(kept(page)).to_contain_text("cannot be sent any more")
    expect(kept(page)).to_contain_text(who)
    expect(kept(page).locator("textarea")).to_have_value(text)


def test_an_answer_that_somebody_else_gave_first(person: Callable[..., Page], fleet: SyncFleet) -> None:
    item = ask_question(fleet)
    ada, bob = (person(f"approvals?show=question:{item.replace('-', '')}", name) for name in ("ada", "bob"))
    field(ada).fill(TYPED)
    field(ada).blur()
    field(bob).fill("Green.")
    bob.get_by_role("button", name="Answer, and resume").click()
    is_kept(ada, "bob")
    expect(kept(bob)).to_have_count(0)
    expect(kept(ada).locator("[data-copy]")).to_have_attribute("data-copy", TYPED)
    ada.get_by_role("button", name="Dismiss").click()
    expect(kept(ada)).to_have_count(0)


def test_an_answer_whose_author_has_not_resumed_the_item_yet(person: Callable[..., Page], fleet: SyncFleet) -> None:
    item = ask_question(fleet)
    page = person(f"approvals?show=question:{item.replace('-', '')}")
    field(page).fill(TYPED)
    note = {"itemId": item, "key": "answer-1", "role": "work", "body": "green"}
    fleet.call("manage_notes", {"operation": "upsert", "notes": [note]})
    is_kept(page, "orchestrator has answered")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()


@pytest.mark.parametrize("change", ["resume", "cancel", "delete"])
def test_an_answer_to_what_waits_no_more(person: Callable[..., Page], fleet: SyncFleet, change: str) -> None:
    item = ask_question(fleet)
    page = person(f"approvals?show=question:{item.replace('-', '')}")
    field(page).fill(TYPED)  # and it has the focus
    if change == "delete":
        fleet.call("manage_items", {"operation": "delete", "ids": [item]})
        is_kept(page, "no such item")
    else:
        advance(fleet, item, change)
        is_kept(page, f"orchestrator has taken the item on ({change})")


def test_an_answer_is_not_taken_for_that_to_the_next_question(person: Callable[..., Page], fleet: SyncFleet) -> None:
    item = ask_question(fleet)
    page = person(f"approvals?show=question:{item.replace('-', '')}")
    field(page).fill(TYPED)
    page.get_by_role("button", name="pause").click()
    note = {"itemId": item, "key": "answer-1", "role": "work", "body": "green"}
    fleet.call("manage_notes", {"operation": "upsert", "notes": [note]})
    advance(fleet, item, "resume")
    for job in fleet.jobs(tags="asks", wait=False):
        with job:
            job.ask("And how large?")
    page.get_by_role("button", name="resume", exact=True).click()
    expect(page.get_by_text("And how large?").first).to_be_visible()
    expect(field(page)).to_have_value("")
    is_kept(page, "")


@pytest.mark.parametrize("view", ["approvals?show=approval:{approval}", "instance/{instance}"])
def test_a_form_of_an_approval(person: Callable[..., Page], fleet: SyncFleet, view: str) -> None:
    instance = ask_approval(fleet)
    first = person(f"instance/{instance['workflowId']}", "bob")
    link = first.get_by_role("link", name="An approval").get_attribute("href") or ""
    page = person(view.format(instance=instance["workflowId"], approval=link.rpartition("approval:")[2]))
    page.get_by_role("textbox", name="reason For those who asked.").fill(TYPED)
    page.get_by_label("severity").select_option("high")
    first.get_by_role("button", name="Approve").click()
    agree(first)
    expect(kept(page).locator("textarea")).to_have_count(2)
    expect(kept(page).locator("textarea").first).to_have_value(TYPED)
    expect(kept(page)).to_contain_text("bob has")


def test_a_note_of_an_item_that_was_deleted(person: Callable[..., Page], fleet: SyncFleet, mishaps: list[str]) -> None:
    (item,) = create(fleet, "Short-lived")
    page = person(f"item/{item}")
    page.get_by_role("button", name="Add note").click()
    asks = page.get_by_role("dialog")
    asks.get_by_label("Key").fill("plan")
    asks.get_by_label("Text").fill(TYPED)
    fleet.call("manage_items", {"operation": "delete", "ids": [item]})
    expect(page.locator("#banner")).to_contain_text("This is not there any more")
    asks.get_by_role("button", name="Save note").click()
    expect(asks.get_by_role("alert")).to_contain_text("no such item")
    expect(asks.get_by_label("Text")).to_have_value(TYPED)
    page.context.close()
    mishaps.clear()  # the page was refused what it shows


def test_what_is_typed_stays_while_the_same_can_be_answered(person: Callable[..., Page], fleet: SyncFleet) -> None:
    item = ask_question(fleet)
    page = person(f"approvals?show=question:{item.replace('-', '')}")
    field(page).fill(TYPED)
    fleet.call("manage_items", {"operation": "update", "items": [{"id": item, "title": "Another title"}]})
    expect(page.locator("[data-region=shown]")).to_contain_text("Another title")
    expect(field(page)).to_have_value(TYPED)
    expect(kept(page)).to_have_count(0)
