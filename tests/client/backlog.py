"""Items to work on, and what has become of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from coordinator.client import Fleet

Json = dict[str, Any]


async def add(fleet: Fleet, *titles: str, **fields: Any) -> list[str]:
    """Creates items and returns their ids."""
    items = [{"title": title, **fields} for title in titles]
    return [one["id"] for one in (await fleet.call("manage_items", {"operation": "create", "items": items}))["items"]]


async def chain(fleet: Fleet, *items: str) -> None:
    """Makes each wait for the one before."""
    edges = [{"fromItemId": one, "toItemId": other} for one, other in pairwise(items)]
    assert (await fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges}))["created"]


async def seen(fleet: Fleet, item: str) -> Json:
    """The item in full."""
    return await fleet.call("query_items", {"operation": "get", "id": item})


async def triggers(fleet: Fleet, item: str) -> list[str]:
    """What has moved an item, oldest first."""
    return [each["trigger"] for each in reversed((await seen(fleet, item)).get("transitions", ()))]


async def context(fleet: Fleet, item: str) -> Json:
    return await fleet.call("get_context", {"itemId": item})


async def notes(fleet: Fleet, item: str) -> dict[str, str]:
    found = await fleet.call("query_notes", {"operation": "list", "itemId": item})
    return {note["key"]: note["body"] for note in found["notes"]}


async def held(fleet: Fleet) -> int:
    """How many claims there are, live or not."""
    counts = (await fleet.call("get_context")).get("claimSummary", {"active": 0, "expired": 0})
    return int(counts["active"] + counts["expired"])
