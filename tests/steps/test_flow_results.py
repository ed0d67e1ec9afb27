"""Results of steps: how much of them a read returns, and where long ones are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.steps.model import Plan
from coordinator.steps.results import MAX_RESULT_BYTES, result_json
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.store import flows
from tests.steps.rig import Rig, then

pytestmark = pytest.mark.anyio


async def test_a_read_returns_a_bounded_number_of_results(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MAX_READ_BYTES", 10_000)
    flow = await rig.create(then(*"abcd"))
    for step in await rig.worker.take(4):
        await rig.worker.done(step, Plan(), '"' + "x" * 4000 + '"')
    results = [step.result_json or "" for step in (await rig.flow(flow)).steps]
    assert [len(result) for result in results[:2]] == [4002, 4002]
    assert results[2:] == ['{"truncated":true,"bytes":4002}'] * 2


async def test_what_a_read_leaves_out_of_a_cut_result_is_how_long_it_really_is(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "MAX_READ_BYTES", MAX_RESULT_BYTES + 10)
    own = '{"truncated":true,"bytes":%s,"beginning":"' + "x" * 2000 + '"}'
    said = [result_json("x" * 5_000_000), result_json('"' * 5_000_000), own % 7, own % ("9" * 30)]
    flow = await rig.create(then(*"abcd"))
    for step, result in zip(await rig.worker.take(4), said, strict=True):
        await rig.worker.done(step, Plan(), result)
    a, b, c, d = [step.result_json or "" for step in (await rig.flow(flow)).steps]
    assert (a, b) == (said[0], '{"truncated":true,"bytes":10000002}')
    # What a tool says by itself is no size that this reckons with.
    assert [c, d] == [f'{{"truncated":true,"bytes":{size}}}' for size in (len(said[2]), 2**53)]


async def test_long_results_are_stored_apart_from_the_history(rig: Rig) -> None:
    names = [f"s{number}" for number in range(20)]
    flow = await rig.create(then(*names, "late", "open"), steps=30)
    steps = {step.key: step for step in await rig.worker.take(16) + await rig.worker.take(16)}
    for name in names:
        await rig.worker.done(steps[name], Plan(), f'"{name * 200_000}"')
    # Scripts go through the whole of it.
    history = int(await rig.store.command("MEMORY", "USAGE", keys.history.key("default", str(flow)), "SAMPLES", 0))
    assert history < 10_000
    reading = asyncio.create_task(rig.flows.get("default", flow))
    await asyncio.sleep(0)
    await rig.worker.done(steps["late"], Plan(), '"late"')
    found = await reading
    assert found is not None
    assert [step.key for step in found.steps] == [*names, "late", "open"]
    cut = [step.key for step in found.steps if "truncated" in (step.result_json or "")]
    assert cut
    assert cut == names[-len(cut) :]
    assert found.steps[0].result_json == f'"{"s0" * 200_000}"'


async def test_a_large_flow_retried_while_it_is_read_is_shown_consistently(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number}" for number in range(9)]
    flow = await rig.create(then(*names))
    first, *others = await rig.worker.take(9)
    await rig.worker.failed(first)
    for step in others:
        await rig.worker.done(step, Plan(), f'"{step.key * 200_000}"')

    async def change() -> None:
        await rig.flows.retry("default", NO_KEY, flow, "bob")
        *again, last = reversed(await rig.worker.take(9))
        for step in again:
            await rig.worker.done(step, Plan())
        await rig.worker.done(last)

    command = rig.store.command

    async def changing(*words: Any) -> Any:
        if words[0] == "HMGET":
            monkeypatch.setattr(rig.store, "command", command)
            await change()
        return await command(*words)

    monkeypatch.setattr(rig.store, "command", changing)
    found = await rig.flow(flow)
    assert found.row.status == "completed"
    assert [(step.key, step.status) for step in found.steps] == [(name, "done") for name in names]


async def test_a_long_result_that_came_after_the_end_is_kept_when_the_flow_runs_again(rig: Rig) -> None:
    flow = await rig.create(then("a", "b", "c"))
    a, b, c = await rig.worker.take(3)
    await rig.worker.failed(a)
    long = f'"{"x" * 5000}"'
    await rig.worker.done(b, Plan(), long)
    await rig.worker.failed(c)
    assert await rig.flows.retry("default", NO_KEY, flow, "bob") == (3, "failed")
    # It is kept with the step until that is recorded again.
    stored = keys.results.key("default", str(flow))
    assert await rig.store.command("EXISTS", stored) == 0
    steps = {step.key: step for step in await rig.worker.take(3)}
    assert (steps["b"].verdict, steps["b"].arguments) == ("recorded", long)
    await rig.worker.done(steps["b"], Plan(), long)
    await rig.worker.done(steps["c"], Plan())
    await rig.worker.done(steps["a"])
    assert (await rig.step(flow, "b")).result_json == long
    await rig.store.command("ZADD", keys.ended.key("default"), 1, flow)
    await rig.flows.trim("default")
    assert await rig.store.command("EXISTS", stored) == 0


async def test_results_of_single_steps_are_read_whole(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.toolsets.flows.store.flows.MAX_READ_BYTES", 2_000)
    flow = await rig.create(then("a", "b", "c", "d"))
    steps = {step.key: step for step in await rig.worker.take(3)}
    for key in "ab":
        await rig.worker.done(steps[key], Plan(), f'"{key * 1500}"')
    assert await rig.flows.results("default", flow, ["a", "b", "c", "d", "e"]) == {
        "a": f'"{"a" * 1500}"',
        "b": f'"{"b" * 1500}"',
    }
    await rig.worker.report(steps["c"], "F", Plan(), '{"error":"no"}')
    assert await rig.flows.results("default", flow, ["c"]) == {"c": None}
