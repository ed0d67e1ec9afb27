"""The inbox in a browser: what waits, who may answer, and what the one learns who was slower."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from coordinator.store import Store
from coordinator.toolsets.gateway.store.instances import InstanceStore
from tests.console.asking import RELEASE, Json, agree, ask_approval, ask_checkpoint, ask_gate, ask_question, session_of
from tests.console.visitors import of_store, operator
from tests.gateway.lab import Lab, section, settings_of
from tests.support.fleets import RunningFleet

Console = Callable[..., Page]


def ask_as(running: RunningFleet, project: str, person: str) -> Json:
    """An approval that a person has asked for."""

    async def ask(store: Store) -> Json:
        settings = settings_of(section(workflows={"release": RELEASE}), project)
        asking = Lab(store, project, settings).as_(person, "human")
        return await asking.follow(await asking.start("release"), "pass")

    return of_store(running, ask)


def decline(running: RunningFleet, project: str, workflow: str, version: int) -> None:
    """Somebody was asked by their client, and has given no answer."""

    async def act(store: Store) -> None:
        settings = settings_of(section(workflows={"release": RELEASE}), project)
        await InstanceStore(store, settings).decline(project, workflow, version, "cleo")

    of_store(running, act)


def needs(page: Page) -> Locator:
    return page.locator("nav .needs")


def answer(page: Page, button: str) -> Locator:
    """The place of a button, with what there is to fill in."""
    return page.locator(".answers > li").filter(has=page.get_by_role("button", name=button, exact=True))


def test_all_that_waits_appears_and_goes_without_a_reload(console: Console, fleet: SyncFleet, named: str) -> None:
    page = console("approvals", "ada")
    expect(page.get_by_text("Nothing waits for a person")).to_be_visible()
    expect(needs(page)).to_have_text("")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    ask_approval(fleet)
    ask_gate(fleet)
    ask_checkpoint(fleet)
    ask_question(fleet)
    open_ones = page.locator("[data-region=open] > li")
    expect(open_ones).to_have_count(4)
    expect(needs(page)).to_contain_text("4")
    expect(open_ones.filter(has_text="question")).to_contain_text("orchestrator asks")
    expect(open_ones.filter(has_text="checkpoint")).to_contain_text("ag-7 asks")
    expect(open_ones.filter(has_text="approval")).to_contain_text("ops")
    page.get_by_role("navigation", name="Kinds").get_by_role("link", name="gates of flows").click()
    expect(open_ones).to_have_count(1)
    page.get_by_role("link", name="Deployment: Go live").click()
    page.get_by_role("button", name="Release the gate").click()
    agree(page)
    expect(page.locator("[data-region=shown]")).to_contain_text("ada has released it")
    expect(page.get_by_text("Nothing waits for a person")).to_be_visible()
    past = page.locator("[data-region=answers] > li")
    expect(past).to_have_count(1)
    expect(past).to_contain_text("ada: released")
    expect(needs(page)).to_contain_text("3")


def test_an_approval_shows_what_each_answer_leads_to_and_takes_its_arguments(
    console: Console, fleet: SyncFleet
) -> None:
    asked = ask_approval(fleet)
    page = console("approvals", "ada")
    page.locator("[data-region=open]").get_by_role("link", name="Release").click()
    shown = page.locator("[data-region=shown]")
    for text in ("A person decides", "Look at the coverage.", '"coverage": 84', '"1.2.0"', "tests by pass", "ops"):
        expect(shown).to_contain_text(text)
    expect(shown).to_contain_text("leads to deployed (success)")
    expect(shown).to_contain_text("leads to abandoned (failure)")
    form = answer(page, "Reject")
    form.get_by_role("button").click()  # the reason is missing, so that nothing is sent
    expect(shown).to_contain_text("leads to abandoned")
    form.locator("[name='arguments.reason']").fill("Too <b>early</b>")
    form.locator("[name='arguments.days']").fill("3")
    form.get_by_role("button").click()
    agree(page)
    expect(shown.locator(".answered")).to_contain_text("ada has answered: reject")
    past = page.locator("[data-region=answers]")
    expect(past).to_contain_text("ada: reject")
    expect(needs(page)).to_have_text("")
    found = fleet.call("workflow.get", {"workflowId": asked["workflowId"]}, toolset="gateway")
    assert (found["state"], found["context"]) == (
        "abandoned",
        {"coverage": 84, "reason": "Too <b>early</b>", "days": 3},
    )


def test_an_answer_is_asked_for_again(console: Console, fleet: SyncFleet) -> None:
    asked = ask_approval(fleet)
    page = console(f"approvals?show=approval:{asked['pendingHuman'][0]['requestId']}", "ada")
    answer(page, "Drop it").get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Drop it? It leads to abandoned, in your name, and cannot be taken back.")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_have_count(0)
    answer(page, "Drop it").get_by_role("button").click()
    dialog.get_by_role("button", name="Drop it").click()
    expect(page.locator(".answered")).to_contain_text("ada has answered: drop")


def test_of_two_approvers_one_wins_and_the_other_learns_who_and_when(
    running: RunningFleet, console: Console, fleet: SyncFleet, mishaps: list[str], named: str
) -> None:
    asked = ask_approval(fleet)
    approval = asked["pendingHuman"][0]["requestId"]
    pages = [console(f"approvals?show=approval:{approval}", name) for name in ("ada", "bob")]
    pages[1].locator("#pause").click()  # so that bob sees an approval that is open no longer
    answer(pages[0], "Approve").get_by_role("button").click()
    agree(pages[0])
    expect(pages[0].locator(".answered")).to_contain_text("ada has answered: approve")
    answer(pages[1], "Approve").get_by_role("button").click()
    pages[1].get_by_role("dialog").locator("[type=submit]").click()
    expect(pages[1].get_by_role("dialog").get_by_role("alert")).to_contain_text("version")
    expect(pages[1].locator(".answered")).to_contain_text("ada has answered: approve")
    expect(pages[1].locator(".answered time")).to_contain_text("ago")
    # At the same moment, over both front-ends: exactly one.
    asked = ask_approval(fleet, "1.3.0")
    move = {"workflowId": asked["workflowId"], "expectedVersion": asked["version"], "transition": "approve"}
    path = f"/console/p/{named}/api/call/gateway/workflow.submit"
    people = [operator(running, f"person-{n}") for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        got = list(threads.map(lambda one: one.change(path, {**move, "arguments": {}}), people))
    assert sorted("problem" in one.text for one in got) == [False, True, True, True], [one.text for one in got]


def test_ones_own_request_cannot_be_approved_in_the_page_nor_by_request(
    running: RunningFleet, console: Console, fleet: SyncFleet, named: str
) -> None:
    ada, asked = operator(running, "ada"), ask_as(running, named, "ada")
    page = console(f"approvals?show=approval:{asked['pendingHuman'][0]['requestId']}", "ada")
    expect(answer(page, "Approve").get_by_role("button")).to_be_disabled()
    expect(answer(page, "Approve")).to_contain_text("The requester must not decide this.")
    expect(page.locator("[data-region=open]")).to_contain_text("The requester must not decide this.")
    move = {"workflowId": asked["workflowId"], "expectedVersion": asked["version"], "transition": "approve"}
    path = f"/console/p/{named}/api/call/gateway/workflow.submit"
    refused = ada.change(path, {**move, "arguments": {}})
    assert "The requester must not decide this" in refused.text
    assert fleet.call("workflow.get", {"workflowId": asked["workflowId"]}, toolset="gateway")["state"] == "reviewing"
    allowed = operator(running, "bob").change(path, {**move, "arguments": {}})
    assert "problem" not in allowed.text


def test_the_answer_to_a_question_is_with_the_item_that_is_offered_again(
    running: RunningFleet, console: Console, fleet: SyncFleet, named: str
) -> None:
    item = ask_question(fleet)
    page = console("approvals", "ada")
    expect(page.locator("[data-region=open]")).to_contain_text("Blue or green?")
    page.get_by_role("link", name="Choose a colour").first.click()
    expect(page.locator("[data-region=shown] .said")).to_contain_text("question-1 by orchestrator")
    page.get_by_label("Your answer").fill("Blue, with <i>dots</i>")
    page.get_by_role("button", name="Answer, and resume the item").click()
    said = page.locator("[data-region=shown] .said")
    expect(said.nth(1)).to_contain_text("answer-1 by ada")
    expect(said.nth(1)).to_contain_text("Blue, with <i>dots</i>")
    expect(page.get_by_text("ada has taken the item on (resume)")).to_be_visible()
    expect(page.locator("[data-region=answers]")).to_contain_text("ada: Blue, with <i>dots</i>asked by orchestrator")
    expect(needs(page)).to_have_text("")
    taken = fleet.call("work_next", {"tags": "asks"}, toolset="worker")
    assert taken["item"]["id"] == item
    assert "Blue, with <i>dots</i>" in str(taken)
    # An answer replaces none that somebody else has given.
    note = {"itemId": item, "key": "answer-1", "role": "work", "body": "Green", "expectedModifiedAt": ""}
    path = f"/console/p/{named}/api/call/items/manage_notes"
    late = operator(running, "bob").change(path, {"operation": "upsert", "notes": [note]})
    assert "changed meanwhile" in late.text


def test_a_gate_that_requires_a_role_says_so_and_is_not_released_without_it(
    running: RunningFleet, console: Console, fleet: SyncFleet, named: str
) -> None:
    flow = ask_gate(fleet, "Rollout", approver_role="lead")
    page = console("approvals", "ada")
    expect(page.locator("[data-region=open]")).to_contain_text("The role 'lead' is required.")
    page.get_by_role("link", name="Go live").click()
    expect(page.get_by_role("button", name="Release the gate")).to_be_disabled()
    expect(page.locator("[data-region=shown]")).to_contain_text("The role 'lead' is required.")
    (step,) = fleet.call("workflow_get", {"id": flow}, toolset="flows")["steps"]
    path = f"/console/p/{named}/api/call/flows/workflow_step_ready"
    refused = operator(running, "ada").change(path, {"step_id": step["id"]})
    assert "lead" in refused.text
    assert fleet.call("workflow_get", {"id": flow}, toolset="flows")["steps"][0]["status"] == "running"


def test_who_has_not_signed_in_sees_all_and_answers_nothing(console: Console, fleet: SyncFleet) -> None:
    asked = ask_approval(fleet)
    page = console(f"approvals?show=approval:{asked['pendingHuman'][0]['requestId']}")
    expect(needs(page)).to_contain_text("1")
    expect(answer(page, "Approve").get_by_role("button")).to_be_disabled()
    expect(answer(page, "Approve")).to_contain_text("sign in")
    assert page.locator(".answers form").count() == 0


def test_what_a_person_types_stays_while_other_things_change(
    running: RunningFleet, console: Console, fleet: SyncFleet, named: str
) -> None:
    asked = ask_approval(fleet)
    page = console(f"approvals?show=approval:{asked['pendingHuman'][0]['requestId']}", "ada")
    field = page.locator("[name='arguments.reason']")
    field.fill("Because it is")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    # What is shown changes, too: somebody was asked, and has not answered.
    decline(running, named, asked["workflowId"], asked["version"])
    ask_approval(fleet, "1.3.0")
    expect(page.locator("[data-region=shown]")).to_contain_text("asked without an answercleo")
    ask_question(fleet)
    expect(needs(page)).to_contain_text("3")
    expect(page.locator("[data-region=open] > li")).to_have_count(3)
    expect(field).to_have_value("Because it is")
    expect(field).to_be_focused()


def test_more_than_a_page_of_approvals_is_said_and_paged(console: Console, fleet: SyncFleet) -> None:
    for number in range(22):
        ask_approval(fleet, f"1.{number}.0")
    page = console("approvals")
    expect(needs(page)).to_contain_text("22")
    rows = page.locator("[data-region=open] > li")
    expect(rows).to_have_count(21)
    expect(rows.last).to_contain_text("The last 20 approvals")
    page.get_by_role("link", name="earlier approvals").click()
    expect(rows).to_have_count(2)


def test_what_waits_under_one_name_is_told_apart(console: Console, fleet: SyncFleet) -> None:
    page = console("approvals", "ada")
    instances = {version: ask_approval(fleet, version)["workflowId"] for version in ("1.2.0", "1.3.0")}
    flows = [ask_gate(fleet) for _ in range(2)]
    session, item = session_of(ask_checkpoint(fleet)), ask_question(fleet)
    waiting = page.locator("[data-region=open] > li")
    for version, instance in instances.items():
        expect(waiting.filter(has_text=f"version: {version}")).to_contain_text(instance)
    for shown in (*map(str, flows), session[:8], item[:8]):
        expect(waiting.filter(has=page.get_by_text(shown, exact=True))).to_have_count(1)
