"""The command ``fleet doctor``."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from redis.exceptions import RedisError

from coordinator.cli.commands import COMMANDS
from coordinator.cli.doctor import alerts, connections, host, items, queues, store
from coordinator.cli.doctor.alerts import Gauges
from coordinator.cli.doctor.cluster import check_cluster, check_guard, check_marks
from coordinator.cli.doctor.findings import Finding, lines_of, page_of
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, open_store, running_url, store_failed
from coordinator.cli.terminal import print_json
from coordinator.errors import ToolFailure
from coordinator.settings import LoadedSettings
from coordinator.settings.connections import Connection
from coordinator.store import (
    KeySpaceDiffers,
    Store,
    StoreChanged,
    StoreError,
    StoreIdentity,
    key_space,
    keys,
    permissions,
)
from coordinator.store.address import parse
from coordinator.store.cluster_facts import read_cluster
from coordinator.store.drains import Drains, ending
from coordinator.store.identity import identity_file
from coordinator.store.places import listed, look_at_all
from coordinator.store.processes import read_processes
from coordinator.store.project_list import noted
from coordinator.wording import moment

_PINGS = 5
NODE_SECONDS = 2.0
"""How long a node of a cluster may take to answer."""
ANSWER_SECONDS = 30.0
"""How long all queries to the store may take. They take a fraction of a second, unless the store hangs."""


@with_settings(listed=STORE_SETTINGS)
def doctor(
    loaded: LoadedSettings,
    *,
    verbose: Annotated[bool, Parameter(negative="", help="Also print the checks that pass.")] = False,
    format: Annotated[Literal["text", "json"], Parameter(help="How to print what was found.")] = "text",
) -> int:
    """Checks the store, this host, the settings and how connections go; the exit code is 0 only if all is well.

    Raises:
        CommandFailed: there is no store, or it does not answer.
    """
    findings = list(host.check(loaded.settings))
    url, timeout_ms = running_url(loaded.settings), loaded.settings.redis_timeout_ms
    file = identity_file(loaded.settings.data_dir, url)
    expected = StoreIdentity(file.read(), loaded.settings.store_id, accepted=file.accepted())
    # Imported here: it loads what checks the gateway's schemas, which other commands do not need.
    from coordinator.toolsets.gateway.rules.resolve import all_connections

    stated = all_connections(loaded.settings.gateway, loaded.settings.connections)
    # Read after the list of processes: of a fleet that starts meanwhile, none of them is taken for another host's.
    gauges = functools.cache(lambda: alerts.read_gauges(loaded.settings))
    findings += _check_stores(url, loaded.settings.steps.queue_url or url, timeout_ms, expected, stated, gauges)
    findings += alerts.check(gauges(), findings)
    shown = [finding for finding in findings if verbose or finding.verdict != "ok"]
    if format == "json":
        print_json(shown)
    else:
        for line in lines_of(shown):
            print(line)
    return Exit.FAILED if any(finding.verdict in ("warns", "fails") for finding in findings) else Exit.OK


def _check_stores(
    url: str,
    queue_url: str,
    timeout_ms: int,
    expected: StoreIdentity,
    stated: Mapping[str, Connection],
    gauges: Callable[[], Gauges],
) -> list[Finding]:
    """Raises CommandFailed as ``doctor``, but of a cluster only if no node answers."""
    address = parse(url)
    which = Finding("ok", "store.address", address.without_password)
    if not address.nodes:
        return [
            which,
            *asyncio.run(check_store(url, timeout_ms, expected, stated, gauges)),
            *asyncio.run(_check_queues(queue_url, timeout_ms)),
        ]
    try:
        facts = asyncio.run(read_cluster(address, NODE_SECONDS, count_strays=True))
    except StoreError as error:
        raise store_failed(error) from None
    check: Callable[[], Coroutine[Any, Any, list[Finding]]]
    projects, guards = asyncio.run(_check_projects(url, timeout_ms))
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
                raise CommandFailed("the shard that has them does not answer")
            findings += asyncio.run(check())
        except CommandFailed as failure:
            findings.append(Finding("fails", "cluster.nodes", f"not checked, or not further: {what}: {failure}"))
    return findings


async def _check_projects(url: str, timeout_ms: int) -> tuple[set[str], list[Finding]]:
    """The projects of a cluster, as far as they can be listed, and what is wrong with those whose shards answer."""
    opened = Store(url, timeout_ms)
    try:
        await opened.open(partly=True)
        names = sorted(await noted(opened) | await listed(opened.command_of))
        asked = [opened.command_of(name, "EXISTS", keys.project_prefix(name)) for name in names]
        found = await asyncio.gather(*asked, return_exceptions=True)
        return set(names), list(check_guard([name for name, reply in zip(names, found, strict=True) if reply == 1]))
    except (StoreError, ToolFailure):  # other checks say why
        return set(), []
    finally:
        await opened.close()


async def _check_queues(url: str, timeout_ms: int) -> list[Finding]:
    opened = await open_store(url, timeout_ms, partly=True, setting="steps.queue_url")
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
        CommandFailed: it does not answer, or has another key space.
    """
    opened = await open_store(url, timeout_ms)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _measure(opened, expected or StoreIdentity(), stated, gauges)
    except KeySpaceDiffers as error:
        raise CommandFailed(str(error)) from None
    except (RedisError, StoreError, ToolFailure, TimeoutError) as error:
        why = str(error) or f"nothing within {ANSWER_SECONDS:.0f} seconds"
        raise CommandFailed(f"the store does not answer: {why}", Exit.STORE_UNREACHABLE) from None
    finally:
        await opened.close()


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
    key_version, denied = await key_space.noted(opened), await permissions.denied(opened)
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
    except StoreChanged as found:
        different = str(found)
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


_IDENTITY = COMMANDS["doctor identity"]

app = App(name="doctor", help_format="plaintext", **COMMANDS["doctor"].page)
app.default(doctor)
app.command(_IDENTITY.target, name="identity", **_IDENTITY.page)
