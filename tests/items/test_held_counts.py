"""What a caller is told who got nothing: how many items are held back, each under the first that holds it.

Any sequence of calls is compared with a model in ``test_limits_model.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.store import Store, keys
from tests.items.attempts import begun, client, must_be_sound
from tests.items.client import Client, Json, actor, counts
from tests.items.parked import Fronts
from tests.items.resources import demand
from tests.items.selectors import call_of, take

pytestmark = pytest.mark.anyio


async def told(tools: Client, agent: str = "asks", **options: Any) -> Json | None:
    """What a claim that gets nothing says of what is held back."""
    found = await take(tools, agent, **options)
    assert found["outcome"] == "no_match", found
    return found.get("heldBack")


async def held_by_all(tools: Client, **fields: Any) -> tuple[str, dict[str, str]]:
    """An item in work, left by its agent, that all but attempts hold back; and what does, by name."""
    root = await tools.add("root", role="blocked", budget={"tokens": 1})
    blocker = await tools.add("blocker", role="blocked")
    item = await begun(tools, parentId=root, **fields)
    await tools.release("lost", item, reason="failed")
    await tools.update(item, resources=[demand("gpu")], requires=["cad"])
    holds = await tools.add("holds", resources=[demand("gpu")])
    assert (await tools.claim("holder", holds))["outcome"] == "success"
    edge = await tools.link(blocker, item)
    child = await tools.add("child", parentId=item, role="blocked")
    note = {"itemId": root, "key": "k", "role": "queue", "actor": actor("spends"), "usage": {"inputTokens": 1}}
    await tools("manage_notes", operation="upsert", notes=[note])
    await tools.update(item, notBefore="+1h")
    return item, {"root": root, "edge": edge, "child": child, "holds": holds}


@pytest.mark.every_store
async def test_an_item_counts_under_the_first_that_holds_it_back(store: Store, project: str) -> None:
    tools = client(store, project, most=9, backoff=600)
    item, by = await held_by_all(tools)
    assert await told(tools) == counts(notBefore=1)
    await tools.update(item, notBefore=None)
    assert await told(tools) == counts(backoff=1)
    await tools.update(item, retryBackoffSeconds=0)
    assert await told(tools) == counts(dependencies=1)
    await tools.unlink(id=by["edge"])
    assert await told(tools) == counts(openChildren=1)
    await tools.delete(by["child"])
    assert await told(tools) == counts(budget=1)
    await tools.update(by["root"], budget=None)
    assert await told(tools) == counts(capabilities=1)
    assert await told(tools, capabilities=["cad"]) == counts(resources=1)
    await tools.release("holder", by["holds"])
    await tools.advance(by["holds"], "cancel")
    assert (await take(tools, "able", capabilities=["cad"]))["itemId"] == item
    await must_be_sound(tools)


@pytest.mark.parametrize("selector", [{}, {"role": "work"}, {"tags": "t"}, {"parents": "any"}])
async def test_quarantine_comes_first(store: Store, project: str, selector: Json) -> None:
    tools = client(store, project, most=1)
    item, _ = await held_by_all(tools, tags="t")
    assert await told(tools, selector=selector) == counts(quarantined=1)
    assert await told(tools, selector={"role": "queue"}) is None
    assert await told(tools, selector={"tags": "other"}) is None
    await tools.advance(item, "resume")
    assert await told(tools, selector=selector) == counts(notBefore=1)


async def test_parents_count_as_long_as_they_wait_for_their_children(tools: Client) -> None:
    root = await tools.add("root")
    middle = await tools.add("middle", parentId=root)
    leaf = await tools.add("leaf", parentId=middle)
    assert (await take(tools, "works"))["itemId"] == leaf
    assert await told(tools) == counts(openChildren=2)
    assert await told(tools, selector={"parentId": root}) == counts(openChildren=1)
    assert await told(tools, selector={"role": "review"}) is None
    # What another agent holds, with all that is below, is not on offer.
    await tools.claim("keeps", root)
    assert await told(tools) is None
    assert await told(tools, selector={"ancestorId": root}) == counts(openChildren=1)


async def test_what_is_never_offered_is_not_counted(tools: Client) -> None:
    heading = await tools.add("heading", container=True)
    blocker = await tools.add("blocker", parentId=heading, role="blocked")
    await tools.link(blocker, await tools.add("waits", parentId=heading))
    await tools.link(blocker, await tools.add("a container that waits", container=True))
    await tools.link(blocker, await tools.add("held by its agent", role="work"))
    assert await told(tools) == counts(dependencies=1)


async def test_of_a_long_list_the_best_are_counted(tools: Client) -> None:
    blocker = await tools.add("blocker", role="blocked")
    waiting = await tools.add_many(70, type="many")
    rare = await tools.add(type="rare", priority="low")
    await tools.link_all((blocker, item) for item in (*waiting, rare))
    assert await told(tools) == counts(dependencies=50)
    assert await told(tools, selector={"type": "rare"}) == counts(dependencies=1)


async def test_recommendations_say_it_too(tools: Client) -> None:
    assert await tools("get_next_item") == {"recommendations": [], "total": 0}
    blocker = await tools.add("blocker", role="blocked")
    item = await tools.add(requires=["cad"])
    work = await tools.add("left in work", role="work")
    await tools.claim("leaves", work)
    await tools.release("leaves", work)
    await tools.link(blocker, work)
    assert (await tools("get_next_item"))["heldBack"] == counts(capabilities=1, dependencies=1)
    assert (await tools("get_next_item", role="queue"))["heldBack"] == counts(capabilities=1)
    able = await tools("get_next_item", capabilities=["cad"])
    assert ([one["itemId"] for one in able["recommendations"]], "heldBack" in able) == ([item], False)


async def test_an_agent_is_told_once_a_second(tools: Client) -> None:
    assert await told(tools) is None
    await tools.add(requires=["cad"])

    async def again(agent: str, selector: Json | None = None) -> Json | None:
        found: Json = (await tools("claim_item", **call_of(agent, selector)))["claimResults"][0]
        return found.get("heldBack")

    assert await again("asks") is None, "as it was told just now"
    assert await again("another") == counts(capabilities=1)
    assert await again("asks", {"priority": "medium"}) == counts(capabilities=1), "it asks for something else"
    key = keys.told.key(tools.project, "asks")
    assert 0 < await tools.store.command("PTTL", key) <= 1000
    await tools.forget_told("asks")
    assert await again("asks") == counts(capabilities=1)


async def test_a_call_that_waits_is_told_at_its_end(fronts: Fronts) -> None:
    front = await fronts.make()
    key = keys.told.key(front.project, "asks")
    call = await front.park("asks", wait_ms=300)
    assert not await front.store.command("EXISTS", key), "it has not got nothing yet"
    await front.add(requires=["cad"])
    assert (await call.claim())["heldBack"] == counts(capabilities=1)


async def test_a_claim_that_succeeds_does_not_count(alone: Store) -> None:
    """It runs the same commands, whatever waits beside its item."""

    async def commands_of_claims(tools: Client) -> list[int]:
        found = []
        for n in range(9):
            item = await tools.add()
            before = await commands()
            assert (await take(tools, f"a{n}"))["itemId"] == item
            found.append(await commands() - before)
        return sorted(found)

    async def commands() -> int:
        info = await alone.client.info("commandstats")
        return int(sum(one["calls"] for one in info.values()))

    plain, beside = Client(alone, "plain"), client(alone, "beside", most=1)
    few = await commands_of_claims(plain)
    blocker = await beside.add("blocker", role="blocked")
    for _ in range(20):
        await beside.add(parentId=await beside.add("parent", type="epic", priority="high"), role="blocked")
        await beside.link(blocker, await beside.add("waits", priority="high"))
        await beside.release("lost", await begun(beside, priority="high"), reason="failed")
    assert await told(beside, selector={"role": "work"}) == counts(quarantined=20)
    many = await commands_of_claims(beside)
    # (The store's background work counts, too.)
    assert many[4] <= few[4], (few, many)
