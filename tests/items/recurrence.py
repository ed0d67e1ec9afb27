"""Templates of recurring items, and times at which items become due."""

from __future__ import annotations

from typing import Any

from coordinator.store import keys
from tests.items.client import Client, Json
from tests.items.moments import server_time


async def come(tools: Client, item: str) -> None:
    """Lets the notBefore of an item come, as if it had been earlier."""
    inner, now = item.replace("-", ""), await server_time(tools.store)
    await tools.store.command("HSET", keys.item.key(tools.project, inner), "nv", now, "nt", now)
    for family in (keys.retries, keys.postponed):
        await tools.store.command("ZADD", family.key(tools.project), "XX", now, inner)


async def template(tools: Client, cron: str = "0 9 * * *", **fields: Any) -> str:
    recurs = {"cron": cron, **fields.pop("recurs", {})}
    item = await tools.add("report", recurs=recurs, **fields)
    await tools.claiming.claims.expire(tools.project)
    return item


async def age(tools: Client, item: str, ago_ms: int) -> None:
    """Makes a template as if its times had been dealt with up to a while ago only: no process has run since."""
    inner, now = item.replace("-", ""), await server_time(tools.store)
    await tools.store.command("HSET", keys.item.key(tools.project, inner), "rn", now - ago_ms)
    await tools.store.command("ZADD", keys.recurring.key(tools.project), "XX", now, inner)


async def occurrences(tools: Client, item: str) -> list[Json]:
    """All occurrences of a template, oldest first."""
    found = [await tools.get(one["id"]) for one in (await tools("query_items", operation="search", limit=200))["items"]]
    mine = [one for one in found if one.get("recurrenceOf") == item]
    return sorted(mine, key=lambda one: one["notBefore"])
