"""How steps get to workers: queues by pool and priority, limits of projects, vanished jobs, queues in another Redis."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.steps import StepSettings
from coordinator.steps.handoff import queue_name, queue_names
from coordinator.steps.model import NewStep, Plan
from coordinator.steps.store import RECORDED, QueuedJob, Report
from coordinator.steps.times import JOB_CHECK_MS, MAX_CRASHES
from coordinator.store import Store, keys
from coordinator.store.fences import copies
from coordinator.store.fences.copies import Fencing
from coordinator.store.fences.known import Fenced
from coordinator.store.idempotency import NO_KEY
from tests.items.moments import server_time
from tests.steps.rig import DONE, FAILED, NOTHING, Player, Rig, then

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("pool", "queue"), [("", "fleet-steps"), ("default", "fleet-steps"), ("gpu", "fleet-steps-gpu")]
)
@pytest.mark.parametrize(("priority", "suffix"), [("high", ".high"), ("normal", ""), ("low", ".low")])
async def test_a_step_waits_in_the_queue_of_its_pool_and_priority(
    rig: Rig, pool: str, queue: str, priority: Any, suffix: str
) -> None:
    await rig.create(Plan((NewStep("start", queue=pool, priority=priority),)))
    assert len(await rig.queued(queue + suffix)) == 1
    assert queue_name(pool, priority) == queue + suffix


async def test_steps_inherit_the_pool_and_priority_of_their_flow(rig: Rig) -> None:
    await rig.create(queue="gpu", priority="high")
    worker = rig.player("w2", pools=["gpu"])
    (step,) = await worker.take()
    await worker.report(step, "D", Plan((NewStep("a"), NewStep("b", queue="default", priority="low"))))
    assert len(await rig.queued("fleet-steps-gpu.high")) == 1
    assert len(await rig.queued("fleet-steps.low")) == 1


async def test_workers_serve_only_their_pools_by_priority(rig: Rig) -> None:
    for priority in ("low", "normal", "high"):
        await rig.create(Plan((NewStep(priority),)), priority=priority)
    await rig.create(Plan((NewStep("elsewhere"),)), queue="gpu")
    assert [step.key for step in await rig.worker.take(9)] == ["high", "normal", "low"]
    assert queue_names(["default", "gpu"])[:2] == ["fleet-steps.high", "fleet-steps-gpu.high"]
    assert [step.key for step in await rig.player("w2", pools=["gpu", "other"]).take(9)] == ["elsewhere"]


async def test_the_oldest_step_is_taken_first(rig: Rig) -> None:
    flows = [str(await rig.create()) for _ in range(5)]
    assert [step.run for step in await rig.worker.take(3)] == flows[:3]
    assert [step.run for step in await rig.player("w2").take(3)] == flows[3:]


async def test_an_urgent_successor_precedes_queued_steps(rig: Rig) -> None:
    await rig.create()
    (step,) = await rig.worker.take()
    await rig.create()
    taken = await rig.worker.report(step, "D", Plan((NewStep("a"), NewStep("b", priority="high"))), want=1)
    assert [one.key for one in taken.steps] == ["b"]


async def test_a_bell_rings_for_each_queued_step_and_is_silent_when_there_is_none(rig: Rig) -> None:
    bell = "fc:{RQ}:bell:fleet-steps"
    await rig.create(then("a", "b", "c"))
    assert await rig.store.command("LLEN", bell) == 3
    await rig.worker.take(2)
    assert await rig.store.command("LLEN", bell) == 3
    await rig.worker.take(2)
    assert await rig.store.command("EXISTS", bell) == 0
    for _ in range(40):
        await rig.create(then(*"abcdefgh"), steps=8)
    assert await rig.store.command("LLEN", bell) == 128


async def test_a_pointer_has_no_timeout_and_leaves_nothing_behind(rig: Rig) -> None:
    """As RQ's own workers read it: RQ neither times a step out nor keeps its result."""
    await rig.create()
    (job,) = await rig.queued()
    stated = await rig.store.command("HMGET", f"fc:{{RQ}}:job:{job}", "timeout", "result_ttl", "failure_ttl")
    assert stated == [b"-1", b"0", b"60"]
    assert await rig.store.command("SMEMBERS", "fc:{RQ}:queues") == [b"fc:{RQ}:queue:fleet-steps"]


