"""No answer of listing tools exceeds the limit of hosts, and pages have everything once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.items.client import Client, Json

pytestmark = pytest.mark.anyio

MOST_CHARS = 60_000
EPOCH = "1970-01-01T00:00:00Z"


def title(number: int) -> str:
    return f"{number:04}" + "\u00e9" * 496


async def ask(tools: Client, tool: str, **arguments: Any) -> Json:
    answer = await tools.answer(tool, **arguments)
    assert len(answer.decode()) <= MOST_CHARS
    found: Json = json.loads(answer)
    return found


async def everything(tools: Client, tool: str, name: str, key: str, **arguments: Any) -> list[str]:
    """The ids of a list, page by page; each page is small enough."""
    found: list[str] = []
    offset = 0
    while True:
        page = await ask(tools, tool, offset=offset, **arguments)
        found += [row[key] for row in page[name]]
        if "nextOffset" not in page:
            return found
        assert page["nextOffset"] > offset
        offset = page["nextOffset"]


async def test_context_of_many_items_with_long_titles(tools: Client) -> None:
    made: dict[str, list[str]] = {}
    for role in ("work", "review", "blocked"):
        fields = [{"title": title(number), "role": role, "tags": "t" * 60} for number in range(120)]
        made[role] = [item["id"] for item in (await tools.create(*fields))["items"]]
    for item in made["work"][:60]:
        await tools.move(item, "hold")
        await tools.move(item, "resume")
    for since in ({}, {"since": EPOCH}):
        active = await everything(tools, "get_context", "activeItems", "id", **since)
        assert sorted(active) == sorted(made["work"] + made["review"])
        await ask(tools, "get_context", includeAncestors=True, limit=200, **since)
    blocked = await everything(tools, "get_context", "blockedItems", "id", limit=200)
    assert sorted(blocked) == sorted(made["blocked"])


async def test_blocked_items_with_many_blockers_and_long_titles(tools: Client) -> None:
    fields = [{"title": title(number)} for number in range(130)]
    items = [item["id"] for item in (await tools.create(*fields))["items"]]
    blockers, waiting = items[:60], items[60:]
    for item in waiting[:10]:
        await tools.link_all((blocker, item) for blocker in blockers)
    await tools.link_all((blockers[0], item) for item in waiting[10:])
    found = await everything(tools, "get_blocked_items", "blockedItems", "itemId")
    assert sorted(found) == sorted(waiting)
    assert (await ask(tools, "get_blocked_items", limit=1))["total"] == len(waiting)
    detailed = {"includeItemDetails": True, "includeAncestors": True, "limit": 200}
    assert await everything(tools, "get_blocked_items", "blockedItems", "itemId", **detailed) == found


async def test_dependencies_of_an_item_with_many(tools: Client) -> None:
    fields = [{"title": title(number)} for number in range(301)]
    hub, *others = [item["id"] for item in (await tools.create(*fields))["items"]]
    await tools.link_all((other, hub) for other in others)
    asked: Json = {"itemId": hub, "includeItemInfo": True, "limit": 200, "neighborsOnly": False}
    assert sorted(await everything(tools, "query_dependencies", "dependencies", "fromItemId", **asked)) == sorted(
        others
    )
    first = await ask(tools, "query_dependencies", itemId=hub)
    assert (len(first["dependencies"]), first["total"]) == (50, 300)
    beyond = await ask(tools, "query_dependencies", itemId=hub, offset=9000)
    assert (beyond["dependencies"], beyond["total"]) == ([], 300)


@pytest.mark.parametrize(("tool", "arguments"), [("get_blocked_items", {}), ("query_dependencies", {"itemId": "0000"})])
async def test_invalid_limits_are_rejected(tools: Client, tool: str, arguments: Json) -> None:
    for field, value in (("limit", 0), ("limit", 201), ("offset", -1), ("offset", 10_001), ("limit", "many")):
        failure = await tools.refusal(tool, **arguments, **{field: value})
        assert failure.code == "VALIDATION_ERROR"
        assert field in failure.message
