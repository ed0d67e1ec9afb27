"""What does one work item cost, from claim to completion: the store's CPU and the front-end's?

Agents over HTTP claim the best item with a tag, start it and complete it, with request ids and the claim's fence, until
no item is left. One front-end; the store writes to disk before each answer. CPU times are the kernel's accounting of
the two processes, per finished item. Another row shows a store with one call for each item: complete the last one,
claim the next, start it (``take_next.lua``). On the same server, a minimal pair of scripts that claims and completes
(``lua/plain_claim.lua``, ``plain_complete.lua``) shows the lower bound; not on those of the trees that are compared,
because its items would make one of them larger than the other.

The agents are written by hand, not with the client library: their CPU time is missing to store and front-end on the
same cores, and they make the same calls on every revision. ``benchmarks.client`` compares them with the library.

``--against REV`` drives the same load in turn on a checkout of that revision, with a separate store. Each round starts
new fleets; ratios are medians of the rounds' ratios.

``--all`` measures what the optional parts of calls cost together: agents that use none of them against agents that
use all of them, in turn, each on a store of its own with the same items. Every second item depends on the one before
it, and agents release every twentieth item that they have begun. Agents that use everything have the item, its notes
and the results of its blockers included in each claim, name capabilities, of which each item requires one, complete
each item with a result in JSON, and say of what they release that they have failed, which counts as an attempt. With
``--against REV``, agents that use none of them also drive that revision, which may know nothing of them.

``--resources`` does the same for items that need two resources and agents that report usage when they complete one.

``--client`` measures what agents cost that use the client library: ``fleet.work`` in a process of its own, with a slot
for each agent (``by_client.py``). With ``--against REV`` each front-end is called by the client of its own tree, so the
ratios also count calls that the client no longer makes.

    python -m benchmarks loop [--all | --resources | --client] [--against REV] [ROUNDS] [ITEMS] [AGENTS]
    python -m benchmarks loop --against HEAD~1 7 4000 32
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import uvloop

from benchmarks.rivals.cycles import Cycles, PlainCalls
from benchmarks.support import (
    Failed,
    accepted,
    add_items,
    checkout,
    console,
    cpu_us,
    embedded,
    front_end,
    head,
    in_turns,
    middle,
    ratio,
    result_of,
    revision_in,
    table,
    url_of,
)
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.agents.take import Report, TakeStore, ends_of

TAG = "loop"
_TAGGED = Selector(tags=[TAG])
HERE, TOGETHER, BARE = "this tree", "one call per item", "bare scripts"
_STORE_ONLY = (TOGETHER, BARE)
THREE_CALLS = "Claim by tag, start, complete"
NOTHING, EVERYTHING, RESOURCES = "none of it", "all of it", "resources and usage"
_FLAGS = {"--all": EVERYTHING, "--resources": RESOURCES}
_FAILS_EVERY = 20


class Extras(NamedTuple):
    """The optional parts of calls that agents use."""

    item: dict[str, Any] = {}
    """Fields of each item."""
    claim: dict[str, Any] = {}
    release: dict[str, Any] = {}
    complete: dict[str, Any] = {}
    config: dict[str, Any] = {}
    """Settings of the front-end, as in its file."""
    bound: str = ""
    """Of the figures."""


NO_EXTRAS = Extras()
EXTRAS = {
    EVERYTHING: Extras(
        item={"requires": ["python"], "maxAttempts": 5, "retryBackoffSeconds": 0},
        claim={"include": ["item", "notes", "results"], "capabilities": ["linux", "python"]},
        release={"reason": "failed", "detail": "out of memory"},
        complete={"result": {"ok": True, "by": "agent-1", "files": [1, 2, 3]}},
        bound="goal: all of it <= 1.25x of the store's CPU before there was any of it",
    ),
    RESOURCES: Extras(
        item={"resources": [{"key": "gpu/0"}, {"key": "model/opus", "mode": "shared"}]},
        complete={"usage": {"inputTokens": 1200, "outputTokens": 300, "costMicroUsd": 2500, "model": "opus"}},
        config={"resources": {"gpu": 64, "gpu/0": 64}},
        bound="bound: resources and usage <= 1.5x of the store's CPU without them",
    ),
}


class Side(NamedTuple):
    """A fleet of one front-end."""

    name: str
    port: int
    front_end: int
    """Process id."""
    store: int
    """Process id."""
    tree: Path
    """What the front-end runs from."""


class Cost(NamedTuple):
    """CPU time per finished item."""

    store_us: float
    front_end_us: float


class HandWritten:
    """One keep-alive connection, one call at a time.

    Args:
        fails: whether it releases some of the items that it has begun.
        extras: the optional parts of calls that it uses.
        project: whose items it works on.
    """

    def __init__(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        fails: bool = False,
        extras: Extras = NO_EXTRAS,
        project: str = "default",
    ) -> None:
        self._head = head(f"/p/{project}/mcp/items")
        self._actor = {"id": name, "kind": "subagent"}
        self._reader, self._writer = reader, writer
        self._fails, self._extras = fails, extras

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        params = {"name": tool, "arguments": arguments}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        self._writer.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        top = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        answer = await self._reader.readexactly(int(top.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
        return accepted(tool, result_of(tool, answer)["structuredContent"], "no_match")

    async def _advance(self, trigger: str, item: str, fence: int, **more: Any) -> None:
        transition = {"itemId": item, "trigger": trigger, "actor": self._actor, "fenceToken": fence, **more}
        await self._call("advance_item", {"transitions": [transition], "requestId": str(uuid4())})

    async def _give_up(self, item: str) -> None:
        released = {"itemId": item, **self._extras.release}
        asked = {"actor": self._actor, "requestId": str(uuid4()), "releases": [released]}
        await self._call("claim_item", asked)

    async def work(self, until: float = math.inf) -> int:
        """Completes items until there are no more, or until a moment (``time.monotonic``); returns their number."""
        done = 0
        for begun in range(1, 10**9):
            if time.monotonic() > until:
                break
            claim = {"selector": {"tags": TAG}}
            asked = {"actor": self._actor, "requestId": str(uuid4()), "claims": [claim], **self._extras.claim}
            (taken,) = (await self._call("claim_item", asked))["claimResults"]
            if taken["outcome"] != "success":
                break
            await self._advance("start", taken["itemId"], taken["fenceToken"])
            if self._fails and begun % _FAILS_EVERY == 0:
                await self._give_up(taken["itemId"])
                continue
            await self._advance("complete", taken["itemId"], taken["fenceToken"], **self._extras.complete)
            done += 1
        return done

    async def work_by_one_call(self) -> int:
        """The same by one call per item, which ends the last one, claims the next and starts it."""
        releases: list[dict[str, Any]] = []
        for done in range(10**9):
            asked = {"actor": self._actor, "requestId": str(uuid4()), **self._extras.claim}
            asked |= {"claims": [{"selector": {"tags": TAG}}], "releases": releases, "start": True}
            (taken,) = (await self._call("claim_item", asked))["claimResults"]
            if taken["outcome"] != "success":
                return done
            releases = [{"itemId": taken["itemId"], "fenceToken": taken["fenceToken"], "reason": "done"}]
        return 0


async def _drain(port: int, agents: int, fails: bool = False, extras: Extras = NO_EXTRAS) -> int:
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(agents)]
    workers = [HandWritten(f"agent-{n}", *one, fails, extras) for n, one in enumerate(connections)]
    done = await asyncio.gather(*(worker.work() for worker in workers))
    for _, writer in connections:
        writer.close()
    return sum(done)


def measure(side: Side, items: int, agents: int, pairs: bool = False, by_client: bool = False) -> Cost:
    """Creates items and lets agents complete them; with ``pairs`` every second one depends on another, and agents
    release some. With ``by_client`` they use the client library."""
    extras = EXTRAS.get(side.name, NO_EXTRAS)
    add_items(side.port, items, pairs, tags=TAG, **extras.item)
    before = cpu_us(side.store), cpu_us(side.front_end)
    done = _by_client(side, agents) if by_client else uvloop.run(_drain(side.port, agents, pairs, extras))
    if done != items:
        raise Failed(f"{side.name}: {done} of {items} items were completed")
    return Cost((cpu_us(side.store) - before[0]) / items, (cpu_us(side.front_end) - before[1]) / items)


def _by_client(side: Side, agents: int) -> int:
    """Completes items with the client library of a side's tree; returns their number."""
    env = {**os.environ, "PYTHONPATH": str(side.tree), "PYTHONSAFEPATH": "1"}
    command = (sys.executable, str(Path(__file__).with_name("by_client.py")), url_of(side.port), TAG, str(agents))
    return int(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)


