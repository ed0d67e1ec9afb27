"""Tokens for claims: which one is the newest, and whether its claim is live, or a newer one has followed."""

from __future__ import annotations

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.store.agents.tokens import TokenStore
from tests.items.client import Client
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio


async def test_a_token_is_valid_as_long_as_it_is_the_newest_and_its_claim_is_live(tools: Client) -> None:
    tokens, item, other = TokenStore(tools.store), await tools.add(), await tools.add()

    async def read(number: str = "1", fence: int = 0, agent: str = "a", of: str = item) -> tuple[bool, bool, bool]:
        return await tokens.read(tools.project, of.replace("-", ""), number, fence, agent)

    async def keep(number: str) -> None:
        """As a claim does that asks for a token (``test_delegation.py`` of the worker)."""
        await tools.store.client.set(keys.request.key(tools.project, f"t{item.replace('-', '')}"), number, ex=60)

    assert await read() == (False, False, False)
    fence = (await tools.claim("a", item))["fenceToken"]
    await keep("1")
    assert await read(fence=fence) == (True, True, False)
    assert await read("2", fence) == (False, True, False)
    assert await read(fence=fence + 1) == (True, False, False)
    assert await read(fence=fence, agent="b") == (True, False, False)
    assert await read(fence=fence, of=other) == (False, False, False)
    assert await read(fence=fence, of="f" * 32) == (False, False, False)
    await keep("2")
    assert await read(fence=fence) == (False, True, False)
    await lapse(tools, item)
    assert await read("2", fence) == (True, False, False)
    newer = (await tools.claim("b", item))["fenceToken"]
    assert await read("2", fence) == (True, False, True)
    assert await read("2", newer, "b") == (True, True, False)
