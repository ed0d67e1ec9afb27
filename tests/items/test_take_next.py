"""What a worker does between two items, in one step of the store: complete one, claim the next, start it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY, IdempotencyKey
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.agents.take import Taken, TakeStore
from tests.items.client import Client, fresh_id
from tests.items.parked import Fronts

pytestmark = pytest.mark.anyio

AUTHOR = ('{"id":"a","kind":"subagent"}', "")


def work_of(store: Store) -> TakeStore:
    return TakeStore(store, Settings(), SchemaSource())


async def take(
    tools: Client, agent: str = "a", after: Taken | None = None, request: IdempotencyKey = NO_KEY, **selector: Any
) -> Taken:
    """Completes what was taken before, and takes the next item."""
    finished = None
    if after is not None and after.claim:
        finished = (after.claim.item, "complete", agent, *AUTHOR, "", after.claim.fence)
    return await work_of(tools.store).take_next(
        tools.project, request, Claimant(agent), 60_000, Selector(**selector), AUTHOR, finished
    )


async def role(tools: Client, item: str) -> str:
    return str((await tools("query_items", operation="get", id=item))["role"])


async def test_items_are_worked_off_one_call_each(tools: Client) -> None:
    items = await tools.add_many(3)
    taken, done = None, []
    for item in items:
        taken = await take(tools, after=taken)
        assert taken.claim
        assert taken.start
        assert taken.start.reason == ""
        assert (await role(tools, item), taken.start.from_role, taken.start.to_role) == ("work", 0, 1)
        done.append(taken.claim.item.replace("-", ""))
    assert done == [item.replace("-", "") for item in items]
    last = await take(tools, after=taken)
    assert last.completion
    assert last.completion.reason == ""
    assert last.start is False
    assert last.claim
    assert last.claim.outcome == "no_match"
    assert [await role(tools, item) for item in items] == ["terminal"] * 3
    # The claim on the last item goes with the next one, as that of any agent.
    assert (await tools("get_context", itemId=items[-1]))["claimDetail"]["claimedBy"] == "a"


async def test_where_the_completion_is_refused_nothing_is_claimed(tools: Client) -> None:
    items = await tools.add_many(2)
    mine = await take(tools)
    assert mine.claim
    refused = await take(tools, after=with_older_fence(mine))
    assert refused.completion
    assert refused.completion.reason == "stale_fence"
    assert (refused.claim, refused.start) == (False, False)
    assert [await role(tools, item) for item in items] == ["work", "queue"]


def with_older_fence(taken: Taken) -> Taken:
    """As if the agent had an older claim on the item."""
    assert taken.claim
    claim = msgspec.structs.replace(taken.claim, fence=taken.claim.fence - 1)
    return msgspec.structs.replace(taken, claim=claim)


async def test_a_repeated_call_has_the_same_answer_and_no_second_effect(tools: Client) -> None:
    await tools.add()
    await tools.add()
    request = IdempotencyKey(fresh_id(), "0" * 16)
    first = await take(tools, request=request)
    again = await take(tools, request=request)
    assert again == first
    events = await tools.store.command("XLEN", f"fc:{{{tools.project}}}:tr")
    assert events == 1
    with pytest.raises(ToolFailure) as raised:
        await take(tools, request=IdempotencyKey(request.key, "1" * 16))
    assert raised.value.code == "request_id_reused"


async def test_an_unknown_scope_is_named(tools: Client) -> None:
    await tools.add()
    with pytest.raises(ToolFailure, match=r"selector\.parentId"):
        await take(tools, parent="0" * 32)


async def test_what_a_completion_unblocks_can_be_taken_in_the_same_step(tools: Client) -> None:
    first, second = await tools.add(priority="high"), await tools.add()
    await tools("manage_dependencies", operation="create", dependencies=[{"fromItemId": first, "toItemId": second}])
    taken = await take(tools)
    after = await take(tools, after=taken)
    assert after.claim
    assert after.claim.item == second.replace("-", "")
    assert await role(tools, second) == "work"


async def test_abandoned_work_is_begun_again_in_its_role(tools: Client) -> None:
    item = await tools.add()
    await take(tools, agent="gone")
    await tools(
        "claim_item", actor={"id": "gone", "kind": "subagent"}, requestId=fresh_id(), releases=[{"itemId": item}]
    )
    taken = await take(tools, agent="b")
    assert taken.claim
    assert taken.claim.further.takeover
    assert taken.start
    assert (taken.start.reason, taken.start.from_role, taken.start.to_role) == ("", 1, 1)


async def test_what_a_completion_frees_goes_to_who_waits_for_it_first(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    first, second = await other.add(priority="high"), await other.add()
    await other("manage_dependencies", operation="create", dependencies=[{"fromItemId": first, "toItemId": second}])
    taken = await take(other, agent="worker")
    waiting = await tools.park("first in line")
    after = await take(other, agent="worker", after=taken)
    assert await waiting.item() == second
    assert after.completion
    assert after.claim
    assert after.claim.outcome == "no_match"


async def test_many_workers_take_each_item_once(clients: list[Client]) -> None:
    items = {(await clients[0].add()).replace("-", "") for _ in range(60)}
    done: list[str] = []

    async def worker(tools: Client, name: str) -> None:
        taken = None
        while True:
            taken = await take(tools, agent=name, after=taken)
            assert taken.completion is False or taken.completion.reason == ""
            if not taken.claim or taken.claim.outcome != "success":
                return
            done.append(taken.claim.item)

    await asyncio.gather(*(worker(clients[n % 3], f"agent-{n}") for n in range(9)))
    assert sorted(done) == sorted(items)
