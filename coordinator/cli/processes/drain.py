"""``fleet drain``: tells processes to take no new work, and waits until their work in progress is done."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
import redis.asyncio
import redis.exceptions
from cyclopts import Parameter

from coordinator.cli.acting import Reason, operator
from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.errors import ToolFailure
from coordinator.operations.drains import drain_processes
from coordinator.processes.stores import open_store, running_url
from coordinator.settings import LoadedSettings, Settings
from coordinator.steps.handoff import RQ_PREFIX
from coordinator.steps.times import RENEW_SECONDS
from coordinator.store import Store, keys
from coordinator.store.fleet.drains import FLEET_SCOPE, LOOK_SECONDS, ending, host_scope, process_scope
from coordinator.wording import counted

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


@with_settings(only=STORE_SETTINGS)
def drain(
    loaded: LoadedSettings,
    *,
    host: Annotated[str | None, Parameter(help="Only the processes of this host.")] = None,
    process: Annotated[
        str | None, Parameter(help="Only this process of the host (of this one by default), such as fe-0.")
    ] = None,
    wait: Annotated[float, Parameter(help="Seconds to wait for work in progress to end. [0 to 86400]")] = 300.0,
    end: Annotated[bool, Parameter(help="Take new work again.")] = False,
    reason: Reason = None,
) -> int:
    check_range("--wait", wait, 0, 86_400)
    try:
        scope = FLEET_SCOPE
        if process is not None:
            scope = process_scope(host or socket.gethostname(), process)
        elif host is not None:
            scope = host_scope(host)
    except ToolFailure as failure:
        raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
    url = running_url(loaded.settings)
    try:
        return asyncio.run(drain_scope(loaded.settings, url, scope, wait, end, reason))
    except KeyboardInterrupt:
        told = f"if {scope} was asked to take no new work, that holds until `{ending(scope)}`"
        raise CommandFailed(f"interrupted; {told}") from None


async def drain_scope(
    settings: Settings, url: str, scope: str, wait: float, end: bool, reason: str | None = None
) -> int:
    """Begins a drain and waits for the work in progress, or ends a drain; returns the exit code."""
    store = await open_store(url, settings.redis_timeout_ms)
    try:
        by = operator(store, settings, reason)
        result = await drain_processes(by, scope, end=end)
        before = f"; {result.said}" if result.said else ""
        if end:
            left = result.facts["drained"]
            _say(f"{scope} takes new work again{before}" + (f"; still drained: {', '.join(left)}" if left else ""))
            return Exit.OK
        _say(f"{scope} takes no new work from now on{before}; `{ending(scope)}` ends that")
        if scope == FLEET_SCOPE:
            return await _until_done(store, wait)
    except ToolFailure as failure:
        if failure.code == "VALIDATION_ERROR":
            raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
        raise CommandFailed(failure.message, Exit.STORE_UNREACHABLE) from None
    except (redis.exceptions.RedisError, TimeoutError) as error:
        raise _unseen("the work in progress", error) from None
    finally:
        await store.close()
    # Only steps belong to a process: claims belong to agents, not to the process that placed them.
    queue_url = settings.steps.queue_url or url
    queue = await open_store(queue_url, settings.redis_timeout_ms, setting="steps.queue_url")
    try:
        return await _until_idle(queue.client_of(keys.QUEUE), scope, wait)
    except (redis.exceptions.RedisError, TimeoutError) as error:
        raise _unseen("the workers", error) from None
    finally:
        await queue.close()


def _unseen(what: str, error: Exception) -> CommandFailed:
    return CommandFailed(f"cannot read {what}: {str(error) or 'no answer'}", Exit.STORE_UNREACHABLE)


async def _until_idle(client: redis.asyncio.Redis, scope: str, wait: float) -> int:
    async with asyncio.timeout(ANSWER_SECONDS):
        known, _ = await workers_of(client, scope)
    if not known:
        _say("no worker is among them; calls end within their deadline")
        return Exit.OK

    async def in_progress() -> str:
        _, busy = await workers_of(client, scope)
        return f"steps of {', '.join(busy)}" if busy else ""

    # A worker first has to notice the drain, and then to publish its state.
    return await until_nothing(in_progress, 2 * (LOOK_SECONDS + RENEW_SECONDS), wait, "steps end by their timeout")


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


async def _until_done(store: Store, wait: float) -> int:
    async def in_progress() -> str:
        left, unseen = await _look_at_all(store)
        told = f"{_told(left.claims, 'claim')}; {_told(left.steps, 'step')}" if left.total or unseen else ""
        return told + (f"; what is on {', '.join(unseen)} cannot be seen" if unseen else "")

    ends = "claims end by their time to live, and steps by their timeout"
    return await until_nothing(in_progress, 2 * LOOK_SECONDS, wait, ends)


async def _look_at_all(store: Store) -> tuple[Left, list[str]]:
    """The work in progress in the whole store, and what of a cluster cannot be seen."""
    if not store.sharded:
        return await look(store.client), []
    store.look_for_moves()
    shards = store.client_of_each()
    found = await asyncio.gather(*(_look_unless_away(client) for client in shards.values()))
    places = [f"shard {store.shard_of(tag)} ({place})" for place, tag in store.tags.items()]
    unseen = [place for place, seen in zip(places, found, strict=True) if seen is None]
    if slots := store.uncovered:
        unseen.append(f"{counted(slots, 'slot')} that no node has")
    left = Left({}, {})
    for one in found:
        if one is not None:
            left.claims.update(one.claims)
            left.steps.update(one.steps)
    return left, unseen


async def _look_unless_away(client: redis.asyncio.Redis) -> Left | None:
    try:
        # A scan may take long, so it cannot tell a server that hangs from one that is large.
        async with asyncio.timeout(_AWAY_SECONDS):
            await client.ping()
        return await look(client)
    except (redis.exceptions.RedisError, OSError, TimeoutError):
        return None


async def until_nothing(in_progress: Callable[[], Awaitable[str]], settled: float, wait: float, ends: str) -> int:
    """Waits until no work is in progress, and prints what is left meanwhile.

    Args:
        in_progress: describes the work in progress; '': there is none.
        settled: seconds after which all processes have noticed the drain.
        ends: how the remaining work will end.

    Raises:
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
            _say("no work is in progress")
            return Exit.OK
        if left and (now >= deadline or now - said >= (_SAME_LINE_SECONDS if left == shown else LINE_SECONDS)):
            said, shown = now, left
            _say(f"in progress: {left}")
        if now >= deadline:
            _say(f"timed out; {ends}")
            return Exit.FAILED
        await asyncio.sleep(POLL_SECONDS)


async def look(client: redis.asyncio.Redis) -> Left:
    """The work in progress in all projects: live claims, and steps under lease."""
    found: list[dict[str, int]] = []
    seconds, micros = await client.time()
    now = seconds * 1000 + micros // 1000
    # Steps are counted first, because a running step may still claim an item, which is then counted too.
    for family in (keys.step_leases, keys.leases):
        counts: dict[str, int] = {}
        async for key in client.scan_iter(match=b"fc:{*}:" + family.suffix.encode(), count=_SCAN):
            match = _PROJECT.match(key)
            if match is not None and (count := await client.zcount(key, now, "+inf")):
                counts[match[1].decode()] = count
        found.append(counts)
    steps, claims = found
    return Left(claims, steps)


def _told(counts: dict[str, int], noun: str) -> str:
    if not counts:
        return f"no {noun}s"
    named = ", ".join(f"{count} in {project}" for project, count in sorted(counts.items(), key=lambda one: -one[1])[:5])
    return f"{counted(sum(counts.values()), noun)} ({named}{', ...' if len(counts) > 5 else ''})"


def _say(line: str) -> None:
    print(line, flush=True)
