"""The overview: its numbers, what they lead to, and why nothing moves."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from coordinator.console.charts import ends, sparkline, sums
from coordinator.console.numbers.spent import Held, Spent
from coordinator.console.numbers.standstill import standstill
from coordinator.store.fleet.processes import Process, ProcessStatus
from coordinator.toolsets.items.rules.usage.shares import Share
from coordinator.toolsets.items.store.measures.project_state import ProjectState
from tests.console.items import advance, claim, create
from tests.console.looks import tile
from tests.console.visitors import NAVIGATION, Visitor
from tests.support.fleets import RunningFleet


def test_an_unused_project_says_how_to_begin(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    page = console("overview")
    expect(page.get_by_role("heading", name=f"Nothing has happened in {named} yet")).to_be_visible()
    for command in (
        f'fleet items add "Fix the login" --project {named}',
        f"claude mcp add --transport http fleet {running.state.base_url}/p/{named}/mcp",
        f"fleet run --project {named} -- ./work.sh",
    ):
        expect(page.get_by_text(command, exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Stalled")).to_be_hidden()
    page.get_by_text("All addresses of this fleet").click()
    expect(page.get_by_text(f"{running.state.base_url}/feed/PROJECT")).to_be_visible()
    create(fleet, "The first")
    tile(page, "queue", 1)
    expect(page.get_by_text("Nothing has happened")).to_be_hidden()
    expect(page.get_by_role("heading", name="Stalled")).to_be_visible()


def test_what_is_bad_is_marked_and_not_the_number_beside_it(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fails", maxAttempts=1)
    agent = {"id": "orchestrator", "kind": "orchestrator"}
    claim(fleet, item)
    advance(fleet, item, "start")
    release = {"itemId": item, "reason": "failed"}
    fleet.call("claim_item", {"releases": [release], "actor": agent, "requestId": str(uuid.uuid4())})
    page = console("overview")
    expect(page.locator("[data-key='held'] .bad")).to_have_text("1 quarantined")
    page.locator("[data-key='held'] .bad").click()
    page.get_by_role("link", name="Fails").click()
    expect(page.locator(".item-head .chip", has_text="quarantined")).to_have_count(1)
    expect(page.get_by_text("no agent has a claim on it")).to_be_visible()


def test_numbers_are_those_of_the_tools_and_lead_to_their_lists(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    ids = create(fleet, *(f"Item {n}" for n in range(12)))
    for item in ids[:3]:
        advance(fleet, item, "start", "complete")
    advance(fleet, ids[3], "hold")
    claim(fleet, ids[4])
    advance(fleet, ids[4], "start")
    page = console("overview")
    for key, number in (
        ("queue", 7), ("work", 1), ("review", 0), ("blocked", 1), ("terminal", 3),
        ("ready", 7), ("claims", 1), ("agents", 1), ("held", 0), ("flows", 0), ("needs", 0),
    ):  # fmt: skip
        tile(page, key, number)
    expect(page.locator("[data-key='why']")).to_contain_text("moving")
    expect(page.locator("[data-key='why']")).to_contain_text("2 front-ends, 1 worker, shed 0/s")
    for part in page.locator("[data-region='numbers'] a").all():
        path = part.get_attribute("href")
        view = path.split("?")[0].rpartition("/")[2]  # type: ignore[union-attr]
        if view in ("board", "claims", "agents", "system"):
            assert Visitor(running.port).ask("GET", path, NAVIGATION).status == 200, path  # type: ignore[arg-type]
    advance(fleet, ids[5], "start")
    tile(page, "work", 2)
    tile(page, "queue", 6)


def test_claims_that_end_and_items_that_are_contended_are_listed(
    console: Callable[..., Page], fleet: SyncFleet
) -> None:
    (item,) = create(fleet, "Everybody wants <it>")
    claim(fleet, item, 55)
    for n in range(3):
        call = {"actor": {"id": f"loser-{n}", "kind": "subagent"}, "requestId": str(uuid.uuid4())}
        fleet.call("claim_item", {**call, "claims": [{"itemId": item}]})
    page = console("overview")
    expiring = page.locator("[data-key='expiring']")
    expect(expiring).to_contain_text("Everybody wants <it>")
    expect(expiring.locator("time.soon")).to_be_visible()
    expect(page.locator("[data-key='stalled']")).to_contain_text("No claim is stalled.")
    contended = page.locator("[data-key='contended']")
    expect(contended).to_contain_text("losers a minute")
    expect(contended.get_by_role("link", name="Everybody wants <it>")).to_be_visible()


def test_the_last_day_is_chosen_in_the_address(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "one")
    page = console("overview?span=day")
    expect(page.locator("[aria-current='true']")).to_have_text("last day")
    tile(page, "queue", 1)
    page.get_by_role("link", name="last hour").click()
    expect(page.locator("[aria-current='true']")).to_have_text("last hour")


def test_it_needs_few_requests(console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet) -> None:
    create(fleet, "one")
    page = console("agents")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="Overview").click()
    tile(page, "queue", 1)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert len([one for one in asked if "/static/" not in one]) <= 2, asked


# --- why nothing moves --------------------------------------------------------------------------

NOW = 1_800_000_000_000


def state(**changes: object) -> ProjectState:
    """A project in which nothing is wrong."""
    whole = ProjectState(
        now=NOW, roles=(5, 2, 0, 7, 0), ready=5, oldest="", oldest_created=0, waiting=0, claims=2, expiring=0,
        abandoned=0, quarantined=0, in_backoff=0, agents=3, parked=0, agent_seen=NOW - 1_000, drains=0,
        changed=NOW - 1_000,
    )  # fmt: skip
    return whole._replace(**changes)  # type: ignore[arg-type]


def process(role: str = "frontend", **changes: object) -> Process:
    status = ProcessStatus(role, **changes)  # type: ignore[arg-type]
    return Process("host", "slot", NOW // 1000, status)


FRONT, WORKER = process(), process("worker")
SHEDS = process(shed_per_second={"normal": 3.0})
IDLE = {"claims": 0, "agent_seen": NOW - 120_000}
BLOCKED = {"ready": 0, "claims": 0, "waiting": 4, "roles": (4, 0, 0, 1, 2)}


@pytest.mark.parametrize(
    ("cause", "found", "processes", "drains", "queued"),
    [
        (None, state(), [FRONT], [], 0),
        ("no workers", state(), [FRONT], ["fleet"], 3),
        (None, state(), [FRONT, WORKER], [], 3),
        ("drained", state(**IDLE), [SHEDS, WORKER], ["fleet"], 0),
        ("drained", state(), [process(drained="host:host")], [], 0),
        (None, state(), [FRONT, process(drained="host:other")], [], 0),
        ("drained", state(), [FRONT, process("worker", paused=True)], [], 2),
        ("shed", state(**IDLE), [FRONT, SHEDS], [], 0),
        (None, state(), [process(shed_per_second={"sheddable": 3.0})], [], 0),
        ("no agents", state(**IDLE), [FRONT], [], 0),
        ("no agents", state(**IDLE, ready=0, abandoned=1), [FRONT], [], 0),
        ("no agents", state(agent_seen=NOW - 400_000), [FRONT], [], 0),
        (None, state(agent_seen=NOW - 200_000), [FRONT], [], 0),
        (None, state(**IDLE, parked=1), [FRONT], [], 0),
        (None, state(claims=0), [FRONT], [], 0),
        ("all blocked", state(**BLOCKED), [FRONT], [], 0),
        ("all claimed", state(ready=0, changed=NOW - 90_000), [FRONT], [], 0),
        (None, state(ready=0), [FRONT], [], 0),
        ("empty", state(ready=0, claims=0, roles=(0, 0, 0, 9, 0)), [FRONT], [], 0),
    ],
)
def test_the_first_cause_is_named(
    cause: str | None, found: ProjectState, processes: list[Process], drains: list[str], queued: int
) -> None:
    named = standstill(found, processes, drains, queued)
    assert (named and named.cause) == cause


def spent(of: str, **more: object) -> Spent:
    return Spent(of, "x", Share("tokens", 12, 10), False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cause", "found", "held", "words"),
    [
        ("budget spent", state(), Held((spent("project"),), False, {}, True), "The budget of the project is spent: 12"),
        ("empty", state(ready=0, claims=0, roles=(0, 0, 0, 9, 0)), Held((spent("project"),), False, {}, True), "done"),
        ("budget spent", state(**IDLE), Held((), False, {"budget": 5}, False), "5 items are held back"),
        ("budget spent", state(**IDLE, parked=9), Held((), False, {"budget": 5}, False), "Nothing is offered"),
        (None, state(), Held((), False, {"budget": 5}, False), ""),
        ("budget spent", state(claims=0), Held((spent("agent"),) * 3, False, {}, True), "Each of the 3 agents"),
        (None, state(claims=0), Held((spent("agent"),) * 2, False, {}, True), ""),
        ("no agents", state(**IDLE), Held((), False, {}, True), "5 items are ready, and no agent asks for one."),
        ("no agents", state(**IDLE), Held((), False, {"budget": 2}, True), "Others are held back: 2 below spent budg"),
        ("held back", state(**IDLE), Held((), False, {"capabilities": 5}, False), "5 for agents with other capabili"),
        ("all blocked", state(**BLOCKED), Held((), False, {"dependencies": 4}, False), "4 waiting for dependencies"),
    ],
)
def test_what_is_held_back_is_a_cause(cause: str | None, found: ProjectState, held: Held, words: str) -> None:
    named = standstill(found, [FRONT], [], 0, held)
    assert (named and named.cause) == cause
    assert words in (named.text if named else "")


# --- sparklines ---------------------------------------------------------------------------------


def test_a_sparkline_draws_what_is_known() -> None:
    assert "<path" not in str(sparkline([None, None, 3], "x"))
    drawn = str(sparkline([None, 10, 20, 0], "queue"))
    assert 'd="M33.3 12L66.7 1.5L100 22.5"' in drawn
    assert 'aria-label="queue: 10 at first, 0 now, at most 20"' in drawn
    assert 'd="M0 ' in str(sparkline([5, 5], "flat"))


def test_parts_of_a_time_are_joined() -> None:
    assert ends([1, 2, 3, 4, 5, 6], 3) == [2, 4, 6]
    assert sums([None, None, 1, None, 5, 6], 3) == [None, 1, 11]
