"""Jobs over real front-ends: what a worker gets, and what becomes of an item however the work on it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.client import ClaimLost, Fleet, Invalid, Job, Refused, SyncFleet, Unavailable, jobs
from coordinator.client.core import Core
from coordinator.client.slot import Slot
from coordinator.client.slots import Slots
from tests.client.backlog import add, chain, context, held, notes, seen
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until, wait_until_sync

pytestmark = pytest.mark.anyio


async def only(fleet: Fleet, **selection: object) -> Job:
    """The next job."""
    return await anext(fleet.jobs(wait=False, **selection))  # type: ignore[arg-type]


async def attempted(fleet: Fleet, item: str) -> dict[str, Any]:
    """The last attempt on an item. A loop that does not go on tells of it in a moment."""
    found: list[dict[str, Any]] = []

    async def told() -> bool:
        found[:] = (await context(fleet, item)).get("attempts", {}).get("last", ())
        return bool(found)

    await wait_until(told, what="the attempt to be told")
    return found[0]


async def test_a_job_has_all_that_the_work_needs(fleet: Fleet) -> None:
    first, second = await add(fleet, "first", "second", tags="a", description="Write it.")
    await chain(fleet, first, second)
    async with await only(fleet, tags=["a", "b"]) as job:
        assert (job.id, job.title, job.description, job.role, job.attempt) == (first, "first", "Write it.", "work", 1)
        assert not job.takeover
        await job.note("plan", "begin")
        await job.progress("half")
        await job.done({"pages": 3}, "written")
    assert job.outcome == "done"
    assert await notes(fleet, first) == {"plan": "begin", "progress": "half", "result": '{"pages":3}'}
    async with await only(fleet) as job:
        assert job.results[0]["result"] == {"pages": 3}
        await job.done("fine")
    assert (await seen(fleet, second))["role"] == "terminal"


async def test_a_job_takes_further_resources_all_or_none(fleet: Fleet) -> None:
    first, second = await add(fleet, "first", "second", resources=[{"key": "r"}])
    async with await only(fleet) as job:
        assert job.item["resources"] == [{"key": "r", "mode": "exclusive", "units": 1}]
        assert await job.take("docs=1", {"key": "web", "mode": "shared"})
        held = (await context(fleet, first))["claimDetail"]["resources"]
        assert [one["key"] for one in held] == ["r", "docs", "web"]
        busy = {"itemId": second, "resources": [{"key": "docs/a"}]}
        other = (await fleet.call("claim_item", {"claims": [busy]}, agent="other"))["claimResults"][0]
        assert (other["outcome"], {one["key"] for one in other["resources"]}) == ("resource_busy", {"r", "docs/a"})
        await job.done()
    async with await only(fleet) as job:
        assert job.id == second
        await job.done()


async def test_long_texts_come_whole(fleet: Fleet) -> None:
    first, second = await add(fleet, "first", "second", description="d" * 70_000)
    await chain(fleet, first, second)
    async with await only(fleet) as job:
        assert job.description == "d" * 70_000
        await job.done("r" * 100_000)
    await fleet.call(
        "manage_notes",
        {"operation": "upsert", "notes": [{"itemId": second, "key": "n", "role": "work", "body": "n" * 70_000}]},
    )
    async with await only(fleet) as job:
        assert job.results[0]["result"] == "r" * 100_000
        assert job.notes[0]["body"] == "n" * 70_000
        await job.done()


async def test_an_exception_is_a_failed_attempt_and_the_loop_goes_on(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    await add(fleet, "one", "two")
    seen_titles = []
    async for job in fleet.jobs(wait=False):
        async with job:
            seen_titles.append((job.title, job.attempt, job.takeover))
            if job.attempt == 1 and job.title == "one":
                raise LookupError("no such page")
            if job.attempt == 2:
                (last,) = (await context(fleet, job.id))["attempts"]["last"]
                assert (last["reason"], last["detail"]) == ("failed", "LookupError: no such page")
            await job.done()
    assert seen_titles == [("one", 1, False), ("one", 2, True), ("two", 1, False)]
    assert "LookupError" in caplog.text


async def test_leaving_without_a_word_gives_up_with_a_warning(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    (item,) = await add(fleet, "one")
    async with await only(fleet) as job:
        pass
    assert job.outcome == "gave_up"
    assert "without done()" in caplog.text
    assert (await attempted(fleet, item))["reason"] == "gave_up"
    assert await held(fleet) == 0


@pytest.mark.parametrize(
    ("end", "outcome", "role", "attempts"),
    [
        (lambda job: job.fail("out of memory"), "failed", "work", 1),
        (lambda job: job.give_up("not mine"), "gave_up", "work", 1),
        (lambda job: job.hand_back("later"), "handed_back", "work", 0),
        (lambda job: job.block("waits for the vendor"), "blocked", "blocked", 0),
        (lambda job: job.ask("Which colour?"), "asked", "blocked", 0),
    ],
)
async def test_a_job_says_how_it_ends(
    fleet: Fleet, end: Callable[[Job], Awaitable[None]], outcome: str, role: str, attempts: int
) -> None:
    (item,) = await add(fleet, "one")
    async with await only(fleet) as job:
        await end(job)
        with pytest.raises(RuntimeError, match=f"has ended: {outcome}"):
            await job.done()
    assert job.outcome == outcome
    assert (await seen(fleet, item))["role"] == role
    assert (await context(fleet, item)).get("attempts", {"count": 0})["count"] == attempts
    assert await held(fleet) == 0


async def test_an_answer_comes_to_whoever_goes_on(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    async with await only(fleet) as job:
        await job.ask("Which colour?")
    answer = {"itemId": item, "key": "answer-1", "role": "work", "body": "Blue."}
    await fleet.call("manage_notes", {"operation": "upsert", "notes": [answer]})
    await fleet.call("advance_item", {"transitions": [{"itemId": item, "trigger": "resume"}]})
    async with await only(fleet) as job:
        assert {note["key"]: note["body"] for note in job.notes} == {"question-1": "Which colour?", "answer-1": "Blue."}
        await job.done()


async def test_a_type_with_review_gets_its_result_and_goes_to_review(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one", type="reviewed")
    async with await only(fleet) as job:
        await job.done({"n": 1})
    assert (job.outcome, (await seen(fleet, item))["role"]) == ("done", "review")
    assert await notes(fleet, item) == {"result": '{"n":1}'}
    async with await only(fleet, role="review") as job:
        assert job.role == "review"
        with pytest.raises(Refused) as refused:
            await job.done()
        assert refused.value.data["missingNotes"][0]["key"] == "verdict"
        await job.note("verdict", "good")
        await job.done()
    assert (await seen(fleet, item))["role"] == "terminal"


async def test_notes_that_the_start_needs_are_the_work_s_to_write(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one", type="planned")
    async with await only(fleet) as job:
        assert job.role == "queue"
        assert [note["key"] for note in job.needs] == ["plan"]
        await job.note("plan", "all of it")
        await job.done()
    assert (await seen(fleet, item))["role"] == "terminal"


async def lose(fleet: Fleet, job: Job) -> None:
    """Takes the claim away behind the worker's back, as another agent that took over would."""
    released = {"releases": [{"itemId": job.id}]}
    assert (await fleet.call("claim_item", released, agent=job.agent))["releaseResults"][0]["outcome"] == "success"


