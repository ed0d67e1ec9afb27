"""Outcomes of attempts: results, failures, retries, and how they are stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import workers.attempts
import workers.engine
from coordinator.errors import ToolFailure
from coordinator.steps.model import Failure, Retry, StepRun
from coordinator.steps.results import MAX_MESSAGE, MAX_RESULT_BYTES
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import spec
from tests.support.fleets import ROOT
from tests.support.wait import wait_until
from tests.workers.bench import Bench, chain, fan, hang
from workers.children.isolated import IsolatedCalls

pytestmark = pytest.mark.anyio


async def test_an_attempt_that_takes_too_long_times_out(bench: Bench) -> None:
    bench.tools.tools["hang"] = hang
    await bench.start()
    flow = await bench.create(chain({"tool": "hang", "timeout_ms": 50}))
    assert await bench.result(flow) == ("failed", '{"error":"the step took longer than 50 ms","type":"timeout"}')
    assert bench.tools.ended["start"] == 1


async def test_attempts_that_have_ended_are_not_kept(bench: Bench) -> None:
    await bench.start()
    for _ in range(40):
        await bench.ended(await bench.create(chain({})))
    gc.collect()
    kept = sum(type(held) is workers.attempts.StepAttempt for held in gc.get_objects())
    assert kept <= 4, "each slot knows its last one"


def _writing(pipe: Path) -> int | None:
    """The writing end of a pipe that has a reader; None while it has none."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


async def test_the_timeout_of_an_attempt_starts_when_a_child_process_is_free(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    children = IsolatedCalls(1)

    async def isolated(step: StepRun, arguments: Any) -> Any:
        return await children.call("tests.workers.callables:reads", arguments, step.idempotency_key)

    bench.tools.tools["isolated"] = isolated
    await bench.start()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    work = {"tool": "isolated", "args": {"path": str(pipe)}, "timeout_ms": 30_000}
    first = await bench.create(chain(work))
    writing = await wait_until(lambda: _writing(pipe), what="the first to read")
    second = await bench.create(chain(work))
    await wait_until(lambda: bench.tools.began["start"] == 2)
    waiting, running = (bench.engine.held[f"{flow}-{flow + 1}-1"] for flow in (second, first))
    assert running.deadline > 0
    assert waiting.deadline == 0
    assert waiting.expiry is not None
    assert waiting.expiry.cancelled()
    # The second finds a file that has an end.
    pipe.unlink()
    pipe.touch()
    assert writing is not None
    os.close(writing)
    for flow in (first, second):
        assert await bench.result(flow) == ("done", "1")
    await children.stop()


async def test_an_attempt_that_swallows_its_cancellation_still_fails(bench: Bench) -> None:
    async def stubborn(step: StepRun, arguments: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "done"

    bench.tools.tools["stubborn"] = stubborn
    await bench.start()
    flow = await bench.create(chain({"tool": "stubborn", "timeout_ms": 50}))
    status, result = await bench.result(flow)
    assert status == "failed"
    assert '"timeout"' in (result or "")
    # The slot lives on.
    for _ in range(8):
        assert (await bench.ended(await bench.create(chain({})))).row.status == "completed"


async def test_a_slot_survives_tools_that_cancel_themselves_after_a_timeout(bench: Bench) -> None:
    async def cancelled(step: StepRun, arguments: Any) -> None:
        raise asyncio.CancelledError

    bench.tools.tools.update(hang=hang, cancelled=cancelled)
    await bench.start()
    # As many as there are slots.
    flows = [await bench.create(chain({"tool": "hang", "timeout_ms": 50})) for _ in range(4)]
    for flow in flows:
        assert (await bench.result(flow))[0] == "failed"
    for _ in range(4):
        _, result = await bench.result(await bench.create(chain({"tool": "cancelled"})))
        assert '"cancelled"' in (result or "")


async def test_an_attempt_whose_slot_ends_reports_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.engine, "GRACE_SECONDS", 0.05)
    bench = Bench(store)
    bench.tools.tools["hang"] = hang
    await bench.start()
    flow = await bench.create(chain({"tool": "hang"}))
    await wait_until(lambda: bench.tools.began["start"] == 1, what="the call")
    await bench.engine.end()
    assert not bench.engine.stuck
    await bench.stop()
    assert (await bench.flow(flow)).steps[0].status == "running"


async def test_a_hung_attempt_is_abandoned(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.attempts, "GRACE_SECONDS", 0.05)
    release = asyncio.Event()

    async def deaf(step: StepRun, arguments: Any) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    bench.tools.tools["deaf"] = deaf
    await bench.start()
    try:
        flows = [await bench.create(chain({"tool": "deaf", "timeout_ms": 50})) for _ in range(4)]
        for flow in flows:
            status, result = await bench.result(flow)
            assert (status, '"timeout"' in (result or "")) == ("failed", True)
        assert bench.tools.ended["start"] == 0
        # They blocked all slots, and new slots have replaced these.
        others = [await bench.create(chain({})) for _ in range(8)]
        for flow in others:
            assert (await bench.ended(flow)).row.status == "completed"
        # Their leases are not renewed either.
        await wait_until(lambda: not bench.engine.held)
    finally:
        release.set()
    await wait_until(lambda: bench.tools.ended["start"] == 12)
    assert bench.engine.busy == 0


async def test_a_hung_attempt_is_retried_by_its_policy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.attempts, "GRACE_SECONDS", 0.05)
    release = asyncio.Event()

    async def deaf_once(step: StepRun, arguments: Any) -> int:
        while step.attempt == 1 and not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return step.attempt

    bench.tools.tools["deaf_once"] = deaf_once
    await bench.start()
    retry = Retry(max_attempts=2, delay_ms=0)
    flow = await bench.create(chain({"tool": "deaf_once", "timeout_ms": 50, "retry": retry}))
    try:
        assert await bench.result(flow) == ("done", "2")
        assert bench.tools.ended["start"] == 1
    finally:
        release.set()
    # The late result of the first one is ignored.
    await wait_until(lambda: bench.tools.ended["start"] == 2)
    assert await bench.result(flow) == ("done", "2")


