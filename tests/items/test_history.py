"""The history of an item, page by page."""

from __future__ import annotations

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.store.history import read_history
from tests.items.client import Client, actor

pytestmark = pytest.mark.anyio


def inner(item: str) -> str:
    return item.replace("-", "")


async def test_pages_follow_the_item_and_no_other(tools: Client, store: Store, project: str) -> None:
    item, other = await tools.add(), await tools.add()
    assert await read_history(store, project, inner(item)) == ([], [], "", False)
    done = []
    for n in range(30):
        trigger = "hold" if n % 2 == 0 else "resume"
        await tools.advance(item, trigger, summary=f"change {n}", actor=actor("a"))
        await tools.advance(other, trigger)
        done.append((trigger, f"change {n}"))
    shown, start, entries = [], "", list[str]()
    while True:
        page = await read_history(store, project, inner(item), start, 7)
        assert not page.trimmed
        shown += [(change.trigger, change.summary) for change in page.changes]
        entries += page.entries
        for change in page.changes:
            assert '"a"' in change.actor
            roles = ROLE_NAMES[change.from_role], ROLE_NAMES[change.to_role]
            assert roles == (("queue", "blocked") if change.trigger == "hold" else ("blocked", "queue"))
        if not (start := page.next):
            break
    assert shown == done[::-1]
    assert len({*entries}) == 30
    assert (await read_history(store, project, inner(other), entries[0])).changes == []


async def test_what_was_trimmed_is_told(tools: Client, store: Store, project: str) -> None:
    item = await tools.add()
    for n in range(6):
        await tools.advance(item, "resume" if n % 2 else "hold")
    whole = await read_history(store, project, inner(item), limit=4)
    assert (len(whole.changes), whole.next != "", whole.trimmed) == (4, True, False)
    await store.command("XTRIM", keys.transitions.key(project), "MINID", whole.entries[1])
    cut = await read_history(store, project, inner(item))
    assert (cut.entries, cut.next, cut.trimmed) == (whole.entries[:2], "", True)
    assert await read_history(store, project, inner(item), whole.next) == ([], [], "", True)


async def test_refusals(tools: Client, store: Store, project: str) -> None:
    item = await tools.add()
    with pytest.raises(ToolFailure, match="start"):
        await read_history(store, project, inner(item), "yesterday")
    with pytest.raises(ToolFailure) as refused:
        await read_history(store, project, "0" * 32)
    assert refused.value.code == "RESOURCE_NOT_FOUND"
