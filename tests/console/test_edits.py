"""Of two who edit an item, nobody takes back what the other has written without having seen it; without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.console.viewer import Viewer
from coordinator.store import Store
from tests.console.site import ADA, Json, Site, person
from tests.items.client import Client

pytestmark = pytest.mark.anyio
BOB = person("bob")
LONG = "long " * 40
FIELDS: dict[str, tuple[Any, Any, Any]] = {
    "title": ("One", LONG, "Three"),
    "priority": ("medium", "high", "low"),
    "tags": (None, "api,db", "ui"),
    "summary": ("short", LONG, "other"),
    "description": (None, LONG, "mine"),
    "notBefore": (None, "2031-01-31T12:00:00.250Z", "2032-01-31T12:00:00.000Z"),
    "dueAt": ("2031-01-31T12:00:00.000Z", "2032-01-31T12:00:00.000Z", "2033-01-31T12:00:00.000Z"),
    "retryBackoffSeconds": (None, 30, 0),
    "budget": (None, {"tokens": 5}, {"costMicroUsd": 7, "wallMs": 9}),
}
"""What people edit: what is there at first, what somebody else makes of it, and what the second one wants."""


async def edit(site: Site, item: str, who: Viewer, shown: Json, **fields: Any) -> str:
    """The problem; empty: it is done."""
    given = {"operation": "update", "items": [{"id": item, **fields}], "shown": [shown]}
    return str((await site("call/items/manage_items", given, who)).get("problem", ""))


@pytest.fixture
def site(store: Store, project: str) -> Site:
    return Site(store, project)


@pytest.fixture
async def other(redis_url: str, project: str) -> AsyncIterator[Site]:
    """Another front-end."""
    store = Store(redis_url, timeout_ms=10_000)
    await store.open()
    yield Site(store, project)
    await store.close()


@pytest.mark.parametrize("field", FIELDS)
async def test_a_field_that_was_changed_meanwhile_is_not_replaced(site: Site, other: Site, field: str) -> None:
    agent = Client(site.store, site.project)
    first, theirs, mine = FIELDS[field]
    item = await site.create(**{"title": "t", field: first})

    async def get() -> Json:
        return await agent("query_items", operation="get", id=item)

    assert await edit(site, item, ADA, {field: first}, **{field: theirs}) == ""
    before = await get()
    assert await edit(other, item, BOB, {field: first}, **{field: mine}, type="bug") == (
        f"{field}: somebody else has changed it meanwhile"
    )
    assert await get() == before
    assert await edit(other, item, BOB, {field: theirs}, **{field: mine}) == ""
    assert (await get())[field] == mine


async def test_of_many_who_edit_one_field_one_wins_and_other_fields_are_as_edited(site: Site, other: Site) -> None:
    agent, item = Client(site.store, site.project), await site.create("first")
    fields = {"tags": "api", "description": "text", "budget": {"tokens": 5}}
    sites = (site, other)
    edits = [edit(sites[n % 2], item, (ADA, BOB)[n % 2], {"title": "first"}, title=f"by {n}") for n in range(8)]
    edits += [edit(other, item, BOB, {name: None}, **{name: value}) for name, value in fields.items()]
    updated = agent("manage_items", operation="update", items=[{"id": item, "summary": "by an agent"}])
    problems, _ = await asyncio.gather(asyncio.gather(*edits), updated)
    assert sorted(problems) == [""] * 4 + ["title: somebody else has changed it meanwhile"] * 7
    found = await agent("query_items", operation="get", id=item)
    assert {name: found[name] for name in fields} == fields
    assert found["summary"] == "by an agent"
    assert found["title"] != "first"


async def test_agents_cannot_say_what_they_were_shown(site: Site) -> None:
    item, agent = await site.create(), Client(site.store, site.project)
    refused = await agent.refusal("manage_items", operation="update", items=[{"id": item}], shown=[{"title": "t"}])
    assert "shown" in refused.message
