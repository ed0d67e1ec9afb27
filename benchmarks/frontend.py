"""How much does the full front-end cost compared with a minimal server that does the same claim?

Calls ``claim_item`` on every server over 32 keep-alive connections (``load``), in turn, round after round, all
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

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.load import CLAIMED, CONNECTIONS, FIGURES, Run, Server, agent, measure
from benchmarks.support import (
    add_items,
    checkout,
    console,
    core_kept_free,
    cpu_us,
    embedded,
    free_port,
    front_end,
    in_turns,
    middle,
    ratio,
    revision_in,
    running,
    table,
    until_listening,
)
from coordinator.identity.callers import token_edit
from coordinator.identity.callers.token_file import TokenEntry, digest_of, new_token

FRONT = "front-end"
HOST = "front-end, host's _meta"
BEARER = "front-end, bearer token"
RIVALS = ("bare-link", "bare-pool", "sdk", "sdk-hint", "fastmcp")
_WARM_SECONDS = 1.0


def _start(stack: contextlib.ExitStack, url: str) -> list[Server]:
    plain = stack.enter_context(front_end(url, log_level="warning"))
    tokens = plain.folder / "tokens.json"
    made = [_token(tokens, agent(number)) for number in range(1, CONNECTIONS + 1)]
    guarded = stack.enter_context(front_end(url, log_level="warning", auth_mode="required", auth_tokens=tokens))
    return [
        Server(FRONT, plain.port, [plain.pid]),
        Server(HOST, plain.port, [plain.pid], wire="host"),
        Server("front-end, old wire", plain.port, [plain.pid], wire="legacy"),
        Server(BEARER, guarded.port, [guarded.pid], tokens=made),
        *(stack.enter_context(_rival(kind, url)) for kind in RIVALS),
    ]


@contextlib.contextmanager
def _rival(kind: str, url: str) -> Iterator[Server]:
    port = free_port()
    with running("benchmarks.servers.__main__", kind, str(port), url) as process:
        until_listening(port)
        yield Server(kind, port, [process.pid], "/mcp", expects=b'"claimed":1' if kind == "fastmcp" else CLAIMED)


def _token(file: Path, agent: str) -> str:
    """A new token of an agent."""
    token = new_token()
    token_edit.add(file, TokenEntry(id=agent, sha256=digest_of(token.encode()).hex(), permissions=("items",)))
    return token


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
    return Version(Server(FRONT, front.port, [front.pid]), store.pid or 0, items)


def _cost(version: Version, seconds: float) -> Cost:
    before = cpu_us(version.store)
    run = measure(version.front, version.items, seconds)
    return Cost(run.cpu_us, (cpu_us(version.store) - before) / run.requests, run.per_second)


def _compare(revision: str, rounds: int, seconds: float, fsync: str) -> None:
    """The front-end of this tree beside that of another revision."""
    found: dict[str, list[Cost]] = {"this tree": [], revision: []}
    with checkout(revision) as tree, core_kept_free() as give_core:
        trees = {"this tree": None, revision: tree}
        for number in range(rounds):
            with contextlib.ExitStack() as stack:
                versions = {name: _version(stack, trees[name], fsync) for name in in_turns(trees, number)}
                for version in versions.values():
                    give_core(version.front.pids[0])
                    measure(version.front, version.items, min(seconds, _WARM_SECONDS))
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
    with core_kept_free() as give_core, embedded(fsync) as store, contextlib.ExitStack() as stack:
        servers = _start(stack, store.url)
        items = add_items(servers[0].port, CONNECTIONS)
        for server in servers:
            give_core(server.pids[0])
            measure(server, items, min(float(seconds), _WARM_SECONDS))
        for _ in range(int(rounds)):
            for server in servers:
                runs[server.name].append(measure(server, items, float(seconds)))
    _report(runs, int(rounds))


def _report(runs: dict[str, list[Run]], rounds: int) -> None:
    table(
        f"claim_item over HTTP, {CONNECTIONS} connections, one process each, median of {rounds} rounds",
        ("server", "requests/s", "p99 ms", "server CPU us/request"),
        [
            (name, *(f"{middle(found, figure):,.{digits}f}" for figure, digits in FIGURES.items()))
            for name, found in runs.items()
        ],
    )
    front = runs[FRONT]
    table(
        "the front-end against each, pairwise in each round",
        ("against", "requests/s ratio", "p99 ratio", "CPU ratio"),
        [(rival, *(f"{ratio(front, runs[rival], figure):.2f}x" for figure in FIGURES)) for rival in RIVALS],
    )
    host, bearer = (ratio(runs[name], front, "cpu_us") for name in (HOST, BEARER))
    more_us = median(signed.cpu_us - plain.cpu_us for plain, signed in zip(front, runs[BEARER], strict=True))
    console.print(
        f"a claim with a host's own keys in _meta takes {host:.2f}x the CPU of one without (must 1.15x, goal 1.05x)\n"
        f"a claim with a bearer token takes {bearer:.2f}x the CPU of one without, {more_us:+.1f} us\n"
        "goals >= 0.8x bare-link (p99 <= 1.5x), 2x bare-pool, 8x sdk, 12x fastmcp\n"
    )
