"""Random batches of dependencies: each is rejected or applied as if its edges came one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.refusals import refused
from tests.items.client import Client, fresh_id, told
from tests.support import leaks

pytestmark = pytest.mark.anyio

ITEMS = 7
Link = tuple[int, int, str]
"""From, to, type."""

ends = st.integers(0, ITEMS - 1)
# Mostly blocking ones without cycles: otherwise nearly every batch would be rejected.
forward = st.tuples(ends, ends, st.just("BLOCKS")).map(lambda edge: (min(edge[:2]), max(edge[:2]), edge[2]))
backward = st.tuples(ends, ends, st.just("IS_BLOCKED_BY")).map(lambda edge: (max(edge[:2]), min(edge[:2]), edge[2]))
anything = st.tuples(ends, ends, st.sampled_from(("BLOCKS", "IS_BLOCKED_BY", "RELATES_TO")))
ordered = st.lists(st.one_of(forward, backward).filter(lambda edge: edge[0] != edge[1]), max_size=10, unique=True)
batches = st.one_of(
    ordered.filter(bool),
    st.lists(st.one_of(forward, backward, anything), min_size=1, max_size=6),
)
steps = st.one_of(
    st.tuples(st.just("link"), batches),
    st.tuples(st.just("link"), batches),
    st.tuples(st.just("unlink"), ends),
    st.tuples(st.just("complete"), ends),
    st.tuples(st.just("reopen"), ends),
)


def order(edge: Link) -> tuple[int, int] | None:
    """Blocker and blocked."""
    source, target, kind = edge
    return None if kind == "RELATES_TO" else (source, target) if kind == "BLOCKS" else (target, source)


def leads(edges: list[Link], start: int, goal: int) -> bool:
    """Whether `goal` waits for `start`."""
    seen, left = {start}, [start]
    while left:
        here = left.pop()
        for pair in map(order, edges):
            if pair and pair[0] == here and pair[1] not in seen:
                seen.add(pair[1])
                left.append(pair[1])
    return goal in seen


def problems(edges: list[Link], batch: list[Link]) -> list[tuple[int, str]]:
    """The problems of a batch's edges, each checked after the previous ones."""
    found, taken, named = [], list(edges), set(edges)
    for number, edge in enumerate(batch):
        pair = order(edge)
        if edge[0] == edge[1]:
            found.append((number, refused("self")))
        elif edge in named:
            found.append((number, refused("duplicate")))
        elif pair and leads(taken, pair[1], pair[0]):
            named.add(edge)
            found.append((number, refused("cycle")))
        else:
            named.add(edge)
            taken.append(edge)
    return found


@asynccontextmanager
async def a_project(redis_url: str) -> AsyncIterator[Client]:
    store = Store(redis_url, timeout_ms=5000)
    await store.open()
    tools = Client(store, f"t{fresh_id()[:13]}")
    try:
        yield tools
    finally:
        await store.close()
        with redis_client(parse(redis_url), tools.project) as client:
            leaks.delete_keys(client, tools.project)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, min_size=3, max_size=8))
async def test_batches_equal_their_edges_one_by_one(
    redis_url: str, history: list[tuple[str, list[Link] | int]]
) -> None:
    async with a_project(redis_url) as tools:
        ids = await tools.add_many(ITEMS, tags="a,b")
        edges: list[Link] = []
        done: set[int] = set()
        for kind, what in history:
            if kind == "link" and isinstance(what, list):
                specs = [{"fromItemId": ids[a], "toItemId": ids[b], "type": name} for a, b, name in what]
                answer = await tools("manage_dependencies", operation="create", dependencies=specs)
                expected = problems(edges, what)
                assert [entry for f in answer.get("failures", []) for entry in told(f)] == expected
                assert answer.get("failed", 0) == len(answer.get("failures", [])) == bool(expected)
                assert answer["created"] == (0 if expected else len(what))
                edges += [] if expected else what
            elif kind == "unlink" and isinstance(what, int):
                left = [edge for edge in edges if what not in edge[:2]]
                assert await tools.unlink(fromItemId=ids[what], deleteAll=True) == {
                    "itemId": ids[what],
                    "deleted": len(edges) - len(left),
                }
                edges = left
            elif isinstance(what, int):
                waits = any(pair[1] == what and pair[0] not in done for pair in map(order, edges) if pair)
                trigger = "complete" if kind == "complete" else "reopen"
                applied = (trigger == "reopen") == (what in done) and (trigger == "reopen" or not waits)
                assert (await tools.advance(ids[what], trigger))["applied"] == applied
                if applied:
                    done ^= {what}
            blocked = {pair[1] for pair in map(order, edges) if pair and pair[0] not in done} - done
            ready = set(range(ITEMS)) - blocked - done
            assert set(await tools.next(limit=20)) == {ids[number] for number in ready}
            assert not (await audit(tools.store, tools.project)).differences