async def _take_together(url: str, agents: int) -> int:
    """Agents on one connection to the store, as in a front-end, with one call per item; returns the items completed."""
    store = Store(url)
    await store.open()
    work = TakeStore(store, Settings(), SchemaSource())
    author = '{"kind":"subagent"}', ""

    async def agent(name: str) -> int:
        report = None
        for done in range(10**9):
            taken = await work.begin("default", Claimant(name), 900_000, _TAGGED, author, 0, report=report)
            if report and (not taken.reported or taken.reported.outcome != "done"):
                raise Failed(f"{TOGETHER}: a report was refused: {taken.reported}")
            if not taken.claim or taken.claim.outcome != "success":
                return done
            report = Report(name, taken.claim.item, ends_of(name), author, "done", ("", "", False, ""))
        return 0

    counts = await asyncio.gather(*(agent(f"agent-{n}") for n in range(agents)))
    await store.close()
    return sum(counts)


@contextlib.contextmanager
def _side(name: str, tree: Path | None) -> Iterator[tuple[Side, str]]:
    """Runs a store and a front-end; also yields the store's URL."""
    with embedded("always") as store, front_end(store.url, tree, EXTRAS.get(name, NO_EXTRAS).config) as front:
        yield Side(name, front.port, front.pid, store.pid or 0, tree or Path(__file__).parent.parent), store.url


