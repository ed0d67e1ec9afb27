"""Attempts: retries, lost workers, steps given back, stopped ones, and the fence that rejects late reports."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider

from coordinator.metrics import tracing
from coordinator.steps.handoff import own_queue
from coordinator.steps.model import NewStep, Plan
from coordinator.steps.store import OVER, RECORDED, REFUSED, RENEW, RETURN, QueuedJob, Report
from coordinator.steps.times import LEASE_MS, MAX_CRASHES
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY
from tests.steps.rig import Rig, fork, join, then

pytestmark = pytest.mark.anyio


async def test_a_retry_waits_for_its_time(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    assert (await rig.worker.report(step, "Y", 60_000, '{"error":"busy"}')).results == [RECORDED]
    found = await rig.step(flow, "start")
    assert (found.status, found.attempt, found.started_at) == ("pending", 2, None)
    assert (await rig.worker.steps.sweep("default")).fired == 0
    assert await rig.worker.take() == []
    await rig.ring(flow + 1)
    assert (await rig.worker.steps.sweep("default")).fired == 1
    (again,) = await rig.worker.take()
    assert (again.step, again.attempt, again.failures, again.crashes) == (step.step, 2, 1, 0)
    assert again.idempotency_key == step.idempotency_key
    assert again.job_id != step.job_id
    assert await rig.worker.done(step, then("b"), "1") == REFUSED
    assert await rig.worker.done(again) == RECORDED
    assert (await rig.step(flow, "start")).attempt == 2


@pytest.mark.parametrize("new", [NewStep("start"), NewStep("start", "gate"), NewStep("start", delay_ms=60_000)])
async def test_a_step_that_never_began_cannot_be_reported(rig: Rig, new: NewStep) -> None:
    flow = await rig.create(Plan((new,)))
    before = await rig.flow(flow)
    taken = await rig.worker.reports("default", [Report(str(flow + 1), 1, "D", "null", then("next"))])
    assert taken.results == [REFUSED]
    assert await rig.flow(flow) == before


async def test_an_attempt_that_never_began_has_no_start(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    await rig.worker.report(step, "Y", 60_000, '{"error":"busy"}')
    await rig.flows.cancel("default", NO_KEY, flow, "bob")
    found = await rig.step(flow, "start")
    assert (found.status, found.attempt, found.started_at) == ("cancelled", 2, None)


async def test_a_retry_without_delay_is_taken_in_the_same_call(rig: Rig) -> None:
    await rig.create()
    (step,) = await rig.worker.take()
    taken = await rig.worker.report(step, "Y", 0, want=1)
    assert [(one.step, one.attempt, one.failures) for one in taken.steps] == [(step.step, 2, 1)]


async def test_the_step_of_a_lost_worker_gets_another_attempt(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    assert (await rig.worker.steps.sweep("default")).lost == 0
    await rig.expire([step])
    swept = await rig.worker.steps.sweep("default")
    assert (swept.lost, swept.running, swept.queued) == (1, 0, 1)
    other = rig.player("w2")
    (again,) = await other.take()
    assert (again.step, again.attempt, again.failures, again.crashes) == (step.step, 2, 0, 1)
    # The first worker was only slow.
    assert await rig.worker.done(step, then("late")) == REFUSED
    assert await other.done(again, then("b"), "2") == RECORDED
    assert await rig.worker.done(step, then("late")) == REFUSED
    assert await rig.statuses(flow) == {"start": "done", "b": "ready"}
    assert (await rig.step(flow, "start")).result_json == "2"


async def test_an_attempt_assigned_twice_belongs_to_the_present_worker(rig: Rig) -> None:
    """As after the restore of a backup from before the first worker took the step."""
    flow = await rig.create()
    key, queue = keys.step.key("default", str(flow + 1)), keys.step_queue.key("default")
    before, since = await rig.store.command("DUMP", key), await rig.store.command("ZSCORE", queue, str(flow + 1))
    (step,) = await rig.worker.take()
    await rig.store.command("RESTORE", key, 0, before, "REPLACE")
    await rig.store.command("ZREM", keys.step_leases.key("default"), step.step)
    await rig.store.command("ZADD", queue, since, step.step)
    await rig.worker.steps.push("default", [QueuedJob(step.job_id, "fleet-steps")], force=True)
    other = rig.player("w2")
    (again,) = await other.take()
    assert (again.step, again.attempt) == (step.step, step.attempt)
    assert await rig.worker.done(step, then("stale")) == REFUSED
    held: list[str | int] = [step.step, step.attempt]
    assert await rig.store.run(RENEW, "default", "w1", 5000, *held) == [step.step.encode()]
    assert await rig.store.run(RENEW, "default", "w2", 5000, *held) == []
    assert await other.done(again, then("b")) == RECORDED
    assert await rig.statuses(flow) == {"start": "done", "b": "ready"}


async def test_a_lost_step_of_a_failed_flow_gets_no_other_attempt(rig: Rig) -> None:
    flow = await rig.create(fork("f", "a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.failed(a)
    await rig.expire([b])
    assert (await rig.worker.steps.sweep("default")).lost == 1
    assert await rig.worker.take(2) == []
    assert await rig.statuses(flow) == {"a": "failed", "b": "cancelled"}
    assert await rig.worker.done(b, join("f", "end")) == REFUSED
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (2, "failed")
    assert {step.key: step.attempt for step in await rig.worker.take(2)} == {"a": 2, "b": 2}


async def test_a_step_whose_flow_is_gone_does_not_block_a_sweep(rig: Rig) -> None:
    gone, flow = await rig.create(), await rig.create()
    steps = await rig.worker.take(2)
    await rig.store.command("DEL", keys.run.key("default", str(gone)))
    await rig.expire(steps)
    assert (await rig.worker.steps.sweep("default")).lost == 2
    assert [step.run for step in await rig.worker.take(2)] == [str(flow)]
    assert await rig.store.command("EXISTS", keys.step.key("default", str(gone + 1))) == 0


async def test_a_renewed_lease_lasts_and_a_lost_one_is_reported(rig: Rig) -> None:
    await rig.create()
    await rig.create()
    kept, lost = await rig.worker.take(2)
    await rig.expire([kept, lost])
    await rig.store.command("ZREM", keys.step_leases.key("default"), lost.step)
    await rig.store.command("HSET", keys.step.key("default", lost.step), "f", 2)
    held: list[str | int] = [kept.step, kept.attempt, lost.step, lost.attempt, "999", 1]
    gone = await rig.store.run(RENEW, "default", "w1", 5000, *held)
    assert sorted(gone) == sorted([lost.step.encode(), b"999"])
    assert (await rig.worker.steps.sweep("default")).lost == 0
    assert await rig.store.command("ZSCORE", keys.step_leases.key("default"), kept.step) > 1e12


async def test_a_lease_from_before_the_clock_was_set_back_is_shortened(rig: Rig) -> None:
    await rig.create()
    (step,) = await rig.worker.take(1)
    leases = keys.step_leases.key("default")
    await rig.store.command("ZINCRBY", leases, 3_600_000, step.step)
    await rig.worker.steps.sweep("default")
    assert float(await rig.store.command("ZSCORE", leases, step.step)) <= await rig.store.time() + LEASE_MS


async def test_attempts_after_a_lost_worker_belong_to_the_trace_that_the_flow_was_created_in(rig: Rig) -> None:
    provider = TracerProvider()
    tracer = tracing.Tracing(provider, provider.get_tracer("test"))
    tracing.install(tracer)
    try:
        scope = tracer.call("workflow_create", "default", "r", "fast", "")
        of_call = tracing.carried()
        flow = await rig.create()
        scope.end("ok")
        scope.leave()
        untraced = await rig.create()
    finally:
        tracing.install(None)
    assert of_call.startswith("00-")
    first, other = await rig.worker.take(2)
    assert (first.run, first.trace) == (str(flow), of_call)
    assert (other.run, other.trace) == (str(untraced), "")
    await rig.worker.done(other)
    await rig.expire([first])
    assert (await rig.worker.steps.sweep("default")).lost == 1
    (again,) = await rig.player("w2").take()
    assert (again.attempt, again.trace) == (2, of_call)
    assert (await rig.player("w2").report(again, "D", then("next"), want=0)).results == [RECORDED]
    (following,) = await rig.worker.take()
    assert (following.key, following.trace) == ("next", of_call)
    await rig.worker.done(following)


async def test_a_step_that_kills_its_workers_is_given_up(rig: Rig) -> None:
    flow = await rig.create()
    for crashes in range(MAX_CRASHES):
        (step,) = await rig.worker.take()
        assert (step.crashes, step.verdict) == (crashes, "")
        await rig.expire([step])
        assert (await rig.worker.steps.sweep("default")).lost == 1
    (step,) = await rig.worker.take()
    assert (step.crashes, step.verdict, step.attempt) == (MAX_CRASHES, "poisoned", MAX_CRASHES + 1)
    await rig.worker.failed(step, Plan(error="its worker was lost 3 times"))
    assert (await rig.flow(flow)).row.error == "its worker was lost 3 times"


async def test_steps_that_may_kill_workers_run_one_at_a_time_on_each(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(3)]
    for _ in range(MAX_CRASHES - 1):
        held = await rig.worker.take(5)
        assert len(held) == 3
        await rig.expire(held)
        await rig.worker.steps.sweep("default")
    other = rig.player("w2")
    (first,) = await rig.worker.take(5)
    await rig.ring(*[flow + 1 for flow in flows if str(flow + 1) != first.step])
    await other.steps.sweep("default")
    (second,) = await other.take(5)
    (third,) = [flow + 1 for flow in flows if str(flow + 1) not in (first.step, second.step)]
    # The worker is lost, and the step that it ran is given up.
    await rig.expire([first])
    await rig.worker.steps.sweep("default")
    (given_up,) = await other.take(5)
    assert (given_up.step, given_up.verdict) == (first.step, "poisoned")
    await rig.ring(third)
    await other.steps.sweep("default")
    assert await other.take(5) == []
    await other.done(second)
    await rig.ring(third)
    await other.steps.sweep("default")
    (last,) = await other.take(5)
    assert (last.step, last.crashes, last.verdict) == (str(third), MAX_CRASHES - 1, "")


async def test_a_suspect_that_moved_to_another_worker_blocks_no_others(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(2)]
    for _ in range(MAX_CRASHES - 1):
        await rig.expire(await rig.worker.take(5))
        await rig.worker.steps.sweep("default")
    (first,) = await rig.worker.take(5)
    await rig.worker.report(first, "B", 0)
    assert [step.step for step in await rig.player("w2").take(5)] == [first.step]
    (other,) = {str(flow + 1) for flow in flows} - {first.step}
    await rig.ring(int(other))
    await rig.worker.steps.sweep("default")
    assert [step.step for step in await rig.worker.take(5)] == [other]


async def test_a_step_that_is_given_back_is_offered_again_and_nothing_is_counted(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    taken = await rig.worker.report(step, "B", 0, want=0)
    assert taken.results == [RECORDED]
    other = rig.player("w2")
    (again,) = await other.take()
    assert (again.attempt, again.failures, again.crashes) == (2, 0, 0)
    await other.report(again, "B", 60_000)
    assert (await rig.step(flow, "start")).status == "pending"


async def test_a_step_that_was_cancelled_while_it_waited_for_one_worker_runs_again_in_its_pool(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    await rig.worker.report(step, "B", own_queue("gone"))
    await rig.flows.cancel("default", NO_KEY, flow, "ops")
    assert await rig.flows.retry("default", NO_KEY, flow, "ops") == (1, "cancelled")
    assert [again.step for again in await rig.worker.take()] == [step.step]


async def test_steps_unknown_to_their_worker_are_given_back(rig: Rig) -> None:
    for _ in range(3):
        await rig.create()
    known, unknown = await rig.worker.take(2)
    other = rig.player("w2")
    (others,) = await other.take()
    assert await rig.worker.steps.reclaim("default", [known.step]) == 0, "it may be on its way"
    for step in (known, unknown, others):
        # As leases that were not renewed.
        await rig.store.command("ZINCRBY", keys.step_leases.key("default"), -2000, step.step)
    assert await rig.worker.steps.reclaim("default", [known.step]) == 1
    assert [step.step for step in await other.take(5)] == [unknown.step]
    for player, step in ((rig.worker, known), (other, others)):
        assert await player.done(step) == RECORDED
    assert await rig.worker.done(unknown) == REFUSED


async def test_steps_of_a_kind_that_is_not_known_go_back(rig: Rig) -> None:
    await rig.create()
    (step,) = await rig.worker.take()
    report = Report(step.step, step.attempt, "B", "", 0)
    taken = await rig.worker.steps.report(RETURN, "default", 0, [report, report])
    assert taken.results == [RECORDED, REFUSED]
    other = rig.player("w2")
    (step,) = await other.take()
    assert step.attempt == 2
    await other.steps.report(RETURN, "default", 0, [Report(step.step, step.attempt, "B", "", 60_000)])
    assert await other.take() == [], "would go round between workers that do not know the kind"
    await rig.ring(int(step.step))
    await rig.worker.steps.sweep("default")
    assert (await rig.worker.take())[0].attempt == 3


async def test_a_step_that_needs_a_newer_worker_waits_for_one(rig: Rig) -> None:
    flow = await rig.create()
    key = keys.step.key("default", str(flow + 1))
    # As a newer release might write it: a protocol, and unknown fields.
    await rig.store.command("HSET", key, "x", msgspec.msgpack.encode({"p": 2, "new": [1]}), "other", "field")
    assert await rig.worker.take() == []
    assert (await rig.step(flow, "start")).status == "pending"
    await rig.ring(flow + 1)
    await rig.worker.steps.sweep("default")
    assert await rig.worker.take() == []
    assert msgspec.msgpack.decode(await rig.store.command("HGET", key, "x")) == {"p": 2, "new": [1]}
    await rig.ring(flow + 1)
    await rig.worker.steps.sweep("default")
    newer = rig.player("w2", protocol=2)
    (step,) = await newer.take()
    assert (step.attempt, step.crashes, step.failures) == (1, 0, 0)
    assert await rig.store.command("HGET", key, "other") == b"field"
    assert await newer.done(step) == RECORDED


async def test_a_retry_after_the_flow_has_failed_is_a_failure(rig: Rig) -> None:
    flow = await rig.create(then("a", "b"))
    a, b = await rig.worker.take(2)
    await rig.worker.failed(a)
    assert (await rig.worker.report(b, "Y", 0, '{"error":"no"}')).results == [OVER]
    assert await rig.statuses(flow) == {"a": "failed", "b": "failed"}


async def test_delayed_steps_begin_at_their_time(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("start", delay_ms=5_000),)), delay_ms=60_000)
    step = await rig.step(flow, "start")
    assert (step.status, step.ready_at) == ("pending", flow + 65_000)
    assert await rig.worker.take() == []
    await rig.ring(flow + 1)
    await rig.worker.steps.sweep("default")
    (step_run,) = await rig.worker.take()
    assert step_run.attempt == 1
    taken = await rig.worker.report(step_run, "D", Plan((NewStep("b", delay_ms=60_000),)), want=1)
    assert taken.steps == []
    assert (await rig.step(flow, "b")).status == "pending"


async def test_a_sweep_is_bounded_and_reports_that_there_is_more(rig: Rig) -> None:
    flows = [await rig.create() for _ in range(130)]
    steps = [step for _ in range(13) for step in await rig.worker.take(10)]
    assert len(steps) == len(flows)
    await rig.expire(steps)
    first = await rig.worker.steps.sweep("default")
    second = await rig.worker.steps.sweep("default")
    third = await rig.worker.steps.sweep("default")
    assert [(swept.lost, swept.more) for swept in (first, second, third)] == [(100, True), (30, False), (0, False)]
    assert third.queued == 130
    assert not third.idle


async def test_a_project_is_idle_only_while_nothing_in_it_waits_or_runs(rig: Rig) -> None:
    """Idle ones are swept rarely, and dropped."""
    sweep = rig.worker.steps.sweep
    flow = await rig.create(Plan((NewStep("start", delay_ms=60_000),)))
    assert not (await sweep("default")).idle, "it waits for its time"
    await rig.ring(flow + 1)
    assert not (await sweep("default")).idle, "it waits for a worker"
    (step,) = await rig.worker.take()
    assert not (await sweep("default")).idle, "it runs"
    await rig.worker.done(step)
    assert (await sweep("default")).idle


@pytest.mark.parametrize(
    "key", [keys.step_leases, keys.step_timers, keys.step_backlog, keys.step_queue], ids=lambda key: key.name
)
async def test_a_dangling_entry_does_not_keep_a_project_active(rig: Rig, key: keys.Family) -> None:
    await rig.store.command("ZADD", key.key("default"), 1, "7")
    await rig.worker.steps.sweep("default")
    assert (await rig.worker.steps.sweep("default")).idle


async def test_a_stale_entry_begins_no_step(rig: Rig) -> None:
    await rig.create(then("runs", "waits"))
    (runs,) = await rig.worker.take()
    (waits,) = await rig.store.command("ZRANGE", keys.step_queue.key("default"), 0, -1)
    for key in (keys.step_timers, keys.step_backlog):
        await rig.store.command("ZADD", key.key("default"), 1, runs.step)
    await rig.store.command("ZADD", keys.step_leases.key("default"), 1, waits)
    await rig.worker.steps.sweep("default")
    assert [(step.key, step.attempt) for step in await rig.worker.take(3)] == [("waits", 1)]


async def test_concurrent_sweeps_change_nothing_twice(rig: Rig) -> None:
    flow = await rig.create(then(*"abcdefgh"))
    steps = await rig.worker.take(8)
    await rig.expire(steps)
    others = [rig.player(f"w{number}") for number in range(2, 6)]
    swept = await asyncio.gather(*(player.steps.sweep("default") for player in others))
    assert sum(one.lost for one in swept) == 8
    again = await rig.worker.take(16)
    assert [step.attempt for step in again] == [2] * 8
    assert len(await rig.queued()) == 0
    await rig.worker.done(again[0], join("f", "end"))
    assert (await rig.flow(flow)).row.status == "running"
