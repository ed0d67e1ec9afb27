"""The pages of the gateway in a browser: instances, and one with its states, its audit and its forms."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from coordinator.client.errors import FleetError
from coordinator.store import Script, keys
from coordinator.store.fleet.connection_states import ConnectionStatus
from coordinator.store.fleet.processes import STATUS_SECONDS, ProcessStatus
from coordinator.store.scripts import STORE
from tests.console.asking import Json, agree, ask_approval
from tests.console.visitors import of_store, operator
from tests.support.fleets import RunningFleet

Console = Callable[..., Page]
NOTE: Script[Any] = Script(STORE, "note_process", scope="fleet")


def start(fleet: SyncFleet) -> Json:
    return fleet.call("workflow.start", {"definitionId": "release", "input": {"version": "1"}}, toolset="gateway")


def test_instances_are_listed_by_definition_state_and_status_and_paged(
    running: RunningFleet, console: Console, fleet: SyncFleet, named: str
) -> None:
    page = console("gateway")
    expect(page.get_by_text("No instance has been started here")).to_be_visible()
    first = start(fleet)["workflowId"]
    row = page.locator(f"[data-key='instance:{first}']")
    expect(row).to_contain_text("testing")
    last = [start(fleet)["workflowId"] for _ in range(50)][-1]
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(page.locator("[data-head-of=instances]")).to_contain_text("50 shown of 51 instances")
    expect(row).to_have_count(0)
    page.get_by_role("link", name="earlier ones").click()
    expect(row).to_be_visible()
    # The one that changes comes first again.
    move = {"workflowId": first, "expectedVersion": 1, "transition": "pass", "arguments": {}}
    fleet.call("workflow.submit", move, toolset="gateway")
    expect(row).to_have_count(0)
    page.get_by_role("link", name="the last changed").click()
    expect(page.locator("tbody tr").first).to_contain_text("reviewing")
    expect(row.get_by_role("link", name="an approval")).to_be_visible()
    page.get_by_label("state").fill("testing")
    page.get_by_role("button", name="Filter").click()
    expect(row).to_have_count(0)
    expect(page.locator(f"[data-key='instance:{last}']")).to_be_visible()
    page.get_by_role("link", name="ended").click()
    expect(page.get_by_text("No instance fits.")).to_be_visible()


def test_an_instance_is_followed_live_to_its_end(console: Console, fleet: SyncFleet) -> None:
    one = start(fleet)
    page = console(f"instance/{one['workflowId']}", "ada")
    states = page.locator("[data-region=machine] > li")
    expect(states).to_have_count(4)
    expect(states.and_(page.locator("[aria-current=step]"))).to_contain_text("testing")
    expect(page.locator("[data-region=audit]")).to_contain_text("workflow.started")
    expect(page.locator("[data-head-of=audit]")).to_contain_text("back to its start")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    move = {"workflowId": one["workflowId"], "expectedVersion": 1, "transition": "pass", "arguments": {}}
    fleet.call("workflow.submit", move, toolset="gateway")
    expect(states.and_(page.locator("[aria-current=step]"))).to_contain_text("reviewing")
    expect(states.first).to_contain_text("was here")
    expect(page.locator("[data-region=audit]")).to_contain_text("human.approval.requested")
    expect(page.locator("[data-region=people]")).to_contain_text("An approval waits: anonymous asks ops")
    expect(page.locator("[data-region=head]")).to_contain_text("tests by pass")
    page.get_by_role("button", name="Approve").click()
    agree(page)
    expect(states.and_(page.locator("[aria-current=step]"))).to_contain_text("deployed")
    expect(page.locator("[data-region=head]")).to_contain_text("version 3 success")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.locator("[data-region=audit]")).to_contain_text("ada")


def test_what_is_not_there_is_said(console: Console, mishaps: list[str]) -> None:
    page = console("instance/wf_0123456789abcdef")
    expect(page.get_by_text("There is no instance wf_0123456789abcdef in this project")).to_be_visible()
    page = console("instance/x%20y%2F..")
    expect(page.get_by_text("There is no instance")).to_be_visible()
    page = console("approvals?show=approval:hr_00000000&kind=nothing")
    expect(page.get_by_text("There is no approval hr_00000000")).to_be_visible()
    page = console("approvals?show=question:0123456789abcdef0123456789abcdef")
    expect(page.get_by_text("There is no such thing")).to_be_visible()
    page = console("approvals?show=gate:1:2")
    expect(page.get_by_text("There is no such thing")).to_be_visible()
    page = console("approvals?show=checkpoint:x")
    expect(page.get_by_text("There is no such thing")).to_be_visible()
    mishaps.clear()


def test_text_of_agents_stays_text_in_pages_of_the_gateway(console: Console, fleet: SyncFleet) -> None:
    asked = ask_approval(fleet, "<img src=x onerror=alert(1)>\u202e")
    for path in (f"instance/{asked['workflowId']}", f"approvals?show=approval:{asked['pendingHuman'][0]['requestId']}"):
        page = console(path)
        expect(page.get_by_text("<img src=x onerror=alert(1)>\\u202e").first).to_be_visible()
        assert page.locator("main img").count() == 0


def test_pages_of_the_gateway_hold_no_more_than_their_windows(
    running: RunningFleet, fleet: SyncFleet, named: str
) -> None:
    one = start(fleet)["workflowId"]
    visitor = operator(running)
    body = visitor.open(f"/console/p/{named}/instance/{one}").text
    assert body.count("data-key=") < 60


def test_the_audit_of_an_instance_has_pages(console: Console, fleet: SyncFleet) -> None:
    one = start(fleet)
    stale = {"workflowId": one["workflowId"], "expectedVersion": 9, "transition": "pass", "arguments": {}}
    for _ in range(210):  # each is refused, which makes entries
        with pytest.raises(FleetError):
            fleet.call("workflow.submit", stale, toolset="gateway")
    page = console(f"instance/{one['workflowId']}")
    entries, head = page.locator("[data-region=audit] > li"), page.locator("[data-head-of=audit]")
    expect(head).to_contain_text("The last 200 entries, with more before")
    expect(entries).to_have_count(201)
    page.get_by_role("link", name="earlier entries").click()
    expect(head).to_contain_text("back to its start")
    expect(entries.last).to_contain_text("workflow.started")
    page.get_by_role("link", name="the last ones").click()
    expect(entries).to_have_count(201)


def test_connections_are_shown_as_workers_report_them(console: Console, running: RunningFleet) -> None:
    now = round(time.time() * 1000)
    uses = [
        ConnectionStatus("away", "mcp", "failing", "its <b>name</b> does not resolve\u202e", now - 90_000, now),
        ConnectionStatus("files", "mcp", "ok", "", now - 90_000, now),
        ConnectionStatus("git", "cli", unset=["GIT_TOKEN"]),
    ]
    text = msgspec.json.encode(ProcessStatus("worker", uses=uses)).decode()
    page = console("gateway")

    def reported() -> None:
        # Again and again, because it is kept for some seconds only.
        of_store(running, lambda store: store.run(NOTE, keys.FLEET, "elsewhere/w-7", 30, text, STATUS_SECONDS))

    reported()
    away = page.locator("[data-key='connection:away']")
    expect(away).to_contain_text("failing")
    expect(away).to_contain_text("its <b>name</b> does not resolve\\u202e")
    expect(away).to_contain_text("by elsewhere/w-7")
    reported()
    expect(page.locator("[data-key='connection:files'] .chip")).to_have_text("ok")
    git = page.locator("[data-key='connection:git']")
    expect(git.locator(".chip")).to_have_text("not tried")
    expect(git).to_contain_text("no environment variable GIT_TOKEN in elsewhere/w-7")
