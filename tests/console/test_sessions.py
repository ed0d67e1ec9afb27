"""The pages of sessions in a browser: the list, and one with its checkpoint, its answers and its trace."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from tests.console.asking import agree, ask_checkpoint, session_of
from tests.console.visitors import Visitor, operator
from tests.support.fleets import RunningFleet

Console = Callable[..., Page]


def test_sessions_are_listed_by_their_last_change(console: Console, fleet: SyncFleet) -> None:
    page = console("sessions")
    expect(page.get_by_text("No session has been started here")).to_be_visible()
    expect(page.get_by_text("Walks of the navigator are not listed")).to_be_visible()
    one, other = session_of(ask_checkpoint(fleet)), session_of(ask_checkpoint(fleet))
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(other[:8])
    expect(page.locator(f"[data-key='session:{one}']")).to_contain_text("triage")
    expect(page.locator(f"[data-key='session:{one}']")).to_contain_text("go-ahead")
    expect(page.locator(f"[data-key='session:{one}']")).to_contain_text("ag-7")
    expect(page.locator("[data-head-of=sessions]")).to_contain_text("2 shown of 2; 2 with an open checkpoint")


def test_a_checkpoint_is_answered_from_its_session_and_its_worker_goes_on(console: Console, fleet: SyncFleet) -> None:
    handle = ask_checkpoint(fleet)
    page = console(f"session/{session_of(handle)}", "ada")
    expect(page.get_by_text("This is the cause. Shall it be mended now?")).to_be_visible()
    expect(page.locator("[data-region=activities] [aria-current=step]")).to_contain_text("Triage")
    expect(page.locator("[data-region=trace]")).to_contain_text("yield_checkpoint")
    page.get_by_role("button", name="Leave it, it is no emergency").click()
    agree(page)
    expect(page.locator("[data-region=answers]")).to_contain_text("ada has answered go-ahead: leave")
    expect(page.locator("[data-region=checkpoint]")).to_contain_text("ada has answered go-ahead: leave")
    expect(page.locator("[data-region=checkpoint]").get_by_role("button")).to_have_count(0)
    expect(page.locator("[data-region=trace]")).to_contain_text("respond_checkpoint")
    page.mouse.move(0, 0)  # the list keeps its rows in place while it is pointed at
    resumed = fleet.call("resume_checkpoint", {"session_token": handle}, toolset="sessions")
    assert resumed["resolved_option"] == "leave"
    assert resumed["effect"]["transitionTo"] == "workflow-end"
    expect(page.locator("[data-region=trace]")).to_contain_text("resume_checkpoint")


def test_no_token_of_a_session_is_in_any_page(running: RunningFleet, fleet: SyncFleet, named: str) -> None:
    handle = ask_checkpoint(fleet)
    session, visitor = session_of(handle), operator(running)
    for path in ("sessions", f"session/{session}", "approvals", f"approvals?show=checkpoint:{session}"):
        got = visitor.open(f"/console/p/{named}/{path}")
        assert got.status == 200
        assert "eyJ" not in got.text
        assert handle[:40] not in got.text
    answer = {"session_id": session, "yielded_at": since(visitor, named, session), "option_id": "mend"}
    path = f"/console/p/{named}/api/call/sessions/respond_checkpoint"
    told = visitor.change(path, answer)
    assert "problem" not in told.text
    assert "eyJ" not in told.text
    assert visitor.change(path, answer).text == told.text  # repeated after a lost answer
    assert "ada has answered 'go-ahead' with 'mend' at " in visitor.change(path, {**answer, "option_id": "leave"}).text


def test_of_those_who_answer_a_checkpoint_at_once_one_wins_and_the_others_learn_who(
    running: RunningFleet, fleet: SyncFleet, named: str
) -> None:
    session = session_of(ask_checkpoint(fleet))
    people = [operator(running, f"person-{n}") for n in range(4)]
    answer = {"session_id": session, "yielded_at": since(people[0], named, session), "option_id": "mend"}
    path = f"/console/p/{named}/api/call/sessions/respond_checkpoint"
    with ThreadPoolExecutor(4) as threads:
        got = [one.text for one in threads.map(lambda one: one.change(path, answer), people)]
    refused = [one for one in got if "problem" in one]
    assert len(refused) == 3, got
    assert all("has answered 'go-ahead' with 'mend' at " in one for one in refused), got
    # A page that shows an earlier yield answers none.
    stale = people[0].change(path, {**answer, "yielded_at": 1, "option_id": "leave"})
    assert "has answered" in stale.text
    unknown = people[0].change(path, {**answer, "session_id": "x"})
    assert "no such session" in unknown.text


def since(visitor: Visitor, project: str, session: str) -> int:
    """Since when the open checkpoint waits, as the page says."""
    text = visitor.open(f"/console/p/{project}/session/{session}").text
    return int(text.split("yielded_at&#34;:")[1].split(",")[0])
