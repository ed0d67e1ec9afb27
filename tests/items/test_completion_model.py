"""Random forests with random edges: complete_tree ends all allowed items, in an order allowed by the edges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.model import Model
from tests.items.model_parts import FORWARD, LABELS, MAX_DEPTH, Edge, Item
from tests.support import leaks

pytestmark = pytest.mark.anyio

GATED = {"work_item_schemas": {"bug": {"notes": [{"key": "plan", "role": "review", "required": True}]}}}
RUN = 3
"""Items that one run of the script completes in these tests, for many runs."""
THRESHOLDS = st.sampled_from([None, None, *FORWARD])
TYPES = st.sampled_from(["BLOCKS", "BLOCKS", "IS_BLOCKED_BY", "RELATES_TO"])
slots = st.integers(0, 11)
links = st.lists(st.tuples(slots, slots, TYPES, THRESHOLDS), min_size=2, max_size=12)
"""Two existing items, the older one first in any order of completion."""


class Planted(NamedTuple):
    """A tree: children, parent, edges, and gated items."""

    children: int
    below: int | None
    links: list[tuple[int, int, str, str | None]]
    gated: set[int]


class Completion(NamedTuple):
    """A call of complete_tree: on the items below one, or on all but some."""

    root: int | None
    left_out: set[int]
    include_root: bool
    cancel: bool
    agent: str


trees = st.builds(Planted, st.integers(0, 5), st.none() | slots, links, st.just(set()))
gated = st.builds(Planted, st.integers(0, 5), st.none() | slots, links, st.sets(st.integers(0, 2), max_size=2))
completions = st.builds(
    Completion,
    st.none() | slots,
    st.sets(slots, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "ann"]),
)
hindrances = st.lists(st.tuples(st.sampled_from(["start", "block", "ann", "bob"]), slots), max_size=6)


@asynccontextmanager
async def a_forest(redis_url: str) -> AsyncIterator[Forest]:
    """A separate project with short runs."""
    store = Store(redis_url, timeout_ms=5000)
    await store.open()
    forest = Forest(Client(store, f"t{fresh_id()[:13]}", msgspec.convert(GATED, Settings)))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("coordinator.toolsets.items.store.trees.COMPLETE_SLICE", RUN)
            yield forest
    finally:
        await store.close()
        with redis_client(parse(redis_url), forest.tools.project) as client:
            leaks.delete_keys(client, forest.tools.project)


def edges_of(given: list[tuple[int, int, str, str | None]], items: list[str]) -> Iterator[Edge]:
    """Edges without cycles: blocked items come later in the list."""
    seen = set()
    for one, other, kind, threshold in given:
        first, second = sorted((one % len(items), other % len(items)))
        ends = (second, first) if kind == "IS_BLOCKED_BY" else (first, second)
        if first != second and (*ends, kind) not in seen:
            seen.add((*ends, kind))
            yield Edge(items[ends[0]], items[ends[1]], kind, None if kind == "RELATES_TO" else threshold)


class Forest:
    """The project and its model."""

    def __init__(self, tools: Client) -> None:
        self.tools = tools
        self.model = Model()
        self.gated: set[str] = set()

    def at(self, slot: int) -> str:
        return list(self.model.items)[slot % len(self.model.items)]

    async def plant(self, tree: Planted) -> None:
        below = None if tree.below is None or not self.model.items else self.at(tree.below)
        if below and self.model.depth(below) + 2 > MAX_DEPTH:
            below = None
        refs = ["root", *(f"c{n}" for n in range(tree.children))]
        specs = [{"title": ref, "type": "bug" if n in tree.gated else None} for n, ref in enumerate(refs)]
        edges = list(edges_of(tree.links, refs))
        deps = [{"from": e.source, "to": e.target, "type": e.type, "unblockAt": e.threshold} for e in edges]
        children = [{"ref": ref, **spec} for ref, spec in zip(refs[1:], specs[1:], strict=True)]
        made = await self.tools("create_work_tree", root=specs[0], children=children, deps=deps, parentId=below)
        ids = {ref: node["id"] for ref, node in zip(refs, (made["root"], *made["children"]), strict=True)}
        for number, item in enumerate(ids.values()):
            shown = {"priority": "medium", "complexity": None}
            created = (await self.tools.get(item))["createdAt"]
            self.model.items[item] = Item(item, ids["root"] if number else below, shown, created)
            if number in tree.gated:
                self.gated.add(item)
        self.model.edges += [e._replace(source=ids[e.source], target=ids[e.target]) for e in edges]

    async def link(self, given: list[tuple[int, int, str, str | None]]) -> None:
        """Edges between the trees."""
        for edge in edges_of(given, list(self.model.items)):
            refusals = self.model.link([edge])
            fields = {"type": edge.type} | ({"unblockAt": edge.threshold} if edge.threshold else {})
            answer = await self.tools.try_link(edge.source, edge.target, **fields)
            assert answer["created"] == (not refusals)

    async def hinder(self, what: str, item: str) -> None:
        if what in ("ann", "bob"):
            await self.tools.claim(what, item)
            self.model.claim(what, [(item, None)])
        elif what == "block" or self.model.items[item].role == "queue":  # the model has no review
            applied = (await self.tools.advance(item, what))["applied"]
            assert applied == (not self.model.advance(item, what).refusal)

    async def complete(self, call: Completion) -> Json:
        """Calls and compares every result; the order must be one that the edges allow."""
        if call.root is not None:
            root = self.at(call.root)
            inner = {each for each in self.model.items if root in (above.id for above in self.model.above(each))}
            arguments: Json = {"rootId": root, "includeRoot": call.include_root}
            last = [root] if call.include_root else []
        else:
            inner = set(self.model.items) - {self.at(slot) for slot in call.left_out}
            arguments, last = {"itemIds": list(inner)}, []
        who = {"actor": actor(call.agent), "requestId": fresh_id()} if call.agent else {}
        trigger = "cancel" if call.cancel else "complete"
        arguments |= {"trigger": trigger, **who}
        if not inner and call.root is None:
            return {}
        answer = await self.tools("complete_tree", **arguments)
        order = [result["itemId"] for result in answer["results"]]
        assert order[len(inner) :] == last
        assert sorted(order[: len(inner)]) == sorted(inner)
        for edge in self.model.edges:
            if edge.type != "RELATES_TO" and {edge.blocker, edge.blocked} <= inner:
                assert order.index(edge.blocker) < order.index(edge.blocked)
        skip: set[str] = set()
        for result in answer["results"]:
            self.compare(result, trigger, call.agent, skip)
        if who:
            assert await self.tools("complete_tree", **arguments) == answer
        return answer

    def compare(self, result: Json, trigger: str, agent: str, skip: set[str]) -> None:
        item = self.model.items[result["itemId"]]
        claimed = item.holder not in ("", agent)
        waits = sum(self.holds_up(edge) for edge in self.model.edges if edge.blocked == item.id)
        spreads, expected = True, ""
        if item.id in skip:
            expected = "dependency gate failed"
        elif item.role == "terminal":
            spreads, expected = False, "already terminal"
        elif claimed:
            expected = "claimed by a different agent"
        elif trigger == "complete" and item.role == "blocked":
            spreads, expected = False, "Cannot transition"
        elif trigger == "complete" and waits:
            expected = f"{waits} blocking dependencies"
        elif trigger == "complete" and item.id in self.gated:
            expected = "missing: plan"
        if expected:
            (reason,) = result.get("gateErrors") or [result["skippedReason"]]
            assert reason.startswith(expected)
            assert not result["applied"]
            if spreads:
                skip |= {e.blocked for e in self.model.edges if e.type != "RELATES_TO" and e.blocker == item.id}
            return
        assert (result["applied"], result["trigger"], result["statusLabel"]) == (True, trigger, LABELS[trigger])
        item.role, item.label, item.previous = "terminal", LABELS[trigger], None

    def holds_up(self, edge: Edge) -> bool:
        role = self.model.items[edge.blocker].role
        needed = edge.threshold or "terminal"
        return edge.type != "RELATES_TO" and (role == "blocked" or FORWARD.index(role) < FORWARD.index(needed))

    async def agrees(self) -> None:
        """The project matches the model."""
        for item, known in self.model.items.items():
            shown = await self.tools.get(item)
            assert (shown["role"], shown.get("statusLabel")) == (known.role, known.label)
        expected = [item for item, _ in self.model.next("queue", None, 20, include_claimed=False)]
        assert await self.tools.next(limit=20) == expected
        report = await audit(self.tools.store, self.tools.project)
        assert (report.items, report.edges) == (len(self.model.items), len(self.model.edges))
        assert not report.differences


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(planted=st.lists(trees, min_size=1, max_size=4), between=links)
async def test_unhindered_items_are_all_completed(redis_url: str, planted: list[Planted], between: list[Any]) -> None:
    async with a_forest(redis_url) as forest:
        for tree in planted:
            await forest.plant(tree)
        await forest.link(between)
        answer = await forest.complete(Completion(None, set(), False, False, ""))
        total = len(forest.model.items)
        assert answer["summary"] == {"total": total, "completed": total, "skipped": 0, "gateFailures": 0}
        await forest.agrees()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    planted=st.lists(gated, min_size=1, max_size=4),
    between=links,
    hindered=hindrances,
    calls=st.lists(completions, min_size=1, max_size=3),
)
async def test_refusals_and_skips_match_the_model(
    redis_url: str, planted: list[Planted], between: list[Any], hindered: list[Any], calls: list[Completion]
) -> None:
    async with a_forest(redis_url) as forest:
        for tree in planted:
            await forest.plant(tree)
        await forest.link(between)
        for what, slot in hindered:
            await forest.hinder(what, forest.at(slot))
        for call in calls:
            await forest.complete(call)
        await forest.agrees()