async def test_a_step_does_not_fail_while_the_store_is_down(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    results, asked = bench.flows.results, 0

    async def gone(*about: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ToolFailure("store_unavailable", "the store does not answer")
        return await results(*about)

    monkeypatch.setattr(bench.flows, "results", gone)
    await bench.start()
    given, asks = {"args": {"value": "a"}}, {"args": {"value": "{{steps.start.result}}"}}
    flow = await bench.create(chain(given, asks))

    async def over() -> bool:
        await bench.steps.sweep("default")
        return (await bench.flow(flow)).row.status != "running"

    await wait_until(over, what="the end of the flow")
    assert await bench.result(flow, "s1") == ("done", '"a"')
    assert (asked, bench.tools.began["s1"]) == (2, 1)


async def test_a_step_does_not_fail_when_reading_its_flow_times_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.attempts, "PREPARE_SECONDS", 0.5)
    read, asked = bench.steps.spec, 0

    async def hangs_once(project: str, run: str) -> bytes | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return await read(project, run)

    monkeypatch.setattr(bench.steps, "spec", hangs_once)
    flow = await bench.create(chain({"args": {"value": 1}}))
    # As if this worker had had it before.
    await bench.store.command("HSET", keys.run.key("default", str(flow)), "w", "w1")
    await bench.start()

    async def over() -> bool:
        await bench.steps.sweep("default")
        return (await bench.flow(flow)).row.status != "running"

    await wait_until(over, what="the end of the flow")
    assert await bench.result(flow) == ("done", "1")
    assert bench.tools.began["start"] == 1


async def test_a_step_that_can_never_be_prepared_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*about: Any) -> Any:
        raise ToolFailure("RESOURCE_NOT_FOUND", "gone for good")

    monkeypatch.setattr(bench.flows, "results", refused)
    await bench.start()
    flow = await bench.create(chain({}, {"args": {"value": "{{steps.start.result}}"}}))
    status, result = await bench.result(flow, "s1")
    assert (status, '"unexpected"' in (result or "")) == ("failed", True)


