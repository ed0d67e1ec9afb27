"""Renewals that a server sheds, leaves without an answer, or refuses."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from coordinator.client import Fleet, Job, calls, jobs
from coordinator.client.renewals import ENDS_BY, Keeper, KeptClaim, now
from tests.client.scripted import Scripted, Step, answer, part, refusal, silence
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio
ITEM = {"id": "00000000-0000-4000-8000-000000000001", "title": "one", "role": "work"}
CLAIMED = answer(
    {"claimResults": [{"outcome": "success", "item": ITEM, "itemId": ITEM["id"], "fenceToken": 7, "claimedBy": "me"}]}
)
TTL = 1


def renewed(**more: Any) -> Step:
    return answer({"claimResults": [{"outcome": "success", **more}], "releaseResults": [{"outcome": "success"}]})


async def held(scripted: Scripted, *steps: Step, renewals: int = 0) -> tuple[Job, float]:
    """Works on a job with these answers to its renewals, until there were so many of them; 0: until it is lost.
    Returns it, and how long that took."""
    scripted.steps = [CLAIMED, *steps]
    async with Fleet(scripted.url, agent="me") as fleet, await anext(fleet.jobs(ttl=TTL, grace=0.05)) as job:
        began = time.monotonic()
        try:
            await wait_until(lambda: 0 < renewals <= len(scripted.calls) - 1, what="renewals, or the loss of the claim")
        finally:
            took = time.monotonic() - began
            scripted.steps = [renewed()]
    return job, took


@pytest.mark.parametrize(
    "step",
    [refusal("over_capacity", "shedding", 10), refusal("draining", "shedding", 60_000), part(), silence],
    ids=["shed", "shed for long", "broken", "silent"],
)
async def test_without_an_answer_the_work_ends_before_another_agent_may_begin(scripted: Scripted, step: Step) -> None:
    job, took = await held(scripted, step)
    assert job.outcome == "lost"
    assert TTL * 0.6 <= took <= TTL * ENDS_BY + 0.1  # a busy machine may be a little late


async def test_renewals_that_are_shed_are_repeated(scripted: Scripted) -> None:
    shed = refusal("over_capacity", "shedding", 10)
    job, took = await held(scripted, shed, part(), shed, renewed(), shed, renewed(), renewals=6)
    assert (job.lost, job.outcome) == (False, "gave_up")
    assert took > TTL * 0.5
    renewals = [one["arguments"] for one in scripted.calls if one["arguments"].get("claims", [{}])[0].get("itemId")]
    assert {one["claims"][0]["fenceToken"] for one in renewals} == {7}
    assert len({one["requestId"] for one in renewals}) == len(renewals)


@pytest.mark.parametrize(
    "step",
    [
        answer({"claimResults": [{"outcome": "stale_fence"}]}),
        answer({"claimResults": [{"outcome": "already_claimed"}]}),
        refusal("permission_denied", "permanent"),
        answer({"odd": True}),
    ],
)
async def test_any_other_answer_ends_the_work_at_once(scripted: Scripted, step: Step) -> None:
    job, took = await held(scripted, step)
    assert job.outcome == "lost"
    assert took < TTL * 0.6


async def test_a_drained_agent_finishes_and_gets_no_more(scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    scripted.steps = [CLAIMED, renewed(stop=True, reason="moved elsewhere")]
    seen = []
    async with Fleet(scripted.url, agent="me") as fleet:
        async for job in fleet.jobs(ttl=TTL):
            async with job:
                await wait_until(lambda: "no more jobs: moved elsewhere" in caplog.text, what="the drain")
                seen.append(job.lost)
    assert seen == [False]


def test_the_work_has_its_grace_and_no_more_than_a_third_of_the_time() -> None:
    def claim(ttl: int, grace: float) -> KeptClaim:
        nothing: Any = None
        kept = KeptClaim(("u", "", "p"), {}, "i", 1, ttl, 0.0, grace, nothing, nothing)
        kept.placed(100.0)
        return kept

    assert claim(900, 20).deadline == 100 + 900 * ENDS_BY - 20
    assert claim(15, 20).deadline == 110
    assert all(100 + 27 <= claim(90, 5).due <= 100 + 30 for _ in range(100))
    assert now() <= now()


async def test_a_claim_whose_answer_was_lost_is_repeated_under_its_id(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LOOKING_SECONDS", 0.05)
    pauses: list[int] = []

    def pause(failures: int) -> float:
        pauses.append(failures)
        return 0.0

    monkeypatch.setattr(jobs, "away_seconds", pause)
    scripted.steps = [part()]
    async with Fleet(scripted.url, agent="me") as fleet:
        coming = asyncio.ensure_future(anext(fleet.jobs(ttl=900)))
        await wait_until(lambda: len(pauses) > 1, what="calls after a pause")
        scripted.steps = [CLAIMED, renewed()]
        async with await coming as job:
            assert job.title == "one"
    assert len({one["arguments"]["requestId"] for one in scripted.calls if "include" in one["arguments"]}) == 1


async def test_a_claim_that_follows_another_one_does_not_wake_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def claim(share: float) -> KeptClaim:
        monkeypatch.setattr(random, "random", lambda: share)
        kept = KeptClaim(("u", "", "p"), {}, "i", 1, 900, now(), 5.0, lambda *_: None, lambda *_: None)
        kept.placed(now())
        return kept

    woken: list[Keeper] = []
    keeper = Keeper.hired()
    try:
        keeper.keep(latest := claim(1.0))
        await wait_until(lambda: keeper.looks_at <= latest.due, what="the thread to know the claim")
        monkeypatch.setattr(Keeper, "wake", woken.append)
        keeper.keep(claim(0.0))
    finally:
        monkeypatch.undo()
        await keeper.leave()
    assert woken == []


async def test_a_claim_is_renewed_by_whom_the_token_names(scripted: Scripted) -> None:
    """The client does not know that name before it has claimed something."""
    scripted.steps = [CLAIMED, renewed()]
    async with Fleet(scripted.url, token="secret", agent="") as fleet, await anext(fleet.jobs(ttl=TTL)):
        await wait_until(lambda: len(scripted.calls) > 1, what="a renewal")
    claim, renewal = (one["arguments"] for one in scripted.calls[:2])
    assert "actor" not in claim
    assert renewal["actor"]["id"] == "me"
