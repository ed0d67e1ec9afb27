"""Instances in the store: guarantees of its scripts, also towards processes with stale knowledge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.steps.model import Failure, Outcome, StepRun, Success
from coordinator.steps.store import OVER, RECORDED, Report, Taken
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.gateway.rules.bundle import Packed
from coordinator.toolsets.gateway.rules.task import Advance, NextStep
from coordinator.toolsets.gateway.run_kind import Commit, InstanceSpec
from coordinator.toolsets.gateway.snapshot import Snapshot, timed_out
from coordinator.toolsets.gateway.store.instances import REPORT, Instance, InstanceStore, NewInstance
from coordinator.toolsets.gateway.store.listing import list_instances
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, Worker, states
from tests.gateway.workflows import timed
from tests.items.moments import server_time

pytestmark = pytest.mark.anyio

NOOP = {"kind": "noop"}
WORKFLOW = states(
    open={
        "transitions": {
            "go": {"target": "closed", "executor": NOOP},
            "sign": {"target": "open", "evidence": "signed"},
            "ask": {"target": "asked", "executor": {"kind": "human"}},
            "close": {"target": "closed"},
        }
    },
    asked={"onEnter": {"executor": {"kind": "human"}}, "transitions": {"back": {"target": "open"}}},
    closed={"terminal": True},
)


class Bench:
    """A gateway and its instances; the test acts as the worker."""

    def __init__(self, lab: Lab, store: Store, project: str) -> None:
        self.lab, self.store, self.project = lab, store, project
        self.instances = InstanceStore(store, lab.settings)
        worker = Worker(store, lab.settings)
        self.steps, self.planner = worker.steps, worker.kinds["gateway"].planner

    async def instance(self, answer: Json, operation: str = "") -> Instance:
        found = await self.instances.read(self.project, answer["workflowId"], operation)
        assert found is not None
        return found

    async def snapshot(self, answer: Json) -> Snapshot:
        found = await self.instance(answer)
        bundle = await self.instances.bundle(self.project, found.bundle)
        assert bundle is not None
        return Snapshot(answer["workflowId"], found, bundle)

    async def take(self) -> StepRun:
        if self.steps.handoff.direct:
            (step,) = (await self.steps.take(2)).steps
            return step
        await self.steps.relay(self.project)
        pointers = await self.steps.pop(2)
        (step,) = (await self.steps.begin(self.project, [pointer.job for pointer in pointers])).steps
        for pointer in pointers:
            await self.steps.acknowledge(pointer)
        return step

    async def timer(self, answer: Json) -> StepRun:
        """The step that waits for an instance's deadline, as if it were due."""
        key = keys.step_timers.key(self.project)
        assert await self.store.command("ZADD", key, "XX", "CH", 1, f"{answer['workflowId']}_t") == 1
        await self.steps.sweep(self.project)
        return await self.take()

    async def report(self, step: StepRun, how: str, what: Any) -> Taken:
        reports = [Report(step.step, step.attempt, how, '{"error":"no","type":"timeout"}', what)]
        taken = await self.steps.report(REPORT, self.project, 0, reports)
        assert taken.results == [RECORDED]
        return taken

    async def ended(self, step: StepRun, outcome: Outcome) -> int:
        """Reports the outcome of an attempt; returns in how many ms the step is due again."""
        plan = self.planner.plan(step, InstanceSpec(""), outcome)
        taken = await self.report(step, "F" if isinstance(outcome, Failure) else "D", plan)
        return await self.wait(step, taken)

    async def give_up(self, answer: Json) -> None:
        """Simulates that so many workers died with the step that an instance waits for."""
        step = await self.store.command("HGET", keys.run.key(self.project, answer["workflowId"]), "a")
        key = keys.step.key(self.project, step.decode())
        rare = msgspec.msgpack.decode(await self.store.command("HGET", key, "x"))
        await self.store.command("HSET", key, "x", msgspec.msgpack.encode({**rare, "v": "poisoned", "c": 3}))

    async def wait(self, step: StepRun, taken: Taken) -> int:
        status, ready = await self.store.command("HMGET", keys.step.key(self.project, step.step), "s", "e")
        assert status == b"d"
        return int(ready) - taken.now

    async def keys_of(self, answer: Json) -> list[bytes]:
        """The keys that belong to an instance alone."""
        found: list[bytes] = await self.store.command("KEYS", f"fc:{{{self.project}}}:*{answer['workflowId']}*")
        return found


