"""From step to step: outcomes, what follows them, forks and joins, the end of a flow."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from coordinator.steps.model import NewStep, Plan, StepRun
from coordinator.steps.store import NOT_RECORDED, OVER, RECORDED, REFUSED, Report
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.store.flows import REPORT
from tests.items.moments import server_time
from tests.steps.rig import DONE, FAILED, Player, Rig, fork, join, then

pytestmark = pytest.mark.anyio


async def test_a_chain_runs_from_step_to_step_without_the_queue(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    assert (step.project, step.run_kind, step.run) == ("default", "flows", str(flow))
    assert (step.key, step.attempt) == ("start", 1)
    assert (step.creator, step.name, step.verdict) == ("alice", "flow", "")
    for key in ("b", "c"):
        taken = await rig.worker.report(step, "D", then(key), '"x"', want=1)
        assert taken.results == [RECORDED]
        (step,) = taken.steps
        assert step.key == key
        assert await rig.queued() == []
    assert await rig.worker.done(step, DONE, '{"a":1}') == RECORDED
    found = await rig.flow(flow)
    assert found.row.status == "completed"
    assert found.row.completed_at is not None
    assert [(one.key, one.status, one.attempt, one.result_json) for one in found.steps] == [
        ("start", "done", 1, '"x"'),
        ("b", "done", 1, '"x"'),
        ("c", "done", 1, '{"a":1}'),
    ]
    assert [one.id for one in found.steps] == [flow + 1, flow + 2, flow + 3]
    for one in found.steps:
        assert flow <= one.ready_at <= one.started_at <= one.completed_at <= found.row.completed_at  # type: ignore[operator]


async def test_the_spec_is_sent_once_to_each_worker(rig: Rig) -> None:
    await rig.create(spec=b"\xff\x00 any bytes")
    taken = await rig.worker.steps.take(1)
    assert taken.steps[0].spec == 1
    assert taken.specs == [b"\xff\x00 any bytes"]
    taken = await rig.worker.report(taken.steps[0], "D", then("b"), want=1)
    assert taken.steps[0].spec == 0
    assert taken.specs == []
    await rig.worker.report(taken.steps[0], "D", then("c"))
    other = await rig.player("w2").steps.take(1)
    assert other.specs == [b"\xff\x00 any bytes"]
    assert await rig.worker.steps.spec("default", other.steps[0].run) == b"\xff\x00 any bytes"


async def test_an_outcome_is_recorded_once(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    assert await rig.worker.done(step, then("b"), "1") == RECORDED
    assert await rig.worker.done(step, then("b"), "2") == REFUSED
    assert await rig.worker.failed(step) == REFUSED
    assert await rig.player("w2").done(step, DONE, "3") == REFUSED
    assert await rig.statuses(flow) == {"start": "done", "b": "ready"}
    assert (await rig.step(flow, "start")).result_json == "1"
    assert len(await rig.queued()) == 1


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
async def test_the_last_branch_creates_the_join_and_no_other(rig: Rig, order: tuple[str, ...]) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    await rig.worker.done(step, fork("start", "a", "b", "c"))
    branches = {branch.key: branch for branch in await rig.worker.take(5)}
    for number, key in enumerate(order):
        assert "end" not in await rig.statuses(flow)
        taken = await rig.worker.report(branches[key], "D", join("start", "end"), want=1)
        assert [one.key for one in taken.steps] == (["end"] if number == 2 else [])
        assert await rig.worker.done(branches[key], join("start", "end")) == REFUSED
    assert list((await rig.statuses(flow)).values()).count("running") == 1


async def test_a_hundred_concurrent_joins(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(25)]
    players = [rig.player(f"p{number}") for number in range(4)]
    for step in await rig.worker.take(25):
        await rig.worker.done(step, fork("f", *"abcdefgh"))
    taken = [(await player.take(50), player) for player in players]
    assert sum(len(steps) for steps, _ in taken) == 25 * 8

    async def end(steps: list[StepRun], player: Player) -> None:
        for step in steps:
            # Every report twice, and once from another worker.
            every = (player, player, players[players.index(player) - 1])
            results = await asyncio.gather(*(one.done(step, join("f", "end")) for one in every))
            assert sorted(results) == [REFUSED, REFUSED, RECORDED]
            assert results[2] == REFUSED

    await asyncio.gather(*(end(*one) for one in taken))
    ends = await rig.worker.take(100)
    assert sorted(step.run for step in ends) == sorted(map(str, flows))
    assert {step.key for step in ends} == {"end"}


async def test_forks_may_be_nested(rig: Rig) -> None:
    flow = await rig.create()
    (start,) = await rig.worker.take()
    await rig.worker.done(start, fork("outer", "a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.done(a, fork("inner", "c", "d"))
    await rig.worker.done(b, join("outer", "end"))
    c, d = await rig.worker.take(2)
    await rig.worker.done(d, join("inner", "middle"))
    assert await rig.worker.take(2) == []
    await rig.worker.done(c, join("inner", "middle"))
    (middle,) = await rig.worker.take(2)
    assert middle.key == "middle"
    await rig.worker.done(middle, join("outer", "end"))
    (end,) = await rig.worker.take(2)
    assert end.key == "end"
    await rig.worker.done(end)
    assert await rig.status(flow) == "completed"
    fields = await rig.store.command("HKEYS", keys.run.key("default", str(flow)))
    assert not [field for field in fields if field.startswith(b"j")], "counts of joins that are over"


async def test_steps_without_a_tool_are_recorded_at_once(rig: Rig) -> None:
    plan = Plan((NewStep("start", "done"), NewStep("a"), NewStep("b")), (("start", 2),))
    flow = await rig.create(plan)
    assert await rig.statuses(flow) == {"start": "done", "a": "ready", "b": "ready"}
    start = await rig.step(flow, "start")
    assert (start.result_json, start.attempt) == ("null", 1)
    assert start.started_at == start.completed_at is not None


async def test_a_failure_ends_the_flow_and_running_steps_are_recorded(rig: Rig) -> None:
    flow = await rig.create(fork("f", "a", "b", "c"))
    a, b = await rig.worker.take(2)
    assert await rig.worker.failed(a) == RECORDED
    found = await rig.flow(flow)
    assert (found.row.status, found.row.error) == ("failed", "it failed")
    assert await rig.statuses(flow) == {"a": "failed", "b": "running", "c": "cancelled"}
    assert await rig.worker.take(5) == []
    assert await rig.worker.done(b, join("f", "end"), "7") == OVER
    assert await rig.statuses(flow) == {"a": "failed", "b": "done", "c": "cancelled"}
    assert (await rig.step(flow, "b")).result_json == "7"
    assert await rig.queued() == []


@pytest.mark.parametrize(
    ("other", "becomes"),
    [
        (("D", "1", then("c")), {"a": "done", "b": "failed", "c": "cancelled"}),
        (("Y", '{"error":"busy"}', 0), {"a": "cancelled", "b": "failed"}),
    ],
    ids=["what follows", "another attempt"],
)
async def test_no_step_begins_that_became_ready_in_the_call_that_failed_the_flow(
    rig: Rig, other: tuple[str, str, Any], becomes: dict[str, str]
) -> None:
    flow = await rig.create(then("a", "b"))
    a, b = await rig.worker.take(2)
    failed = Report(b.step, 1, "F", '{"error":"it failed"}', FAILED)
    taken = await rig.worker.reports("default", [Report(a.step, 1, *other), failed], 2)
    assert (taken.results, taken.steps, await rig.queued()) == ([RECORDED, RECORDED], [], [])
    assert await rig.statuses(flow) == becomes
    again = becomes.keys() - {key for key, status in becomes.items() if status == "done"}
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (2, "failed")
    assert {step.key for step in await rig.worker.take(3)} == again


async def test_a_step_that_is_reported_together_with_the_end_of_its_flow_comes_after_it(rig: Rig) -> None:
    flow = await rig.create(then("a", "b", "c"))
    a, b, c = await rig.worker.take(3)
    reports = [
        Report(a.step, 1, "F", '{"error":"first"}', Plan(error="first")),
        Report(b.step, 1, "F", '{"error":"second"}', Plan(error="second")),
        Report(c.step, 1, "D", "null", then("next")),
    ]
    taken = await rig.worker.reports("default", reports, 1)
    assert (taken.results, taken.steps) == ([RECORDED, OVER, OVER], [])
    found = await rig.flow(flow)
    assert (found.row.status, found.row.error, len(found.steps)) == ("failed", "first", 3)
    assert [event["k"] for event in await rig.events()].count("flow_failed") == 1
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (3, "failed")


async def test_a_flow_continues_after_a_tolerated_failure(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    taken = await rig.worker.report(step, "F", then("b"), '{"error":"no"}', want=1)
    assert [one.key for one in taken.steps] == ["b"]
    await rig.worker.done(taken.steps[0])
    assert await rig.status(flow) == "completed"
    assert await rig.statuses(flow) == {"start": "failed", "b": "done"}


async def test_several_outcomes_in_one_call(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(3)]
    steps = await rig.worker.take(3)
    reports = [Report(step.step, step.attempt, "D", "null", then("b")) for step in steps]
    taken = await rig.worker.reports("default", [*reports[:2], reports[0], reports[2]], 2)
    assert taken.results == [RECORDED, RECORDED, REFUSED, RECORDED]
    assert [step.run for step in taken.steps] == [str(flow) for flow in flows[:2]]
    assert [job.split("-")[0] for job in await rig.queued()] == [str(flows[2])]


@pytest.mark.parametrize(
    ("queue_first", "want", "comes"), [(False, 1, ["b"]), (True, 1, ["start"]), (True, 3, ["start", "b"])]
)
async def test_queued_steps_come_first_when_their_turn_is_due(
    rig: Rig, queue_first: bool, want: int, comes: list[str]
) -> None:
    await rig.create()
    (step,) = await rig.worker.take()
    await rig.create()
    reports = [Report(step.step, step.attempt, "D", "null", then("b"))]
    taken = await rig.worker.steps.report(REPORT, "default", want, reports, queue_first=queue_first)
    assert [one.key for one in taken.steps] == comes
    assert {one.key for one in await rig.worker.take(3)} == {"start", "b"} - set(comes)


async def test_ids_only_rise_and_are_never_reused(rig: Rig) -> None:
    before = await server_time(rig.store)
    flows = await asyncio.gather(*(rig.create(steps=1000) for _ in range(50)))
    assert len(set(flows)) == 50
    # Where they come faster than a number for each step allows, ids run ahead of the clock.
    assert max(flows) > (after := await server_time(rig.store))
    assert all([before <= (await rig.flow(flow)).row.created_at <= after for flow in flows])
    ordered = sorted(flows)
    assert all(later - earlier > 1000 for earlier, later in itertools.pairwise(ordered))
    first = (await rig.flow(ordered[0])).steps[0].id
    assert ordered[0] < first < ordered[1]


async def test_flows_of_several_projects_do_not_meet_in_the_queue(rig: Rig) -> None:
    # The same ids in both projects.
    for project in ("one", "two"):
        rig.projects.add(project)
        await rig.store.command("SET", keys.step_ids.key(project), 2_000_000_000_000)
    one = await rig.create(project="one")
    assert await rig.create(project="two") == one
    assert len(set(await rig.queued())) == 2
    taken = {step.project: step for step in await rig.worker.take(5)}
    assert taken.keys() == {"one", "two"}
    assert len({step.job_id for step in taken.values()}) == 2
    assert len({step.idempotency_key for step in taken.values()}) == 2
    await rig.worker.done(taken["one"], FAILED)
    assert (await rig.flow(one, "two")).row.status == "running"
    default = await rig.create()
    assert (await rig.worker.take())[0].idempotency_key == f"{default}-{default + 1}"


async def test_a_defect_in_one_report_does_not_block_others(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(3)]
    steps = await rig.worker.take(3)
    reports = [Report(step.step, step.attempt, "D", "null", then("b")) for step in steps]
    reports[1] = Report(steps[1].step, 1, "D", "null", [[1, 2], [], None, False, ""])
    taken = await rig.worker.reports("default", reports, 1)
    assert taken.results == [RECORDED, NOT_RECORDED, RECORDED]
    assert len(taken.steps) + len(await rig.queued()) == 2
    assert [(await rig.statuses(flow)).get("b") is not None for flow in flows] == [True, False, True]
