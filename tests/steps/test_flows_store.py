"""Operations on flows: gates, cancelling, retrying, listing, forgetting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.steps.model import NewStep, Plan
from coordinator.steps.store import OVER, RECORDED, REFUSED
from coordinator.steps.times import MAX_CRASHES
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY, idempotency_key
from coordinator.toolsets.flows.rules import planner, spec
from coordinator.toolsets.flows.store import flows
from coordinator.toolsets.flows.store.flows import NewFlow
from tests.items.moments import server_time
from tests.steps.rig import NOTHING, Rig, fork, join, then

pytestmark = pytest.mark.anyio

GATE = Plan((NewStep("start", "gate"),))


async def test_a_gate_waits_for_its_release(rig: Rig) -> None:
    flow = await rig.create(GATE)
    gate = await rig.step(flow, "start")
    assert (gate.status, gate.gate, gate.completed_at, gate.result_json) == ("running", True, None, None)
    assert gate.started_at is not None
    assert await rig.worker.take() == []
    swept = await rig.worker.steps.sweep("default")
    assert swept.idle
    assert await rig.flows.release("default", NO_KEY, gate.id, "bob") == (True, "running")
    assert await rig.flows.release("default", NO_KEY, gate.id, "eve") == (False, "ready")
    (step,) = await rig.worker.take()
    assert (step.key, step.verdict) == ("start", "")
    assert await rig.flows.release("default", NO_KEY, gate.id, "eve") == (False, "running")
    await rig.worker.done(step, then("b"))
    assert await rig.flows.release("default", NO_KEY, gate.id, "eve") == (False, "done")
    gate_now = await rig.step(flow, "start")
    assert (gate_now.status, gate_now.approved_by, gate_now.gate) == ("done", "bob", False)
    assert gate_now.started_at == gate.started_at
    emitted = [
        (event["k"], event["n"], event.get("a")) for event in await rig.events() if event["k"].startswith("step_")
    ]
    assert emitted[:2] == [("step_gate", "start", None), ("step_released", "start", "bob")]


async def test_one_of_many_concurrent_releases_of_a_gate_succeeds(rig: Rig) -> None:
    flow = await rig.create(GATE)
    answers = await asyncio.gather(
        *(rig.flows.release("default", NO_KEY, flow + 1, f"approver-{number}") for number in range(20))
    )
    assert [answer for answer in answers if answer and answer[0]] == [(True, "running")]
    assert len(await rig.queued()) == 1


async def test_a_gate_may_expire(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("start", "gate", expires_ms=60_000),)))
    assert (await rig.worker.steps.sweep("default")).fired == 0
    await rig.ring(flow + 1)
    assert (await rig.worker.steps.sweep("default")).fired == 1
    assert (await rig.worker.steps.sweep("default")).fired == 0
    assert await rig.store.command("EXISTS", keys.step_gates.key("default")) == 0
    (step,) = await rig.worker.take()
    assert step.verdict == "expired"
    await rig.worker.failed(step)
    assert (await rig.step(flow, "start")).status == "failed"


async def test_a_released_gate_does_not_expire(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("start", "gate", expires_ms=60_000),)))
    await rig.flows.release("default", NO_KEY, flow + 1, "bob")
    assert await rig.store.command("ZCARD", keys.step_timers.key("default")) == 0


async def test_a_delayed_step_can_be_released_at_once(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("start", delay_ms=3_600_000),)))
    assert await rig.flows.release("default", NO_KEY, flow + 1, "bob") == (True, "pending")
    assert (await rig.step(flow, "start")).approved_by == "bob"
    (step,) = await rig.worker.take()
    await rig.worker.done(step)
    assert (await rig.step(flow, "start")).approved_by == "bob"
    emitted = [(event["k"], event["a"]) for event in await rig.events() if event["k"] == "step_released"]
    assert emitted == [("step_released", "bob")]
    assert await rig.store.command("ZCARD", keys.step_timers.key("default")) == 0


async def test_ten_thousand_open_gates_cost_a_sweep_nothing(rig: Rig) -> None:
    pipeline = rig.store.client.pipeline(transaction=False)
    await rig.create(GATE)
    for number in range(10_000):
        step = 3_000_000_000_000 + number
        pipeline.hset(
            keys.step.key("default", str(step)),
            mapping={"r": "1", "k": "g", "s": "g", "f": 1, "q": "fleet-steps", "e": 1},
        )
    await pipeline.execute()
    await rig.store.command("CONFIG", "RESETSTAT")
    swept = await rig.worker.steps.sweep("default")
    assert swept.idle
    stats = (await rig.store.command("INFO", "commandstats")).decode()
    assert "cmdstat_hmget" not in stats
    assert "cmdstat_hgetall" not in stats


async def test_cancelling_ends_everything_that_is_open(rig: Rig) -> None:
    plan = Plan((NewStep("a"), NewStep("b"), NewStep("g", "gate"), NewStep("d", delay_ms=60_000), NewStep("e", "done")))
    flow = await rig.create(plan)
    (running,) = await rig.worker.take()
    assert await rig.flows.cancel("default", NO_KEY, flow, "bob") == (True, "cancelled")
    assert await rig.flows.cancel("default", NO_KEY, flow, "eve") == (False, "cancelled")
    emitted = (await rig.events())[-1]
    assert (emitted["k"], emitted["i"], emitted["a"]) == ("flow_cancelled", str(flow), "bob")
    found = await rig.flow(flow)
    assert (found.row.status, found.row.cancelled_by, found.row.completed_at) == ("cancelled", "bob", None)
    assert found.row.cancelled_at is not None
    assert await rig.statuses(flow) == dict.fromkeys("abgd", "cancelled") | {"e": "done"}
    assert await rig.worker.done(running, then("late"), "1") == REFUSED
    assert await rig.worker.take(5) == []
    assert (await rig.worker.steps.sweep("default")).idle
    assert await rig.flows.release("default", NO_KEY, flow + 3, "bob") == (False, "cancelled")
    left = [key.decode() for key in await rig.store.command("KEYS", "fc:{default}:s[tg]*")]
    assert left == []


async def test_workers_are_told_to_stop_cancelled_steps(rig: Rig) -> None:
    flow = await rig.create(then("a", "b"))
    (step,) = await rig.worker.take()
    pubsub: Any = rig.store.client.pubsub()
    await pubsub.subscribe("fc:{RQ}:pubsub:w1")
    assert (await pubsub.get_message(timeout=60))["type"] == "subscribe"
    await rig.flows.cancel("default", NO_KEY, flow, "bob")
    message = await pubsub.get_message(timeout=60)
    assert message["data"] == f'{{"command": "stop-job", "job_id": "{step.job_id}"}}'.encode()
    assert await pubsub.get_message(timeout=0.01) is None
    await pubsub.aclose()


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_flow_that_has_ended_cannot_be_cancelled(rig: Rig, status: str) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    await (rig.worker.done(step) if status == "completed" else rig.worker.failed(step))
    assert await rig.flows.cancel("default", NO_KEY, flow, "bob") == (False, status)
    assert (await rig.flow(flow)).row.cancelled_at is None


async def test_unknown_ids(rig: Rig) -> None:
    flow = await rig.create(steps=3)
    for number in (1, flow + 4, flow + 2):
        assert await rig.flows.release("default", NO_KEY, number, "bob") is None
        assert await rig.flows.find_step("default", number) is None
    assert await rig.flows.find_step("default", flow) is None
    assert await rig.flows.get("default", 1) is None
    assert await rig.flows.cancel("default", NO_KEY, 1, "bob") is None
    assert await rig.flows.retry("default", NO_KEY, 1, "bob") is None
    found = await rig.flows.find_step("default", flow + 1)
    assert found is not None
    assert (found.step.key, found.spec) == ("start", b"spec")
    single = await rig.create(steps=1)
    assert await rig.flows.find_step("default", single + 1) is not None


# --- running a flow again -----------------------------------------------------------------------


async def test_a_failed_flow_runs_again_where_it_failed(rig: Rig) -> None:
    flow = await rig.create()
    (start,) = await rig.worker.take()
    await rig.worker.done(start, fork("f", "a", "b", "c"), "1")
    a, b = await rig.worker.take(2)
    await rig.worker.failed(a)
    assert await rig.worker.done(b, join("f", "end"), "2") == OVER
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (3, "failed")
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (0, "running")
    assert (await rig.flow(flow)).row.error is None
    again = {step.key: step for step in await rig.worker.take(5)}
    assert again.keys() == {"a", "b", "c"}
    assert (again["a"].attempt, again["a"].verdict) == (2, "")
    # Done before, but its successor never began: its result is kept.
    assert (again["b"].verdict, again["b"].arguments) == ("recorded", "2")
    assert again["c"].attempt == 2
    for step in again.values():
        await rig.worker.done(step, join("f", "end"), step.arguments or "3")
    (end,) = await rig.worker.take(5)
    assert end.key == "end"
    await rig.worker.done(end)
    found = await rig.flow(flow)
    assert found.row.status == "completed"
    assert {step.key: step.result_json for step in found.steps} == {
        "start": "1",
        "a": "3",
        "b": "2",
        "c": "3",
        "end": "null",
    }
    assert sorted(step.id for step in found.steps) == [flow + number for number in range(1, 6)]


async def test_a_cancelled_flow_runs_again_with_its_gates_closed(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("a"), NewStep("g", "gate", expires_ms=60_000))))
    await rig.flows.cancel("default", NO_KEY, flow, "bob")
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (2, "cancelled")
    assert await rig.status(flow) == "running"
    gate = await rig.step(flow, "g")
    assert gate.gate
    assert gate.started_at is not None
    # They expire as before.
    assert await rig.store.command("ZSCORE", keys.step_timers.key("default"), gate.id) == gate.started_at + 60_000
    assert len(await rig.worker.take(3)) == 1


async def test_a_flow_without_failed_steps_cannot_run_again(rig: Rig) -> None:
    flow = await rig.create()
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (0, "running")
    (step,) = await rig.worker.take()
    await rig.worker.done(step)
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (0, "completed")
    assert await rig.status(flow) == "completed"


async def test_a_step_whose_result_no_branch_matched_runs_again(rig: Rig) -> None:
    flow = await rig.create(fork("f", "a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.done(a, Plan(error="no branch matched"), "1")
    assert await rig.worker.done(b, join("f", "end"), "2") == OVER
    assert await rig.statuses(flow) == {"a": "done", "b": "done"}
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (2, "failed")
    again = {step.key: step for step in await rig.worker.take(5)}
    assert (again["a"].attempt, again["a"].verdict) == (2, "")
    for step in again.values():
        await rig.worker.done(step, join("f", "end"), "3")
    (end,) = await rig.worker.take(5)
    await rig.worker.done(end)
    assert await rig.status(flow) == "completed"
    assert await rig.statuses(flow) == {"a": "done", "b": "done", "end": "done"}


async def test_a_retried_flow_is_kept_and_its_steps_use_the_same_queues(rig: Rig) -> None:
    flow = await rig.create(queue="gpu", priority="high")
    worker = rig.player("w2", pools=["gpu"])
    (step,) = await worker.take()
    await worker.failed(step)
    assert await rig.flows.trim("default") == (0, 1)
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (1, "failed")
    assert await rig.flows.trim("default") == (0, 0), "a running flow has no retention"
    assert len(await rig.queued("fleet-steps-gpu.high")) == 1
    assert [(event["i"], event["a"]) for event in await rig.events() if event["k"] == "flow_retried"] == [
        (str(flow), "bob")
    ]


async def test_a_gate_that_was_passed_is_not_closed_when_the_flow_runs_again(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("g", "gate"), NewStep("a"))))
    await rig.flows.release("default", NO_KEY, flow + 1, "bob")
    steps = {step.key: step for step in await rig.worker.take(2)}
    await rig.worker.failed(steps["a"])
    assert await rig.worker.done(steps["g"]) == OVER
    assert await rig.flows.retry("default", NO_KEY, flow, "alice") == (2, "failed")
    again = {step.key: step for step in await rig.worker.take(2)}
    assert {key: step.verdict for key, step in again.items()} == {"g": "recorded", "a": ""}
    assert (await rig.step(flow, "g")).approved_by == "bob"
    assert await rig.worker.done(again["g"], NOTHING) == RECORDED
    assert (await rig.step(flow, "g")).approved_by == "bob"


async def test_steps_that_failed_after_their_flow_run_again_too(rig: Rig) -> None:
    flow = await rig.create(fork("f", "a", "b", "c"))
    a, b, c = await rig.worker.take(3)
    await rig.worker.failed(a)
    assert await rig.worker.failed(b) == OVER
    assert (await rig.worker.report(c, "Y", 0, '{"error":"no"}')).results == [OVER]
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (3, "failed")
    again = [(step.key, step.attempt, step.verdict) for step in await rig.worker.take(5)]
    assert again == [("a", 2, ""), ("b", 2, ""), ("c", 2, "")]


async def test_a_failure_that_the_flow_went_on_after_stays_when_it_runs_again(rig: Rig) -> None:
    flow = await rig.create()
    await rig.worker.failed((await rig.worker.take())[0], then("instead"))
    await rig.worker.failed((await rig.worker.take())[0])
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (1, "failed")
    (again,) = await rig.worker.take(5)
    assert again.key == "instead"
    await rig.worker.done(again)
    assert await rig.statuses(flow) == {"start": "failed", "instead": "done"}


@pytest.mark.parametrize("how", ["failed", "cancelled", "lost", "given back"])
async def test_a_step_that_was_done_stays_so_when_the_flow_ends_again(rig: Rig, how: str) -> None:
    flow = await rig.create(fork("f", "a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.failed(a)
    assert await rig.worker.done(b, join("f", "end"), "2") == OVER
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (2, "failed")
    a = (await rig.worker.take())[0]
    if how == "cancelled":
        await rig.flows.cancel("default", NO_KEY, flow, "bob")
    else:
        held = await rig.worker.take(0 if how == "failed" else 1)
        await rig.worker.failed(a)
        if how == "lost":
            await rig.expire(held)
            await rig.worker.steps.sweep("default")
        elif how == "given back":
            await rig.worker.report(held[0], "B", 0)
    done = await rig.step(flow, "b")
    assert (done.status, done.result_json) == ("done", "2")
    assert (await rig.flows.retry("default", NO_KEY, flow, "bob") or (0,))[0] == 2
    again = {step.key: step for step in await rig.worker.take(5)}
    assert (again["b"].verdict, again["b"].arguments) == ("recorded", "2")


async def test_a_step_that_was_done_stays_so_however_many_workers_are_lost(rig: Rig) -> None:
    flow = await rig.create(fork("f", "a", "b"))
    while await server_time(rig.store) <= flow:
        pass
    a, b = await rig.worker.take(2)
    await rig.worker.failed(a)
    assert await rig.worker.done(b, join("f", "end"), "2") == OVER
    while await server_time(rig.store) <= b.started_at:
        pass
    await rig.flows.retry("default", NO_KEY, flow, "bob")
    for _ in range(MAX_CRASHES + 1):
        again = {step.key: step for step in await rig.worker.take(5)}
        assert (again["b"].verdict, again["b"].arguments) == ("recorded", "2")
        assert again["b"].started_at == b.started_at
        await rig.expire([again["b"]])
        await rig.worker.steps.sweep("default")


async def test_steps_done_before_a_failure_are_in_the_history_once(rig: Rig) -> None:
    stuck = Plan((NewStep("nothing", "done"),), error="no branch matched")
    flow = await rig.create(steps=2)
    for attempt in (1, 2, 3):
        (start,) = await rig.worker.take()
        assert start.attempt == attempt
        await rig.worker.done(start, stuck, "1")
        found = {step.key: step.id - flow for step in (await rig.flow(flow)).steps}
        assert (len((await rig.flow(flow)).steps), found) == (2, {"start": 1, "nothing": 2})
        assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (1, "failed")
        assert await rig.statuses(flow) == {"start": "ready"}
    (start,) = await rig.worker.take()
    await rig.worker.done(start)
    assert await rig.statuses(flow) == {"start": "done"}


# --- requests -----------------------------------------------------------------------------------


async def test_repeated_requests_have_one_effect(rig: Rig) -> None:
    def new(name: str) -> NewFlow:
        return NewFlow(name=name, creator="alice", spec=b"", steps=3, plan=GATE)

    create = idempotency_key("alice", "r1", "workflow_create", "x")
    flows = await asyncio.gather(*(rig.flows.create("default", create, new("x")) for _ in range(10)))
    assert len(set(flows)) == 1
    assert len((await rig.flows.list("default", limit=20)).rows) == 1
    release = idempotency_key("bob", "r2", "workflow_step_ready", flows[0] + 1)
    for _ in range(3):
        assert await rig.flows.release("default", release, flows[0] + 1, "bob") == (True, "running")
    cancel = idempotency_key("bob", "r3", "workflow_cancel", flows[0])
    for _ in range(3):
        assert await rig.flows.cancel("default", cancel, flows[0], "bob") == (True, "cancelled")
    retry = idempotency_key("bob", "r4", "retry", flows[0])
    for _ in range(3):
        assert await rig.flows.retry("default", retry, flows[0], "bob") == (1, "cancelled")
    other = await rig.create(GATE)
    found = [await rig.flow(flow) for flow in (flows[0], other)]
    for reused in (
        rig.flows.create("default", idempotency_key("alice", "r1", "workflow_create", "y"), new("y")),
        rig.flows.release("default", idempotency_key("bob", "r2", "workflow_step_ready", other + 1), other + 1, "bob"),
        rig.flows.cancel("default", idempotency_key("bob", "r3", "workflow_cancel", other), other, "bob"),
        rig.flows.retry("default", idempotency_key("bob", "r4", "retry", other), other, "bob"),
    ):
        with pytest.raises(ToolFailure, match="requestId") as refused:
            await reused
        assert refused.value.code == "request_id_reused"
    assert [await rig.flow(flow) for flow in (flows[0], other)] == found
    assert len((await rig.flows.list("default", limit=20)).rows) == 2


# --- lists --------------------------------------------------------------------------------------


async def test_the_flows_of_a_status_are_found_behind_any_number_of_others_of_their_creator(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "PAGE", 2)
    monkeypatch.setattr(flows, "MAX_PAGES", 2)
    waiting = await rig.create(then("gate", state="gate"))
    await rig.create(then("gate", state="gate"), creator="bob")
    ended = [await rig.create() for _ in range(6)]
    for step in await rig.worker.take(6):
        await rig.worker.done(step)
    running = await rig.flows.list("default", limit=9, creator="alice", status="running")
    assert [row.id for row in running.rows] == [waiting]
    completed = await rig.flows.list("default", limit=3, creator="alice", status="completed")
    assert [row.id for row in completed.rows] == ended[:2:-1]


async def test_lists_are_newest_first_and_know_status_name_and_creator(rig: Rig) -> None:
    made = {}
    for number in range(8):
        creator = "alice" if number % 2 else "bob"
        made[number] = await rig.create(name=f"Flow {number}", creator=creator, parent=f"p{number}")
    steps = {int(step.run): step for step in await rig.worker.take(8)}
    await rig.worker.done(steps[made[1]])
    await rig.worker.failed(steps[made[2]])
    await rig.flows.cancel("default", NO_KEY, made[3], "bob")

    async def ids(**more: Any) -> list[int]:
        found = await rig.flows.list("default", **{"limit": 20, **more})
        assert found.before == 0
        return [row.id for row in found.rows]

    assert await ids() == sorted(made.values(), reverse=True)
    assert await ids(limit=3) == [made[7], made[6], made[5]]
    assert await ids(before=made[5], limit=2) == [made[4], made[3]]
    assert await ids(status="completed") == [made[1]]
    assert await ids(status="failed") == [made[2]]
    assert await ids(status="cancelled") == [made[3]]
    assert await ids(status="running") == [made[number] for number in (7, 6, 5, 4, 0)]
    assert await ids(creator="alice") == [made[number] for number in (7, 5, 3, 1)]
    assert await ids(creator="alice", status="running") == [made[7], made[5]]
    assert await ids(creator="nobody") == []
    assert await ids(name="flow 6") == [made[6]]
    assert await ids(name="FLOW", limit=1) == [made[7]]
    ((row,), _) = await rig.flows.list("default", limit=1, status="failed")
    assert (row.name, row.creator, row.error, row.parent) == ("Flow 2", "bob", "it failed", "p2")
    assert row.completed_at is not None
    assert await rig.flows.list("other", limit=5) == ([], 0)


async def test_a_search_goes_through_more_than_one_page(rig: Rig) -> None:
    await rig.flows.cancel("default", NO_KEY, await rig.create(), "bob")
    wanted = await rig.create(name="needle")
    for _ in range(130):
        await rig.create(name="hay")
    found = await rig.flows.list("default", limit=5, name="needle")
    assert ([row.id for row in found.rows], found.before) == ([wanted], 0)
    assert len((await rig.flows.list("default", limit=100)).rows) == 100


async def test_a_search_that_stops_early_says_where(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "PAGE", 2)
    monkeypatch.setattr(flows, "MAX_PAGES", 2)
    wanted = [await rig.create(name="needle") for _ in range(2)]
    hay = [await rig.create(name="hay") for _ in range(3)]
    first = await rig.flows.list("default", limit=5, name="needle")
    assert ([row.id for row in first.rows], first.before) == ([wanted[1]], wanted[1])
    # Enough was found, so nothing is missing.
    assert (await rig.flows.list("default", limit=1, name="needle")).before == 0
    rest = await rig.flows.list("default", limit=5, name="needle", before=first.before)
    assert ([row.id for row in rest.rows], rest.before) == ([wanted[0]], 0)
    assert (await rig.flows.list("default", limit=5, name="hay", before=hay[1])).before == 0


# --- what stays ---------------------------------------------------------------------------------


async def test_finished_flows_are_forgotten_after_their_retention(rig: Rig) -> None:
    done, failed, running = [await rig.create(creator=f"c{number}") for number in range(3)]
    steps = {int(step.run): step for step in await rig.worker.take(3)}
    await rig.worker.done(steps[done])
    await rig.worker.failed(steps[failed])
    assert await rig.flows.trim("default") == (0, 2)
    day = 86_400_000
    await rig.store.command("ZADD", keys.ended.key("default"), done - 7 * day - 1000, done)
    assert await rig.flows.trim("default") == (1, 1)
    assert await rig.flows.get("default", done) is None
    assert [row.id for row in (await rig.flows.list("default", limit=9)).rows] == [running, failed]
    assert (await rig.flows.list("default", limit=9, creator="c0")).rows == []
    left = [key.decode() for key in await rig.store.command("KEYS", "*")]
    assert not [key for key in left if str(done) in key], left


async def test_forgetting_flows_is_bounded_per_call(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(3)]
    for step in await rig.worker.take(3):
        await rig.worker.done(step)
    for flow in flows:
        await rig.store.command("ZADD", keys.ended.key("default"), 1, flow)
    assert await rig.flows.trim("default", 2) == (2, 1)
    assert await rig.flows.trim("default", 2) == (1, 0)


async def test_a_finished_flow_of_five_steps_takes_little_memory(rig: Rig) -> None:
    names = ["start", "collect", "compare", "decide", "publish"]
    flow = {
        key: spec.Step(
            name=key,
            tool="knowledge_search",
            args={"query": "{{input.topic}}", "limit": 20},
            **({"next": names[number + 1]} if number < 4 else {"done": True}),
        )
        for number, key in enumerate(names)
    }
    packed = spec.pack(spec.Spec(flow=flow, given={"topic": "workflow engines"}))
    count = 200
    run = 0
    for _ in range(count):
        run = await rig.create(planner.begin(flow), spec=packed, steps=5, name="parallel-research")
    while steps := await rig.worker.take(16):
        for step in steps:
            at = names.index(step.key)
            plan = then(names[at + 1]) if at < 4 else Plan(complete=True)
            await rig.worker.done(step, plan, '[{"title":"Workflow Design","score":0.95}]')
    assert await rig.status(run) == "completed"
    # What the server says of each key, its entry in the table of keys included; events are bounded anyway.
    taken: dict[str, int] = {}
    for key in await rig.store.command("KEYS", "fc:{default}:*"):
        family = keys.declared(key)
        assert family is not None
        if family is not keys.events:
            size = int(await rig.store.command("MEMORY", "USAGE", key, "SAMPLES", 0))
            taken[family.name] = taken.get(family.name, 0) + size
    each = sum(taken.values()) / count
    assert each <= 1500, {name: size / count for name, size in taken.items()}


async def test_changes_emit_events(rig: Rig) -> None:
    flow = await rig.create(then("a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.report(a, "Y", 0)
    await rig.expire([b])
    await rig.worker.steps.sweep("default")
    a, b = await rig.worker.take(2)
    await rig.worker.done(a, Plan())
    await rig.worker.failed(b)
    events = await rig.events()
    emitted = [(event["k"], event["i"], event.get("n")) for event in events]
    run = str(flow)
    assert {event["u"] for event in events} == {"alice"}, "others may not hear of it"
    assert emitted == [
        ("flow_created", run, None),
        ("step_started", run, "a"),
        ("step_started", run, "b"),
        ("step_retry", run, "a"),
        ("step_lost", run, "b"),
        ("step_started", run, "a"),
        ("step_started", run, "b"),
        ("step_done", run, "a"),
        ("step_failed", run, "b"),
        ("flow_failed", run, None),
    ]


async def test_a_late_report_of_a_trimmed_flow_is_rejected(rig: Rig) -> None:
    flow = await rig.create(then("a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.failed(a)
    await rig.store.command("ZADD", keys.ended.key("default"), 1, flow)
    await rig.flows.trim("default")
    assert await rig.worker.done(b, join("f", "end")) in (REFUSED, OVER)
    assert await rig.flows.get("default", flow) is None