@pytest.fixture
def bench(make_lab: MakeLab, store: Store, project: str) -> Bench:
    workflows = {"w": WORKFLOW, "timed": timed("late", 60_000)}
    # There is no worker but the test.
    return Bench(make_lab(workflows=workflows, limits={"submitWaitMs": 100}), store, project)


# --- beginning ------------------------------------------------------------------------------------


async def test_a_start_does_not_change_an_existing_instance(bench: Bench) -> None:
    """A sub-workflow is started by each attempt of the step that waits for it, under one id."""
    at = await bench.lab.follow(await bench.lab.start("w"), "sign")
    before = await bench.snapshot(at)
    packed = Packed(before.instance.bundle, b"", before.bundle)
    new = NewInstance(id=before.id, definition="w", creator="ana", bundle=packed, input="{}")
    again = Advance(op="cor_again", base=1, state="open", version=1, context="{}", ending="{}")
    assert await bench.instances.start(bench.project, NO_KEY, "", new, again) == (before.id, "")
    after = await bench.instance(at)
    assert msgspec.structs.replace(after, now=0) == msgspec.structs.replace(before.instance, now=0)
    # Its nesting counts for its own calls, however often it is read.
    nested = msgspec.structs.replace(new, id="wf_nested", nesting=3)
    await bench.instances.start(bench.project, NO_KEY, "", nested, again)
    assert (await bench.instance({"workflowId": "wf_nested"})).nesting == 3


async def test_no_operation_begins_on_an_ended_instance(bench: Bench) -> None:
    at = await bench.lab.follow(await bench.lab.start("w"), "close")
    late = Advance(op="cor_late", base=at["version"], state="open", version=at["version"] + 1, ending="{}")
    begun = await bench.instances.begin(bench.project, NO_KEY, "", at["workflowId"], "sign", late)
    assert begun.what == "ended"
    assert (await bench.lab.get(at))["state"] == "closed"
    begun = await bench.instances.begin(bench.project, NO_KEY, "", "wf_0", "sign", late)
    assert begun.what == "gone"


async def test_an_ended_instance_has_no_pending_approvals(bench: Bench) -> None:
    at = await bench.lab.follow(await bench.lab.start("w"), "ask")
    assert await bench.store.command("ZCARD", keys.gate_asked.key(bench.project)) == 2
    version = at["version"]
    failed = Advance(op="cor_end", base=version, state="asked", version=version, ended="failure", ending="{}")
    asked = await bench.store.command("ZRANGE", keys.gate_asked.key(bench.project), 0, -1)
    await bench.instances.begin(bench.project, NO_KEY, "", at["workflowId"], "back", failed)
    assert await bench.store.command("ZCARD", keys.gate_asked.key(bench.project)) == 0
    entries = await bench.store.command("XRANGE", keys.events.key(bench.project), "-", "+")
    events = [(flat[1], flat[3], flat[5]) for _, flat in entries if flat[1].startswith((b"gateway_a", b"gateway_e"))]
    instance = at["workflowId"].encode()
    assert sorted(events[:2]) == sorted((b"gateway_asked", instance, one) for one in asked)
    assert sorted(events[2:4]) == sorted((b"gateway_answered", instance, one) for one in asked)
    assert events[4][0] == b"gateway_ended"


