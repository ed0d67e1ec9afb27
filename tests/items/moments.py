"""Time passing: Redis time decides every expiry, so tests move a claim's end instead of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.audit.states import WAITS
from coordinator.toolsets.items.rules.classes import TERMINAL
from coordinator.toolsets.items.rules.records import RecordState, parts_of, state_of
from coordinator.toolsets.items.store.agents.presence import Claimant
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


async def next_ms(store: Store) -> None:
    """Until what comes has a later time than what was before, which decides their order."""
    now = await server_time(store)
    while await server_time(store) == now:
        pass


async def fence_of(tools: Client, item: str) -> int:
    """The fence of an item's last claim, live or not."""
    return (await state(tools, item)).fence


async def state(tools: Client, item: str) -> RecordState:
    """The record of an item's state."""
    record = await tools.store.command("HGET", keys.item.key(tools.project, item.replace("-", "")), "w")
    return state_of(record.hex())


async def set_state(tools: Client, item: str, **changes: Any) -> RecordState:
    """Changes parts of the record, and nothing else; returns the new one."""
    changed = (await state(tools, item))._replace(**changes)
    await tools.store.command("HSET", keys.item.key(tools.project, item.replace("-", "")), "w", changed.packed())
    return changed


async def lapse(tools: Client, item: str, ago_ms: int = 1, *, whole: bool = False) -> str:
    """Makes a live claim expire ``ago_ms`` ago, as if its TTL had been shorter; or, if it is to be ``whole``, as if it
    had been placed earlier.

    Returns the time at which its agent first claimed the item, which may have to be earlier now.
    """
    end = await server_time(tools.store) - ago_ms
    held = await state(tools, item)
    assert held.expires > end, "the item has no live claim"
    began = end - (held.expires - held.claimed) if whole else min(held.claimed, end)
    first = min(held.first, began)
    await set_state(tools, item, expires=end, claimed=began, first=first)
    offset = WAITS if parts_of(held.score).role == TERMINAL else 0
    await tools.store.command("ZADD", keys.leases.key(tools.project), "XX", end + offset, held.holder)
    if offset:  # front-ends see to it when that time comes
        await tools.expire()
    return iso(first)


async def claim_for(tools: Client, agent: str, item: str, ttl_ms: int) -> None:
    """Claims an item for less than the tool's minimum of a second."""
    reply = await tools.claiming.claims.claim(
        tools.project, NO_KEY, Claimant(agent), [(item.replace("-", ""), ttl_ms, 0)], []
    )
    assert reply.claims[0].outcome in ("success", "held"), reply
