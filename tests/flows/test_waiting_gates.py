"""Gates that wait for their release and those that were released, in pages: which, and by whom."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.store import gates as gate_reads
from coordinator.toolsets.flows.store.gates import (
    ReleasedPage,
    WaitingGate,
    flows_at_gates,
    gates_of,
    released_gates,
    waiting_gates,
)
from coordinator.toolsets.flows.store.progress import list_visible
from tests.flows.client import ONE_GATE, Flows, gate

pytestmark = pytest.mark.anyio


def caller(id: str, *roles: str, permissions: tuple[str, ...] = ("workflow",)) -> Caller:
    return Caller(id, "user", frozenset(roles), frozenset(permissions))


async def gates(flows: Flows, who: Caller | None = None) -> list[WaitingGate]:
    page = await waiting_gates(flows.store, flows.project, who)
    assert page.next == ""
    return page.rows


@pytest.mark.every_store
async def test_a_gate_is_listed_while_it_waits(flows: Flows) -> None:
    ana = flows.as_("ana", "*")
    flow = await ana.create({"start": gate("first", done=True)}, name="release")
    (one,) = await gates(flows)
    step = await flows.step(flow, "first")
    assert (one.step, one.key, one.name) == (step["id"], "start", "first")
    assert (one.flow, one.flow_name, one.creator, one.paused) == (flow, "release", "ana", False)
    assert (one.role, one.may_release, one.declined, one.expires_at) == ("", True, [], 0)
    assert one.since >= flow
    await flows.release(flow, "first")
    assert await gates(flows) == []
    assert await flows.store.command("EXISTS", keys.step_gates.key(flows.project)) == 0


async def test_a_gate_leaves_the_list_with_its_flow(flows: Flows) -> None:
    flow, other = await flows.create(), await flows.create()
    assert [one.flow for one in await gates(flows)] == [other, flow]
    await flows("workflow_cancel", id=other)
    assert [one.flow for one in await gates(flows)] == [flow]
    await flows.store.command("DEL", keys.run_spec.key(flows.project, str(flow)))
    assert await gates(flows) == []


async def test_who_may_release_a_gate_is_shown_to_those_who_may_see_it(flows: Flows) -> None:
    ana = flows.as_("ana", "workflow")
    await ana.create({"start": gate("by the lead", approver_role="lead", done=True)})
    await ana.create(ONE_GATE)
    seen = {
        who.id: [(one.name, one.role, one.may_release) for one in await gates(flows, who)]
        for who in (
            caller("ana"),
            caller("lea", "lead"),
            caller("bob"),
            caller("root", permissions=("workflow.admin",)),
        )
    }
    assert seen == {
        "ana": [("wait", "", True), ("by the lead", "lead", False)],
        "lea": [("by the lead", "lead", True)],
        "bob": [],
        "root": [("wait", "", True), ("by the lead", "lead", False)],
    }


async def test_gates_come_in_pages(flows: Flows) -> None:
    made = [await flows.create() for _ in range(7)]
    found: list[int] = []
    after = ""
    while True:
        page = await waiting_gates(flows.store, flows.project, None, after=after, limit=3)
        found += [one.flow for one in page.rows]
        if not (after := page.next):
            break
    assert sorted(found) == made
    assert len(found) == 7


async def released(flows: Flows, who: Caller | None = None, after: str = "", limit: int = 50) -> ReleasedPage:
    return await released_gates(flows.store, flows.project, who, after=after, limit=limit)


@pytest.mark.every_store
async def test_a_released_gate_is_in_the_history_with_who_did_it(flows: Flows) -> None:
    ana, lea = flows.as_("ana", "*"), flows.as_("lea", "*", roles=("lead",))
    flow = await ana.create({"start": gate("go", approver_role="lead", done=True)}, name="release")
    step = (await ana.step(flow, "go"))["id"]
    assert (await released(flows)).rows == []
    await asyncio.gather(*(lea("workflow_step_ready", step_id=step) for _ in range(4)))  # once
    (one,) = (await released(flows)).rows
    assert (one.step, one.name, one.flow, one.flow_name, one.creator) == (step, "go", flow, "release", "ana")
    assert (one.by, one.via) == ("lea", "")
    # Seen by those who may see the flow.
    seen = {who.id: len((await released(flows, who)).rows) for who in (caller("ana"), caller("l", "lead"), caller("x"))}
    assert seen == {"ana": 1, "l": 1, "x": 0}


async def test_a_gate_that_nobody_has_released_is_not_in_the_history(flows: Flows) -> None:
    await flows("workflow_cancel", id=await flows.create())
    assert (await released(flows)).rows == []


async def test_released_gates_come_in_pages_and_outlive_their_flows(flows: Flows) -> None:
    made = [await flows.create() for _ in range(3)]
    for flow in made:
        await flows.release(flow)
    await flows.store.command("DEL", keys.run_spec.key(flows.project, str(made[0])))
    first = await released(flows, limit=2)
    assert [one.flow for one in first.rows] == made[:0:-1]
    second = await released(flows, after=first.next, limit=2)
    assert ([one.flow for one in second.rows], second.next) == (made[:1], "")
    assert second.rows[0].name == "start"
    with pytest.raises(ToolFailure, match="earlier page"):
        await released(flows, after="soon")


@pytest.mark.parametrize("pages", [5, 0], ids=["by the list of gates", "flow by flow"])
async def test_the_gates_of_listed_flows_are_known_however_many_wait(
    flows: Flows, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_reads, "PAGES", pages)
    two = {"end": gate("second", done=True), "start": {**gate("first"), "next": "end"}}
    waiting, done = [await flows.create(two, name=name) for name in ("waiting", "done")]
    second = await flows.create({"start": gate("second", done=True)}, name="second")
    await flows.release(done, "first")
    listed = (await list_visible(flows.store, flows.project, None)).rows
    found = await gates_of(flows.store, flows.project, None, listed)
    told = {flow: [(one.name, one.place, one.steps, one.flow_name) for one in gates] for flow, gates in found.items()}
    assert told == {waiting: [("first", 2, 2, "waiting")], second: [("second", 1, 1, "second")]}


async def test_flows_that_wait_are_listed_a_page_at_a_time(flows: Flows) -> None:
    made = [await flows.create(ONE_GATE, name=f"flow {number}") for number in range(3)]
    await flows.release(made[1], ONE_GATE["start"]["name"])
    listed = {row.id: row for row in (await list_visible(flows.store, flows.project, None)).rows}
    seen, after = list[int](), ""
    for _ in made:
        rows, found, after = await flows_at_gates(flows.store, flows.project, None, after=after, limit=1)
        assert [row.id for row in rows] == list(found)
        assert rows == [listed[flow] for flow in found]
        seen += found
        if not after:
            break
    assert seen == [made[2], made[0]]
