"""Usage that jobs tell, once whatever is repeated, and the end of their work when a budget is spent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.client import Fleet, Invalid, Job, JobStopped, SyncFleet, Unavailable, job, jobs
from coordinator.client.core import Core
from tests.client.backlog import Json, add, context, held, seen
from tests.client.deaf import Deaf
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

SOME: Json = {"inputTokens": 100, "cachedTokens": 40, "outputTokens": 20, "costMicroUsd": 3000}


async def used(fleet: Fleet, item: str) -> Json:
    """What is summed for an item."""
    return dict((await seen(fleet, item)).get("usage", {}).get("own", {}))


async def next_job(fleet: Fleet, **selection: Any) -> Job:
    return await anext(fleet.jobs(wait=False, **selection))


@pytest.mark.parametrize(
    "end",
    [
        lambda job: job.done("r", usage=SOME),
        lambda job: job.fail("f", usage=SOME),
        lambda job: job.give_up("g", usage=SOME),
        lambda job: job.hand_back(usage=SOME),
        lambda job: job.block("b", usage=SOME),
        lambda job: job.ask("q", usage=SOME),
    ],
    ids=["done", "fail", "give_up", "hand_back", "block", "ask"],
)
async def test_every_last_word_tells_what_was_used(fleet: Fleet, end: Callable[[Job], Awaitable[None]]) -> None:
    (item,) = await add(fleet, "one")
    async with await next_job(fleet) as job:
        await job.note("n", "b", usage={**SOME, "model": "m"})
        job.usage(wallMs=700)
        job.usage(wallMs=300, outputTokens=1)
        await end(job)
    assert await used(fleet, item) == {
        "inputTokens": 200, "cachedTokens": 80, "outputTokens": 41, "costMicroUsd": 6000, "tokens": 241, "wallMs": 1000
    }  # fmt: skip


async def test_what_was_counted_is_told_however_the_work_ends(fleet: Fleet) -> None:
    items = await add(fleet, "raises", "leaves", "cancelled")

    async def work(job: Job) -> None:
        async with job:
            job.usage(model="a", outputTokens=3)
            job.usage(model="b", outputTokens=4)
            if job.title == "raises":
                raise LookupError
            if job.title == "cancelled":
                await asyncio.Event().wait()

    for _ in items:
        task = asyncio.create_task(work(await next_job(fleet, role="queue")))
        await asyncio.wait({task}, timeout=0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [(await used(fleet, item))["outputTokens"] for item in items] == [7, 7, 7]


@pytest.mark.parametrize("unmade", [False, True], ids=["made", "not made"])
@pytest.mark.parametrize("tool", ["manage_notes", "claim_item"])
async def test_a_call_that_was_not_answered_adds_once(deaf: Deaf, tool: str, unmade: bool) -> None:
    (item,) = await add(deaf, "one")
    async with await next_job(deaf) as job:
        job.usage(outputTokens=5)
        act = job.done if tool == "claim_item" else lambda **more: job.note("n", "b", **more)
        deaf.deaf, deaf.unmade = tool, unmade
        with pytest.raises(Unavailable):
            await act(usage={"outputTokens": 7})
        job.usage(outputTokens=1)
        await act(usage={"outputTokens": 7})
        if tool == "manage_notes":
            await job.done()
        assert job.outcome == "done"
    assert (await seen(deaf, item))["role"] == "terminal"
    # What was counted after the unanswered last word comes too late: the item has ended, and its claim with it.
    assert (await used(deaf, item))["outputTokens"] == (13 if tool == "manage_notes" else 12)


async def test_another_word_after_one_without_an_answer_adds_once(deaf: Deaf) -> None:
    (item,) = await add(deaf, "one")
    async with await next_job(deaf) as job:
        deaf.deaf = "manage_notes"
        with pytest.raises(Unavailable):
            await job.note("n", "b", usage={"outputTokens": 7})
        await job.hand_back(usage={"outputTokens": 1})
    assert (await used(deaf, item))["outputTokens"] == 8


async def test_what_is_refused_was_not_told(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one", type="proved")
    async with await next_job(fleet) as job:
        job.usage(outputTokens=1)
        with pytest.raises(Exception, match="proof"):
            await job.done(usage={"outputTokens": 10})
        await job.note("proof", "here")
        await job.done(usage={"outputTokens": 10})
    assert (await used(fleet, item))["outputTokens"] == 11


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tokens": 1}, "usage.tokens: no such field; allowed: inputTokens"),
        ({"outputTokens": -1}, "usage.outputTokens: must be a whole number from 0"),
        ({"wallMs": 1.5}, "usage.wallMs: must be a whole number"),
        ({"inputTokens": 1, "cachedTokens": 2}, "usage.cachedTokens: must be at most inputTokens"),
        ({"outputTokens": 1, "model": "a\nb"}, "usage.model: must be one line"),
    ],
)
async def test_wrong_usage_is_refused_by_name(fleet: Fleet, wrong: Json, said: str) -> None:
    (item,) = await add(fleet, "one")
    async with await next_job(fleet) as job:
        with pytest.raises(Invalid, match=said):
            job.usage(**wrong)
        with pytest.raises(Invalid, match=said):
            await job.done(usage=wrong)
        await job.done()
    assert await used(fleet, item) == {}


async def test_long_work_reports_by_itself_and_stops_when_a_budget_is_spent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "REPORT_SECONDS", 0.2)  # after the claim, so nothing is due when it is counted
    (item,) = await add(fleet, "one", budget={"tokens": 10})
    work = await next_job(fleet, raises=True)

    async def until_stopped() -> None:
        async with work:
            work.usage(outputTokens=5)
            await wait_until(lambda: told(fleet, item, 5), what="the first report")
            work.usage(outputTokens=7)
            try:
                await asyncio.Event().wait()
            finally:
                work.usage(outputTokens=1)

    with pytest.raises(JobStopped, match=r"the budget of item .* is spent: 12 of 10 tokens"):
        await until_stopped()
    assert (work.outcome, str(work.stop_reason)[:10]) == ("handed_back", "the budget")
    assert (await used(fleet, item))["outputTokens"] == 13
    assert (await context(fleet, item)).get("attempts", {"count": 0})["count"] == 0
    assert await held(fleet) == 0


async def test_what_is_used_while_a_report_is_under_way_is_reported_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "REPORT_SECONDS", 0.01)
    (item,) = await add(fleet, "one")
    work, call = await next_job(fleet), Core.call

    async def using(core: Core, tool: str, *args: Any, **more: Any) -> Any:
        answer = await call(core, tool, *args, **more)
        if tool == "claim_item":
            monkeypatch.setattr(Core, "call", call)
            work.usage(outputTokens=7)
        return answer

    async with work:
        monkeypatch.setattr(Core, "call", using)
        work.usage(outputTokens=5)
        await wait_until(lambda: told(fleet, item, 12), what="the second report")
        await work.done()


async def test_a_report_whose_answer_was_not_heard_is_repeated(deaf: Deaf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "REPORT_SECONDS", 0.01)
    (item,) = await add(deaf, "one", budget={"tokens": 10})
    work = await next_job(deaf, raises=True)

    async def until_stopped() -> None:
        async with work:
            deaf.deaf = "claim_item"
            work.usage(outputTokens=12)
            await asyncio.Event().wait()

    with pytest.raises(JobStopped, match="12 of 10 tokens"):
        await until_stopped()
    assert (await used(deaf, item))["outputTokens"] == 12


async def told(fleet: Fleet, item: str, tokens: int) -> bool:
    return (await used(fleet, item)).get("outputTokens") == tokens


async def test_a_renewal_that_says_stop_ends_the_work_and_the_loop_goes_on(fleet: Fleet) -> None:
    spent, _other = await add(fleet, "spent", budget={"tokens": 10}, priority="high"), await add(fleet, "other")
    ends = []
    async for work in fleet.jobs(wait=False, ttl=1):
        async with work:
            if work.title == "spent":
                note = {"itemId": work.id, "key": "k", "role": "work", "usage": {"outputTokens": 10}}
                await fleet.call("manage_notes", {"operation": "upsert", "notes": [note]}, agent="somebody")
                await asyncio.Event().wait()
            await work.done()
        ends.append((work.title, work.outcome, type(work.error)))
    assert ends == [("spent", "handed_back", JobStopped), ("other", "done", type(None))]
    assert (await seen(fleet, spent[0]))["role"] == "work"


async def test_slots_whose_budget_is_spent_rest_and_go_on_when_it_is_raised(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jobs, "SPENT_SECONDS", 0.05)
    (root,) = await add(fleet, "root", budget={"tokens": 1})
    await add(fleet, "child", parentId=root)
    note = {"itemId": root, "key": "k", "role": "work", "usage": {"outputTokens": 1}}
    await fleet.call("manage_notes", {"operation": "upsert", "notes": [note]})
    assert [one async for one in fleet.jobs(ancestor=root, wait=False)] == []
    coming = asyncio.ensure_future(anext(fleet.jobs(ancestor=root)))
    await wait_until(lambda: "claims nothing for now" in caplog.text, what="the pause")
    await fleet.call("manage_items", {"operation": "update", "items": [{"id": root, "budget": {"tokens": 9}}]})
    async with await coming as work:
        await work.done()
    assert (work.title, caplog.text.count("claims nothing for now")) == ("child", 1)


def test_a_thread_is_told_to_stop(running: RunningFleet, named: str) -> None:
    with SyncFleet(running.state.base_url, project=named) as fleet:
        made = fleet.call(
            "manage_items", {"operation": "create", "items": [{"title": "one", "budget": {"tokens": 10}}]}
        )
        for work in fleet.jobs(wait=False, ttl=1):
            with work:
                note = {"itemId": work.id, "key": "k", "role": "work", "usage": {"outputTokens": 10}}
                fleet.call("manage_notes", {"operation": "upsert", "notes": [note]})
                work.usage(wallMs=5)
                while True:
                    work.check()
        assert (work.outcome, "is spent" in str(work.stop_reason)) == ("handed_back", True)
        found = fleet.call("query_items", {"operation": "get", "id": made["items"][0]["id"]})
        assert found["usage"]["own"]["wallMs"] == 5
        assert "attempts" not in found or found["attempts"]["count"] == 0
