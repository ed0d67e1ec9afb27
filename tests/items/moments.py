"""Time passing: Redis time decides every expiry, so tests move a claim's end instead of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.rules.recount import claim_of
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.agents import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.timestamp import iso
from tests.items.client import Client

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(time: str) -> int:
    """A time of an answer in milliseconds since 1970."""
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(milliseconds=1)


async def server_time(store: Store) -> int:
    """Redis time in milliseconds."""
    seconds, micros = await store.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def fence_of(tools: Client, item: str) -> int:
    """The fence of an item's last claim, live or not."""
    packed = await tools.store.command("HGET", keys.item.key(tools.project, item.replace("-", "")), "h")
    return int.from_bytes(packed[:6])


async def lapse(tools: Client, item: str, ago_ms: int = 1) -> str:
    """Makes a live claim expire ``ago_ms`` ago, as if its TTL had been shorter.

    Returns the time at which its agent first claimed the item, which may have to be earlier now.
    """
    inner = item.replace("-", "")
    end = await server_time(tools.store) - ago_ms
    key = keys.item.key(tools.project, inner)
    claim = claim_of({"h": (await tools.store.command("HGET", key, "h")).hex()})
    assert claim is not None, "the item has no claim"
    assert claim.expires > end, "the item has no live claim"
    over = claim._replace(expires=end, claimed=min(claim.claimed, end), first=min(claim.first, end))
    await tools.store.command("HSET", key, "h", over.packed())
    await tools.store.command("ZADD", keys.leases.key(tools.project), "XX", end, claim.agent)
    return iso(over.first)


async def claim_for(tools: Client, agent: str, item: str, ttl_ms: int) -> None:
    """Claims an item for less than the tool's minimum of a second."""
    store = ClaimStore(tools.store, Settings(), SchemaSource())
    reply = await store.claim(tools.project, NO_KEY, Claimant(agent), [(item.replace("-", ""), ttl_ms, 0)], [])
    assert reply.claims[0].outcome == "success", reply
