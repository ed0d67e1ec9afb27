"""Sets of ready items that are not for everybody: their place in the index, and how selectors find them."""

from __future__ import annotations

import pytest

from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.audit.resources import demanded_text
from tests.items.client import Client, Json
from tests.items.moments import next_ms
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

FEW = 8
"""How many items that demand a key stay with the others (``lua/resources/demands.lua``)."""


async def sets_of(tools: Client) -> set[str]:
    """The sets of ready items, with the characters of their classes."""
    return {one.decode() for one in await tools.store.command("ZRANGE", keys.apart.key(tools.project), 0, -1)}


async def demanded(tools: Client) -> dict[str, int]:
    """How many open items demand each key, or something below it."""
    counts = await tools.store.command("HGETALL", keys.demands.key(tools.project))
    return {name.decode(): int(demanded_text(count)) % 2**24 for name, count in counts.items()}


async def consistent(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


def demanding(*keys: str, **more: object) -> Json:
    return {"title": "x", "resources": [{"key": key} for key in keys], **more}


async def test_items_of_popular_keys_are_apart_and_come_in_order(tools: Client) -> None:
    made = await tools.create(*(demanding("gpu/0", priority=("high", "low")[n % 2]) for n in range(FEW + 4)))
    ids = [item["id"] for item in made["items"]]
    assert await sets_of(tools) == {"0|x1:gpu/0,y1:gpu"}
    assert await demanded(tools) == {"gpu": FEW + 4, "gpu/0": FEW + 4}
    await consistent(tools)
    expected = ids[::2] + ids[1::2]
    assert await tools.next(limit=20) == expected[:20]
    await tools.update(ids[-1], priority="high")
    await tools.update(ids[-2], tags="t", type="y")
    await consistent(tools)
    assert await tools.next(tags="t") == await tools.next(type="y") == [ids[-2]]
    await tools.delete(*ids[FEW:])
    assert await sets_of(tools) == set()
    await consistent(tools)


async def test_an_item_that_demands_nothing_more_leaves_its_set_though_somebody_held_it(tools: Client) -> None:
    ids = [item["id"] for item in (await tools.create(*(demanding("a") for _ in range(FEW + 2))))["items"]]
    assert (await take(tools, "x"))["itemId"] == ids[0]
    await tools.update(ids[0], resources=[])
    await tools.release("x", ids[0])
    await consistent(tools)
    assert (await tools.claim("y", ids[1]))["outcome"] == "success"
    assert (await take(tools, "z"))["itemId"] == ids[0]
    await consistent(tools)


async def test_they_are_counted_while_they_are_open(tools: Client) -> None:
    one, other = [item["id"] for item in (await tools.create(demanding("a/b"), demanding("a/c")))["items"]]
    assert await demanded(tools) == {"a": 2, "a/b": 1, "a/c": 1}
    await tools.advance(one, "cancel")
    assert await demanded(tools) == {"a": 1, "a/c": 1}
    await tools.advance(one, "reopen")
    await tools.update(other, resources=[{"key": "d", "mode": "shared"}])
    assert await demanded(tools) == {"a": 1, "a/b": 1, "d": 1}
    await tools.delete(one)
    await tools.update(other, resources=None)
    assert await demanded(tools) == {}
    await consistent(tools)


async def test_claims_move_them(tools: Client) -> None:
    made = await tools.create(*(demanding("gpu") for _ in range(FEW + 1)))
    last = made["items"][-1]["id"]
    assert (await tools.claim("a", last))["outcome"] == "success"
    assert await sets_of(tools) == set()
    await consistent(tools)
    await tools.release("a", last)
    assert await sets_of(tools) == {"0|x1:gpu"}
    assert (await take(tools, "a"))["itemId"] == made["items"][0]["id"]
    await consistent(tools)


async def test_sets_of_one_moment_are_claimed_in_the_order_in_which_their_items_were_made(tools: Client) -> None:
    made = await tools.create(*(demanding(f"key-{n * 7 % 5}") for n in range(5 * (FEW + 1))))
    ids = [item["id"] for item in made["items"]]
    assert len(await sets_of(tools)) == 5
    for first in range(0, len(ids), 5):
        held = [(await take(tools, f"agent-{n}"))["itemId"] for n in range(5)]
        assert held == ids[first : first + 5]
        assert (await take(tools, "late"))["outcome"] == "no_match"
        for n, one in enumerate(held):
            assert (await tools.advance(one, "cancel", f"agent-{n}"))["applied"]
    assert await sets_of(tools) == set()
    await consistent(tools)


async def test_items_that_wait_for_a_busy_key_cost_a_selector_nothing(alone: Store) -> None:
    """Their number does not change which commands a claim runs, also if each of them demands another key besides."""
    spent = [await _commands_of_a_claim(Client(alone, f"busy-{number}"), number) for number in (100, 2000)]
    assert spent[0] == spent[1]


async def _commands_of_a_claim(tools: Client, number: int) -> dict[str, int]:
    await tools.claim("holder", await tools.add(resources=[{"key": "gpu"}]))
    await tools.create(*(demanding("gpu") for _ in range(FEW - 1)))
    await next_ms(tools.store)  # so none of these, which are in no set, comes at the same place as the best of a set
    for first in range(0, number, 500):
        keys_of = [f"u/{n}" for n in range(first, min(first + 500, number))]
        await tools.create(*(demanding("gpu", key) for key in keys_of))
    free = await tools.add(priority="low", resources=[{"key": "free"}])
    await take(tools, "first", {"tags": "none"})
    await tools.store.command("CONFIG", "RESETSTAT")
    assert (await take(tools, "next"))["itemId"] == free
    told = (await tools.store.command("INFO", "commandstats")).decode()
    lines = (
        line.removeprefix("cmdstat_").split(":calls=") for line in told.splitlines() if line.startswith("cmdstat_")
    )
    return {
        name: int(rest.split(",")[0])
        for name, rest in lines
        if name not in ("time", "fcall", "info", "config|resetstat")
    }