async def test_an_exception_is_a_failure_without_its_text(bench: Bench) -> None:
    async def broken(step: StepRun, arguments: Any) -> None:
        raise RuntimeError("password=hunter2")

    bench.tools.tools["broken"] = broken
    await bench.start()
    flow = await bench.create(chain({"tool": "broken"}))
    assert await bench.result(flow) == (
        "failed",
        '{"error":"the step failed unexpectedly: RuntimeError","type":"unexpected"}',
    )


async def test_any_failure_message_can_be_recorded(bench: Bench) -> None:
    async def odd(step: StepRun, arguments: Any) -> Failure:
        return Failure("\ud800" + "x" * 5_000_000, "\udfff")

    bench.tools.tools["odd"] = odd
    await bench.start()
    flow = await bench.create(chain({"tool": "odd"}))
    assert await bench.result(flow) == (
        "failed",
        msgspec.json.encode({"error": "?" + "x" * (MAX_MESSAGE - 1) + "...", "type": "?"}).decode(),
    )
    assert len((await bench.flow(flow)).row.error or "") < MAX_MESSAGE + 100


async def test_a_tool_that_cancels_itself_fails_only_its_step(bench: Bench) -> None:
    async def cancels(step: StepRun, arguments: Any) -> None:
        raise asyncio.CancelledError

    bench.tools.tools["cancels"] = cancels
    await bench.start()
    for _ in range(6):  # more than there are slots
        status, result = await bench.result(await bench.create(chain({"tool": "cancels"})))
        assert (status, '"cancelled"' in (result or "")) == ("failed", True)
    await wait_until(lambda: bench.engine.busy == 0)


@pytest.mark.parametrize("value", [object(), {1, 2}.__iter__(), float], ids=["object", "iterator", "type"])
async def test_a_result_that_is_not_json_is_a_failure(bench: Bench, value: object) -> None:
    called = 0

    async def odd(step: StepRun, arguments: Any) -> object:
        nonlocal called
        called += 1
        return value

    bench.tools.tools["odd"] = odd
    await bench.start()
    retry = Retry(max_attempts=3, delay_ms=0)
    status, result = await bench.result(await bench.create(chain({"tool": "odd", "retry": retry})))
    assert status == "failed"
    assert '"invalid_result"' in (result or "")
    assert "the call was carried out" in (result or "")
    assert called == 1


async def test_a_huge_result_is_truncated_but_branches_see_all_of_it(bench: Bench) -> None:
    huge = "x" * (2 * MAX_RESULT_BYTES)
    flow = {
        "start": spec.Step(
            name="start",
            tool="echo",
            args={"value": huge},
            branch=(spec.Arm(f'result == "{huge}"', "yes"), spec.Arm("result != nil", "no")),
        ),
        "yes": spec.Step(name="yes", tool="echo", done=True),
        "no": spec.Step(name="no", tool="echo", done=True),
    }
    await bench.start()
    found = await bench.ended(await bench.create(flow))
    assert [step.key for step in found.steps] == ["start", "yes"]
    result = msgspec.json.decode(found.steps[0].result_json or "")
    assert (result["truncated"], result["bytes"]) == (True, 2 * MAX_RESULT_BYTES + 2)
    assert len(found.steps[0].result_json or "") <= MAX_RESULT_BYTES


@pytest.mark.parametrize(
    ("share", "delays"),
    [(0.0, (14_000, 12_000, 15_000)), (1.0, (14_000, 15_000, 15_000))],
    ids=["earliest", "latest"],
)
async def test_retries_back_off_with_jitter_up_to_the_longest_delay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, share: float, delays: Sequence[int]
) -> None:
    monkeypatch.setattr(random, "random", lambda: share)

    async def fails(step: StepRun, arguments: Any) -> Failure:
        # A named delay is used, up to the longest delay of the policy.
        asked = {1: 14_000, 3: 3_600_000}
        return Failure("busy", "busy", retryable=step.attempt < 4, after_ms=asked.get(step.attempt, 0))

    bench.tools.tools["fails"] = fails
    retry = Retry(max_attempts=9, delay_ms=10_000, max_delay_ms=15_000)
    flow = await bench.create(chain({"tool": "fails", "retry": retry}))

    async def now() -> int:
        seconds, micros = await bench.store.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    before = await now()
    await bench.start()
    for attempt, delay in enumerate(delays, 2):

        async def pending(attempt: int = attempt) -> int | None:
            (step,) = (await bench.flow(flow)).steps
            return step.ready_at if step.attempt == attempt and step.status == "pending" else None

        ready_at = await wait_until(pending)
        assert ready_at is not None
        assert before + delay <= ready_at <= await now() + delay
        before = await now()
        await bench.store.command("ZADD", keys.step_timers.key("default"), 1, flow + 1)
        await bench.steps.sweep("default")
    # The fourth failure is permanent.
    assert await bench.result(flow) == ("failed", '{"error":"busy","type":"busy"}')
    assert bench.tools.began["start"] == 4


