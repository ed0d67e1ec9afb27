"""Many callers on several connections: one winner each, cascades once, and a consistent project afterwards."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from itertools import cycle, pairwise
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimReply, ClaimStore
from tests.items.client import Client, actor, fresh_id

pytestmark = pytest.mark.anyio


async def test_each_item_has_one_winner_among_many_claimers(clients: list[Client]) -> None:
    ids = await clients[0].add_many(10)
    agents = [(f"agent-{n}", clients[n % len(clients)], ids[n % len(ids)]) for n in range(150)]
    results = await asyncio.gather(*(client.claim(agent, item) for agent, client, item in agents))
    outcomes = Counter(result["outcome"] for result in results)
    assert outcomes == {"success": len(ids), "already_claimed": 140}
    assert sorted(result["itemId"] for result in results if result["outcome"] == "success") == sorted(ids)


async def test_an_agent_with_many_concurrent_claims_holds_one_item(clients: list[Client]) -> None:
    ids = await clients[0].add_many(30)
    results = await asyncio.gather(
        *(client.claim("agent", item) for client, item in zip(cycle(clients), ids, strict=False))
    )
    assert {result["outcome"] for result in results} == {"success"}
    free = await asyncio.gather(*(clients[0].claim(f"other-{item}", item) for item in ids))
    assert Counter(result["outcome"] for result in free) == {"success": 29, "already_claimed": 1}


async def test_claims_exclude_each_other_and_fences_rise(clients: list[Client]) -> None:
    ids = await clients[0].add_many(3)
    holders: dict[str, str] = {}
    fences: dict[str, list[int]] = defaultdict(list)

    async def work(agent: str, client: Client) -> None:
        rounds = 0
        while rounds < 6:
            item = random.choice(ids)
            result = await client.claim(agent, item)
            if result["outcome"] != "success":
                continue
            assert item not in holders, f"{item} is held by {holders.get(item)} and {agent}"
            holders[item] = agent
            fences[item].append(result["fenceToken"])
            assert (await client.advance(item, "start", agent, fenceToken=result["fenceToken"]))["applied"]
            assert (await client.advance(item, "complete", agent))["applied"]
            assert (await client.advance(item, "reopen", agent))["applied"]
            del holders[item]
            assert (await client.release(agent, item))["outcome"] == "success"
            rounds += 1

    await asyncio.gather(*(work(f"agent-{n}", clients[n % len(clients)]) for n in range(9)))
    assert sum(len(found) for found in fences.values()) == 54
    assert all(found == sorted(set(found)) for found in fences.values())


async def test_claims_that_expire_never_overlap(clients: list[Client]) -> None:
    item = (await clients[0].add()).replace("-", "")
    won: list[tuple[int, int, int]] = []

    async def work(agent: str, client: Client) -> None:
        store = ClaimStore(client.store, Settings(), SchemaSource())
        times = 0
        while len(won) < 25:
            # Nobody renews: a further claim of the holder would be a renewal.
            reply: ClaimReply = await store.claim(
                client.project, NO_KEY, Claimant(f"{agent}-{times}"), [(item, 4, 0)], []
            )
            claimed = reply.claims[0]
            if claimed.outcome == "success":
                won.append((claimed.fence, reply.now, claimed.expires))
                times += 1

    await asyncio.gather(*(work(f"agent-{n}", clients[n % len(clients)]) for n in range(6)))
    assert len({fence for fence, _, _ in won}) == len(won)
    assert all(later >= end for (_, _, end), (_, later, _) in pairwise(sorted(won)))


@pytest.mark.parametrize("trigger", ["start", "complete"])
async def test_two_hundred_siblings_cascade_to_their_parent_once(clients: list[Client], trigger: str) -> None:
    root = await clients[0].add()
    parent = await clients[0].add(parentId=root)
    ids = await clients[0].add_many(200, parentId=parent)
    results = await asyncio.gather(
        *(client.advance(item, trigger) for client, item in zip(cycle(clients), ids, strict=False))
    )
    assert all(result["applied"] for result in results)
    events = [[event["itemId"] for event in result["cascadeEvents"]] for result in results]
    assert [found for found in events if found] == [[parent, root]]
    assert await clients[0].role(root) == ("work" if trigger == "start" else "terminal")


async def test_only_the_last_blocker_reports_a_dependent_as_unblocked(clients: list[Client]) -> None:
    blockers, waits = await clients[0].add_many(60), await clients[0].add()
    await clients[0]("manage_dependencies", operation="create", pattern="fan-in", sources=blockers, target=waits)
    results = await asyncio.gather(
        *(client.advance(item, "complete") for client, item in zip(cycle(clients), blockers, strict=False))
    )
    unblocked = [result["unblockedItems"] for result in results if result["unblockedItems"]]
    assert [[entry["itemId"] for entry in found] for found in unblocked] == [[waits]]


async def test_a_fleet_drains_a_queue_and_does_each_item_once(clients: list[Client]) -> None:
    parent = await clients[0].add(role="work")
    ids = await clients[0].add_many(80, parentId=parent)
    done: Counter[str] = Counter()
    ends = []

    async def work(agent: str, client: Client) -> None:
        while found := await client.next(parentId=parent, limit=3):
            item = random.choice(found)
            if (await client.claim(agent, item))["outcome"] != "success":
                continue
            if (await client.advance(item, "start", agent))["applied"]:
                result = await client.advance(item, "complete", agent)
                assert result["applied"]
                done[item] += 1
                ends.extend(result["cascadeEvents"])

    await asyncio.gather(*(work(f"agent-{n}", clients[n % len(clients)]) for n in range(12)))
    assert done == dict.fromkeys(ids, 1)
    assert [(event["itemId"], event["targetRole"]) for event in ends] == [(parent, "terminal")]


async def test_no_item_is_recommended_twice_while_its_claim_changes(clients: list[Client]) -> None:
    ids = await clients[0].add_many(5)
    over = asyncio.Event()

    async def toggle(item: str) -> None:
        while not over.is_set():
            await clients[1].claim(item, item)
            await clients[1].release(item, item)

    toggling = [asyncio.create_task(toggle(item)) for item in ids]
    answers = [await clients[0].next(includeClaimed=True, limit=20) for _ in range(60)]
    over.set()
    await asyncio.gather(*toggling)
    assert [len(found) - len(set(found)) for found in answers] == [0] * 60


async def test_one_of_two_edges_that_close_a_cycle_is_refused(clients: list[Client]) -> None:
    ids = await clients[0].add_many(40)
    pairs = [(ids[n], ids[n + 1]) for n in range(0, 40, 2)]
    answers = await asyncio.gather(
        *(clients[0].try_link(a, b) for a, b in pairs),
        *(clients[1].try_link(a, b, type="IS_BLOCKED_BY") for a, b in pairs),
        *(clients[2].try_link(b, a) for a, b in pairs),
    )
    for n in range(20):
        forward, *backward = (answers[n + part]["created"] for part in (0, 20, 40))
        assert (forward, set(backward)) in ((1, {0}), (0, {1}))


async def test_one_of_two_moves_below_each_other_is_refused(clients: list[Client]) -> None:
    ids = await clients[0].add_many(40)
    pairs = [(ids[n], ids[n + 1]) for n in range(0, 40, 2)]
    answers = await asyncio.gather(
        *(clients[0].update(a, parentId=b) for a, b in pairs), *(clients[1].update(b, parentId=a) for a, b in pairs)
    )
    assert [answers[n]["updated"] + answers[n + 20]["updated"] for n in range(20)] == [1] * 20


async def test_no_child_outlives_its_deleted_parent(clients: list[Client]) -> None:
    parents = await clients[0].add_many(30)
    created = [clients[1].create({"title": "child"}, parentId=parent) for parent in parents]
    deleted = [clients[2].delete(parent, recursive=True) for parent in parents]
    await asyncio.gather(*(call for pair in zip(created, deleted, strict=True) for call in pair))
    report = await audit(clients[0].store, clients[0].project)
    assert report.items <= len(parents)


def random_call(ids: list[str], chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Any change, or a read of the next items."""

    def one() -> str:
        return chance.choice(ids)

    agent = f"agent-{chance.randrange(6)}"
    who: dict[str, Any] = {"actor": actor(agent), "requestId": fresh_id()}
    triggers = ["start", "complete", "complete", "block", "resume", "cancel", "reopen"]
    steps = [
        {"itemId": one(), "trigger": chance.choice(triggers), "actor": actor(agent)}
        for _ in range(chance.randint(1, 4))
    ]
    edges = [
        {
            "fromItemId": one(),
            "toItemId": one(),
            "type": chance.choice(["BLOCKS", "IS_BLOCKED_BY"]),
            "unblockAt": chance.choice([None, "work"]),
        }
        for _ in range(chance.randint(1, 3))
    ]
    item = {"title": "t", "parentId": chance.choice([None, one()]), "tags": "a,b", "type": chance.choice([None, "x"])}
    move = {"id": one(), "parentId": chance.choice([None, one()]), "priority": chance.choice(["high", "low"])}
    calls: list[tuple[int, str, dict[str, Any]]] = [
        (3, "manage_items", {"operation": "create", "items": [item], **who}),
        (3, "manage_items", {"operation": "update", "items": [move], **who}),
        (1, "manage_items", {"operation": "delete", "ids": [one()], "recursive": True, **who}),
        (3, "manage_dependencies", {"operation": "create", "dependencies": edges, **who}),
        (1, "manage_dependencies", {"operation": "delete", "fromItemId": one(), "deleteAll": True, **who}),
        (8, "advance_item", {"transitions": steps}),
        (6, "claim_item", {"claims": [{"itemId": one()}], "releases": [{"itemId": one()}], **who}),
        (2, "get_next_item", {"limit": 5, "includeClaimed": chance.choice([True, False])}),
    ]
    _, tool, arguments = chance.choices(calls, weights=[weight for weight, *_ in calls])[0]
    return tool, arguments


async def test_any_mixture_of_calls_leaves_a_consistent_project(clients: list[Client]) -> None:
    ids = await clients[0].add_many(30)

    async def work(number: int) -> None:
        client, chance = clients[number % len(clients)], random.Random(random.random())
        for _ in range(60):
            tool, arguments = random_call(ids, chance)
            answer = await client.attempt(tool, **arguments)
            if isinstance(answer, ToolFailure):
                assert answer.code == "RESOURCE_NOT_FOUND", answer
            elif tool == "manage_items" and "created" in answer:
                ids.extend(item["id"] for item in answer["items"])

    await asyncio.gather(*(work(number) for number in range(12)))