async def test_a_lost_claim_cancels_the_body_and_changes_nothing(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    (item,) = await add(fleet, "one")
    async with await only(fleet, ttl=1) as job:
        await lose(fleet, job)
        try:
            await asyncio.Event().wait()
        finally:
            assert job.lost
            with pytest.raises(ClaimLost):
                await job.done()
    assert (job.outcome, job.error) == ("lost", None)
    assert "was lost" in caplog.text
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    assert (await seen(fleet, item))["role"] == "work"


async def test_a_write_with_an_old_fence_raises_in_the_body(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    async with await only(fleet) as job:
        await lose(fleet, job)
        await fleet.call("claim_item", {"claims": [{"itemId": item}]}, agent="another")
        await job.done()
        pytest.fail("it was refused")
    assert job.outcome == "lost"
    assert isinstance(job.error, ClaimLost)


async def test_exceptions_leave_the_block_if_asked_to(fleet: Fleet) -> None:
    await add(fleet, "one")
    with pytest.raises(LookupError):
        async with await only(fleet, raises=True):
            raise LookupError

    async def until_lost() -> None:
        async with await only(fleet, raises=True, ttl=1) as job:
            await lose(fleet, job)
            await asyncio.Event().wait()

    with pytest.raises(ClaimLost):
        await until_lost()


async def test_cancellation_from_outside_gives_the_item_back_and_passes_through(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    job = await only(fleet)

    async def endless() -> None:
        async with job:
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await endless()
    assert job.outcome == "handed_back"
    assert "attempts" not in await context(fleet, item)
    assert await held(fleet) == 0


async def test_a_busy_event_loop_costs_no_claim(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    with SyncFleet(fleet.url, project=fleet.project) as other:

        def renewed() -> bool:
            claim = other.call("get_context", {"itemId": item})["claimDetail"]
            return bool(claim["claimedAt"] != claim["originalClaimedAt"])

        async with await only(fleet, ttl=1) as job:
            wait_until_sync(renewed, what="a renewal")  # blocks the loop, as work that computes does
            await job.done()
    assert job.outcome == "done"


class Untold(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("error", [OSError("no file \udcff"), Untold()])
async def test_an_exception_without_proper_text_is_a_failed_attempt_too(
    fleet: Fleet, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "coordinator.client")  # a report of pytest cannot hold that text
    (item,) = await add(fleet, "one")
    async with await only(fleet) as job:
        raise error
    assert job.outcome == "failed"
    assert type(error).__name__ in (await attempted(fleet, item))["detail"]


async def test_what_is_no_json_is_refused(fleet: Fleet) -> None:
    await add(fleet, "one")
    async with await only(fleet) as job:
        for wrong in (object(), "\udcff"):
            with pytest.raises(Invalid, match="cannot be written as JSON"):
                await job.done(wrong)
        await job.done(None)


async def test_a_job_that_nobody_begins_is_given_back_once(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    await add(fleet, "one")
    loop = fleet.jobs(wait=False)
    job = await anext(loop)
    for _ in range(2):  # as the timer looks again meanwhile
        loop.give_back_unbegun(job, Slot(job.agent))
    await wait_until(lambda: job.outcome is not None, what="the job to be given back")
    assert job.outcome == "handed_back"
    assert sum("was not begun" in message for message in caplog.messages) == 1


async def test_a_slot_that_is_freed_before_it_is_waited_for_is_not_missed() -> None:
    slots = Slots(Core(None, None, None, "a", None, "subagent", None, 0.0), ["a"])
    slot = await slots.take(set())
    assert slot is not None
    taking = asyncio.create_task(slots.take(set()))
    slots.give(slot)
    async with asyncio.timeout(5):
        assert await taking is slot


async def test_what_is_claimed_while_the_fleet_is_stopped_is_given_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item,) = await add(fleet, "one")
    look = Core.look

    async def late(*arguments: Any) -> dict[str, Any]:
        answer = await look(*arguments)
        fleet.stop()
        return answer

    monkeypatch.setattr(Core, "look", late)
    assert [job async for job in fleet.jobs()] == []
    assert (await seen(fleet, item))["role"] == "queue"
    assert await held(fleet) == 0


async def test_a_claim_whose_answer_never_came_is_given_back_at_the_end(
    running: RunningFleet, named: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(fleet, "one")
    async with Fleet(running.state.base_url, project=named) as worker:
        look = Core.look

        async def lost(*arguments: Any) -> dict[str, Any]:
            await look(*arguments)
            raise Unavailable("unavailable", "no answer")

        monkeypatch.setattr(Core, "look", lost)
        with pytest.raises(Unavailable):
            await only(worker)
        assert await held(fleet) == 1
    assert await held(fleet) == 0


async def test_what_a_handler_raises_leaves_work_if_asked_to(fleet: Fleet) -> None:
    await add(fleet, "one")

    async def handler(job: Job) -> None:
        raise LookupError(job.title)

    with pytest.raises(LookupError):
        await fleet.work(handler, signals=False, raises=True)


async def test_a_job_that_nobody_begins_is_given_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jobs, "UNENTERED_SECONDS", 0.1)
    await add(fleet, "one")
    job = await only(fleet)
    await wait_until(lambda: job.outcome == "handed_back", what="the end of the job")
    assert "async with job" in caplog.text
    async with job:
        await asyncio.sleep(0)
        pytest.fail("the work was not cancelled")


async def test_work_in_slots_is_done_side_by_side_in_a_task_group(running: RunningFleet, named: str) -> None:
    async with Fleet(running.state.base_url, project=named, agent="w", slots=3) as fleet:
        await add(fleet, *"abcdefg")
        together, agents, most = set(), set(), 0
        everybody = asyncio.Event()

        async def body(job: Job) -> None:
            nonlocal most
            async with job:
                together.add(job.id)
                agents.add(job.agent)
                most = max(most, len(together))
                if most == 3:
                    everybody.set()
                await everybody.wait()
                together.discard(job.id)
                await job.done()

        async with asyncio.TaskGroup() as group:
            async for job in fleet.jobs(wait=False):
                group.create_task(body(job))
        assert (most, agents) == (3, {"w/1", "w/2", "w/3"})
        assert not (await fleet.call("get_context"))["activeItems"]


async def test_work_calls_a_handler_until_stopped_and_drains(fleet: Fleet) -> None:
    items = await add(fleet, *"abcd")
    begun: list[str] = []
    finished: list[str] = []
    go_on = asyncio.Event()

    async def handler(job: Job) -> None:
        begun.append(job.id)
        if len(begun) == 2:
            fleet.stop()
            go_on.set()
        await go_on.wait()
        await job.done()
        finished.append(job.id)

    await fleet.work(handler, slots=2, signals=False)
    assert sorted(finished) == sorted(items[:2])
    assert await held(fleet) == 0


async def test_what_does_not_end_in_time_is_cancelled_and_given_back(fleet: Fleet) -> None:
    await add(fleet, "one")

    async def handler(job: Job) -> None:
        fleet.stop()
        await asyncio.Event().wait()

    await fleet.work(handler, signals=False, drain=0.1)
    assert await held(fleet) == 0


async def test_nothing_outlives_the_block(running: RunningFleet, named: str, fleet: Fleet) -> None:
    before = asyncio.all_tasks()
    async with Fleet(running.state.base_url, project=named, slots=2) as worker:
        await add(worker, "one", "two", "three")
        async with await only(worker) as job:
            await job.done()

        async def endless() -> None:
            async with await only(worker):
                await asyncio.Event().wait()

        task = asyncio.create_task(endless())
        await wait_until(lambda: worker.busy, what="the start of the work")
    async with asyncio.timeout(5):
        await task
    assert await held(fleet) == 0
    assert asyncio.all_tasks() <= before


async def test_a_wait_ends_at_once_when_the_fleet_is_stopped(fleet: Fleet) -> None:
    async def loop() -> int:
        return len([job async for job in fleet.jobs()])

    task = asyncio.create_task(loop())
    agents = {"agents": True}

    async def waiting() -> bool:
        return any(one["state"] == "waiting" for one in (await fleet.call("get_context", agents))["agents"])

    await wait_until(waiting, what="the wait")
    fleet.stop()
    async with asyncio.timeout(5):
        assert await task == 0
    logging.getLogger(__name__).debug("ended")


async def test_a_refused_selector_is_told_once_and_holds_nothing(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Invalid, match="Bad Tag"):
        await anext(fleet.jobs(tags=["Bad Tag"]))
    assert caplog.records == []
    await add(fleet, "first")
    async with await only(fleet) as job:
        await job.done()


async def test_a_renewal_that_comes_after_the_end_is_no_loss(fleet: Fleet) -> None:
    await add(fleet, "one")
    async with await only(fleet) as job:
        call = fleet.call

        async def slow(*arguments: Any, **more: Any) -> dict[str, Any]:
            answer = await call(*arguments, **more)
            job.interrupt("terminal_item")
            return answer

        fleet.call = slow  # type: ignore[method-assign]
        await job.done()
        fleet.call = call  # type: ignore[method-assign]
    assert job.outcome == "done"


async def test_a_job_has_all_results_of_a_large_fan_in_whole(fleet: Fleet) -> None:
    (item,) = await add(fleet, "sum", tags="sum")
    parts = await add(fleet, *(f"part {number}" for number in range(199)))
    for first in range(0, 199, 100):
        some = parts[first : first + 100]
        moved = [
            {"itemId": one, "trigger": "complete", "result": [first + number] * 500} for number, one in enumerate(some)
        ]
        assert (await fleet.call("advance_item", {"transitions": moved}))["summary"]["failed"] == 0
        edges = [{"fromItemId": one, "toItemId": item} for one in some]
        await fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges})
    async with await only(fleet, tags="sum") as job:
        assert {one["itemId"] for one in job.results} == set(parts)
        assert sorted(one["result"][0] for one in job.results) == list(range(199))
        assert all(len(one["result"]) == 500 and "size" not in one for one in job.results)
        await job.done()


async def test_a_slot_that_waits_for_its_turn_holds_nothing_that_it_has_finished(
    running: RunningFleet, named: str
) -> None:
    """One slot waits for an item; what another one has finished meanwhile is released."""
    async with Fleet(running.state.base_url, project=named, agent="w", slots=2) as fleet:
        await add(fleet, "one", "two")
        ends = [asyncio.Event(), asyncio.Event()]

        async def handle(job: Job) -> None:
            await ends[job.agent == "w/2"].wait()
            await job.done()

        async def count(number: int) -> bool:
            return await held(fleet) == number

        working = asyncio.create_task(fleet.work(handle))
        await wait_until(lambda: count(2), 30, "both to be claimed")
        for end in ends:
            end.set()
        await wait_until(lambda: count(0), 30, "both to be released, while a slot waits")
        assert not working.done()
        fleet.stop()
        await working
