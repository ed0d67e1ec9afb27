"""Paused flows: none of their steps begins, whatever is due, until they are resumed or a step is released."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from coordinator.settings.sections.steps import StepSettings
from coordinator.steps.model import NewStep, Plan
from coordinator.steps.store import RECORDED
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY, idempotency_key
from tests.steps.rig import NOTHING, Rig, fork, join, then

pytestmark = pytest.mark.anyio


async def pause(rig: Rig, flow: int, by: str = "ops") -> tuple[bool, str]:
    outcome = await rig.flows.pause("default", NO_KEY, flow, by)
    assert outcome is not None
    return outcome


async def resume(rig: Rig, flow: int, by: str = "ops") -> tuple[bool, str]:
    outcome = await rig.flows.pause("default", NO_KEY, flow, by, resume=True)
    assert outcome is not None
    return outcome


async def test_a_queued_step_stays_queued_during_a_pause(rig: Rig) -> None:
    flow = await rig.create()
    assert await pause(rig, flow) == (True, "running")
    assert await pause(rig, flow) == (False, "paused")
    assert await rig.status(flow) == "paused"
    assert await rig.statuses(flow) == {"start": "paused"}
    assert await rig.worker.take(5) == []
    assert (await rig.worker.steps.sweep("default")).idle
    assert await resume(rig, flow) == (True, "paused")
    assert await resume(rig, flow) == (False, "running")
    (step,) = await rig.worker.take(5)
    assert (step.key, step.attempt) == ("start", 1)
    # The pointer from before the pause leads to nothing.
    assert await rig.worker.take(5) == []
    await rig.worker.done(step)
    assert await rig.status(flow) == "completed"
    emitted = [(event["k"], event.get("a")) for event in await rig.events() if "flow_" in event["k"]]
    assert emitted == [
        ("flow_created", None),
        ("flow_paused", "ops"),
        ("flow_resumed", "ops"),
        ("flow_completed", None),
    ]


async def test_running_steps_finish_and_their_successors_wait(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    await pause(rig, flow)
    taken = await rig.worker.report(step, "D", then("next"), want=5)
    assert (taken.results, taken.steps) == ([RECORDED], [])
    assert await rig.statuses(flow) == {"start": "done", "next": "paused"}
    await resume(rig, flow)
    (step,) = await rig.worker.take(5)
    assert step.key == "next"


async def test_branches_that_end_during_a_pause_are_joined_after_it(rig: Rig) -> None:
    flow = await rig.create(fork("j", "a", "b"))
    steps = await rig.worker.take(2)
    await pause(rig, flow)
    for step in steps:
        await rig.worker.done(step, join("j", "end"))
    assert await rig.statuses(flow) == {"a": "done", "b": "done", "end": "paused"}
    await resume(rig, flow)
    (step,) = await rig.worker.take(5)
    await rig.worker.done(step)
    assert await rig.status(flow) == "completed"


async def test_a_flow_can_end_while_it_is_paused(rig: Rig) -> None:
    flow, other = await rig.create(), await rig.create(fork("j", "a", "b"))
    (step,) = await rig.worker.take()
    await pause(rig, flow)
    await rig.worker.done(step)
    assert await rig.status(flow) == "completed"
    assert await resume(rig, flow) == (False, "completed")
    (step,) = await rig.worker.take()
    await pause(rig, other)
    await rig.worker.failed(step)
    assert await rig.status(other) == "failed"
    assert await rig.statuses(other) == {"a": "failed", "b": "cancelled"}


async def test_due_timers_wait_for_the_resume(rig: Rig) -> None:
    """Delays, backoffs of retries, attempts of lost workers, what a worker gives back, and expiries of gates."""
    plan = Plan(
        create=(
            NewStep("late", delay_ms=60_000), NewStep("again"), NewStep("lost"), NewStep("given"),
            NewStep("gate", "gate", expires_ms=60_000),
        )
    )  # fmt: skip
    flow = await rig.create(plan)
    running = {step.key: step for step in await rig.worker.take(3)}
    assert await pause(rig, flow) == (True, "running")
    assert await rig.statuses(flow) == {
        "late": "pending", "again": "running", "lost": "running", "given": "running", "gate": "running"
    }  # fmt: skip
    await rig.worker.report(running["again"], "Y", 60_000)
    await rig.worker.report(running["given"], "B", 0)
    await rig.expire([running["lost"]])
    await rig.worker.steps.sweep("default")
    await rig.ring(flow + 1, flow + 2, flow + 5)
    await rig.worker.steps.sweep("default")
    assert await rig.statuses(flow) == dict.fromkeys(("late", "again", "lost", "given", "gate"), "paused")
    assert await rig.worker.take(9) == []
    assert (await rig.worker.steps.sweep("default")).idle
    await resume(rig, flow)
    taken = {step.key: step for step in await rig.worker.take(9)}
    assert {key: (step.attempt, step.verdict) for key, step in taken.items()} == {
        "late": (1, ""), "again": (2, ""), "lost": (2, ""), "given": (2, ""), "gate": (1, "expired"),
    }  # fmt: skip


async def test_a_delay_longer_than_the_pause_continues(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("start", delay_ms=60_000),)))
    before = await rig.step(flow, "start")
    await pause(rig, flow)
    await resume(rig, flow)
    after = await rig.step(flow, "start")
    assert (after.status, after.ready_at) == ("pending", before.ready_at)
    await rig.ring(flow + 1)
    await rig.worker.steps.sweep("default")
    assert len(await rig.worker.take()) == 1


@pytest.mark.parametrize("kind", ["paused", "pending", "gate"])
async def test_a_single_step_can_be_released(rig: Rig, kind: str) -> None:
    new = {"paused": NewStep("start"), "pending": NewStep("start", delay_ms=60_000), "gate": NewStep("start", "gate")}
    flow = await rig.create(Plan((new[kind],)))
    await pause(rig, flow)
    status = "running" if kind == "gate" else kind
    assert await rig.flows.release("default", NO_KEY, flow + 1, "bob") == (True, status)
    (step,) = await rig.worker.take(5)
    await rig.worker.done(step, then("next"))
    assert (await rig.step(flow, "start")).approved_by == "bob"
    assert await rig.statuses(flow) == {"start": "done", "next": "paused"}
    assert await rig.worker.take(5) == []


async def test_a_paused_flow_can_be_cancelled(rig: Rig) -> None:
    flow = await rig.create(Plan((NewStep("a"), NewStep("b", delay_ms=60_000), NewStep("g", "gate"))))
    await pause(rig, flow)
    assert await rig.flows.cancel("default", NO_KEY, flow, "ops") == (True, "cancelled")
    assert await rig.statuses(flow) == {"a": "cancelled", "b": "cancelled", "g": "cancelled"}
    assert await resume(rig, flow) == (False, "cancelled")
    assert await pause(rig, flow) == (False, "cancelled")
    assert await rig.flows.retry("default", NO_KEY, flow, "ops") == (3, "cancelled")
    assert len(await rig.worker.take(5)) == 2


@pytest.mark.parametrize("step_settings", [StepSettings(project_limit=1)])
async def test_steps_held_back_by_the_project_limit_are_paused_too(rig: Rig) -> None:
    flow, other = await rig.create(fork("j", "a", "b")), await rig.create()
    assert await rig.statuses(flow) == {"a": "ready", "b": "ready"}
    await pause(rig, flow)
    # It leaves its capacity to the other flow.
    (step,) = await rig.worker.take(5)
    assert step.run == str(other)
    await rig.worker.done(step)
    await resume(rig, flow)
    (step,) = await rig.worker.take(5)
    assert (await rig.worker.report(step, "D", NOTHING, want=5)).steps[0].run == str(flow)


async def test_it_is_listed_and_found_and_repeated_calls_have_one_effect(rig: Rig) -> None:
    flow = await rig.create()
    record = idempotency_key("ops", "11111111-1111-4111-8111-111111111111", "pause", flow)
    assert await rig.flows.pause("default", record, flow, "ops") == (True, "running")
    await resume(rig, flow)
    assert await rig.flows.pause("default", record, flow, "ops") == (True, "running")
    assert await rig.status(flow) == "running"
    await pause(rig, flow)
    for status in ("paused", None):
        (row,) = (await rig.flows.list("default", limit=5, status=status)).rows
        assert (row.id, row.status, row.completed_at) == (flow, "paused", None)
    assert (await rig.flows.list("default", limit=5, status="running")).rows == []
    found = await rig.flows.find_step("default", flow + 1)
    assert found is not None
    assert found.step.status == "paused"
    assert await rig.flows.pause("default", NO_KEY, flow + 10**6, "ops") is None


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_begins_in_a_pause_and_nothing_is_lost_or_done_twice(rig: Rig, seed: int) -> None:
    """Workers, sweeps, pauses and resumes of several flows at once, in every order."""
    pick = random.Random(seed)
    flows = [await rig.create(then("s0")) for _ in range(4)]
    workers = [rig.worker, rig.player("w2")]
    held: list[tuple[Any, Any]] = []
    done: dict[int, list[str]] = {flow: [] for flow in flows}
    paused: set[int] = set()
    length = 6

    async def begin(taken: list[Any], worker: Any) -> None:
        for step in taken:
            assert int(step.run) not in paused, "a step began in a pause"
            held.append((worker, step))

    for _ in range(400):
        act = pick.choice(["pause", "resume", "take", "take", "report", "report", "back", "retry", "sweep"])
        flow, worker = pick.choice(flows), pick.choice(workers)
        if act == "pause" and (await pause(rig, flow))[0]:
            paused.add(flow)
        elif act == "resume" and (await resume(rig, flow))[0]:
            paused.discard(flow)
        elif act == "take":
            await begin(await worker.take(2), worker)
        elif act == "sweep":
            await rig.worker.steps.sweep("default")
        elif held and act in ("report", "back", "retry"):
            worker, step = held.pop(pick.randrange(len(held)))
            number = int(step.key[1:])
            if act == "report":
                plan = then(f"s{number + 1}") if number < length else Plan(complete=True)
                taken = await worker.report(step, "D", plan, want=1)
                assert taken.results == [RECORDED]
                done[int(step.run)].append(step.key)
                await begin(taken.steps, worker)
            else:
                await begin((await worker.report(step, "B" if act == "back" else "Y", 0, want=0)).steps, worker)
    for flow in flows:
        await resume(rig, flow)
    paused.clear()
    for _ in range(200):
        await rig.worker.steps.sweep("default")
        await begin(await rig.worker.take(8), rig.worker)
        if not held:
            break
        worker, step = held.pop()
        number = int(step.key[1:])
        plan = then(f"s{number + 1}") if number < length else Plan(complete=True)
        await worker.done(step, plan)
        done[int(step.run)].append(step.key)
    assert done == {flow: [f"s{number}" for number in range(length + 1)] for flow in flows}
    assert {await rig.status(flow) for flow in flows} == {"completed"}
    assert await rig.store.command("ZCARD", keys.step_leases.key("default")) == 0


async def test_twenty_concurrent_pauses_and_resumes_agree(rig: Rig) -> None:
    flow = await rig.create(fork("j", "a", "b", "c"))
    answers = await asyncio.gather(*(pause(rig, flow) if n % 2 else resume(rig, flow) for n in range(20)))
    paused = sum(did for n, (did, _) in enumerate(answers) if n % 2)
    resumed = sum(did for n, (did, _) in enumerate(answers) if not n % 2)
    assert paused - resumed == (1 if await rig.status(flow) == "paused" else 0)
    await resume(rig, flow)
    assert sorted(step.key for step in await rig.worker.take(9)) == ["a", "b", "c"]