async def test_delayed_steps_wait(bench: Bench) -> None:
    at = await bench.lab.follow(await bench.lab.start("w"), "go")
    step = await bench.take()
    taken = await bench.report(step, "B", 60_000)
    assert await bench.wait(step, taken) == 60_000
    assert await bench.instances.forget(bench.project, 1) == (0, False)
    key = keys.step_timers.key(bench.project)
    await bench.store.command("ZADD", key, "XX", 1, step.step)
    await bench.steps.sweep(bench.project)
    step = await bench.take()
    snapshot = await bench.snapshot(at)
    later = Advance(
        op=snapshot.instance.operation, base=1, state="open", version=1, next=NextStep("run", step.context, 30_000)
    )
    taken = await bench.report(step, "D", Commit(advance=later, keep_ms=1000, retention_ms=1000))
    (following,) = await bench.store.command("ZRANGE", key, 0, -1)
    assert await bench.store.command("ZSCORE", key, following) == taken.now + 30_000


@pytest.mark.parametrize("began", [True, False], ids=["who began it", "who found it under way"])
async def test_waiters_are_notified_once_and_can_read_the_ending(bench: Bench, began: bool) -> None:
    at = await bench.lab.start("w")
    begun = Advance(op="cor_begun", base=1, state="open", version=1, next=NextStep("run", "{}"))
    await bench.instances.begin(bench.project, NO_KEY, "front" if began else "", at["workflowId"], "go", begun)
    if not began:
        await bench.instances.read(bench.project, at["workflowId"], waiter="front")
    step = await bench.take()
    pubsub: Any = bench.store.client.pubsub()
    await pubsub.subscribe("fc:gate:front")
    assert (await pubsub.get_message(timeout=60))["type"] == "subscribe"
    failed = Advance(op="cor_begun", base=1, state="open", version=1, failure='{"code":"X"}', ending='{"state":"open"}')
    kept = Commit(advance=failed, keep_ms=bench.instances.keep_ms, retention_ms=bench.instances.retention_ms)
    run = keys.run.key(bench.project, at["workflowId"])
    await bench.store.command("HSET", run, "b", "wf_child", "tr", "the trace")
    taken = await bench.report(step, "F", kept)
    left = await bench.store.command("HMGET", run, "c", "ct", "cs", "a", "b", "tr")
    assert left == [None] * 6, "the next operation inherits nothing"
    assert (await pubsub.get_message(timeout=60))["data"] == f"{bench.project} {at['workflowId']}".encode()
    await pubsub.aclose()
    assert await bench.store.command("EXISTS", keys.gate_waiters.key(bench.project, at["workflowId"])) == 0
    found = await bench.instance(at, "cor_begun")
    assert (found.ending, found.failure, found.failed_at) == ('{"state":"open"}', '{"code":"X"}', taken.now)
    left = await bench.store.command("PTTL", keys.gate_ending.key(bench.project, "cor_begun"))
    assert bench.instances.keep_ms - 60_000 < left <= bench.instances.keep_ms
    # A success clears the failure.
    await bench.lab.follow(at, "sign")
    found = await bench.instance(at)
    assert (found.failure, found.failed_at) == ("", 0)


async def test_a_failure_before_planning_comes_again_once(bench: Bench) -> None:
    """For example it was given up, and the worker had not read the definitions yet."""
    at = await bench.lab.follow(await bench.lab.start("w"), "go")
    snapshot = await bench.snapshot(at)
    await bench.give_up(at)
    unplanned = bench.planner.plan(given_up := await bench.take(), InstanceSpec(""), Failure("no", "timeout"))
    assert given_up.verdict == "poisoned"
    await bench.report(given_up, "F", unplanned)
    again = await bench.take()
    assert (again.attempt, again.verdict) == (2, "")
    spec = InstanceSpec(snapshot.instance.bundle)
    assert await bench.planner.prepare(again, spec) == Failure("no", "timeout", retryable=False)
    # If the definitions were deleted, it still ends.
    await bench.report(again, "F", unplanned)
    found = await bench.instance(at, snapshot.instance.operation)
    assert (found.operation, found.version) == ("", 1)
    assert msgspec.json.decode(found.ending)["error"]["message"] == "What follows could not be planned."
    key = keys.gate_ending.key(bench.project, snapshot.instance.operation)
    assert 50_000 < await bench.store.command("PTTL", key) <= 60_000


