"""Why nothing comes: what loops, trees and the log say of items that are held back."""

from __future__ import annotations

import asyncio
import logging

import pytest

from coordinator.client import Fleet, SyncFleet
from coordinator.client.held_back import described, left
from coordinator.toolsets.items.contract.claims import HeldBack
from tests.client.backlog import add, chain
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


def test_every_reason_has_words() -> None:
    reasons = HeldBack.__struct_encode_fields__
    words = [described({reason: 2}) for reason in reasons]
    assert all(text.startswith("2 ") for text in words)
    assert len(set(words)) == len(reasons)
    assert described(dict.fromkeys(reasons, 1)) == ", ".join(text.replace("2", "1") for text in words)
    assert described(dict.fromkeys(reasons, 0)) == described({}) == described(None) == ""


def test_a_reason_of_a_later_release_is_described_by_its_name() -> None:
    counts = {"lateStaffing": 3, "resources": 1, "weather": 2, "never": 0, "quarantined": 1}
    assert described(counts) == "3 late staffing, 1 waiting for resources, 2 weather, 1 quarantined"


async def test_a_loop_says_why_nothing_comes(
    running: RunningFleet, named: str, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "coordinator.client.jobs")
    for title in ("one", "two"):
        await add(fleet, title, requires=["cad"])
    jobs = fleet.jobs()
    coming = asyncio.ensure_future(anext(jobs))

    async def told() -> bool:
        return jobs.held_back == {"capabilities": 2}

    await wait_until(told, what="the loop to know why nothing comes")
    (item,) = await add(fleet, "for everybody")
    async with await coming as job:
        assert (job.id, jobs.held_back) == (item, {})
        await job.done()
    async with Fleet(running.state.base_url, project=named, agent="another") as other:
        later = other.jobs(wait=False)
        assert [job.id async for job in later] == []
        assert later.held_back == {"capabilities": 2}
    lines = [record.getMessage() for record in caplog.records if "nothing is offered" in record.getMessage()]
    assert lines == ["nothing is offered: 2 for agents with other capabilities"] * 2, "each loop says it once"


async def test_a_tree_says_what_holds_its_items_back(fleet: Fleet) -> None:
    (root,) = await add(fleet, "root")
    first, second = await add(fleet, "first", "second", parentId=root, requires=["cad"])
    await add(fleet, "elsewhere")
    await chain(fleet, first, second)
    tree = fleet.tree(root)
    assert await tree.held_back() == {"capabilities": 1, "dependencies": 1}
    assert await tree.held_back(["cad"]) == {}, "the first one is offered"


def test_programs_without_a_loop_are_told_too(running: RunningFleet, named: str) -> None:
    with SyncFleet(running.state.base_url, project=named) as fleet:
        fleet.call("manage_items", {"operation": "create", "items": [{"title": "later", "notBefore": "+1h"}]})
        tree = fleet.plan({"title": "plan", "children": [{"title": "far", "notBefore": "+1h"}]})
        jobs = fleet.jobs(wait=False)
        assert list(jobs) == []
        assert jobs.held_back == {"notBefore": 2, "openChildren": 1}
        assert tree.held_back() == {"notBefore": 1}


@pytest.mark.parametrize(
    ("failed", "most", "back_off", "said"),
    [
        (0, 5, "", "given back"),
        (0, 0, "", "given back"),
        (1, 5, "", "failed, 4 attempts left"),
        (4, 5, "", "failed, 1 attempt left"),
        (5, 5, "", "failed, no attempts left"),
        (6, 5, "", "failed, no attempts left"),  # the limit was lowered
        (3, 0, "", "failed"),
        (1, 5, "2026-01-01T00:00:00Z", "in back-off until 2026-01-01T00:00:00Z"),
    ],
)
def test_how_an_item_was_left(failed: int, most: int, back_off: str, said: str) -> None:
    assert left(failed, most, back_off) == said
