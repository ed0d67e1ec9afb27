"""Releases as hopeless: quarantine at once."""

from __future__ import annotations

import pytest

from coordinator.store import Store
from tests.items.attempts import attempts, begun, client, counted, must_be_sound
from tests.items.client import Client
from tests.items.selectors import take

pytestmark = pytest.mark.anyio


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return client(store, project)


@pytest.mark.parametrize("role", ["queue", "work", "review"])
async def test_a_hopeless_item_is_quarantined_at_once(tools: Client, role: str) -> None:
    item = await tools.add(type="reviewed", maxAttempts=0)
    await tools.claim("one", item)
    for _ in range(["queue", "work", "review"].index(role)):
        assert (await tools.advance(item, "start", "one"))["applied"]
    await tools.release("one", item, reason="hopeless", detail="no such file")
    full = await tools.get(item)
    assert (full["role"], full["statusLabel"]) == ("blocked", "quarantined")
    found = await attempts(tools, item)
    assert (found["count"], found["last"][0]["reason"], found["last"][0]["detail"]) == (1, "hopeless", "no such file")
    assert (await take(tools, "next"))["outcome"] == "no_match"
    await must_be_sound(tools)
    await tools.move(item, "resume")
    assert (await tools.get(item))["role"] == role
    assert await counted(tools, item) == 0
    assert (await take(tools, "next", {"role": role}))["itemId"] == item
    await must_be_sound(tools)


@pytest.mark.parametrize("move", ["complete", "block"])
async def test_an_item_that_is_not_worked_on_is_not_hopeless(tools: Client, move: str) -> None:
    item = await begun(tools)
    assert (await tools.advance(item, move, "lost"))["applied"]
    before = await tools.get(item)
    await tools.release("lost", item, reason="hopeless")
    after = await tools.get(item)
    assert [one.get("statusLabel") for one in (before, after)] == [before.get("statusLabel")] * 2
    assert after["role"] == before["role"]
    assert await counted(tools, item) == 0
    await must_be_sound(tools)