async def test_attempts_are_used_up(bench: Bench) -> None:
    async def fails(step: StepRun, arguments: Any) -> Failure:
        return Failure(f"attempt {step.attempt}", "x")

    bench.tools.tools["fails"] = fails
    await bench.start()
    flow = await bench.create(chain({"tool": "fails", "retry": Retry(max_attempts=3, delay_ms=0)}))
    assert await bench.result(flow) == ("failed", '{"error":"attempt 3","type":"x"}')
    once = await bench.create(chain({"tool": "fails"}))
    assert await bench.result(once) == ("failed", '{"error":"attempt 1","type":"x"}')


async def test_all_attempts_of_a_step_have_one_idempotency_key(bench: Bench) -> None:
    seen: list[str] = []

    async def fails_once(step: StepRun, arguments: Any) -> Any:
        seen.append(step.idempotency_key)
        return Failure("once", "x") if step.attempt == 1 else "ok"

    bench.tools.tools["fails_once"] = fails_once
    await bench.start()
    flow = await bench.create(chain({"tool": "fails_once", "retry": Retry(max_attempts=2, delay_ms=0)}))
    assert await bench.result(flow) == ("done", '"ok"')
    assert seen == [f"{flow}-{flow + 1}"] * 2


async def test_a_step_that_killed_its_workers_is_not_executed_again(bench: Bench) -> None:
    flow = await bench.create(chain({}))
    for _ in range(3):
        (step,) = (await bench.steps.take(1)).steps
        await bench.store.command("ZADD", keys.step_leases.key("default"), 1, step.step)
        await bench.steps.sweep("default")
    await bench.start()
    assert await bench.result(flow) == ("failed", '{"error":"its worker was lost 3 times","type":"poisoned"}')
    assert bench.tools.began["start"] == 0


async def test_a_gate_that_expired_fails(bench: Bench) -> None:
    flow = await bench.create({"start": spec.Step(name="start", gate=True, timeout_ms=60_000, done=True)})
    await bench.start()
    await bench.store.command("ZADD", keys.step_timers.key("default"), "CH", 1, flow + 1)
    await bench.steps.sweep("default")
    status, result = await bench.result(flow)
    assert (status, '"expired"' in (result or "")) == ("failed", True)


async def test_steps_done_before_a_retry_of_the_flow_are_not_repeated(bench: Bench) -> None:
    blocked = asyncio.Event()

    async def slow(step: StepRun, arguments: Any) -> str:
        await blocked.wait()
        return "slow result"

    async def fails(step: StepRun, arguments: Any) -> Any:
        return Failure("no", "x") if step.attempt == 1 else "ok"

    bench.tools.tools |= {"slow": slow, "fails": fails}
    flow = fan(2)
    flow["b0"] = spec.Step(name="b0", tool="slow", join="end", fork="start")
    flow["b1"] = spec.Step(name="b1", tool="fails", join="end", fork="start")
    await bench.start()
    run = await bench.create(flow)
    assert (await bench.ended(run)).row.status == "failed"
    blocked.set()
    await wait_until(lambda: bench.tools.ended["b0"] == 1 and bench.engine.busy == 0)
    assert await bench.flows.retry("default", NO_KEY, run, "bob") == (2, "failed")
    found = await bench.ended(run)
    assert found.row.status == "completed"
    assert {step.key: step.result_json for step in found.steps} == {
        "start": "null",
        "b0": '"slow result"',
        "b1": '"ok"',
        "end": "null",
    }
    assert bench.tools.began["b0"] == 1
