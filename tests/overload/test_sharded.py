"""Admission in front of several shards: what happens to one leaves the others alone."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.overload import ShardedAdmission
from coordinator.toolsets.tool import Criticality
from tests.overload.front import SMALL

NORMAL = Criticality.NORMAL


def sharded() -> ShardedAdmission:
    """The project ``p1`` is on the shard 1, and so on."""
    return ShardedAdmission(lambda project: int(project[1:]), SMALL, lambda: 0.0)


def test_the_breaker_of_a_shard_that_does_not_answer_refuses_its_calls_only() -> None:
    admission = sharded()
    for _ in range(10):
        admission.store_call(0.5, False, "p1")
        admission.store_call(0.001, True, "p0")
    with pytest.raises(ToolFailure, match="the store does not answer") as refused:
        admission.enter(NORMAL, "a", "p1")
    assert (refused.value.code, refused.value.kind) == ("store_unavailable", "shedding")
    assert admission.enter(NORMAL, "a", "p0") is not None
    assert admission.shown() == "closed"
    admission.probe()
    assert admission.enter(NORMAL, "a", "p1") is not None


def test_calls_to_a_slow_shard_take_no_room_from_others() -> None:
    admission = sharded()
    held = [ticket for n in range(8) if (ticket := admission.enter(NORMAL, f"a{n}", "p1")) is not None]
    assert admission.enter(NORMAL, "b", "p1") is None, "it has to wait"
    other = admission.enter(NORMAL, "b", "p2")
    assert other is not None
    assert admission.in_flight == len(held) + 1
    for ticket in (*held, other):
        admission.leave(ticket)
    assert admission.in_flight == 0


def test_a_drain_and_new_limits_hold_for_every_shard_also_for_those_called_later() -> None:
    admission = sharded()
    assert admission.refusal(NORMAL) is None
    admission.draining = True
    assert admission.draining
    for project in ("p0", "p5"):
        with pytest.raises(ToolFailure) as refused:
            admission.enter(NORMAL, "a", project)
        assert refused.value.code == "draining"
    assert admission.refusal(NORMAL) is not None
    admission.draining = False
    admission.configure(msgspec.structs.replace(SMALL, least_limit=20, most_limit=20))
    assert admission.enter(NORMAL, "a", "p7") is not None
    assert admission.shards[7].most == 20


@pytest.mark.anyio
async def test_a_waiting_call_gets_the_room_of_its_own_shard() -> None:
    admission = sharded()
    held = [ticket for n in range(6) if (ticket := admission.enter(NORMAL, f"a{n}", "p1")) is not None]
    assert admission.enter(NORMAL, "c", "p1") is None
    waiting = asyncio.ensure_future(admission.wait(NORMAL, "c", "p1"))
    await asyncio.sleep(0)
    assert admission.waiting == 1
    admission.leave(held[0])
    assert (await waiting).shard == 1
