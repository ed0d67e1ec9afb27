"""What people change on the page of an item."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from tests.console.items import create


def notes(page: Page) -> Locator:
    return page.locator("[data-region=texts]")


def edges(page: Page) -> Locator:
    return page.locator("section[aria-label='Dependencies'] li")


def write(fleet: SyncFleet, item: str, key: str, body: str) -> None:
    note = {"itemId": item, "key": key, "role": "work", "body": body}
    assert fleet.call("manage_notes", {"operation": "upsert", "notes": [note]})["upserted"] == 1


def test_of_two_editors_of_a_note_the_second_merges(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Plan it")
    write(fleet, item, "plan", "first")
    pages = [person(f"item/{item}", name) for name in ("ada", "bob")]
    for page, text in zip(pages, ("ada's text", "bob's text"), strict=True):
        notes(page).get_by_role("button", name="Edit").click()
        expect(page.get_by_role("dialog").get_by_label("Text")).to_have_value("first")
        expect(page.get_by_role("dialog").get_by_label("Key")).not_to_be_editable()
        page.get_by_role("dialog").get_by_label("Text").fill(text)
    ada, bob = pages
    ada.get_by_role("button", name="Save note").click()
    expect(notes(bob)).to_contain_text("ada's text")  # behind the dialog
    bob.get_by_role("button", name="Save note").click()
    asks = bob.get_by_role("dialog")
    expect(asks.get_by_role("alert")).to_contain_text("changed meanwhile")
    expect(asks.get_by_label("Text")).to_have_value("bob's text")
    expect(asks.get_by_label("It was changed meanwhile")).to_have_value("ada's text")
    asks.get_by_label("Text").fill("both texts")
    asks.get_by_role("button", name="Save note").click()
    expect(asks).to_be_hidden()
    expect(notes(ada)).to_contain_text("both texts")
    (found,) = fleet.call("query_notes", {"operation": "list", "itemId": item})["notes"]
    assert (found["body"], found["actor"], found["role"]) == ("both texts", {"id": "bob", "kind": "user"}, "work")


def test_fields_are_edited_and_cleared(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Old", tags="api", summary="in short", assignee="ann <1>")
    page = person(f"item/{item}")
    expect(page.get_by_text("assigned to ann <1>", exact=True)).to_be_visible()
    page.get_by_role("button", name="Edit", exact=True).click()
    asks = page.get_by_role("dialog")
    asks.get_by_label("Title").fill("New")
    asks.get_by_label("Tags").fill("")
    asks.get_by_label("Assigned to").fill("")
    asks.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New")
    found = fleet.call("query_items", {"operation": "get", "id": item})
    assert (found["title"], found.get("tags"), found["summary"]) == ("New", None, "in short")
    assert "assignee" not in found


def test_a_form_takes_back_nothing_that_others_have_changed(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Old", tags="api", description="first")
    ada, bob = (person(f"item/{item}", name) for name in ("ada", "bob"))
    for page in (ada, bob):
        page.get_by_role("button", name="Edit", exact=True).click()
    bob.get_by_role("dialog").get_by_label("Description").fill("bob's text")
    bob.get_by_role("button", name="Save", exact=True).click()
    expect(ada.locator("[data-region=texts]")).to_contain_text("bob's text")  # behind the dialog
    changed = {"id": item, "tags": "api,agent", "dueAt": "2031-01-31T12:00:00.000Z"}
    fleet.call("manage_items", {"operation": "update", "items": [changed]})
    asks = ada.get_by_role("dialog")
    asks.get_by_label("Title").fill("ada's title")
    asks.get_by_label("Tags").fill("ada")
    asks.get_by_role("button", name="Save").click()
    expect(asks.get_by_role("alert")).to_contain_text("tags: somebody else has changed it meanwhile")
    expect(asks.get_by_label("Tags")).to_have_value("ada")
    expect(asks.get_by_label("It was changed meanwhile")).to_have_value("api,agent")  # of no other field
    expect(asks.get_by_label("Description")).to_have_value("bob's text")
    asks.get_by_label("Tags").fill("ada,agent")
    asks.get_by_role("button", name="Save").click()
    expect(asks).to_be_hidden()
    found = fleet.call("query_items", {"operation": "get", "id": item})
    texts = (found["title"], found["tags"], found["description"], found["dueAt"])
    assert texts == ("ada's title", "ada,agent", "bob's text", "2031-01-31T12:00:00.000Z")


def test_buttons_take_back_nothing_that_others_have_changed(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Old", budget={"tokens": 5})
    page = person(f"item/{item}")
    page.get_by_role("button", name="pause").click()  # it does not hear what others do
    changed = {"id": item, "priority": "low", "budget": {"tokens": 7}}
    fleet.call("manage_items", {"operation": "update", "items": [changed]})
    page.get_by_role("button", name="Priority high").click()
    expect(page.locator(".toast").last).to_contain_text("priority: somebody else has changed it meanwhile")
    expect(page.get_by_role("button", name="Priority medium")).to_be_enabled()  # a refusal shows what is there now
    page.get_by_role("button", name="Raise budget").click()
    asks = page.get_by_role("dialog")
    asks.get_by_label("Tokens").fill("9")
    fleet.call("manage_items", {"operation": "update", "items": [{"id": item, "budget": {"tokens": 8, "wallMs": 1}}]})
    asks.get_by_role("button", name="Save budget").click()
    expect(asks.get_by_role("alert")).to_contain_text("budget: somebody else has changed it meanwhile")
    expect(asks.get_by_label("It was changed meanwhile")).to_have_value("8")
    expect(asks.get_by_label("Time worked")).to_have_value("1")
    asks.get_by_role("button", name="Save budget").click()
    expect(asks).to_be_hidden()
    found = fleet.call("query_items", {"operation": "get", "id": item})
    assert (found["priority"], found["budget"]) == ("low", {"tokens": 9, "wallMs": 1})


def test_a_dependency_is_added_and_removed(person: Callable[..., Page], fleet: SyncFleet) -> None:
    item, first = create(fleet, "Second", "First")
    page = person(f"item/{item}")
    page.get_by_role("button", name="Add dependency").click()
    asks = page.get_by_role("dialog")
    asks.get_by_label("It waits for").fill("no id")
    asks.get_by_role("button", name="Add dependency").click()
    expect(asks.get_by_role("alert")).to_contain_text("fromItemId")
    asks.get_by_label("It waits for").fill(first)
    asks.get_by_role("button", name="Add dependency").click()
    expect(edges(page)).to_contain_text("First")
    expect(page.get_by_role("button", name="Start")).to_be_disabled()
    edges(page).get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(edges(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Start")).to_be_enabled()


def test_a_question_of_an_agent_is_answered_once(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Unclear")
    fleet.call("work_next", {})
    fleet.call("work_ask", {"question": "Which one?"})
    pages = [person(f"item/{item}", name) for name in ("ada", "bob")]
    for page in pages:
        notes(page).get_by_role("button", name="Answer").click()
        page.get_by_role("dialog").get_by_label("Answer").fill(f"The second one, says {page.url[-1]}.")
    ada, bob = pages
    ada.get_by_role("dialog").get_by_role("button", name="Answer").click()
    expect(notes(ada)).to_contain_text("answer-1")
    expect(ada.locator(".item-head")).to_contain_text("work")
    bob.get_by_role("dialog").get_by_role("button", name="Answer").click()
    expect(bob.get_by_role("dialog").get_by_role("alert")).to_contain_text("changed meanwhile")
    first = fleet.call("query_items", {"operation": "get", "id": item})["transitions"][0]
    assert (first["trigger"], first["actor"]["id"]) == ("resume", "ada")


def test_actions_are_as_the_item_stands(person: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Parse")
    page = person(f"item/{item}")
    actions = page.get_by_role("list", name="Actions")
    expect(actions.get_by_role("button", name="Start")).to_be_enabled()
    fleet.call("claim_item", {"claims": [{"itemId": item}]})
    expect(actions.get_by_role("button", name="Start")).to_be_disabled()
    expect(actions).to_contain_text("orchestrator holds it")
    actions.get_by_role("button", name="End claim").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("it hangs")
    page.get_by_role("dialog").get_by_role("button", name="End claim").click()
    expect(page.locator("section[aria-label='History']")).to_contain_text("it hangs")
    expect(page.locator("section[aria-label='History']")).to_contain_text("ada")
    actions.get_by_role("button", name="Complete").click()
    expect(page.locator(".item-head")).to_contain_text("done")
    expect(actions.get_by_role("button", name="Reopen")).to_be_enabled()
