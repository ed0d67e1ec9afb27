"""How much does the full front-end cost compared with a minimal server that does the same claim?

Calls ``claim_item`` on every server over 32 keep-alive connections, in turn, round after round, all
against one store (its log flushed each second, so that the disk, which all share, does not hide the
servers; ``always`` shows it): the front-end with everything on (idempotency, policy, metrics, events,
all protocol checks), the same with the keys that a host adds to the ``_meta`` of each call, the same
with authentication (a bearer token per call, checked against the actor), a bare ASGI handler on the
same store connection, one on redis-py's pool, the official SDK's server with the same claim, and
FastMCP with a no-op tool. Each server has its own core, the store and the load generator share the
others. Prints requests/s, p99 and the server's CPU time per request, and the ratios.

``--against REV`` only compares the front-end with that of another revision, each with a store of its own. Both are
started anew in each round, because one process costs up to a tenth more than another that does the same, for as long
as it lives; ratios are medians of the rounds' ratios.

    python -m benchmarks frontend [--against REV] [ROUNDS] [SECONDS] [FSYNC]
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple
from uuid import uuid4

from benchmarks.server import items_on
from benchmarks.support import (
    Load,
    add_items,
    checkout,
    console,
    core_kept_free,
    cpu_seconds,
    cpu_us,
    embedded,
    free_port,
    front_end,
    python,
    revision_in,
    running,
    table,
    until_listening,
    wrk,
)
from coordinator.identity.callers import token_edit
from coordinator.identity.callers.token_file import TokenEntry, digest_of, new_token
from coordinator.toolsets.items.contract.items import CreateItemsResult, ManageItems
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.tool import Call

CONNECTIONS = 32
_SCRIPT = Path(__file__).with_name("claim.lua")
FRONT = "front-end"
HOST = "front-end, host's _meta"
BEARER = "front-end, bearer token"


class Server(NamedTuple):
    """One side of the comparison."""

    name: str
    port: int
    pid: int
    path: str
    era: str
    tokens: tuple[str, ...] = ()
    """Tokens of the agents."""


class Run(NamedTuple):
    """One run against one server."""

    load: Load
    cpu_us: float
    """CPU time of the server per request."""


async def create_items(url: str, count: int) -> list[str]:
    """Creates items to claim; returns their ids."""
    async with items_on(url) as (tools, _):
        args = ManageItems(operation="create", items=[ItemSpec(title=f"item {n}") for n in range(count)])
        made = await tools["manage_items"].handler(Call("default"), args)
        assert isinstance(made, CreateItemsResult)
        return [item.id for item in made.items]


def _start(stack: contextlib.ExitStack, url: str) -> list[Server]:
    plain = stack.enter_context(front_end(url, log_level="warning"))
    servers = [
        Server(name, plain.port, plain.pid, "/mcp/items", era)
        for name, era in ((FRONT, "modern"), (HOST, "host"), ("front-end, old wire", "legacy"))
    ]
    tokens = plain.folder / "tokens.json"
    made = tuple(_token(tokens, f"agent-{number + 1}") for number in range(CONNECTIONS))
    guarded = stack.enter_context(front_end(url, log_level="warning", auth_mode="required", auth_tokens=tokens))
    servers.append(Server(BEARER, guarded.port, guarded.pid, "/mcp/items", "modern", made))
    for kind in ("bare-link", "bare-pool", "sdk", "sdk-hint", "fastmcp"):
        port = free_port()
        process = stack.enter_context(running(*python("-m", "benchmarks.servers", kind, str(port), url)))
        until_listening(port)
        servers.append(Server(kind, port, process.pid, "/mcp", "modern"))
    return servers


def _token(file: Path, agent: str) -> str:
    """A new token of an agent."""
    token = new_token()
    token_edit.add(file, TokenEntry(id=agent, sha256=digest_of(token.encode()).hex(), permissions=("items",)))
    return token


def measure(server: Server, items: list[str], seconds: float) -> Run:
    """One run against one server."""
    os.environ["BENCH_ITEMS"] = ",".join(items)
    os.environ["BENCH_ERA"] = server.era
    os.environ["BENCH_TOKENS"] = ",".join(server.tokens)
    os.environ["BENCH_SEED"] = str(random.getrandbits(31))
    before = cpu_seconds(server.pid)
    load = wrk(f"http://127.0.0.1:{server.port}{server.path}", _SCRIPT, CONNECTIONS, seconds)
    return Run(load, (cpu_seconds(server.pid) - before) / load.requests * 1e6)


class Version(NamedTuple):
    """The front-end of a revision, and its store."""

    front: Server
    store: int
    """Process id."""
    items: list[str]


class Cost(NamedTuple):
    """What a request takes of CPU time, in us, and how many there are."""

    front_end_us: float
    store_us: float
    per_second: float


def _version(stack: contextlib.ExitStack, tree: Path | None, fsync: str) -> Version:
    store = stack.enter_context(embedded(fsync))
    front = stack.enter_context(front_end(store.url, tree, log_level="warning"))
    items = add_items(front.port, CONNECTIONS)
    return Version(Server(FRONT, front.port, front.pid, "/mcp/items", "modern"), store.pid or 0, items)


def _cost(version: Version, seconds: float) -> Cost:
    before = cpu_us(version.store)
    run = measure(version.front, version.items, seconds)
    return Cost(run.cpu_us, (cpu_us(version.store) - before) / run.load.requests, run.load.per_second)


def _compare(revision: str, rounds: int, seconds: float, fsync: str) -> None:
    """The front-end of this tree beside that of another revision."""
    found: dict[str, list[Cost]] = {"this tree": [], revision: []}
    with checkout(revision) as tree, core_kept_free() as give_core:
        for number in range(rounds):
            with contextlib.ExitStack() as stack:
                trees = {"this tree": None, revision: tree}
                names = list(trees) if number % 2 else [*reversed(trees)]
                versions = {name: _version(stack, trees[name], fsync) for name in names}
                for version in versions.values():
                    give_core(version.front.pid)
                    measure(version.front, version.items, 1)
                for name, version in versions.items():
                    found[name].append(_cost(version, seconds))
    columns = ("side", "front-end CPU us/request", "store CPU us/request", "requests/s")
    rows: list[tuple[object, ...]] = [
        (name, *(f"{median(part):,.1f}" for part in zip(*costs, strict=True))) for name, costs in found.items()
    ]
    ours, theirs = found.values()
    ratios = [[one / other for one, other in zip(*pair, strict=True)] for pair in zip(ours, theirs, strict=True)]
    rows.append(("ratio, by round", *(f"{median(part):.2f}x" for part in zip(*ratios, strict=True))))
    rows.append(("its range", *(f"{min(part):.2f} - {max(part):.2f}" for part in zip(*ratios, strict=True))))
    table(f"claim_item over HTTP, {CONNECTIONS} connections, median of {rounds} rounds", columns, rows)


def main(*arguments: str) -> None:
    """Runs the comparison; the arguments are those of the module's docstring."""
    given = list(arguments)
    revision = revision_in(given)
    rounds, seconds, fsync = (*given, *("5", "3", "everysec")[len(given) :])
    if revision is not None:
        _compare(revision, int(rounds), float(seconds), fsync)
        return
    runs: dict[str, list[Run]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        give_core = stack.enter_context(core_kept_free())
        store = stack.enter_context(embedded(fsync))
        items = asyncio.run(create_items(store.url, CONNECTIONS))
        servers = _start(stack, store.url)
        for server in servers:
            give_core(server.pid)
            measure(server, items, 1)
        for _ in range(int(rounds)):
            for server in servers:
                runs[server.name].append(measure(server, items, float(seconds)))
    _report(runs, int(rounds))


def _report(runs: dict[str, list[Run]], rounds: int) -> None:
    def ratio(of: str, to: str, figure: Callable[[Run], float]) -> float:
        return median([figure(one) / figure(other) for one, other in zip(runs[of], runs[to], strict=True)])

    def rate(run: Run) -> float:
        return run.load.per_second

    def p99(run: Run) -> float:
        return run.load.p99_ms

    def cpu(run: Run) -> float:
        return run.cpu_us

    rows = [
        (
            name,
            f"{median(map(rate, found)):,.0f}",
            f"{median(map(p99, found)):.2f}",
            f"{median(map(cpu, found)):.1f}",
            sum(run.load.errors for run in found),
        )
        for name, found in runs.items()
    ]
    title = f"claim_item over HTTP, {CONNECTIONS} connections, one process each, median of {rounds} rounds"
    table(title, ("server", "requests/s", "p99 ms", "server CPU us/request", "errors"), rows)
    others = [name for name in runs if not name.startswith(FRONT)]
    table(
        "the front-end against each, pairwise in each round",
        ("against", "requests/s ratio", "p99 ratio", "CPU ratio"),
        [(other, *(f"{ratio(FRONT, other, figure):.2f}x" for figure in (rate, p99, cpu))) for other in others],
    )
    console.print(
        f"a claim with a host's own keys in _meta takes {ratio(HOST, FRONT, cpu):.2f}x the CPU of one without "
        "(must 1.15x, goal 1.05x)"
    )
    more_us = median([bearer.cpu_us - plain.cpu_us for plain, bearer in zip(runs[FRONT], runs[BEARER], strict=True)])
    console.print(
        f"a claim with a bearer token takes {ratio(BEARER, FRONT, cpu):.2f}x the CPU of one without, {more_us:+.1f} us"
    )
    console.print(f"run {uuid4().hex[:8]}: goals >= 0.8x bare-link (p99 <= 1.5x), 2x bare-pool, 8x sdk, 12x fastmcp\n")
