"""Large concurrent calls: items for parked calls, repairs undone by others, claims that expire together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Script, Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store import dependencies
from coordinator.toolsets.items.store.claims import ClaimStore
from tests.items.client import Client, Json
from tests.items.dying import hub, link_pairs
from tests.items.moments import lapse
from tests.items.parked import Front, Fronts, Parked
from tests.items.planting import SCHEMAS, plant
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

SOME = 60
"""Items that wait for a hub: more counts than its own script changes."""
AT_WORK: Json = {"role": "work", "parents": "any"}


def reopening(*clients: Client) -> None:
    """Items of a type return to work with a new child."""
    for client in clients:
        assert client.configure is not None
        client.configure(msgspec.convert(SCHEMAS, Settings))


@pytest.fixture
async def front(fronts: Fronts) -> Front:
    return await fronts.make()


async def still_waits(front: Front, call: Parked) -> None:
    """The call is parked, all debts are settled, and nobody has an item."""
    assert await front.next(role="work", includeClaimed=True) == []
    assert call.waits


async def add_child(tools: Client, parent: str) -> None:
    await tools.add(parentId=parent)


async def add_tree(tools: Client, parent: str) -> None:
    await plant(tools, parentId=parent)


@pytest.mark.parametrize("add", [add_child, add_tree])
async def test_a_parent_that_waits_again_after_a_new_child_is_not_handed_out(
    tools: Client, dying: Client, front: Front, add: Any
) -> None:
    reopening(tools, dying, front)
    parent = await tools.add(type="again")
    others = await tools.add_many(SOME)
    item = await hub(tools, [parent, *others])
    await tools.move(item, "complete")
    await tools.move(parent, "complete")
    call = await front.park("waiter", AT_WORK)
    assert (await dying.advance(item, "reopen"))["applied"]
    await add(tools, parent)
    assert await tools.role(parent) == "work"
    await still_waits(front, call)


async def test_a_parent_that_waits_for_its_reopened_child_is_not_handed_out(tools: Client, front: Front) -> None:
    parent = await tools.add()
    child = await tools.add(parentId=parent)
    others = await tools.add_many(SOME)
    await link_pairs(tools, [(child, other) for other in [parent, *others]])
    await tools.move(child, "complete")
    assert await tools.role(parent) == "terminal"
    call = await front.park("waiter", AT_WORK)
    (event,) = (await tools.advance(child, "reopen"))["cascadeEvents"]
    assert (event["itemId"], event["targetRole"]) == (parent, "work")
    await still_waits(front, call)


async def test_a_reopened_parent_that_waits_for_another_one_is_not_handed_out(tools: Client, front: Front) -> None:
    reopening(tools, front)
    first, second = await tools.add(type="again"), await tools.add(type="again")
    others = await tools.add_many(SOME)
    await link_pairs(tools, [(first, other) for other in [second, *others]])
    await tools.move(first, "complete")
    await tools.move(second, "complete")
    call, other_call = await front.park("waiter", AT_WORK), await front.park("other", AT_WORK)
    await tools.create({"title": "a", "parentId": first}, {"title": "b", "parentId": second})
    assert await call.item() == first
    assert await tools.next(role="work") == []
    assert other_call.waits


async def test_claims_that_expire_together_go_to_earlier_waiters_first(tools: Client, front: Front) -> None:
    items = await tools.add_many(12)
    for item in items:
        await tools.claim(f"holder of {item}", item)
    calls = [await front.park(f"waiter {n}") for n in range(len(items))]
    await front.kill()  # only the newcomer sweeps expired claims
    for item in items:
        await lapse(tools, item)
    assert (await take(tools, "newcomer"))["outcome"] == "no_match"
    holders = {(await tools("get_context", itemId=item))["claimDetail"]["claimedBy"] for item in items}
    assert holders == {call.agent for call in calls}


class Undone(Store):
    """A store in which repairs of levels are undone: before each attempt at an edge they are reset."""

    def __init__(self, url: str, times: int) -> None:
        super().__init__(url, timeout_ms=5000)
        self.levels: dict[str, bytes | None] = {}
        self._left = times

    async def run(self, script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        if script.name == "shift_levels" and not self.levels:
            pattern = keys.project_prefix(project) + keys.item.suffix.encode() + b":*"
            names = [name.decode() async for name in self.client.scan_iter(match=pattern)]
            self.levels = {name: await self.command("HGET", name, "lv") for name in names}
        if script.name == "create_dependencies" and self.levels and self._left:
            self._left -= 1
            for name, level in self.levels.items():
                await self.command("HSET", name, "lv", level or 0)
        return await super().run(script, project, *args, **more)


async def test_an_undone_repair_is_retried_with_backoff(
    tools: Client, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await tools.add_many(350), await tools.add_many(350)
    for ids in (first, second):
        await link_pairs(tools, list(pairwise(ids)))
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(dependencies, "sleep", pause)
    monkeypatch.setattr(dependencies, "uniform", max)
    store = Undone(redis_url, times=3)
    await store.open()
    assert (await Client(store, tools.project).try_link(first[-1], second[0]))["created"] == 1
    await store.close()
    assert pauses[0] == 0 < pauses[1]
    assert all(later >= 2 * pause for pause, later in pairwise(pauses))
    assert len(pauses) == 4
    assert (await audit(tools.store, tools.project)).differences == []


@pytest.mark.parametrize(("tags", "left"), [("t", 0), (",".join(f"t{n}" for n in range(32)), 19)])
async def test_items_with_many_tags_are_put_back_a_few_at_a_time(tools: Client, tags: str, left: int) -> None:
    items = await tools.add_many(60, tags=tags)
    for item in items:
        await tools.claim(f"holder of {item}", item)
    for item in items:
        await lapse(tools, item)
    claims = ClaimStore(tools.store, Settings(), SchemaSource())
    earliest, now, *_ = await claims.sweep(tools.project, "process", 1)
    assert await tools.store.command("ZCARD", keys.leases.key(tools.project)) == left
    assert (0 < earliest < now) == (left > 0)
    assert len(await tools.next(tags="t" if not left else "t1", limit=20)) == 20
    assert (await audit(tools.store, tools.project)).differences == []
