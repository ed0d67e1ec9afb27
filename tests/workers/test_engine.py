"""The engine: round trips, interruptions, and failures."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

import workers.attempts
from coordinator.errors import ToolFailure
from coordinator.metrics import tracing
from coordinator.steps.model import Plan, Retry, StepRun
from coordinator.steps.store import QueuedJob, Report, Taken
from coordinator.steps.times import IDLE_POLL_SECONDS
from coordinator.store import ServerError, Store, keys
from coordinator.store.idempotency import NO_KEY
from tests.support.wait import PATIENCE, wait_until
from tests.tracing.logged import Logged
from tests.workers.bench import Bench, chain, fan, hang
from workers.engine import FLUSH_AT, Specs

pytestmark = pytest.mark.anyio


async def calls(store: Store) -> int:
    """Scripts that the server has run."""
    stats = (await store.command("INFO", "commandstats")).decode()
    (line,) = [line for line in stats.splitlines() if line.startswith("cmdstat_fcall:")]
    return int(line.split("calls=")[1].split(",")[0])


async def test_flows_run_to_completion(bench: Bench) -> None:
    await bench.start()
    chained = await bench.create(chain({"args": {"value": 1}}, {"args": {"value": [2]}}, {"args": {"value": None}}))
    fanned = await bench.create(fan(8, args={"value": True}))
    found = await bench.ended(chained)
    assert found.row.status == "completed"
    assert [step.result_json for step in found.steps] == ["1", "[2]", "null"]
    found = await bench.ended(fanned)
    assert {step.key for step in found.steps} == {"start", "end", *(f"b{number}" for number in range(8))}
    assert {step.status for step in found.steps} == {"done"}
    assert set(bench.tools.began.values()) <= {1, 2}


async def test_a_step_takes_less_than_one_round_trip(bench: Bench) -> None:
    flows = [await bench.create(chain(*({"args": {"value": number}} for number in range(5)))) for _ in range(100)]
    flows += [await bench.create(fan(8, args={"value": 1})) for _ in range(50)]
    steps = 100 * 5 + 50 * 9
    await bench.store.command("CONFIG", "RESETSTAT")
    await bench.start()
    idle = bench.engine
    await wait_until(lambda: sum(bench.tools.ended.values()) == steps and idle.busy == 0, what="all steps")
    assert await calls(bench.store) / steps <= 1.0
    for flow in flows:
        assert (await bench.ended(flow)).row.status == "completed"


async def test_one_slot_needs_one_round_trip_for_each_step(store: Store) -> None:
    bench = Bench(store, slots=1)
    flow = await bench.create(chain(*({"args": {"value": number}} for number in range(50))))
    await store.command("CONFIG", "RESETSTAT")
    await bench.start(listen=False)
    await bench.engine.take(bench.steps.take)
    await wait_until(lambda: bench.tools.ended["s49"] == 1 and bench.engine.busy == 0, what="the last step")
    assert await calls(store) <= 51
    assert (await bench.ended(flow)).row.status == "completed"
    # However many it reported, it takes no more than its free slots.
    await wait_until(lambda: bench.engine.want() > 0)
    assert bench.engine.want() == 1
    await bench.stop()


async def test_steps_that_end_together_are_reported_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(store, slots=FLUSH_AT + 1)
    report, reported = bench.steps.report, Counter[str]()

    async def counted(script: Any, project: str, want: int, reports: list[Report], **more: Any) -> Taken:
        reported.update(one.step for one in reports)
        return await report(script, project, want, reports, **more)

    monkeypatch.setattr(bench.steps, "report", counted)
    flow = await bench.create(fan(FLUSH_AT + 1))
    await bench.start()
    assert (await bench.ended(flow)).row.status == "completed"
    await bench.stop()
    assert set(reported.values()) == {1}


async def test_no_flow_starves_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engine.TURN_SECONDS", -1.0)
    bench, order = Bench(store, slots=1), list[str]()

    async def noted(step: StepRun, arguments: Any) -> None:
        order.append(step.run)

    bench.tools.tools["noted"] = noted
    long = await bench.create(chain(*({"tool": "noted"} for _ in range(3))))
    short = await bench.create(chain({"tool": "noted"}))
    await bench.start(listen=False)
    await bench.engine.take(bench.steps.take)
    for flow in (long, short):
        assert (await bench.ended(flow)).row.status == "completed"
    await bench.stop()
    # Queued steps precede the successors of a worker's own steps, when their turn has come.
    assert order[:2] == [str(long), str(short)]


async def test_an_idle_worker_begins_at_once(bench: Bench) -> None:
    await bench.start()
    waits = []
    for _ in range(20):
        flow = await bench.create(chain({}))
        (step,) = (await bench.ended(flow)).steps
        assert step.started_at is not None
        assert step.ready_at is not None
        waits.append(step.started_at - step.ready_at)
        # Until it waits for a bell again.
        await wait_until(lambda: bench.engine.busy == 0)
    # One that only polled its queues would take half of that time on average.
    assert statistics.median(waits) < IDLE_POLL_SECONDS * 1000 / 4, waits


async def test_work_that_came_while_all_slots_were_busy_is_taken(bench: Bench) -> None:
    gate = asyncio.Event()

    async def wait(step: StepRun, arguments: Any) -> None:
        await gate.wait()

    bench.tools.tools["wait"] = wait
    await bench.start()
    first = [await bench.create(chain({"tool": "wait"})) for _ in range(4)]
    await wait_until(lambda: bench.engine.busy == 4)
    later = [await bench.create(chain({})) for _ in range(10)]
    gate.set()
    for flow in (*first, *later):
        assert (await bench.ended(flow)).row.status == "completed"


async def test_slots_reserved_for_a_call_under_way_are_not_filled_twice(bench: Bench) -> None:
    wanted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answered = asyncio.Event()

    async def source(want: int) -> Taken:
        wanted.set_result(want)
        await answered.wait()
        return Taken(0, [], [], [], False)

    await bench.start(listen=False)
    call = asyncio.create_task(bench.engine.take(source))
    assert await wanted == 4
    assert bench.engine.want() == 0
    answered.set()
    assert await call == 0
    assert bench.engine.want() == 4


async def test_a_step_that_waits_for_its_slot_is_held(bench: Bench) -> None:
    flow = await bench.create(chain({}))
    taken = await bench.steps.take(1)
    bench.engine.deliver(taken)
    assert bench.engine.held_in("default") == [step.step for step in taken.steps] != []
    assert bench.engine.held_in("other") == []
    await bench.start()
    assert (await bench.ended(flow)).row.status == "completed"


async def test_a_plain_job_occupies_a_slot_until_it_ends(store: Store) -> None:
    bench = Bench(store, slots=1)

    async def source(want: int) -> Taken:
        return Taken(0, [], [], [QueuedJob("job", "fleet-steps")], False)

    await bench.start(listen=False)
    assert await bench.engine.take(source) == 1
    assert (bench.plain_jobs, bench.engine.want()) == ([("job", "fleet-steps")], 0)
    waiting = asyncio.create_task(bench.engine.wait_for_capacity())
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.engine.freed()
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert bench.engine.want() == 1
    await bench.stop()


# --- interruptions --------------------------------------------------------------------------------


async def test_a_cancelled_flow_stops_its_running_steps(bench: Bench) -> None:
    bench.tools.tools["hang"] = hang
    await bench.start()
    flow = await bench.create(chain({"tool": "hang"}))
    await wait_until(lambda: bench.tools.began["start"] == 1)
    (job,) = bench.engine.held
    assert await bench.flows.cancel("default", NO_KEY, flow, "bob") == (True, "cancelled")
    assert bench.engine.interrupt(job, "stopped")
    await wait_until(lambda: bench.tools.ended["start"] == 1 and bench.engine.busy == 0)
    assert (await bench.flow(flow)).steps[0].status == "cancelled"
    assert not bench.engine.interrupt(job, "stopped")


async def test_a_step_that_rq_stopped_has_failed(bench: Bench) -> None:
    bench.tools.tools["hang"] = hang
    await bench.start()
    flow = await bench.create(chain({"tool": "hang", "retry": Retry(max_attempts=5, delay_ms=0)}))
    await wait_until(lambda: bench.tools.began["start"] == 1)
    bench.engine.interrupt(next(iter(bench.engine.held)), "stopped")
    assert await bench.result(flow) == ("failed", '{"error":"the step was stopped","type":"stopped"}')


async def test_a_step_whose_lease_was_lost_is_dropped_without_a_report(bench: Bench) -> None:
    bench.tools.tools["hang"] = hang
    await bench.start(listen=False)
    flow = await bench.create(chain({"tool": "hang"}))
    await bench.engine.take(bench.steps.take)
    await wait_until(lambda: bench.tools.began["start"] == 1)
    await bench.store.command("CONFIG", "RESETSTAT")
    bench.engine.interrupt(next(iter(bench.engine.held)), "lost")
    await wait_until(lambda: bench.engine.busy == 0)
    assert "fcall" not in (await bench.store.command("INFO", "commandstats")).decode()
    assert (await bench.flow(flow)).steps[0].status == "running"


async def test_a_draining_worker_finishes_quick_steps_and_gives_the_rest_back(store: Store) -> None:
    bench = Bench(store, slots=2)
    quick = asyncio.Event()

    async def soon(step: StepRun, arguments: Any) -> str:
        await quick.wait()
        return "quick"

    bench.tools.tools |= {"hang": hang, "soon": soon}
    await bench.start()
    first = await bench.create(chain({"tool": "soon"}, {}))
    second = await bench.create(chain({"tool": "hang"}))
    await wait_until(lambda: bench.engine.busy == 2)
    third = await bench.create(chain({}))
    draining = asyncio.create_task(bench.stop(2.0))
    await asyncio.sleep(0)
    quick.set()
    began = time.monotonic()
    await draining
    assert time.monotonic() - began < 30
    assert [(step.key, step.status) for step in (await bench.flow(first)).steps] == [("start", "done"), ("s1", "ready")]
    (back,) = (await bench.flow(second)).steps
    assert (back.status, back.attempt) == ("ready", 2)
    assert (await bench.flow(third)).steps[0].status == "ready"
    assert await store.command("LLEN", "fc:{RQ}:queue:fleet-steps") == 3
    # No worker was lost: no crash is counted.
    assert {step.crashes for step in (await bench.steps.take(5)).steps} == {0}


async def test_a_step_that_arrives_during_a_drain_is_given_back(bench: Bench) -> None:
    begun, answered = asyncio.Event(), asyncio.Event()

    async def slow(want: int) -> Taken:
        taken = await bench.steps.take(want)
        begun.set()
        await answered.wait()
        return taken

    await bench.start(listen=False)
    flow = await bench.create(chain({}))
    taking = asyncio.create_task(bench.engine.take(slow))
    await begun.wait()
    # As a worker ends: the call for work is cancelled before its reply.
    draining = asyncio.create_task(bench.engine.stop(asyncio.get_running_loop().time() + PATIENCE))
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    answered.set()
    await draining
    assert bench.tools.began["start"] == 0
    (back,) = (await bench.flow(flow)).steps
    assert (back.status, back.attempt) == ("ready", 2)


async def test_a_worker_takes_nothing_while_any_reason_to_pause_remains(bench: Bench) -> None:
    await bench.start()
    bench.engine.pause("suspended", True)
    bench.engine.pause("drained", True)
    flow = await bench.create(chain({}))
    assert bench.engine.want() == 0
    assert await bench.engine.take(bench.steps.take) == 0
    bench.engine.pause("suspended", False)
    assert bench.engine.want() == 0
    assert (await bench.flow(flow)).steps[0].status == "ready"
    assert bench.tools.began["start"] == 0
    bench.engine.pause("drained", False)
    assert (await bench.ended(flow)).row.status == "completed"


# --- what the store and others do -----------------------------------------------------------------


class Flaky:
    """Lets calls of the store fail when a test says so."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before = self.after = 0
        self._report = bench.steps.report
        self._take = bench.steps.take
        monkeypatch.setattr(bench.steps, "report", self.report)
        monkeypatch.setattr(bench.steps, "take", self.take)

    async def report(self, *args: Any, **more: Any) -> Any:
        return await self._call(self._report, *args, **more)

    async def take(self, want: int) -> Any:
        return await self._call(self._take, want)

    async def _call(self, call: Any, *args: Any, **more: Any) -> Any:
        if self.before:
            self.before -= 1
            raise ToolFailure("store_unavailable", "gone before")
        found = await call(*args, **more)
        if self.after:
            self.after -= 1
            raise ToolFailure("store_unavailable", "gone after")
        return found


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 1)])
async def test_reports_are_retried_until_the_store_has_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    flaky = Flaky(bench, monkeypatch)
    await bench.start(listen=False)
    flow = await bench.create(chain({"args": {"value": 1}}))
    await bench.engine.take(bench.steps.take)
    flaky.before, flaky.after = before, after
    with capture_logs() as logged:
        assert await bench.result(flow) == ("done", "1")
    assert [line["event"] for line in logged] == ["outcomes cannot be reported, trying again"]
    await wait_until(lambda: bench.engine.busy == 0)
    assert bench.tools.began["start"] == 1
    assert bench.engine.lost_reply()
    assert not bench.engine.lost_reply()


