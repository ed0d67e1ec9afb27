"""Runs the checks of the stores of a fleet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from redis.exceptions import RedisError

from coordinator.doctor import alerts, connections, items, queues, store
from coordinator.doctor.alerts import Gauges
from coordinator.doctor.cluster import NODE_SECONDS, check_cluster, check_guard, check_marks
from coordinator.doctor.findings import Finding, page_of
from coordinator.errors import ToolFailure
from coordinator.settings.sections.connections import Connection
from coordinator.store import KeySpaceDiffers, Store, StoreChanged, StoreError, StoreIdentity, StoreUnreachable, keys
from coordinator.store.checks import key_space, permissions
from coordinator.store.cluster.facts import read_cluster
from coordinator.store.cluster.places import listed, look_at_all
from coordinator.store.errors import explained
from coordinator.store.fleet.drains import Drains, ending
from coordinator.store.fleet.processes import read_processes
from coordinator.store.link.address import parse
from coordinator.store.opening import open_patiently
from coordinator.store.projects.lists import noted
from coordinator.wording import moment

_PINGS = 5
ANSWER_SECONDS = 30.0
"""How long all queries to the store may take. They take a fraction of a second, unless the store hangs."""


async def check_fleet(
    url: str,
    queue_url: str,
    timeout_ms: int,
    expected: StoreIdentity,
    stated: Mapping[str, Connection],
    gauges: Callable[[], Gauges],
) -> list[Finding]:
    """What is found about the stores of a fleet.

    Args:
        queue_url: where the queues of steps are.
        stated: the connections of the settings.
        gauges: reads those of this host. That is done after the list of processes is read: else those of a fleet that
            starts meanwhile were taken for another host's.

    Raises:
        StoreError: a store cannot be used; of a cluster, no node answers.
    """
    address = parse(url)
    which = Finding("ok", "store.address", address.without_password)
    if not address.nodes:
        return [
            which,
            *await check_store(url, timeout_ms, expected, stated, gauges),
            *await _check_queues(queue_url, timeout_ms),
        ]
    facts = await read_cluster(address, NODE_SECONDS, count_strays=True)
    check: Callable[[], Coroutine[Any, Any, list[Finding]]]
    projects, guards = await _check_projects(url, timeout_ms)
    findings = [which, *check_cluster(facts, timeout_ms / 1000, projects), *guards]
    for tag, what, check in (
        (
            keys.FLEET,
            "identity, permissions, drains, projects and connections",
            lambda: check_store(url, timeout_ms, expected, stated, gauges),
        ),
        (keys.QUEUE, "the queues of steps", lambda: _check_queues(queue_url, timeout_ms)),
    ):
        primary = facts.primary_of(tag)
        try:
            if (tag == keys.FLEET or queue_url == url) and (primary is None or primary.away):
                raise StoreUnreachable("the shard that has them does not answer")
            findings += await check()
        except StoreError as error:
            said = f"not checked, or not further: {what}: {explained(error)}"
            findings.append(Finding("fails", "cluster.nodes", said))
    return findings


async def _check_projects(url: str, timeout_ms: int) -> tuple[set[str], list[Finding]]:
    """The projects of a cluster, as far as they can be listed, and what is wrong with those whose shards answer."""
    opened = Store(url, timeout_ms)
    try:
        await opened.open(partly=True)
        names = sorted(await noted(opened) | await listed(opened.command_of))
        replies = [opened.command_of(name, "EXISTS", keys.project_prefix(name)) for name in names]
        found = await asyncio.gather(*replies, return_exceptions=True)
        return set(names), list(check_guard([name for name, reply in zip(names, found, strict=True) if reply == 1]))
    except (StoreError, ToolFailure):  # other checks say why
        return set(), []
    finally:
        await opened.close()


async def _check_queues(url: str, timeout_ms: int) -> list[Finding]:
    opened = await open_patiently(url, timeout_ms, partly=True, setting="steps.queue_url")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return [finding async for finding in queues.check(opened.client_of(keys.QUEUE))]
    except (RedisError, TimeoutError) as error:
        why = str(error) or f"nothing within {ANSWER_SECONDS:.0f} seconds"
        return [Finding("fails", "steps.queues", f"cannot read the queues of steps: {why}")]
    finally:
        await opened.close()


async def check_store(
    url: str,
    timeout_ms: int,
    expected: StoreIdentity | None = None,
    stated: Mapping[str, Connection] = {},
    gauges: Callable[[], Gauges] | None = None,
) -> list[Finding]:
    """What is found about the store, and in it.

    Args:
        stated: the connections of the settings.
        gauges: reads those that are looked at; None: the processes of others are not named.

    Raises:
        StoreError: it does not answer, or has another key space.
    """
    opened = await open_patiently(url, timeout_ms)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _measure(opened, expected or StoreIdentity(), stated, gauges)
    except KeySpaceDiffers:
        raise
    except (RedisError, StoreError, ToolFailure, TimeoutError) as error:
        why = str(error) or f"nothing within {ANSWER_SECONDS:.0f} seconds"
        raise StoreUnreachable(f"the store does not answer: {why}") from None
    finally:
        await opened.close()


async def _denied(opened: Store) -> list[str]:
    """What the user may not run; nothing, if the store has the layout of another release, which is found, too."""
    try:
        return await permissions.denied(opened)
    except ToolFailure as failure:
        if failure.code != "layout_unknown":
            raise
        return []


async def _measure(
    opened: Store, expected: StoreIdentity, stated: Mapping[str, Connection], gauges: Callable[[], Gauges] | None
) -> list[Finding]:
    client = opened.client
    waits = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        await client.ping()
        waits.append((time.perf_counter() - began) * 1000)
    info = await client.info("all")
    offset = store.clock_offset(await client.time())
    try:
        config = await client.config_get("*")
    except RedisError:
        config = {}
    text = {_text(name): _text(value) for name, value in config.items()}
    key_version, denied = await key_space.noted(opened), await _denied(opened)
    try:
        await opened.ping()
    except ToolFailure as failure:
        refusal = failure.message
    else:
        refusal = ""
    try:
        drained = list(_drained(await Drains(opened).read()))
        left = [finding async for finding in items.check(opened)]
        running = await read_processes(opened)
        left += connections.check(running, stated)
        left += alerts.unseen(running, gauges()) if gauges is not None else ()
    except (ToolFailure, StoreError):  # other checks say why
        drained, left = [], []
    known = expected.known
    try:
        await expected.check(opened.ask)
        different = ""
    except StoreChanged as changed:
        different = str(changed)
    identity = _text(await opened.command("HGET", keys.identity.key(keys.FLEET), "id"))
    moment = int(await client.get(keys.moment.key(keys.FLEET)) or 0)
    findings = store.check(
        info,
        text,
        min(waits),
        offset,
        key_version,
        denied,
        refusal,
        identity=identity,
        known=known,
        changed=different,
        moment_ms=moment,
        in_cluster=opened.sharded,
    )
    if opened.sharded:
        marks = await look_at_all(opened.command_of, opened.identity)
        return [*findings, *check_marks(marks), *drained, *left]
    return [*findings, _failover(await opened.failover_problem()), *drained, *left]


def _failover(problem: str) -> Finding:
    if problem:
        return Finding("fails", "store.failover", problem, "lower redis_timeout_ms, or raise down-after-milliseconds")
    return Finding("ok", "store.failover", "a primary that froze is not trusted after a failover")


def _drained(scopes: Mapping[str, int]) -> Iterator[Finding]:
    """Reports drained scopes; the values are the start of their drains in ms."""
    for scope, began in sorted(scopes.items()):
        said = f"{scope} has taken no new work since {moment(began)}"
        alert = "DrainForgotten"
        yield Finding("warns", "fleet.drains", said, f"`{ending(scope)}` ends that", alert, page_of(alert))
    if not scopes:
        yield Finding("ok", "fleet.drains", "nothing is drained")


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
