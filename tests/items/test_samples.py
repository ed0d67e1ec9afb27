"""Samples of items over time: what is kept when something has changed, for how long, and what is read."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from coordinator.store import Store, keys
from coordinator.toolsets.items.store.measures.items import MeasureStore
from coordinator.toolsets.items.store.measures.samples import (
    DAY_ROWS,
    DAY_STEP,
    HOUR_ROWS,
    HOUR_STEP,
    Sample,
    filled,
    read_samples,
)
from tests.items.client import Client
from tests.items.moments import lapse, server_time

pytestmark = pytest.mark.anyio


async def measure(tools: Client) -> None:
    await MeasureStore(tools.store).measure(tools.project)


async def of_day(tools: Client) -> list[tuple[int, ...]]:
    """The samples of the last day without their times. One per minute, or several that belong together are added up."""
    found = (await read_samples(tools.store, tools.project)).day
    return [msgspec.structs.astuple(one)[1:] for one in found]


async def put(tools: Client, step: int, rows: list[Sample]) -> None:
    """Replaces the samples."""
    key = keys.samples.key(tools.project, str(step))
    await tools.store.command("DEL", key)
    if rows:
        await tools.store.command("RPUSH", key, *(msgspec.json.encode(row) for row in rows))


async def shift(tools: Client, seconds: int) -> None:
    """Moves all samples into the past."""
    found = await read_samples(tools.store, tools.project)
    for step, rows in ((HOUR_STEP, found.hour), (DAY_STEP, found.day)):
        await put(tools, step, [msgspec.structs.replace(row, at=row.at - seconds) for row in rows])


async def writes(store: Store) -> int:
    """Changes of the data so far."""
    facts = await store.command("INFO", "persistence")
    return int(next(line for line in facts.decode().split("\r\n") if line.startswith("rdb_changes")).partition(":")[2])


@pytest.mark.every_store
async def test_a_sample_has_the_counts_and_what_happened_since_the_last_one(tools: Client) -> None:
    kept, done, expired = [await tools.add() for _ in range(3)]
    await measure(tools)
    await shift(tools, DAY_STEP)
    for agent, item in {"ann": kept, "bob": done, "carl": expired}.items():
        await tools.claim(agent, item)
    refused = await tools.claims("eve", [{"itemId": kept}])
    assert refused["claimResults"][0]["outcome"] == "already_claimed"
    await tools.claims("ann", [], [{"itemId": kept}])
    await tools.advance(done, "complete", agent="bob")
    await lapse(tools, expired)
    await tools.claim("dan", expired)
    await tools.add(role="review")
    await tools.claims("bob", [], [{"itemId": done}])
    await measure(tools)
    first, last = (await read_samples(tools.store, tools.project)).hour
    assert msgspec.structs.astuple(first)[1:] == (3, *[0] * 11)
    assert last.at % HOUR_STEP == 0
    assert msgspec.structs.astuple(last)[1:6] == (2, 0, 1, 1, 0)
    assert (last.created, last.done, last.completed) == (1, 1, 1)
    assert (last.released, last.expired, last.losers) == (1, 1, 1)


async def test_samples_of_the_same_time_are_one(tools: Client) -> None:
    """Those of a minute, even if it ends meanwhile."""
    for _ in range(3):
        await tools.add(role="terminal")
        await measure(tools)
    rows = await of_day(tools)
    assert rows[-1][3] == 3
    assert (len(rows), rows[-1][6]) in {(1, 2), (2, 1), (2, 2)}
    assert sum(row[6] for row in rows) == 2, "the first sample has nothing to compare with"


async def test_an_unchanged_project_costs_no_write(alone: Store) -> None:
    tools = Client(alone, "quiet")
    await tools.add()
    await measure(tools)
    before = await read_samples(tools.store, tools.project)
    changes = await writes(tools.store)
    for _ in range(3):
        await measure(tools)
    after = await read_samples(tools.store, tools.project)
    assert (before.hour, before.day) == (after.hour, after.day)
    assert await writes(tools.store) == changes
    # The hour is over, the day is not.
    await put(tools, HOUR_STEP, [])
    await measure(tools)
    assert (await read_samples(tools.store, tools.project)).hour == []
    await tools.add()
    await measure(tools)
    (found,) = (await read_samples(tools.store, tools.project)).hour
    assert (found.queue, found.created) == (2, 1), "compared with the last sample of the day"


async def test_a_project_that_was_never_used_has_no_samples(tools: Client) -> None:
    await measure(tools)
    assert await tools.store.command("EXISTS", keys.samples.key(tools.project, "10")) == 0


async def test_a_project_that_is_long_idle_gets_no_sample_until_it_changes(tools: Client) -> None:
    await tools.add()
    stream = keys.events.key(tools.project)
    await tools.store.command("DEL", stream)
    await tools.store.command("XADD", stream, await server_time(tools.store) - 3_601_000, "k", "x")
    await measure(tools)
    assert (await read_samples(tools.store, tools.project)).day == []
    await tools.add()
    await measure(tools)
    (found,) = (await read_samples(tools.store, tools.project)).day
    assert (found.queue, found.created) == (2, 0), "what it is compared with is not known"


async def test_samples_are_bounded_and_vanish(tools: Client) -> None:
    now = await server_time(tools.store) // 1000
    for step, most in ((HOUR_STEP, HOUR_ROWS), (DAY_STEP, DAY_ROWS)):
        begin = now - now % step
        await put(tools, step, [Sample(begin - step * n, 0, 0, 0, 0, 0) for n in range(most, 0, -1)])
    await tools.add()
    await measure(tools)
    found = await read_samples(tools.store, tools.project)
    assert (len(found.hour), len(found.day)) == (HOUR_ROWS, DAY_ROWS)
    assert (found.hour[-1].queue, found.day[-1].created) == (1, 1)
    for step, seconds in ((HOUR_STEP, 3_600), (DAY_STEP, 86_400)):
        left = await tools.store.command("TTL", keys.samples.key(tools.project, str(step)))
        assert seconds - 60 < left <= seconds
    few = await read_samples(tools.store, tools.project, hour=1, day=2)
    assert (few.hour, few.day) == (found.hour[-1:], found.day[-2:])


async def test_a_clock_that_was_set_back_adds_to_the_last_sample(tools: Client) -> None:
    """As after a failover to a server whose clock is behind."""
    await tools.add()
    await measure(tools)
    await shift(tools, -600)
    await tools.add()
    await measure(tools)
    found = await read_samples(tools.store, tools.project)
    assert [(row.queue, row.created) for row in found.hour] == [(2, 1)]


async def test_two_measuring_processes_count_each_claim_once(tools: Client) -> None:
    """As when a lease changes hands."""
    for number in range(20):
        item = await tools.add()
        await tools.claim(f"agent-{number}", item)
        await tools.claims(f"agent-{number}", [], [{"itemId": item}])
        await asyncio.gather(measure(tools), measure(tools))
    found = await read_samples(tools.store, tools.project)
    assert sum(row.released for row in found.hour) == sum(row.released for row in found.day) == 20


def test_steps_without_a_sample_are_filled() -> None:
    rows = [Sample(100, 5, 0, 0, 1, 0, done=1), Sample(130, 4, 0, 0, 2, 0, done=1)]
    quiet = Sample(110, 5, 0, 0, 1, 0)
    assert filled(rows, 149_999, 10, 6) == [
        None,
        rows[0],
        quiet,
        msgspec.structs.replace(quiet, at=120),
        rows[1],
        Sample(140, 4, 0, 0, 2, 0),
    ]
    assert filled(rows, 149_999, 10, 1) == [Sample(140, 4, 0, 0, 2, 0)], "carried over from before"
    assert filled([], 149_999, 10, 2) == [None, None]
