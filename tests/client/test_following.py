"""The end of a job and the request for the next one: how they go together, and what happens between them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from coordinator.client import Fleet, Job, Refused, Unavailable, jobs
from coordinator.client.core import Core
from coordinator.client.wire import Wire
from tests.client.backlog import add, context, held, seen, triggers
from tests.client.deaf import Deaf
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until
from tests.support.worker_calls import Calls

pytestmark = pytest.mark.anyio


async def work(fleet: Fleet, count: int, handler: Any = None, **more: Any) -> list[str]:
    """Works on so many items and stops; their ids in turn."""
    worked: list[str] = []

    async def handle(job: Job) -> None:
        worked.append(job.id)
        if len(worked) == count:
            fleet.stop()
        if handler is None:
            await job.done(job.title)
        else:
            await handler(job)

    await fleet.work(handle, signals=False, **more)
    return worked


async def test_work_makes_one_call_for_each_item(fleet: Fleet, calls: Calls) -> None:
    items = await add(fleet, *map(str, range(20)))
    calls.clear()
    assert await work(fleet, 20) == items
    assert len(calls) == 21  # the first claim, and the end of each
    assert all(call["start"] for call in calls[:-1])
    assert [await triggers(fleet, item) for item in items] == [["start", "complete"]] * 20
    assert await held(fleet) == 0


async def test_slots_at_once_make_one_call_for_each_item(running: RunningFleet, named: str, calls: Calls) -> None:
    async with Fleet(running.state.base_url, project=named, slots=4) as fleet:
        items = await add(fleet, *map(str, range(20)))
        calls.clear()
        assert sorted(await work(fleet, 20)) == sorted(items)
        # The first claims, the ends, and claims that were made while the last ones were under way.
        assert len(calls) <= 20 + 4 + 4


async def test_slots_that_do_not_wait_do_all_that_there_is(running: RunningFleet, named: str) -> None:
    done: list[str] = []

    async def handle(job: Job) -> None:
        await job.done()
        done.append(job.id)

    async with Fleet(running.state.base_url, project=named, slots=16) as fleet:
        for _ in range(3):
            items = await add(fleet, *map(str, range(50)))
            done.clear()
            await fleet.work(handle, signals=False, wait=False)
            assert sorted(done) == sorted(items)


async def test_attempts_that_fail_go_together_with_the_next_claim(fleet: Fleet, calls: Calls) -> None:
    items = await add(fleet, "a", "b", "c", maxAttempts=1)
    calls.clear()

    async def fails(job: Job) -> None:
        raise LookupError(job.title)

    assert await work(fleet, 3, fails) == items
    assert len(calls) == 4
    assert [(await context(fleet, item))["attempts"]["last"][0]["detail"] for item in items] == [
        f"LookupError: {name}" for name in "abc"
    ]


async def test_a_loop_makes_two_calls_or_one_if_it_says_that_it_goes_on(fleet: Fleet, calls: Calls) -> None:
    for next_too, most in ((False, 2 * 5 + 1), (True, 5 + 2)):
        await add(fleet, *"abcde")
        calls.clear()
        async for job in fleet.jobs(wait=False):
            async with job:
                await job.done(next=next_too)
        assert len(calls) == most


async def test_the_end_of_a_block_goes_together_with_the_next_claim_if_that_comes_at_once(
    fleet: Fleet, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    await add(fleet, "a", "b")
    calls.clear()
    loop = fleet.jobs(wait=False)
    async with await anext(loop):
        pass
    async with await anext(loop) as second:
        assert [len(call.get("releases", ())) for call in calls] == [0, 1]
    assert second.outcome == "gave_up"
    await wait_until(lambda: len(calls) == 3, what="the second end to be told alone")
    assert "claims" not in calls[2]


async def test_the_end_is_recorded_when_done_returns(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    async with await anext(fleet.jobs()) as job:
        await job.done()
        assert (await seen(fleet, item))["role"] == "terminal"


async def test_a_job_that_the_loop_does_not_take_is_again_as_it_was(fleet: Fleet, running: RunningFleet) -> None:
    first, second = await add(fleet, "first", "second")
    async with Fleet(running.state.base_url, project=fleet.project, agent="breaks") as worker:
        async for job in worker.jobs():
            async with job:
                await job.done(next=True)
            break
        assert (await context(fleet, second))["claimDetail"]["claimedBy"] == "breaks"
    assert (await seen(fleet, first))["role"] == "terminal"
    assert (await seen(fleet, second))["role"] == "queue"
    assert await triggers(fleet, second) == ["start", "untouched"]
    async with await anext(fleet.jobs()) as job:
        assert (job.id, job.takeover, job.attempt) == (second, False, 1)
        await job.done()


async def test_a_job_that_nobody_takes_goes_back_in_time(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "UNENTERED_SECONDS", 0.2)
    _, second = await add(fleet, "first", "second")
    loop = fleet.jobs()
    async with await anext(loop) as job:
        await job.done(next=True)

    async def back() -> bool:
        return (await seen(fleet, second))["role"] == "queue"

    await wait_until(back, what="the job to be given back")
    async with await anext(loop) as job:  # the slot is free again
        assert (job.id, job.takeover) == (second, False)
        await job.done()


async def test_a_job_that_comes_when_the_fleet_is_stopped_is_again_as_it_was(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = await add(fleet, "first", "second")
    call = Wire.call

    async def stopping(*arguments: Any) -> dict[str, Any]:
        if "releases" in arguments[3]:
            fleet.stop()
        return await call(*arguments)

    monkeypatch.setattr(Wire, "call", stopping)
    assert await work(fleet, 9) == items[:1]
    assert [(await seen(fleet, item))["role"] for item in items] == ["terminal", "queue"]
    assert await held(fleet) == 0


async def test_a_refused_end_claims_nothing_and_can_be_repeated(fleet: Fleet) -> None:
    first, second = await add(fleet, "first", "second")
    blocker = (await add(fleet, "blocker", notBefore="+1h"))[0]
    seen_titles = []

    async def handle(job: Job) -> None:
        seen_titles.append(job.title)
        if job.id == first:
            edge = {"fromItemId": blocker, "toItemId": first}
            await fleet.call("manage_dependencies", {"operation": "create", "dependencies": [edge]})
            with pytest.raises(Refused):
                await job.done()
            assert (await seen(fleet, second))["role"] == "queue"
            await fleet.call("manage_dependencies", {"operation": "delete", **edge})
        await job.done()

    assert await work(fleet, 2, handle) == [first, second]
    assert seen_titles == ["first", "second"]


@pytest.mark.parametrize("unmade", [False, True], ids=["made", "not made"])
@pytest.mark.parametrize("again", [False, True], ids=["given up", "repeated"])
async def test_an_end_and_a_claim_without_an_answer_lose_no_item(deaf: Deaf, unmade: bool, again: bool) -> None:
    first, second = await add(deaf, "first", "second")

    async def handle(job: Job) -> None:
        if job.id == first and job.attempt == 1:
            deaf.deaf, deaf.unmade = "claim_item", unmade
            with pytest.raises(Unavailable):
                await job.done()
            if not again:
                return
        await job.done()

    begun = await work(deaf, 2, handle)
    assert begun == [first, second]
    assert [(await seen(deaf, item))["role"] for item in (first, second)] == ["terminal"] * 2
    assert [(await triggers(deaf, item)).count("complete") for item in (first, second)] == [1, 1]
    assert await held(deaf) == 0


@pytest.mark.parametrize("how", ["done", "failed"])
async def test_a_renewal_that_comes_after_the_end_does_not_lose_the_job(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await add(fleet, "one", type="reviewed")
    call, refused = Wire.call, threading.Event()

    async def late(self: Wire, *arguments: Any) -> dict[str, Any]:
        answer = await call(self, *arguments)
        if "releases" in arguments[2]:
            job.look()
            await asyncio.to_thread(refused.wait, 5)
        elif answer["claimResults"][0]["outcome"] == "stale_fence":
            asyncio.get_running_loop().call_later(0.05, refused.set)
        return answer

    async with await anext(fleet.jobs()) as job:
        monkeypatch.setattr(Wire, "call", late)
        await (job.done() if how == "done" else job.fail("why"))
    assert job.outcome == how


async def test_usage_of_what_goes_back_untouched_is_told(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    async with await anext(fleet.jobs()) as job:
        job.usage(inputTokens=1)
        await job.hand_back(untouched=True, usage={"inputTokens": 5})
    assert (await seen(fleet, item))["usage"]["own"]["inputTokens"] == 6


async def test_what_an_unanswered_call_has_claimed_goes_to_no_other_loop(deaf: Deaf) -> None:
    first, second = await add(deaf, "first", "second", tags="ours")
    (other,) = await add(deaf, "other", tags="theirs")
    async with await anext(deaf.jobs(tags="ours")) as job:
        deaf.deaf = "claim_item"
        with pytest.raises(Unavailable):
            await job.done(next=True)
        deaf.deaf = "claim_item"  # also when it is given up
    async with await anext(deaf.jobs(tags="theirs")) as job:
        assert job.id == other
        await job.done()
    assert [(await seen(deaf, item))["role"] for item in (first, second)] == ["terminal", "queue"]


async def test_a_claim_does_not_overtake_what_ends_alone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await add(fleet, "first", "second", retryBackoffSeconds=60)
    call, alone, answered = Wire.call, asyncio.Event(), asyncio.Event()
    claims: list[bool] = []

    async def slow(self: Wire, *arguments: Any) -> dict[str, Any]:
        if "claims" in arguments[2]:
            claims.append(answered.is_set())
        elif "releases" in arguments[2]:
            alone.set()
            await answered.wait()
        return await call(self, *arguments)

    monkeypatch.setattr(Wire, "call", slow)
    loop = fleet.jobs()
    async with await anext(loop):
        raise LookupError
    await alone.wait()
    claims.clear()
    coming = asyncio.ensure_future(anext(loop))
    for _ in range(100):  # turns in which it would make its call
        await asyncio.sleep(0)
    answered.set()
    async with await coming as job:
        assert job.id == second
        await job.done()
    assert claims[0]
    assert (await context(fleet, first))["attempts"]["count"] == 1


async def test_a_claim_is_given_back_if_the_loop_is_cancelled_when_it_is_answered(
    fleet: Fleet, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Core.look

    async def cancelled(core: Core, arguments: dict[str, Any], agent: str) -> dict[str, Any]:
        answer = await look(core, arguments, agent)
        if answer["claimResults"][0]["outcome"] == "success":
            waiting.cancel()
        return answer

    monkeypatch.setattr(Core, "look", cancelled)
    waiting = asyncio.ensure_future(anext(fleet.jobs()))
    await wait_until(lambda: any("waitMs" in call for call in calls), what="the loop to wait")
    (item,) = await add(fleet, "one")
    await asyncio.wait([waiting])
    assert waiting.cancelled()

    async def back() -> bool:
        return (await seen(fleet, item))["role"] == "queue"

    await wait_until(back, what="the item to be given back")
    assert await triggers(fleet, item) == ["start", "untouched"]


async def test_a_loop_that_waits_for_the_fleet_takes_a_job_that_comes_with_an_end(
    running: RunningFleet, named: str, calls: Calls
) -> None:
    async with Fleet(running.state.base_url, project=named, agent="pair", slots=2) as fleet:
        await add(fleet, "first")
        loop = fleet.jobs()
        async with await anext(loop) as job:
            waiting = asyncio.ensure_future(anext(loop))
            await wait_until(lambda: any("waitMs" in call for call in calls), what="the other slot to wait")
            (second,) = await add(fleet, "second", assignee=job.agent)
            await job.done(next=True)
        async with asyncio.timeout(jobs.UNENTERED_SECONDS / 2), await waiting as job:
            assert job.id == second
            await job.done()