@pytest.mark.parametrize("field", ["c", "a"], ids=["another operation", "another step"])
async def test_nothing_is_written_during_another_operation(bench: Bench, field: str) -> None:
    at = await bench.lab.follow(await bench.lab.start("w"), "go")
    step = await bench.take()
    await bench.store.command("HSET", keys.run.key(bench.project, at["workflowId"]), field, "another")
    moved = Advance(op=step.key, base=1, state="closed", version=2, ended="success", ending="{}")
    done = Report(step.step, step.attempt, "D", "null", Commit(advance=moved, keep_ms=1000, retention_ms=1000))
    assert (await bench.steps.report(REPORT, bench.project, 0, [done])).results == [OVER]
    found = await bench.instance(at)
    assert (found.version, found.ended) == (1, False)
    assert await bench.store.command("EXISTS", keys.step.key(bench.project, step.step)) == 0


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [("HSET", "s", "e"), ("HDEL", "d")], ids=["ended", "not limited any more"])
async def test_a_timer_without_a_deadline_is_dropped(bench: Bench, change: tuple[str, ...]) -> None:
    at = await bench.lab.start("timed")
    step = await bench.timer(at)
    command, *words = change
    await bench.store.command(command, keys.run.key(bench.project, at["workflowId"]), *words)
    await bench.report(step, "F", bench.planner.plan(step, InstanceSpec(""), Failure("no", "defect")))
    assert await bench.store.command("EXISTS", keys.step.key(bench.project, step.step)) == 0


async def test_a_failing_timeout_backs_off(bench: Bench) -> None:
    at = await bench.lab.start("timed")
    waits = [await bench.ended(await bench.timer(at), Failure("no", "defect")) for _ in range(4)]
    assert waits == [1000, 2000, 4000, 8000]
    await bench.store.command("HSET", keys.step.key(bench.project, f"{at['workflowId']}_t"), "f", 60)
    assert await bench.ended(await bench.timer(at), Failure("no", "defect")) == 3_600_000


async def test_a_timeout_that_finds_the_instance_moved_is_planned_again_soon(bench: Bench) -> None:
    at = await bench.lab.start("timed")
    step = await bench.timer(at)
    advance, late = timed_out(await bench.snapshot(at))
    moved = {"advance": msgspec.to_builtins(msgspec.structs.replace(advance, base=9)), "late": late}
    assert await bench.ended(step, Success(moved)) == 50
    assert (await bench.lab.get(at))["version"] == 1


@pytest.mark.parametrize("planned", [False, True], ids=["nothing was planned", "what follows was planned"])
async def test_an_early_timer_comes_again(bench: Bench, planned: bool) -> None:
    """The server's clock was set back. Nothing else moves an instance that nobody reads."""
    at = await bench.lab.start("timed")
    step = await bench.timer(at)
    advance, late = timed_out(await bench.snapshot(at))
    assert not (await bench.instance(at)).late
    plan = {"advance": msgspec.to_builtins(advance), "late": late}
    assert await bench.ended(step, Success(plan if planned else None)) == 1000
    assert (await bench.lab.get(at))["version"] == 1


async def test_an_instance_does_not_time_out_early(bench: Bench) -> None:
    at = await bench.lab.start("timed")
    advance, late = timed_out(await bench.snapshot(at))
    assert not await bench.instances.expire(bench.project, at["workflowId"], late, advance)
    assert (await bench.lab.get(at))["version"] == 1


async def test_an_ended_instance_does_not_time_out(bench: Bench) -> None:
    closed = await bench.lab.follow(await bench.lab.start("timed"), "close")
    assert (await bench.instance(closed)).deadline == 0
    at = await bench.lab.start("timed")
    advance, late = timed_out(await bench.snapshot(at))
    await bench.store.command("HSET", keys.run.key(bench.project, at["workflowId"]), "s", "e", "d", 1)
    assert not await bench.instances.expire(bench.project, at["workflowId"], late, advance)
    assert (await bench.instance(at)).version == 1


