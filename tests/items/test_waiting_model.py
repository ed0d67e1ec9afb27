"""Random histories of parked calls: after every step nobody waits for an available item."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.store import keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.audit import states
from coordinator.toolsets.items.audit.agents import RECORD
from tests.items.client import Json, fresh_id
from tests.items.moments import lapse, ms
from tests.items.parked import SOON, Front, Fronts, Parked
from tests.items.selectors import Model, Thing
from tests.support import leaks
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

AGENTS = ("a", "b", "c", "a/1")
SELECTORS: tuple[Json, ...] = (
    {},
    {"tags": "api"},
    {"role": "work"},
    {"priority": "high", "orderBy": "newest"},
    {"complexityMax": 5},
    {"assignee": "a"},
)

agents = st.sampled_from(AGENTS)
index = st.integers(0, 50)
item = st.fixed_dictionaries(
    {"parent": st.none() | index, "role": st.sampled_from(("queue", "queue", "work", "review"))},
    optional={
        "priority": st.sampled_from(("high", "low")),
        "tags": st.sampled_from(("api", "ui")),
        "complexity": st.integers(1, 10),
        "assignee": agents,
    },
)
steps = st.one_of(
    st.tuples(st.just("park"), agents, st.sampled_from(SELECTORS)),
    st.tuples(st.just("park"), agents, st.sampled_from(SELECTORS)),
    st.tuples(st.just("park_below"), agents, st.sampled_from(("parentId", "ancestorId")), index),
    st.tuples(st.just("leave"), index),
    st.tuples(st.just("add"), st.lists(item, min_size=1, max_size=3)),
    st.tuples(st.just("claim"), agents, index),
    st.tuples(st.just("release"), agents),
    st.tuples(st.just("lapse"), agents),
    st.tuples(st.just("tag"), index, st.sampled_from(("api", "ui", None))),
    st.tuples(st.just("assign"), index, st.none() | agents),
    st.tuples(st.just("move"), index, st.none() | index),
    st.tuples(st.just("link"), index, index),
    st.tuples(st.just("advance"), agents, index, st.sampled_from(("start", "complete", "block", "resume", "reopen"))),
    st.tuples(st.just("delete"), index),
)


class World:
    """Two front-ends, their parked calls, and the items."""

    def __init__(self, pair: tuple[Front, Front]) -> None:
        self.pair = pair
        self.tools = pair[0]
        self.ids: list[str] = []
        self.edges: dict[tuple[str, str], str] = {}
        self.waiting: list[tuple[Parked, Json]] = []
        self.turn = 0

    def pick(self, number: int) -> str:
        return self.ids[number % len(self.ids)] if self.ids else fresh_id()

    async def held(self) -> dict[str, str]:
        """Agent -> the item it holds."""
        flat = await self.tools.store.command("HGETALL", keys.agents.key(self.tools.project))
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        inner = {item.replace("-", ""): item for item in self.ids}
        return {agent.decode(): inner[item.decode()] for agent, item in pairs if not agent.startswith(RECORD)}

    async def model(self) -> Model:
        """The current items."""
        holders = {item: agent for agent, item in (await self.held()).items()}
        model = Model(edges=self.edges)
        for item in self.ids:
            seen = await self.tools.get(item)
            stored = await self.tools.store.command("HGETALL", keys.item.key(self.tools.project, item.replace("-", "")))
            pairs = stored.items() if isinstance(stored, dict) else zip(stored[::2], stored[1::2], strict=True)
            fields = {name.decode(): value.hex() if name == b"w" else value.decode() for name, value in pairs}
            tags = set((seen.get("tags") or "").split(",")) - {""}
            model.things[item] = Thing(
                item, seen.get("parentId"), seen["role"], seen["priority"], seen["complexity"], tags, None,
                ms(seen["createdAt"]), ms(seen["roleChangedAt"]), holders.get(item), states.abandoned(fields),
                assignee=seen.get("assignee"),
            )  # fmt: skip
        return model

    async def do(self, step: tuple[Any, ...]) -> None:
        what, *words = step
        front = self.pair[self.turn % 2]
        self.turn += 1
        await getattr(self, what)(front, *words)

    async def park(self, front: Front, agent: str, selector: Json) -> None:
        call = front.begin(agent, selector, wait_ms=60_000)

        async def settled() -> bool:
            return not call.waits or await front.is_parked(call)

        await wait_until(settled, SOON, "the call to be parked or answered")
        self.waiting.append((call, selector))

    async def park_below(self, front: Front, agent: str, scope: str, number: int) -> None:
        if self.ids:
            await self.park(front, agent, {scope: self.pick(number)})

    async def leave(self, front: Front, number: int) -> None:
        if self.waiting:
            call, _ = self.waiting.pop(number % len(self.waiting))
            await call.leave()

            async def gone() -> bool:
                return not await front.is_parked(call)

            await wait_until(gone, SOON, "its place to be free")

    async def add(self, front: Front, items: list[Json]) -> None:
        specs = []
        for number, drawn in enumerate(items):
            spec = {"title": str(number), **drawn}
            parent = spec.pop("parent")
            specs.append(spec if parent is None or not self.ids else {**spec, "parentId": self.pick(parent)})
        made = (await front.create(*specs)).get("items", [])  # too deep a one is refused
        self.ids += [item["id"] for item in made]

    async def claim(self, front: Front, agent: str, number: int) -> None:
        await front.claim(agent, self.pick(number))

    async def release(self, front: Front, agent: str) -> None:
        held = (await self.held()).get(agent)
        if held:
            assert (await front.release(agent, held))["outcome"] == "success"

    async def lapse(self, front: Front, agent: str) -> None:
        held = (await self.held()).get(agent)
        if held:
            await lapse(front, held)
            await front.next()  # puts it back, if the front-ends have not done so already
            await front.release(agent, held)  # another agent may have it by now

    async def tag(self, front: Front, number: int, tags: str | None) -> None:
        await front.update(self.pick(number), tags=tags)

    async def assign(self, front: Front, number: int, name: str | None) -> None:
        await front.update(self.pick(number), assignee=name)

    async def move(self, front: Front, number: int, parent: int | None) -> None:
        await front.update(self.pick(number), parentId=None if parent is None else self.pick(parent))

    async def link(self, front: Front, one: int, other: int) -> None:
        low, high = sorted((one % (len(self.ids) or 1), other % (len(self.ids) or 1)))
        if low < high and (self.ids[low], self.ids[high]) not in self.edges:
            await front.link(self.ids[low], self.ids[high])
            self.edges[self.ids[low], self.ids[high]] = "terminal"

    async def advance(self, front: Front, agent: str, number: int, trigger: str) -> None:
        await front.advance(self.pick(number), trigger, agent)

    async def delete(self, front: Front, number: int) -> None:
        item = self.pick(number)
        if (await front.delete(item)).get("deleted"):
            self.ids.remove(item)
            self.edges = {edge: threshold for edge, threshold in self.edges.items() if item not in edge}

    async def check(self) -> None:
        """Calls no longer parked have a matching item; for parked ones none is available."""
        for entry in list(self.waiting):
            call, _ = entry
            if not await self.tools.is_parked(call):
                self.waiting.remove(entry)
                assert await call.item() in self.ids
        model = await self.model()
        for call, selector in self.waiting:
            assert call.waits
            assert model.found(selector, call.agent) == [], f"{call.agent} waits for {selector}"


@asynccontextmanager
async def a_world(redis_url: str) -> AsyncIterator[World]:
    """A project that is audited and deleted afterwards."""
    fronts = Fronts(redis_url, f"t{fresh_id()[:13]}")
    pair = await fronts.pair()
    try:
        yield World(pair)
    except BaseException:
        with suppress(AssertionError):
            await fronts.close()
        raise
    else:
        await fronts.close()
    finally:
        with redis_client(parse(redis_url), pair[0].project) as client:
            leaks.delete_keys(client, pair[0].project)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, min_size=8, max_size=24))
async def test_nobody_waits_for_an_available_item(redis_url: str, history: list[tuple[Any, ...]]) -> None:
    async with a_world(redis_url) as world:
        for step in history:
            await world.do(step)
            await world.check()