async def test_unheard_bells_are_bounded(rig: Rig) -> None:
    for _ in range(150):
        await rig.create()
        await rig.worker.take(1)
    assert await rig.store.command("LLEN", "fc:{RQ}:bell:fleet-steps") == 128


async def test_a_step_of_a_project_that_is_being_copied_is_not_taken(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a worker that takes, nor by one that reports for another project."""
    monkeypatch.setattr(copies, "GRACE_SECONDS", 0.01)
    fences, copy = Fencing(rig.store), "0123456789abcdef"
    (other,) = (await rig.create(project="other"), await rig.worker.take())[1]
    waiting = [await rig.create(), await rig.create()]
    await fences.begin(copy)
    await fences.put("default", copy, "leaving")
    assert (await rig.worker.report(other, "D", DONE, want=1)).steps == []
    assert await rig.worker.take() == []
    with pytest.raises(Fenced):
        await rig.worker.steps.begin("default", [])
    await fences.turn("default", copy, copy, None)
    await fences.end()
    for flow in waiting:
        assert await rig.statuses(flow) == {"start": "ready"}


async def test_dangling_pointers_are_discarded(rig: Rig) -> None:
    cancelled = await rig.create()
    await rig.flows.cancel("default", NO_KEY, cancelled, "bob")
    await rig.store.command("RPUSH", "fc:{RQ}:queue:fleet-steps", "no-such-1", "nonsense")
    gone = await rig.create()
    await rig.store.command("DEL", keys.run.key("default", str(gone)))
    wanted = await rig.create()
    other_attempt = f"{wanted}-{wanted + 1}-9"
    await rig.store.command("HSET", f"fc:{{RQ}}:job:{other_attempt}", "fleet", "default")
    await rig.store.command("LPUSH", "fc:{RQ}:queue:fleet-steps", other_attempt)
    assert [step.run for step in await rig.worker.take(1)] == [str(wanted)]
    assert await rig.queued() == []
    left = [key.decode() for key in await rig.store.command("KEYS", "fc:{RQ}:job:*")]
    assert left == []


async def test_any_number_of_dangling_pointers_delays_no_step(rig: Rig) -> None:
    cancelled = await rig.create(then(*(f"s{number}" for number in range(150))), steps=150)
    await rig.flows.cancel("default", NO_KEY, cancelled, "bob")
    wanted = await rig.create()
    assert await rig.worker.take(1) == [], "one call discards no more than 100"
    assert await rig.store.command("LLEN", "fc:{RQ}:bell:fleet-steps") == 1
    assert [step.run for step in await rig.worker.take(1)] == [str(wanted)]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the store", "elsewhere"])
async def test_discarded_entries_without_a_job_are_bounded_too(rig: Rig, split: Split, elsewhere: bool) -> None:
    store = split.elsewhere if elsewhere else rig.store
    queue, bell = "fc:{RQ}:queue:fleet-steps", "fc:{RQ}:bell:fleet-steps"
    await store.command("RPUSH", queue, *(f"gone-{number}" for number in range(150)))
    assert await (split.worker.steps.pop(1) if elsewhere else rig.worker.take(1)) == []
    assert await store.command("LLEN", queue) == 50
    assert await store.command("LLEN", bell) == 1
    assert await (split.worker.steps.pop(1) if elsewhere else rig.worker.take(1)) == []
    assert await store.command("KEYS", "fc:{RQ}:*") == []


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the store", "elsewhere"])
async def test_invalid_rq_ids_are_no_jobs(rig: Rig, split: Split, elsewhere: bool) -> None:
    store = split.elsewhere if elsewhere else rig.store
    for odd in (b"\xff\xfe", b"a:b"):
        for field in ("data", "fleet"):
            await store.command("HSET", b"fc:{RQ}:job:" + odd, field, "x")
            await store.command("RPUSH", "fc:{RQ}:queue:fleet-steps", odd)
    if elsewhere:
        assert await split.worker.steps.pop(5) == []
    else:
        assert (await rig.worker.steps.take(5)).plain_jobs == []
    assert await store.command("EXISTS", "fc:{RQ}:queue:fleet-steps:intermediate") == 0


async def test_plain_rq_jobs_are_handed_on_and_not_lost(rig: Rig) -> None:
    await rig.store.command("HSET", "fc:{RQ}:job:mine", "data", "x")
    await rig.store.command("RPUSH", "fc:{RQ}:queue:fleet-steps", "mine")
    taken = await rig.worker.steps.take(5)
    assert taken.plain_jobs == [QueuedJob("mine", "fleet-steps")]
    assert await rig.store.command("LRANGE", "fc:{RQ}:queue:fleet-steps:intermediate", 0, -1) == [b"mine"]


async def test_pointers_into_no_project_are_left_to_rq(rig: Rig, split: Split) -> None:
    for store in (rig.store, split.elsewhere):
        await store.command("HSET", "fc:{RQ}:job:1-2-3", "fleet", b"BAD}:{\xff")
        await store.command("SET", "fc:{RQ}:job:4-5-6", "x")
        await store.command("RPUSH", "fc:{RQ}:queue:fleet-steps", "1-2-3", "4-5-6")
    assert [job.id for job in (await rig.worker.steps.take(5)).plain_jobs] == ["1-2-3", "4-5-6"]
    assert [(one.project, one.job) for one in await split.worker.steps.pop(5)] == [("", "1-2-3"), ("", "4-5-6")]
    assert await split.worker.steps.drop_spent() == 0


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_settings", [StepSettings(project_limit=3, project_limits={"free": 0, "one": 1})])
class TestLimits:
    """A limit holds across queues and workers, and no step waits longer than needed."""

    async def test_no_more_than_the_limit_are_queued_or_running(self, rig: Rig) -> None:
        flow = await rig.create(then(*"abcdefgh"))
        assert len(await rig.queued()) == 3
        assert set((await rig.statuses(flow)).values()) == {"ready"}
        first = await rig.worker.take(8)
        assert [step.key for step in first] == ["a", "b", "c"]
        assert await rig.worker.take(8) == []
        taken = await rig.worker.report(first[0], "D", Plan(), want=1)
        assert [step.key for step in taken.steps] == ["d"]
        await rig.worker.report(first[1], "D", Plan(), want=0)
        assert len(await rig.queued()) == 1
        # A lost worker's step keeps its place.
        await rig.expire([first[2]])
        await rig.worker.steps.sweep("default")
        assert {step.key for step in await rig.worker.take(8)} == {"e", "c"}

    async def test_all_steps_run_in_the_end(self, rig: Rig) -> None:
        await rig.create(then(*"abcdefgh"))
        order = []
        while steps := await rig.worker.take(1):
            order.append(steps[0].key)
            await rig.worker.done(steps[0], Plan())
        assert order == list("abcdefgh")

    async def test_urgent_steps_are_released_first(self, rig: Rig) -> None:
        await rig.create(then(*"abc"))
        await rig.create(Plan((NewStep("low", priority="low"), NewStep("normal"), NewStep("high", priority="high"))))
        step, *_ = await rig.worker.take(3)
        order = []
        for _ in range(3):  # one after the other, so that the order of the queues does not matter
            await rig.worker.done(step, Plan())
            (step,) = await rig.worker.take(3)
            order.append(step.key)
        assert order == ["high", "normal", "low"]

    async def test_held_back_steps_are_released_in_order_of_readiness(self, rig: Rig) -> None:
        await rig.create(then(*"abc"))
        asked = await rig.create(Plan((NewStep("asked", "gate"),)))
        waits = await rig.create(then("waits"))
        while await server_time(rig.store) <= (await rig.step(waits, "waits")).ready_at:  # type: ignore[operator]
            pass
        await rig.flows.release("default", NO_KEY, asked + 1, "bob")
        urgent = await rig.create(then("urgent", priority="high"))
        backlog = keys.step_backlog.key("default")
        assert [int(step) for step in await rig.store.command("ZRANGE", backlog, 0, -1)] == [
            urgent + 1,
            waits + 1,
            asked + 1,
        ]
        first, second = await rig.store.command("ZMSCORE", backlog, urgent + 1, waits + 1)
        assert second - first > await server_time(rig.store), "urgent ones go first, however long others have waited"

    async def test_recorded_steps_ignore_the_limit(self, rig: Rig) -> None:
        gate = await rig.create(Plan((NewStep("start", "gate", expires_ms=60_000),)))
        await rig.create(then(*"abc"))
        assert len(await rig.worker.take(9)) == 3
        await rig.ring(gate + 1)
        await rig.worker.steps.sweep("default")
        (step,) = await rig.worker.take(9)
        assert (step.key, step.verdict) == ("start", "expired")

    async def test_limits_are_per_project(self, rig: Rig) -> None:
        await rig.create(then(*"abcdefgh"), project="free")
        await rig.create(then(*"abcdefgh"), project="one")
        await rig.create(then(*"abcdefgh"))
        counts = [step.project for _ in range(3) for step in await rig.worker.take(16)]
        assert {name: counts.count(name) for name in counts} == {"free": 8, "one": 1, "default": 3}

    async def test_a_sweep_uses_free_capacity(self, rig: Rig) -> None:
        await rig.create(then(*"abcde"))
        # As if the limit had been lower when these were held back.
        gone = await rig.worker.take(2)
        await rig.store.command("ZREM", keys.step_leases.key("default"), *(step.step for step in gone))
        await rig.worker.steps.sweep("default")
        assert [step.key for step in await rig.worker.take(9)] == ["c", "d", "e"]

    async def test_a_suspect_does_not_begin_beside_another(self, rig: Rig) -> None:
        flows = [await rig.create() for _ in range(2)]
        for _ in range(MAX_CRASHES - 1):
            await rig.expire(await rig.worker.take(2))
            await rig.worker.steps.sweep("default")
        (first,) = await rig.worker.take(2)
        await rig.create(then("a", "b"))
        a, _ = await rig.worker.take(2)
        (other,) = {flow + 1 for flow in flows} - {int(first.step)}
        await rig.ring(other)
        await rig.worker.steps.sweep("default")
        assert await rig.queued() == [], "it is held back"
        assert (await rig.worker.report(a, "D", NOTHING, want=5)).steps == []
        assert [step.step for step in await rig.player("w2").take(5)] == [str(other)]

    async def test_held_back_steps_are_released_when_the_limit_is_removed(self, rig: Rig) -> None:
        await rig.create(then(*"abcdef"))
        free = Player(rig.store, Settings(), "w2")
        await free.steps.sweep("default")
        assert [step.key for step in await free.take(9)] == list("abcdef")

    async def test_cancelling_frees_capacity(self, rig: Rig) -> None:
        first = await rig.create(then(*"abcde"))
        second = await rig.create()
        await rig.flows.cancel("default", NO_KEY, first, "bob")
        assert [step.run for step in await rig.worker.take(5)] == [str(second)]
        assert await rig.store.command("ZCARD", keys.step_backlog.key("default")) == 0

    async def test_a_cancelled_step_leaves_the_backlog_at_once(self, rig: Rig) -> None:
        await rig.create(then(*"abc"))
        held = await rig.create()
        await rig.flows.cancel("default", NO_KEY, held, "bob")
        assert await rig.store.command("ZCARD", keys.step_backlog.key("default")) == 0

    async def test_a_step_that_needs_a_newer_worker_is_released_for_one(self, rig: Rig) -> None:
        await rig.create(then(*"abc"))
        newer = await rig.create()
        key = keys.step.key("default", str(newer + 1))
        await rig.store.command("HSET", key, "x", msgspec.msgpack.encode({"p": 2}))
        first, *_ = await rig.worker.take(3)
        assert (await rig.worker.report(first, "D", Plan(), want=1)).steps == []
        assert [step.run for step in await rig.player("w2", protocol=2).take()] == [str(newer)]

    async def test_steps_that_never_began_take_no_capacity(self, rig: Rig) -> None:
        await rig.create(then("a", "b"))
        await rig.create(then("x"))
        a, b, _ = await rig.worker.take(3)
        await rig.create(then("held", "held too"))
        # What follows a is ready, and cancelled when b fails.
        reports = [Report(a.step, 1, "D", "null", then("c")), Report(b.step, 1, "F", "null", FAILED)]
        taken = await rig.worker.reports("default", reports, want=3)
        assert [step.key for step in taken.steps] == ["held", "held too"]


# --- jobs that vanish ---------------------------------------------------------------------------


async def _look(rig: Rig, project: str = "default") -> list[QueuedJob]:
    """The missing jobs, once their check is due."""
    key = keys.step_queue.key(project)
    for step in await rig.store.command("ZRANGE", key, 0, -1):
        await rig.store.command("ZADD", key, 1, step)
    swept = await rig.worker.steps.sweep(project)
    return await rig.worker.steps.missing(project, swept.suspects)


@pytest.mark.parametrize("loss", ["flushed", "list", "hash"])
async def test_a_vanished_job_is_written_again(rig: Rig, loss: str) -> None:
    flow = await rig.create()
    queue, (job,) = "fc:{RQ}:queue:fleet-steps", await rig.queued()
    assert await _look(rig) == []
    if loss in ("flushed", "list"):
        await rig.store.command("DEL", queue)
    if loss in ("flushed", "hash"):
        await rig.store.command("DEL", f"fc:{{RQ}}:job:{job}")
    missing = await _look(rig)
    assert missing == [QueuedJob(job, "fleet-steps")]
    await rig.worker.steps.push("default", missing, force=True)
    steps = await rig.worker.take(5)
    assert [step.run for step in steps] == [str(flow)]
    assert await rig.worker.done(steps[0]) == RECORDED


async def test_only_jobs_of_long_waiting_steps_are_checked(rig: Rig) -> None:
    await rig.create()
    await rig.store.command("DEL", "fc:{RQ}:queue:fleet-steps")
    assert (await rig.worker.steps.sweep("default")).suspects == []
    key = keys.step_queue.key("default")
    (step,) = await rig.store.command("ZRANGE", key, 0, -1)
    await rig.store.command("ZINCRBY", key, -JOB_CHECK_MS - 1, step)
    assert len((await rig.worker.steps.sweep("default")).suspects) == 1
    assert (await rig.worker.steps.sweep("default")).suspects == []


async def test_a_step_taken_meanwhile_is_not_missing(rig: Rig) -> None:
    await rig.create()
    (job,) = await rig.queued()
    await rig.worker.take()
    assert await rig.worker.steps.missing("default", [QueuedJob(job, "fleet-steps")]) == []


# --- who sweeps -------------------------------------------------------------------------------


async def test_one_process_sweeps_at_a_time(rig: Rig) -> None:
    steps = rig.worker.steps
    assert await steps.acquire_sweep("w1", 60_000)
    assert not await steps.acquire_sweep("w2", 60_000)
    await rig.store.command("DEL", keys.leader_lease.key(keys.FLEET, "sweep"))
    assert await steps.acquire_sweep("w2", 60_000)


# --- a queue in another Redis ---------------------------------------------------------------------


class Split:
    """A rig whose queue is in another Redis."""

    def __init__(self, rig: Rig, elsewhere: Store) -> None:
        settings = Settings(steps=StepSettings(queue_url="redis://elsewhere"))
        self.rig = Rig(rig.store, settings)
        self.elsewhere = elsewhere
        self.worker = Player(rig.store, settings, "w1", queue=elsewhere)

    async def take(self, want: int = 5) -> list[Any]:
        found = []
        for pointer in await self.worker.steps.pop(want):
            found += (await self.worker.steps.begin(pointer.project, [pointer.job])).steps
            await self.worker.steps.acknowledge(pointer)
        return found


@pytest.fixture
def split(rig: Rig, alone: Store) -> Split:
    return Split(rig, alone)


async def test_jobs_go_through_the_outbox(split: Split) -> None:
    flow = await split.rig.create(then("a", "b"))
    assert await split.rig.queued() == []
    assert await split.rig.store.command("LRANGE", keys.relay_wakeups.key(keys.FLEET), 0, -1) == [b"default"]
    assert (await split.worker.steps.sweep("default")).to_relay
    assert await split.worker.steps.relay("default") == 2
    assert await split.worker.steps.relay("default") == 0
    assert not (await split.worker.steps.sweep("default")).to_relay
    a, b = await split.take()
    assert await split.elsewhere.command("KEYS", "fc:{RQ}:job:*") == []
    # Successors are still taken in the same call; the rest goes to the outbox.
    taken = await split.worker.report(a, "D", then("c", "d"), want=1)
    assert [step.key for step in taken.steps] == ["c"]
    assert taken.to_relay
    await split.worker.steps.relay("default")
    (d,) = await split.take()
    for step in (b, *taken.steps):
        await split.worker.done(step, Plan())
    await split.worker.done(d)
    assert await split.rig.status(flow) == "completed"
    left = [key.decode() for key in await split.elsewhere.command("KEYS", "*")]
    assert sorted(left) in (["fc:{RQ}:queues"], []), left


async def test_making_a_step_ready_wakes_the_relay(split: Split) -> None:
    wakeups = keys.relay_wakeups.key(keys.FLEET)
    flow = await split.rig.create(Plan((NewStep("start", "gate"),)))
    assert await split.rig.store.command("LLEN", wakeups) == 0
    await split.rig.flows.release("default", NO_KEY, flow + 1, "bob")
    assert await split.rig.store.command("LLEN", wakeups) == 1
    await split.rig.flows.cancel("default", NO_KEY, flow, "bob")
    other = await split.rig.create()
    await split.rig.flows.cancel("default", NO_KEY, other, "bob")
    assert await split.rig.store.command("LLEN", wakeups) == 2
    await split.rig.flows.retry("default", NO_KEY, other, "bob")
    assert await split.rig.store.command("LLEN", wakeups) == 3
    # A full store still takes a project's name; of more than fit, the last ones are left to the sweep.
    await split.rig.store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        for number in range(110):
            await split.rig.worker.steps.wake_relay(f"p{number}")
    finally:
        await split.rig.store.command("CONFIG", "SET", "maxmemory", 0)
    woken = await split.rig.store.command("LRANGE", wakeups, 0, -1)
    assert (len(woken), woken[:3], woken[-1]) == (100, [b"default"] * 3, b"p96")


async def test_a_project_is_idle_only_when_its_outbox_is_empty(split: Split) -> None:
    flow = await split.rig.create()
    await split.rig.flows.cancel("default", NO_KEY, flow, "bob")
    assert not (await split.worker.steps.sweep("default")).idle, "the pointer to what was cancelled is still there"
    await split.worker.steps.relay("default")
    assert (await split.worker.steps.sweep("default")).idle


async def test_no_more_pointers_are_popped_than_a_worker_wants(split: Split) -> None:
    await split.rig.create(then("a", "b", "c"))
    await split.worker.steps.relay("default")
    bell = "fc:{RQ}:bell:fleet-steps"
    assert len(await split.worker.steps.pop(2)) == 2
    assert await split.elsewhere.command("EXISTS", bell) == 1
    assert len(await split.worker.steps.pop(2)) == 1
    assert await split.elsewhere.command("EXISTS", bell) == 0


async def test_invalid_entries_of_an_outbox_block_no_others(split: Split) -> None:
    outbox = keys.outbox.key("default")
    await split.rig.store.command("RPUSH", outbox, b"\xff \xfe", b"nospace", b"fleet-steps a-b", b"")
    flow = await split.rig.create()
    await split.worker.steps.relay("default")
    assert await split.rig.store.command("EXISTS", outbox) == 0
    assert [step.run for step in await split.take()] == [str(flow)]


async def test_a_relay_that_runs_twice_duplicates_nothing(split: Split) -> None:
    flow = await split.rig.create(then("a", "b"))
    outbox = keys.outbox.key("default")
    entries = await split.rig.store.command("LRANGE", outbox, 0, -1)
    await split.worker.steps.relay("default")
    # As if it had been killed before it removed the entries.
    await split.rig.store.command("RPUSH", outbox, *entries)
    await split.worker.steps.relay("default")
    assert await split.elsewhere.command("LLEN", "fc:{RQ}:queue:fleet-steps") == 2
    steps = await split.take(9)
    assert [step.key for step in steps] == ["a", "b"]
    await split.rig.store.command("RPUSH", outbox, *entries)
    await split.worker.steps.relay("default")
    assert await split.take(9) == []
    for step in steps:
        assert await split.worker.done(step, Plan()) == RECORDED
    assert [step.attempt for step in (await split.rig.flow(flow)).steps] == [1, 1]


class Killed(Exception):
    """The end of a worker."""


async def test_a_worker_killed_during_cleanup_leaves_nothing(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    await split.rig.create()
    await split.worker.steps.relay("default")
    (pointer,) = await split.worker.steps.pop(1)
    (step,) = (await split.worker.steps.begin(pointer.project, [pointer.job])).steps
    send, sent = split.elsewhere.command, list[Any]()

    async def last_command(*words: Any) -> Any:
        if sent:
            raise Killed
        sent.append(words)
        return await send(*words)

    monkeypatch.setattr(split.elsewhere, "command", last_command)
    with pytest.raises(Killed):
        await split.worker.steps.acknowledge(pointer)
    monkeypatch.undo()
    await split.worker.done(step)
    await split.worker.steps.drop_spent()
    assert await split.elsewhere.command("KEYS", "fc:{RQ}:job:*") == []
    assert await split.elsewhere.command("KEYS", "fc:{RQ}:queue:*") == []


async def test_a_pointer_of_a_killed_worker_is_recovered(split: Split) -> None:
    await split.rig.create()
    await split.worker.steps.relay("default")
    # Popped, and the worker is killed before it began the step.
    (pointer,) = await split.worker.steps.pop(1)
    key = keys.step_queue.key("default")
    await split.rig.store.command("ZADD", key, 1, *await split.rig.store.command("ZRANGE", key, 0, -1))
    swept = await split.worker.steps.sweep("default")
    missing = await split.worker.steps.missing("default", swept.suspects)
    assert missing == [QueuedJob(pointer.job, "fleet-steps")]
    await split.worker.steps.push("default", missing, force=True)
    (step,) = await split.take()
    assert await split.worker.done(step) == RECORDED
    assert await split.elsewhere.command("EXISTS", "fc:{RQ}:queue:fleet-steps:intermediate") == 0


async def test_pointers_of_a_killed_worker_are_dropped_once_their_steps_are_taken(split: Split) -> None:
    await split.rig.create(then("a", "b"))
    await split.worker.steps.relay("default")
    begun, waits = await split.worker.steps.pop(2)
    await split.worker.steps.begin("default", [begun.job])
    await split.elsewhere.command("RPUSH", "fc:{RQ}:queue:fleet-steps:intermediate", "no-such-1")
    assert await split.worker.steps.drop_spent() == 1
    assert await split.worker.steps.drop_spent() == 0
    left = await split.elsewhere.command("LRANGE", "fc:{RQ}:queue:fleet-steps:intermediate", 0, -1)
    assert left == [waits.job.encode()]
    assert await split.elsewhere.command("KEYS", "fc:{RQ}:job:*") == [f"fc:{{RQ}}:job:{waits.job}".encode()]


async def test_a_pointer_of_an_attempt_that_was_given_back_does_not_wait_for_the_next(split: Split) -> None:
    await split.rig.create()
    await split.worker.steps.relay("default")
    (pointer,) = await split.worker.steps.pop(1)
    (step,) = (await split.worker.steps.begin("default", [pointer.job])).steps
    # The worker gives the step back, and is killed before it has acknowledged the pointer.
    await split.worker.report(step, "B", 0)
    assert await split.worker.steps.missing("default", [QueuedJob(pointer.job, "fleet-steps")]) == []
    assert await split.worker.steps.drop_spent() == 1
    await split.worker.steps.relay("default")
    assert [step.attempt for step in await split.take()] == [2]


async def test_plain_rq_jobs_in_a_queue_elsewhere(split: Split) -> None:
    await split.elsewhere.command("HSET", "fc:{RQ}:job:mine", "data", "x")
    await split.elsewhere.command("RPUSH", "fc:{RQ}:queue:fleet-steps", "gone", "mine")
    assert [tuple(pointer) for pointer in await split.worker.steps.pop(5)] == [("", "mine", "fleet-steps")]
    popped = "fc:{RQ}:queue:fleet-steps:intermediate"
    assert await split.elsewhere.command("LRANGE", popped, 0, -1) == [b"mine"]
    assert await split.worker.steps.drop_spent() == 0
    assert await split.elsewhere.command("LRANGE", popped, 0, -1) == [b"mine"]