async def test_steps_that_came_with_a_lost_reply_are_given_back(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky = Flaky(bench, monkeypatch)
    await bench.start(listen=False)
    flow = await bench.create(chain({}))
    flaky.after = 1
    with pytest.raises(ToolFailure):
        await bench.engine.take(bench.steps.take)
    assert bench.engine.lost_reply()
    await store.command("ZINCRBY", keys.step_leases.key("default"), -2000, flow + 1)
    assert await bench.steps.reclaim("default", bench.engine.held_in("default")) == 1
    await bench.engine.take(bench.steps.take)
    (step,) = (await bench.ended(flow)).steps
    assert (step.status, step.attempt) == ("done", 2)


async def test_steps_leased_by_a_failed_script_are_given_back(bench: Bench, store: Store) -> None:
    flow = await bench.create(chain({}))
    await store.command("HSET", "fc:{RQ}:job:plain", "data", "x")
    await store.command("RPUSH", "fc:{RQ}:queue:fleet-steps", "plain")
    # Not a list as in RQ: the script fails there, after it has leased the step.
    await store.command("SET", "fc:{RQ}:queue:fleet-steps:intermediate", "x")
    await bench.start(listen=False)
    with pytest.raises(ServerError, match="WRONGTYPE"):
        await bench.engine.take(bench.steps.take)
    assert bench.engine.lost_reply()
    await store.command("ZINCRBY", keys.step_leases.key("default"), -2000, flow + 1)
    assert await bench.steps.reclaim("default", bench.engine.held_in("default")) == 1
    await bench.engine.take(bench.steps.take)
    assert (await bench.ended(flow)).row.status == "completed"


async def test_a_step_whose_outcome_is_about_to_be_sent_is_held(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[tuple[list[str], list[str]]] = loop.create_future()

    async def tool(step: StepRun, arguments: Any) -> None:
        # Arrives after the step has ended, and before the reports of this turn of the loop are sent.
        loop.call_soon(lambda: seen.set_result((list(bench.engine.held), bench.engine.held_in("default"))))

    bench.tools.tools["tool"] = tool
    await bench.start()
    flow = await bench.create(chain({"tool": "tool"}))
    assert await seen == ([], [str(flow + 1)])
    await bench.ended(flow)


async def test_a_step_whose_outcome_is_on_its_way_is_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    report, sent, go_on = bench.steps.report, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **more: Any) -> Any:
        sent.set()
        await go_on.wait()
        return await report(*args, **more)

    monkeypatch.setattr(bench.steps, "report", slow)
    await bench.start(listen=False)
    flow = await bench.create(chain({}))
    await bench.engine.take(bench.steps.take)
    await sent.wait()
    assert (bench.engine.held_in("default"), bench.engine.held_in("other")) == ([str(flow + 1)], [])
    go_on.set()
    await bench.ended(flow)
    await wait_until(lambda: not bench.engine.held_in("default"))


async def test_a_planner_that_fails_ends_the_flow(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Plan:
        raise KeyError("secret")

    monkeypatch.setattr(bench.kinds["flows"].planner, "plan", broken)
    await bench.start()
    found = await bench.ended(await bench.create(chain({}, {})))
    assert (found.row.status, found.row.error) == ("failed", "what follows step 'start' could not be planned")
    assert [step.status for step in found.steps] == ["done"]


@pytest.mark.parametrize("odd", [Plan(create=(1, 2)), None, "no plan"])  # type: ignore[arg-type]
async def test_an_invalid_plan_ends_the_flow(bench: Bench, monkeypatch: pytest.MonkeyPatch, odd: Any) -> None:
    plan = bench.kinds["flows"].planner.plan

    def mostly(step: StepRun, *rest: Any) -> Any:
        return odd if step.run == str(bad) else plan(step, *rest)

    monkeypatch.setattr(bench.kinds["flows"].planner, "plan", mostly)
    bad = await bench.create(chain({}, {}))
    good = [await bench.create(chain({}, {})) for _ in range(6)]
    await bench.start()
    for flow in good:
        assert (await bench.ended(flow)).row.status == "completed"
    assert (await bench.ended(bad)).row.error == "what follows step 'start' could not be planned"


async def test_a_preparation_that_hangs_times_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(workers.attempts, "PREPARE_SECONDS", 0.05)
    monkeypatch.setattr(bench.kinds["flows"].planner, "prepare", hangs)
    await bench.start()
    flow = await bench.create(chain({}))
    assert await bench.result(flow) == ("failed", '{"error":"the step took longer than 50 ms","type":"timeout"}')


async def test_steps_of_an_unknown_kind_are_left_to_other_workers(bench: Bench) -> None:
    flow = await bench.create(chain({}))
    await bench.store.command("HSET", keys.run.key("default", str(flow)), "o", "gateway")
    await bench.start(listen=False)
    await bench.engine.take(bench.steps.take)

    async def back() -> bool:
        (step,) = (await bench.flow(flow)).steps
        return (step.status, step.attempt) == ("pending", 2)

    await wait_until(back)
    assert bench.tools.began["start"] == 0


async def test_a_flow_whose_spec_is_gone_fails(bench: Bench) -> None:
    flow = await bench.create(chain({}))
    (step,) = (await bench.steps.take(1)).steps
    taken = await bench.steps.report(bench.kinds["flows"].report, "default", 0, [Report(step.step, 1, "B", "", 0)])
    assert taken.results == [1]
    await bench.store.command("DEL", keys.run_spec.key("default", str(flow)))
    await bench.start()
    assert (await bench.ended(flow)).row.error == "the spec of the flow is gone"
    assert bench.tools.began["start"] == 0


async def test_a_spec_that_cannot_be_read_fails_its_flow_only(bench: Bench) -> None:
    bad = await bench.create(chain({}), spec=b"no spec")
    good = [await bench.create(chain({})) for _ in range(3)]
    await bench.start()
    assert (await bench.ended(bad)).row.status == "failed"
    for flow in good:
        assert (await bench.ended(flow)).row.status == "completed"


async def test_a_step_whose_flow_is_gone_is_dropped(bench: Bench) -> None:
    flow = await bench.create(chain({"tool": "hang"}))
    bench.tools.tools["hang"] = hang
    await bench.start()
    await wait_until(lambda: bench.tools.began["start"] == 1)
    await bench.store.command("DEL", keys.run.key("default", str(flow)), keys.run_spec.key("default", str(flow)))
    bench.engine.interrupt(next(iter(bench.engine.held)), "stopped")
    await wait_until(lambda: bench.engine.busy == 0)
    assert (await bench.steps.sweep("default")).idle


async def test_an_evicted_spec_is_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engine.SPECS_MOST", 1)
    reads, read, gate = Counter[str](), bench.steps.spec, asyncio.Event()

    async def counted(project: str, run: str) -> bytes | None:
        reads[run] += 1
        return await read(project, run)

    async def waits(step: StepRun, arguments: Any) -> None:
        await gate.wait()

    monkeypatch.setattr(bench.steps, "spec", counted)
    bench.tools.tools["waits"] = waits
    await bench.start()
    first = await bench.create(chain({"tool": "waits"}, {"args": {"value": 1}}))
    await wait_until(lambda: bench.tools.began["start"] == 1, what="the first step")
    second = await bench.create(chain(*({"args": {"value": 1}} for _ in range(5))))
    assert (await bench.ended(second)).row.status == "completed"
    gate.set()
    assert (await bench.ended(first)).row.status == "completed"
    assert reads == {str(first): 1}, "both had come with their first steps"


def test_specs_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engine.SPECS_MOST", 3)
    monkeypatch.setattr("workers.engine.SPEC_BYTES_MOST", 100)
    specs = Specs()

    def run(number: int) -> StepRun:
        return StepRun("p", "flows", str(number), "1", 1, "k", "", "", "", "", 0, 0, 0, 0, "")

    for number in range(5):
        specs.put(run(number), number, 10)
        specs.get(run(1)) if number > 2 else None
    assert [specs.get(run(number)) for number in range(5)] == [None, 1, None, 3, 4]
    specs.put(run(9), 9, 95)
    assert [specs.get(run(number)) for number in (1, 3, 4, 9)] == [None, None, None, 9]
    specs.put(run(8), 8, 1000)
    assert specs.get(run(8)) == 8
    # Evicted specs take no space, and repeated ones take it once.
    specs.put(run(6), 6, 50)
    specs.put(run(6), 6, 50)
    specs.put(run(7), 7, 50)
    assert [specs.get(run(number)) for number in (6, 7, 8)] == [6, 7, None]


async def test_logs_of_a_step_name_the_span_of_its_attempt(store: Store) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.install(tracing.Tracing(provider, provider.get_tracer("test")))

    async def breaks(step: StepRun, arguments: Any) -> Any:
        structlog.get_logger("tools").info("at work")
        raise ZeroDivisionError

    try:
        with Logged() as logged:
            bench = Bench(store)
            bench.tools.tools["breaks"] = breaks
            await bench.start()
            await bench.ended(await bench.create(chain({"tool": "breaks"})))
            await bench.stop()
    finally:
        tracing.install(None)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "step flows"]
    assert span.context is not None
    attempt = f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"
    found = logged.places()
    assert (found["at work"], found["step failed unexpectedly"]) == (attempt, attempt)