async def test_a_timeout_ends_the_operation_and_tells_its_worker(bench: Bench) -> None:
    lab = bench.lab
    at = await lab.start("timed")
    begun = Advance(op="cor_begun", base=1, state="open", version=1, next=NextStep("run", "{}"))
    assert (await bench.instances.begin(bench.project, NO_KEY, "", at["workflowId"], "close", begun)).what == "begun"
    step = await bench.take()
    direct = bench.steps.handoff.direct  # elsewhere, its worker learns of it when it renews the lease
    pubsub: Any = bench.store.client.pubsub()
    await pubsub.subscribe("fc:{RQ}:pubsub:w")
    assert (await pubsub.get_message(timeout=60))["type"] == "subscribe"
    await bench.store.command("HSET", keys.run.key(bench.project, at["workflowId"]), "d", 1)
    assert (await lab.get(at))["state"] == "late"
    told = await pubsub.get_message(timeout=60 if direct else 0.0)
    assert not direct or told["data"] == f'{{"command": "stop-job", "job_id": "{step.job_id}"}}'.encode()
    await pubsub.aclose()
    assert await bench.store.command("KEYS", keys.step.key(bench.project, "*")) == []
    assert await bench.store.command("ZCARD", keys.step_leases.key(bench.project)) == 0
    found = await bench.instance(at, "cor_begun")
    assert '"timedOut":true' in found.ending
    assert (found.operation, found.transition, found.since, found.deadline) == ("", "", 0, 0)


# --- retention ------------------------------------------------------------------------------------


async def test_evidence_is_bounded_and_the_newest_is_shown(bench: Bench) -> None:
    at = await bench.lab.start("w")
    for _ in range(25):
        at = await bench.lab.follow(at, "sign")
    key = keys.gate_evidence.key(bench.project, at["workflowId"])
    shown = (await bench.instance(at)).last_evidence
    assert shown == [one.decode() for one in (await bench.store.command("LRANGE", key, 0, -1))[5:]]
    oldest = await bench.store.command("LINDEX", key, 0)
    await bench.store.command("LPUSH", key, *["before"] * 175)
    await bench.lab.follow(at, "sign")
    assert await bench.store.command("LLEN", key) == 200
    assert await bench.store.command("LINDEX", key, 174) == oldest


async def test_an_ended_instance_is_deleted_completely_after_its_retention(bench: Bench) -> None:
    at = await bench.lab.start("w")
    asked = []
    for name in ("sign", "ask", "back", "ask", "back"):
        at = await bench.lab.follow(at, name)
        pending = at.get("pendingHuman", ())
        assert len(pending) == (2 if name == "ask" else 0)
        asked += [one["requestId"] for one in pending]
    other = await bench.lab.start("w")
    before = await server_time(bench.store)
    await bench.lab.follow(at, "close")
    day = 86_400_000
    expiry = keys.gate_expiry.key(bench.project)
    due = await bench.store.command("ZSCORE", expiry, at["workflowId"])
    assert before + 7 * day <= due <= await server_time(bench.store) + 7 * day
    assert await bench.instances.forget(bench.project, 9) == (0, True)
    await bench.store.command("ZADD", expiry, 1, at["workflowId"])
    assert await bench.instances.forget(bench.project, 9) == (1, False)
    assert await bench.keys_of(at) == []
    for one in asked:
        assert await bench.store.command("EXISTS", keys.gate_approval.key(bench.project, one)) == 0
    assert await bench.store.command("EXISTS", keys.gate_answered.key(bench.project)) == 0
    listed = (await list_instances(bench.store, bench.project)).rows
    assert [row.id for row in listed] == [other["workflowId"]]
    # The definitions stay for the other one, whichever process reads them.
    stays = await bench.instance(other)
    assert await InstanceStore(bench.store, bench.lab.settings).bundle(bench.project, stays.bundle) is not None
