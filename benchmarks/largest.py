"""How long do the largest allowed calls block the store?

Makes each of the largest calls several times, on its own items among others that were loaded, and
prints the time of the longest script of a call from the server's slow log: the median of the runs and
the longest. It is wall time, so a busy machine affects the longest more than the median. As a measure
of the machine's speed, it also prints the time of a loop of 1,000 GET in a script.

    python -m benchmarks largest [ITEMS] [RUNS]
    python -m benchmarks largest 100000 9
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any
from uuid import uuid4

import msgspec
import uvloop

from benchmarks.loader import PROJECT, Shape, servers
from benchmarks.server import Server, Slow, items_on
from benchmarks.support import Failed, accepted, console, table
from coordinator.store.keys import waiter
from coordinator.toolsets.tool import Call, Tool

GOAL_MS = 5.0
_SLOW_US = 100
_LOOP = "for _ = 1, 1000 do redis.call('GET', KEYS[1]) end"
Json = dict[str, Any]
Edges = list[tuple[str, str]]


class Caller:
    """Calls tools of the items through their handlers."""

    def __init__(self, tools: dict[str, Tool], server: Server) -> None:
        self._tools = tools
        self._server = server
        self._agents = 0

    async def call(self, name: str, **arguments: Any) -> Json:
        """The result of one call, as plain JSON."""
        tool = self._tools[name]
        result = await tool.handler(Call(PROJECT), msgspec.convert(arguments, tool.arguments))
        found: Json = msgspec.to_builtins(result)
        accepted(name, found)
        return found

    def actor(self) -> Json:
        """A new agent."""
        self._agents += 1
        return {"id": f"agent-{self._agents}", "kind": "subagent"}

    async def create(self, count: int, **fields: Any) -> list[str]:
        """Ids of new items."""
        ids: list[str] = []
        while len(ids) < count:
            items = [{"title": f"item {n}", **fields} for n in range(min(count - len(ids), 50))]
            made = await self.call("manage_items", operation="create", items=items)
            ids += [item["id"] for item in made["items"]]
        return ids

    async def link(self, edges: Edges) -> None:
        """Adds dependencies, in one call."""
        pairs = [{"fromItemId": one, "toItemId": other} for one, other in edges]
        await self.call("manage_dependencies", operation="create", dependencies=pairs)

    async def parked(self, count: int) -> None:
        """Waits until ``count`` calls are parked."""
        found = 0
        for _ in range(600):
            found = sum(1 for _ in self._server.client.scan_iter(waiter.key(PROJECT, "*"), count=10_000))
            if found >= count:
                return
            await asyncio.sleep(0.05)
        raise Failed(f"{found} of {count} calls are parked")

    async def chain(self, ids: Sequence[str]) -> None:
        """Makes each depend on the one before it; in calls of 100, which are short."""
        for start in range(0, len(ids) - 1, 100):
            part = ids[start : start + 101]
            await self.link(list(pairwise(part)))


Prepared = Callable[[], Awaitable[object]]
"""The call to measure, after its setup."""


def _marked(tags: int) -> dict[str, str]:
    return {"tags": ",".join(f"topic-{n}" for n in range(tags))} if tags else {}


async def _edges(caller: Caller, edges: Callable[[list[str]], Edges]) -> Prepared:
    found = edges(await caller.create(151))
    return lambda: caller.link(found)


async def _tree(caller: Caller, tags: int) -> Prepared:
    marked = _marked(tags)
    children = [{"ref": f"t{n}", "title": f"task {n}", **marked} for n in range(124)]
    arguments = {"root": {"title": "tree", **marked}, "children": children}
    return lambda: caller.call("create_work_tree", actor=caller.actor(), **arguments)


async def _noted_tree(caller: Caller) -> Prepared:
    children = [{"ref": f"t{n}", "title": f"task {n}"} for n in range(124)]
    notes = [
        {"itemRef": f"t{n % 124}", "key": f"note-{n // 124}", "role": "work", "body": "x" * 310} for n in range(600)
    ]
    arguments = {"root": {"title": "tree"}, "children": children, "notes": notes}
    return lambda: caller.call("create_work_tree", actor=caller.actor(), **arguments)


async def _long_tree(caller: Caller) -> Prepared:
    children = [{"ref": f"t{n}", "title": f"task {n}", "description": "x" * 1_550} for n in range(124)]
    return lambda: caller.call("create_work_tree", actor=caller.actor(), root={"title": "tree"}, children=children)


async def _long_note(caller: Caller) -> Prepared:
    (item,) = await caller.create(1)
    note = {"itemId": item, "key": "long", "role": "work", "body": "x" * 500_000}
    return lambda: caller.call("manage_notes", operation="upsert", actor=caller.actor(), notes=[note])


async def _long_item(caller: Caller) -> Prepared:
    text = "x" * 499_900
    item = {"title": "long", "description": text, "metadata": text, "properties": f'{{"text": "{text}"}}'}
    return lambda: caller.call("manage_items", operation="create", items=[item])


async def _awaited_tree(caller: Caller) -> Prepared:
    async def wait() -> Json:
        claim = {"selector": {"type": "awaited"}}
        return await caller.call(
            "claim_item", actor=caller.actor(), requestId=str(uuid4()), claims=[claim], waitMs=60_000
        )

    waiting = asyncio.gather(*(wait() for _ in range(124)))
    await caller.parked(124)
    children = [{"ref": f"t{n}", "title": f"task {n}", "type": "awaited"} for n in range(124)]

    async def make() -> None:
        await caller.call("create_work_tree", actor=caller.actor(), root={"title": "tree"}, children=children)
        await waiting

    return make


async def _hub(caller: Caller, edges: int, **fields: Any) -> str:
    """An item that ``edges`` items wait for."""
    (hub,) = await caller.create(1)
    others = await caller.create(edges, **fields)
    for start in range(0, edges, 100):
        await caller.link([(hub, other) for other in others[start : start + 100]])
    return hub


async def _finish(caller: Caller, edges: int, tags: int = 0) -> Prepared:
    hub = await _hub(caller, edges, **_marked(tags))
    return lambda: caller.call(
        "advance_item", transitions=[{"itemId": hub, "trigger": "complete", "actor": caller.actor()}]
    )


async def _remove(caller: Caller, edges: int) -> Prepared:
    hub = await _hub(caller, edges)
    return lambda: caller.call("manage_items", operation="delete", ids=[hub])


async def _part(caller: Caller, edges: int) -> Prepared:
    hub = await _hub(caller, edges)
    return lambda: caller.call("manage_dependencies", operation="delete", fromItemId=hub, deleteAll=True)


async def _join(caller: Caller, length: int) -> Prepared:
    first, second = await caller.create(length), await caller.create(length)
    await caller.chain(first)
    await caller.chain(second)
    return lambda: caller.link([(first[-1], second[0])])


async def _move(caller: Caller, count: int) -> Prepared:
    (top, target) = await caller.create(2)
    await caller.create(count, parentId=top)
    return lambda: caller.call("manage_items", operation="update", items=[{"id": top, "parentId": target}])


async def _delete(caller: Caller, count: int) -> Prepared:
    (top,) = await caller.create(1)
    await caller.create(count, parentId=top)
    return lambda: caller.call("manage_items", operation="delete", ids=[top], recursive=True)


async def _complete(caller: Caller, count: int) -> Prepared:
    (top,) = await caller.create(1)
    await caller.create(count, parentId=top)
    return lambda: caller.call("complete_tree", rootId=top, actor=caller.actor())


CASES: dict[str, Callable[[Caller], Awaitable[Prepared]]] = {
    "150 edges, a chain": lambda c: _edges(c, lambda ids: list(pairwise(ids))),
    "150 edges, a chain from its end": lambda c: _edges(c, lambda ids: list(zip(ids[1:], ids, strict=False))[::-1]),
    "150 edges, all to one": lambda c: _edges(c, lambda ids: [(one, ids[0]) for one in ids[1:]]),
    "tree of 125": lambda c: _tree(c, 0),
    "tree of 125 with 32 tags each": lambda c: _tree(c, 32),
    "tree of 125 with 600 notes, 190 kB": _noted_tree,
    "tree of 125 with descriptions of 190 kB": _long_tree,
    "a note of 500 kB": _long_note,
    "an item with texts of 1.5 MB": _long_item,
    "tree of 125 that 124 calls wait for": _awaited_tree,
    "complete an item that 500 wait for": lambda c: _finish(c, 500),
    "the same, with 32 tags each": lambda c: _finish(c, 500, 32),
    "complete an item that 600 wait for": lambda c: _finish(c, 600),
    "delete an item that 600 wait for": lambda c: _remove(c, 600),
    "delete the 600 edges of an item": lambda c: _part(c, 600),
    "an edge that joins two chains of 1,000": lambda c: _join(c, 1000),
    "move a subtree of 700": lambda c: _move(c, 699),
    "delete a subtree of 1,000": lambda c: _delete(c, 1000),
    "complete a tree of 1,000": lambda c: _complete(c, 1000),
}


async def _runs(url: str, runs: int) -> tuple[dict[str, list[Slow]], float]:
    found: dict[str, list[Slow]] = {name: [] for name in CASES}
    loops = []
    async with items_on(url) as (tools, server):
        loop = server.client.script_load(_LOOP)
        caller = Caller(tools, server)
        for _ in range(runs + 1):
            for name, prepare in CASES.items():
                call = await prepare(caller)
                server.watch_slow(_SLOW_US)
                await call()
                found[name].append(server.slowest() or Slow("", 0.0))
            began = time.perf_counter()
            server.client.evalsha(loop, 1, "none")
            loops.append((time.perf_counter() - began) * 1e6)
    return {name: each[1:] for name, each in found.items()}, median(loops)


def main(items: str = "10000", runs: str = "3") -> None:
    """Loads, measures and prints."""
    with servers(items, Shape(tags=2, typed=True)) as urls:
        found, loop_us = uvloop.run(_runs(urls[int(items)], int(runs)))
    rows = []
    for name, each in found.items():
        longest = max(each, key=lambda slow: slow.ms)
        rows.append((name, longest.script, f"{median([slow.ms for slow in each]):.1f}", f"{longest.ms:.1f}"))
    table(
        f"The largest calls among {int(items):,} items, {runs} runs",
        ("call", "script", "median ms", "longest ms"),
        rows,
    )
    console.print(f"goal <= {GOAL_MS} ms; here a script needs {loop_us:.0f} us for 1,000 GET\n")