def main(*arguments: str) -> None:
    """Runs the rounds and prints; the arguments are those of the module's docstring."""
    given = list(arguments)
    against = revision_in(given)
    compared = next((name for flag, name in _FLAGS.items() if flag in given), None)
    by_client = "--client" in given
    given = [one for one in given if one not in (*_FLAGS, "--client")]
    rounds, items, agents = (int(value) for value in (*given, *("3", "1000", "16")[len(given) :]))
    if compared:
        _compare_extras(compared, rounds, items, agents, against)
        return
    with contextlib.ExitStack() as stack:
        trees: dict[str, Path | None] = {HERE: None}
        if against is not None:
            trees[against] = stack.enter_context(checkout(against))
        found: dict[str, list[Cost]] = {name: [] for name in (*trees, *(() if by_client else _STORE_ONLY))}
        for number in range(rounds):
            _measure_sides(found, trees, number, items, agents, by_client=by_client)
            if not by_client:
                _measure_store(found, items, agents)
    title = f"{items:,} items, {agents} agents, median of {rounds} rounds"
    _report(found, title, doing="fleet.work" if by_client else THREE_CALLS)


def _measure_sides(
    found: dict[str, list[Cost]],
    trees: dict[str, Path | None],
    number: int,
    items: int,
    agents: int,
    pairs: bool = False,
    by_client: bool = False,
) -> None:
    """One round on new fleets: the costs of one process differ from those of another by a tenth, for as long as it
    lives."""
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_side(name, trees[name]))[0] for name in in_turns(trees, number)]
        for side in sides:
            measure(side, items // 4, agents, pairs, by_client)  # warms up
        for side in sides:
            found[side.name].append(measure(side, items, agents, pairs, by_client))


def _measure_store(found: dict[str, list[Cost]], items: int, agents: int) -> None:
    """The same items with one call of the store for each, and with bare scripts."""
    with _side(TOGETHER, None) as (side, url):
        add_items(side.port, items // 4, tags=TAG)
        uvloop.run(_take_together(url, agents))  # warms up
        add_items(side.port, items, tags=TAG)
        before = cpu_us(side.store)
        if uvloop.run(_take_together(url, agents)) != items:
            raise Failed(f"{TOGETHER}: not all of {items} items were completed")
        found[TOGETHER].append(Cost((cpu_us(side.store) - before) / items, 0))
        plain = PlainCalls("bare")
        plain.fill(url, 2 * items)
        bare = Cycles(url, plain, agents)
        bare.run(items)  # warms up
        before = cpu_us(side.store)
        bare.run(items)
        found[BARE].append(Cost((cpu_us(side.store) - before) / items, 0))
        bare.close()


def _compare_extras(name: str, rounds: int, items: int, agents: int, against: str | None) -> None:
    """Agents that use these optional parts of calls beside agents that do not."""
    pairs = name == EVERYTHING
    with contextlib.ExitStack() as stack:
        trees: dict[str, Path | None] = {name: None, NOTHING: None}
        if against is not None:
            trees[against] = stack.enter_context(checkout(against))
        found: dict[str, list[Cost]] = {one: [] for one in trees}
        for number in range(rounds):
            _measure_sides(found, trees, number, items, agents, pairs)
    dependent = ", every second one dependent on another" if pairs else ""
    _report(found, f"{items:,} items{dependent}, {agents} agents, median of {rounds} rounds", name)
    console.print(f"{EXTRAS[name].bound}\n")


def _report(found: dict[str, list[Cost]], title: str, first: str = HERE, doing: str = THREE_CALLS) -> None:
    rows = []
    for name, costs in found.items():
        figures = Cost._fields[: 1 if name in _STORE_ONLY else 2]
        cells = [f"{middle(costs, figure):.0f}" for figure in figures]
        ratios = [f"{ratio(found[first], costs, figure):.2f}x" for figure in figures if name != first]
        rows.append([name, *cells, *[""] * (2 - len(cells)), *ratios, *[""] * (2 - len(ratios))])
    columns = ("side", "store CPU us/item", "front-end CPU us/item", "store, ratio to it", "front-end, ratio to it")
    table(f"{doing}: {title}", columns, rows)
    console.print("")
