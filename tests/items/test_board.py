"""Pages of boards beside a plain Python filter, and the rows that they show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.rules.board import Wanted
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import PRIORITY_NAMES, ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.base import BaseStore
from coordinator.toolsets.items.store.boards import windows
from coordinator.toolsets.items.store.boards.rows import STATES, ItemRow, rows_by_ids
from coordinator.toolsets.items.store.boards.windows import board_page, recent_page
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse, ms, server_time
from tests.items.query_world import PRIORITIES, ROLES, TAGS, TYPES, World, build
from tests.support import leaks

pytestmark = pytest.mark.anyio
PROJECT = "board-model"


def inner(item: str) -> str:
    return item.replace("-", "")


@pytest.fixture(scope="module")
async def place(redis_url: str) -> AsyncIterator[tuple[Client, World]]:
    """One world for all pages of this file; they change nothing. A run looks at few items, so that there are many."""
    store = Store(redis_url, timeout_ms=5000)
    await store.open()
    try:
        with pytest.MonkeyPatch.context() as patch, redis_client(parse(redis_url), PROJECT) as client:
            patch.setattr(windows, "BUDGET", 30)
            leaks.delete_keys(client, PROJECT)
            tools = Client(store, PROJECT)
            world = await build(tools, redis_url)
            await BaseStore(store, Settings(), SchemaSource()).expire(PROJECT)
            yield tools, world
            leaks.delete_keys(client, PROJECT)
    finally:
        await store.close()


def ancestors(world: World, item: str) -> list[str]:
    parent = world.items[item].get("parentId")
    return [parent, *ancestors(world, parent)] if parent else []


def rank(item: Json) -> Any:
    """The order of the ranked index."""
    place = PRIORITIES.index(item["priority"]), item["complexity"] or 15, ms(item["createdAt"])
    return place, item["id"]


def expected(world: World, wanted: Wanted) -> list[str]:
    """The ids of what is wanted, in order."""
    names = {"role": "role", "tags": "tags", "type": "type", "priority": "priority", "parent": "parentId"}
    search = {name: getattr(wanted, field) for field, name in names.items() if getattr(wanted, field)}
    if wanted.text:
        search["query"] = wanted.text
    if wanted.parent:
        search["parentId"] = dashed(wanted.parent)
    found = world.found(search)
    if wanted.ancestor:
        found = [item for item in found if dashed(wanted.ancestor) in ancestors(world, item)]
    if wanted.state:
        live = wanted.state == "claimed"
        found = [item for item in found if (world.claims.get(item) == "claimed") == live]
    return [item["id"] for item in sorted((world.items[item] for item in found), key=rank)]


filters: dict[str, Any] = {
    "role": st.sampled_from(ROLES),
    "tags": st.sampled_from((*TAGS, "api,ui", "ui , db,unknown")),
    "type": st.sampled_from((*TYPES, "unknown")),
    "priority": st.sampled_from(PRIORITIES),
    "state": st.sampled_from(("claimed", "unclaimed")),
    "parent": st.integers(0, 999),
    "ancestor": st.integers(0, 999),
    "text": st.sampled_from(("alpha", "straße", "zzz")),
}


@given(
    st.fixed_dictionaries({}, optional=filters),
    st.sampled_from((0, 0, 1, 7, 70, 130, 300, 419, 600)),
    st.integers(1, 100),
)
@settings(deadline=None, max_examples=40)
async def test_a_page_is_what_a_filter_finds(place: Any, asked: dict[str, Any], offset: int, limit: int) -> None:
    tools, world = place
    ids = sorted(world.items)
    for field in ("parent", "ancestor"):
        if field in asked:
            asked[field] = inner(ids[asked[field] * len(ids) // 1000])
    wanted = Wanted(**asked)
    everything = expected(world, wanted)
    page = await board_page(tools.store, PROJECT, wanted, offset=offset, limit=limit)
    shown = [dashed(row.id) for row in page.rows]
    assert shown == everything[offset : offset + len(shown)]
    assert page.total in (None, len(everything))
    single = {"tags", "type", "parent"} & {*asked} | ({"text"} if "text" in asked else set())
    if asked.get("tags") in (None, *TAGS) and "ancestor" not in asked and "text" not in asked and len(single) < 2:
        assert page.total == len(everything)
        assert len(shown) == min(limit, max(len(everything) - offset, 0))
    while page.next and len(shown) + offset < len(everything):  # further pages follow without a gap
        page = await board_page(tools.store, PROJECT, wanted, after=page.next, limit=limit)
        shown += [dashed(row.id) for row in page.rows]
        assert shown == everything[offset : offset + len(shown)]
    assert page.next or shown == everything[offset:]


async def test_a_large_tree(store: Store, project: str) -> None:
    """Of more items than are read as a whole: it is found among all items, with no total."""
    tools = Client(store, project)
    root, other = await tools.add(), await tools.add(priority="high")
    below = []
    for _ in range(2):
        made = await tools.create(*({"title": "x", "parentId": root if n % 3 else other} for n in range(900)))
        below += [inner(item["id"]) for n, item in enumerate(made["items"]) if n % 3]
    page = await board_page(store, project, Wanted(ancestor=inner(root)))
    shown = [row.id for row in page.rows]
    assert (page.total, len(shown)) == (None, 100)
    while page.next:
        page = await board_page(store, project, Wanted(ancestor=inner(root)), after=page.next)
        shown += [row.id for row in page.rows]
    assert sorted(shown) == sorted(below)
    page = await board_page(store, project, Wanted(ancestor=inner(other)), offset=590)
    assert (page.total, len(page.rows), page.next) == (600, 10, "")


async def test_states_part_the_items(place: Any) -> None:
    tools, _ = place
    shown = {}
    for state in ("claimed", "unclaimed", "available", "waiting"):
        page = await board_page(tools.store, PROJECT, Wanted(state=state, role="queue"))
        assert page.total is not None
        shown[state] = {row.id: row for row in page.rows}
        assert {STATES[row.state] == "held" for row in page.rows} == {state == "claimed"}
    assert shown["unclaimed"] == shown["available"] | shown["waiting"]
    assert shown["waiting"]
    assert all(row.blockers or STATES[row.state] == "parent" for row in shown["waiting"].values())
    assert not any(row.blockers for row in shown["available"].values())


async def test_counts_by_role(place: Any) -> None:
    tools, world = place
    page = await board_page(tools.store, PROJECT, Wanted(role="work"), limit=1)
    for role, count in zip(ROLE_NAMES, page.roles, strict=True):
        assert count == sum(item["role"] == role for item in world.items.values()), role
    assert page.total == page.roles[1]


async def test_rows_agree_with_the_items(place: Any) -> None:
    tools, world = place
    ids = sorted(world.items)[:100]
    now, rows = await rows_by_ids(tools.store, PROJECT, [inner(ids[0]), "0" * 32, *map(inner, ids[1:])])
    assert [dashed(row.id) for row in rows] == ids
    assert now <= await server_time(tools.store)
    for row in rows:
        item = world.items[dashed(row.id)]
        below = [other["role"] for other in world.items.values() if other.get("parentId") == item["id"]]
        assert row.title == item["title"]
        assert (ROLE_NAMES[row.role], PRIORITY_NAMES[row.priority]) == (item["role"], item["priority"])
        assert (row.complexity or None, row.depth) == (item["complexity"], item["depth"])
        for field, value in {"tags": row.tags, "type": row.type, "statusLabel": row.status_label}.items():
            assert (value or None) == item.get(field)
        assert (dashed(str(row.parent_id)) if row.parent_id else None) == item.get("parentId")
        assert (row.created, row.modified) == (ms(item["createdAt"]), ms(item["modifiedAt"]))
        assert row.role_changed == ms(item["roleChangedAt"])
        assert (row.children, row.ended_children) == (len(below), below.count("terminal"))
        assert bool(row.holder) == (item["id"] in world.claims)
        assert (row.expires > now) == (world.claims.get(item["id"]) == "claimed")


async def row_of(tools: Client, item: str) -> ItemRow:
    (row,) = (await rows_by_ids(tools.store, tools.project, [inner(item)]))[1]
    return row


async def test_a_row_through_a_claim_and_its_end(store: Store, project: str) -> None:
    tools = Client(store, project, settings=Settings(attempts=Attempts(max=2, backoff_seconds=60)))
    item = await tools.add(requires=["gpu"], maxAttempts=2)
    row = await row_of(tools, item)
    assert (row.requires, row.max_attempts, row.attempts, row.held_until) == ("gpu", 2, 0, 0)
    assert (row.holder, row.claimed, row.renewed, row.expires, row.fence) == ("", 0, 0, 0, 0)
    for again in (False, True):
        await tools("claim_item", actor=actor("a"), claims=[{"itemId": item}], requestId=fresh_id())
        row = await row_of(tools, item)
        assert (row.holder, STATES[row.state]) == ("a", "held")
        assert row.fence <= row.claimed <= row.renewed < row.expires
        assert again == (row.renewed > row.claimed) or row.renewed == row.claimed
    blocker, blocked = await tools.add(), await tools.add()
    await tools.link(blocker, blocked)
    row = await row_of(tools, blocked)
    assert (row.blockers, STATES[row.state]) == (1, "waiting")
    page = await board_page(store, project, Wanted(holder="a"))
    assert ([row.id for row in page.rows], page.total) == ([inner(item)], 1)
    assert (await board_page(store, project, Wanted(holder="a", role="work"))).rows == []
    assert (await board_page(store, project, Wanted(holder="b"))).rows == []
    await tools.advance(item, "start", actor=actor("a"))
    await lapse(tools, item)
    now, (row,) = await rows_by_ids(store, project, [inner(item)])
    assert (row.holder, row.expires < now) == ("a", True)
    await BaseStore(store, Settings(), SchemaSource()).expire(project)


async def test_what_ended_last_comes_first(tools: Client, store: Store, project: str) -> None:
    root = await tools.add("root")
    ids = await tools.add_many(130, tags="x", parentId=root)
    other = await tools.add("other", priority="high")
    order = [*ids[::2], other, *ids[1::2]]
    for item in order:
        await tools.move(item, "start", "complete")
    again, reopened = order[3], order[5]
    await tools.move(again, "reopen", "cancel")
    await tools.move(reopened, "reopen")  # and so the root is open, too
    ended = [again, *(item for item in reversed(order) if item not in (again, reopened))]
    shown, after = list[str](), ""
    while True:
        page = await recent_page(store, project, Wanted(role="terminal"), after=after, limit=40)
        shown += [dashed(row.id) for row in page.rows]
        if not (after := page.next):
            break
        assert len(page.rows) == 40
    assert shown == ended
    tagged = await recent_page(store, project, Wanted(role="terminal", tags="x"), limit=100)
    assert [dashed(row.id) for row in tagged.rows] == [item for item in ended if item != other][:100]
    high = await recent_page(store, project, Wanted(role="terminal", priority="high"))
    assert ([dashed(row.id) for row in high.rows], high.next) == ([other], "")
    below = await recent_page(store, project, Wanted(role="terminal", ancestor=inner(root)), limit=1)
    assert [dashed(row.id) for row in below.rows] == [again]
    assert (await recent_page(store, project, Wanted(role="terminal", holder="a"))).rows == []
    with pytest.raises(ToolFailure, match="after"):
        await recent_page(store, project, Wanted(), after="x")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"role": "done"}, "role"),
        ({"priority": "x"}, "priority"),
        ({"state": "free"}, "state"),
        ({"tags": "a b"}, "tags"),
    ],
)
async def test_what_cannot_be_asked_for(store: Store, project: str, asked: Any, field: str) -> None:
    with pytest.raises(ToolFailure, match=field):
        await board_page(store, project, Wanted(**asked))
    with pytest.raises(ToolFailure, match="after"):
        await board_page(store, project, Wanted(), after="1:2")
