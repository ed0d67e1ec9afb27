"""The work in progress that a drain waits for: live claims, and steps that workers execute."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import redis.asyncio
import redis.exceptions

from coordinator.steps.handoff import RQ_PREFIX
from coordinator.steps.times import RENEW_SECONDS
from coordinator.store import Store, keys
from coordinator.store.fleet.drains import LOOK_SECONDS, host_scope, process_scope
from coordinator.wording import counted

Say = Callable[[str], None]

POLL_SECONDS = 0.25
"""How often the remaining work is counted."""
LINE_SECONDS = 2.0
"""How often a line about it may be printed."""
_SAME_LINE_SECONDS = 30.0
"""How often an unchanged line is repeated."""
ANSWER_SECONDS = 30.0
"""Timeout of one scan of the store. With many keys a scan takes seconds; if the store hangs, it never ends."""
_AWAY_SECONDS = 3.0
"""After how long without an answer a shard of a cluster counts as away."""
_SCAN = 1000
_WORKERS = f"{RQ_PREFIX}:workers"
"""RQ's set of workers."""
_PROJECT = re.compile(rb"fc:\{([^{}]+)\}:")


class Left(msgspec.Struct, frozen=True):
    """The work in progress."""

    claims: dict[str, int]
    """Project -> number of live claims."""
    steps: dict[str, int]
    """Project -> number of steps being executed."""

    @property
    def total(self) -> int:
        return sum(self.claims.values()) + sum(self.steps.values())


async def until_idle(client: redis.asyncio.Redis, scope: str, wait: float, say: Say) -> bool:
    """Waits until no worker in a scope executes steps. Returns and raises as ``until_nothing``."""
    async with asyncio.timeout(ANSWER_SECONDS):
        known, _ = await workers_of(client, scope)
    if not known:
        say("no worker is among them; calls end within their deadline")
        return True

    async def in_progress() -> str:
        _, busy = await workers_of(client, scope)
        return f"steps of {', '.join(busy)}" if busy else ""

    # A worker first has to notice the drain, and then to publish its state.
    return await until_nothing(in_progress, 2 * (LOOK_SECONDS + RENEW_SECONDS), wait, "steps end by their timeout", say)


async def workers_of(client: redis.asyncio.Redis, scope: str) -> tuple[list[str], list[str]]:
    """The workers in a scope, as ``host/slot``, and those of them that execute steps."""
    known, busy = [], []
    connection: Any = client
    for key in await connection.smembers(_WORKERS):
        # The name is host.slot.pid.random (workers.rq.worker).
        host, slot, *_ = key.decode().rpartition(":")[2].rsplit(".", 3)
        if scope not in (host_scope(host), process_scope(host, slot)):
            continue
        if (state := await connection.hget(key, "state")) is not None:
            known.append(f"{host}/{slot}")
            if state == b"busy":
                busy.append(f"{host}/{slot}")
    return sorted(known), sorted(busy)


async def until_done(store: Store, wait: float, say: Say) -> bool:
    """Waits until no work is in progress in any project. Returns and raises as ``until_nothing``."""

    async def in_progress() -> str:
        left, unseen = await _look_at_all(store)
        text = f"{_told(left.claims, 'claim')}; {_told(left.steps, 'step')}" if left.total or unseen else ""
        return text + (f"; what is on {', '.join(unseen)} cannot be seen" if unseen else "")

    ends = "claims end by their time to live, and steps by their timeout"
    return await until_nothing(in_progress, 2 * LOOK_SECONDS, wait, ends, say)


async def _look_at_all(store: Store) -> tuple[Left, list[str]]:
    """The work in progress in the whole store, and what of a cluster cannot be seen."""
    if not store.sharded:
        return await look(store.client), []
    store.look_for_moves()
    shards = store.client_of_each()
    counts = await asyncio.gather(*(_look_unless_away(client) for client in shards.values()))
    places = [f"shard {store.shard_of(tag)} ({place})" for place, tag in store.tags.items()]
    unseen = [place for place, seen in zip(places, counts, strict=True) if seen is None]
    if slots := store.uncovered:
        unseen.append(f"{counted(slots, 'slot')} that no node has")
    left = Left({}, {})
    for shard_counts in counts:
        if shard_counts is not None:
            left.claims.update(shard_counts.claims)
            left.steps.update(shard_counts.steps)
    return left, unseen


async def _look_unless_away(client: redis.asyncio.Redis) -> Left | None:
    try:
        # A scan may take long, so it cannot tell a server that hangs from one that is large.
        async with asyncio.timeout(_AWAY_SECONDS):
            await client.ping()
        return await look(client)
    except (redis.exceptions.RedisError, OSError, TimeoutError):
        return None


async def until_nothing(
    in_progress: Callable[[], Awaitable[str]], settled: float, wait: float, ends: str, say: Say
) -> bool:
    """Waits until no work is in progress, and says what is left meanwhile; False: some is after ``wait`` seconds.

    Args:
        in_progress: describes the work in progress; '': there is none.
        settled: seconds after which all processes have noticed the drain.
        ends: how the remaining work will end.

    Raises:
        RedisError: the store does not answer.
        TimeoutError: a scan takes too long.
    """
    began, said, shown = time.monotonic(), 0.0, ""
    deadline = began + wait
    while True:
        looked = time.monotonic()
        async with asyncio.timeout(ANSWER_SECONDS):
            left = await in_progress()
        now = time.monotonic()
        # An empty scan counts only if it began after all processes had stopped taking new work.
        if not left and (now >= deadline or looked - began >= settled):
            say("no work is in progress")
            return True
        if left and (now >= deadline or now - said >= (_SAME_LINE_SECONDS if left == shown else LINE_SECONDS)):
            said, shown = now, left
            say(f"in progress: {left}")
        if now >= deadline:
            say(f"timed out; {ends}")
            return False
        await asyncio.sleep(POLL_SECONDS)


async def look(client: redis.asyncio.Redis) -> Left:
    """The work in progress in all projects: live claims, and steps under lease."""
    answers: list[dict[str, int]] = []
    seconds, micros = await client.time()
    now = seconds * 1000 + micros // 1000
    # Steps are counted first, because a running step may still claim an item, which is then counted too.
    for family in (keys.step_leases, keys.leases):
        counts: dict[str, int] = {}
        async for key in client.scan_iter(match=b"fc:{*}:" + family.suffix.encode(), count=_SCAN):
            match = _PROJECT.match(key)
            if match is not None and (count := await client.zcount(key, now, "+inf")):
                counts[match[1].decode()] = count
        answers.append(counts)
    steps, claims = answers
    return Left(claims, steps)


def _told(counts: dict[str, int], noun: str) -> str:
    if not counts:
        return f"no {noun}s"
    named = ", ".join(f"{count} in {project}" for project, count in sorted(counts.items(), key=lambda one: -one[1])[:5])
    return f"{counted(sum(counts.values()), noun)} ({named}{', ...' if len(counts) > 5 else ''})"
