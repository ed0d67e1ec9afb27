"""A store that is brought to another layout while processes run: they neither call nor load functions any more."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import ServerError, Store, keys
from coordinator.store.checks import key_space
from coordinator.store.following import follow
from coordinator.store.functions import present_libraries
from coordinator.store.layout import MARK, VERSION, KnownLayout, layout_of
from coordinator.store.metrics import FOREIGN_LIBRARIES
from coordinator.store.scripts import STORE
from tests.store.calls import BUMP
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio
KEY = keys.key_space.key(keys.FLEET)
NEWER = VERSION + 1


def library(digest: str, mark: str) -> tuple[str, str]:
    """Name and text of a library of another build, with this mark of its layout."""
    text = STORE.text.replace(STORE.name.rpartition("_")[2], digest).replace(MARK, mark)
    return f"fleet_store_{digest}", text


FOREIGN = b"#!lua name=fleet_mgmt\n-- caf\xe9\nredis.register_function('mine',function() return 1 end)"
"""Somebody else's, in another encoding."""


async def names(store: Store) -> set[str]:
    return await present_libraries(store.link())


async def test_a_process_is_unready_while_the_store_has_another_layout(alone: Store) -> None:
    await key_space.settle(alone)
    await alone.command("SET", KEY, NEWER)
    await wait_until(lambda: "newer release" in alone.layout.problem, what="the other layout to be noticed")
    with pytest.raises(ToolFailure, match=f"version {NEWER}; this one has {VERSION}") as caught:
        await alone.ping()
    assert caught.value.code == "store_unavailable"
    with pytest.raises(ToolFailure, match="stop this process") as caught:  # although its functions are there
        await alone.run(BUMP, "p", "count")
    assert caught.value.code == "layout_unknown"
    await alone.command("SET", KEY, VERSION)
    await wait_until(lambda: not alone.layout.problem, what="the layout to be back")
    await alone.ping()


@pytest.mark.parametrize("there", [str(NEWER), "x"])
async def test_functions_are_not_loaded_into_a_store_of_another_layout(alone: Store, there: str) -> None:
    assert await alone.run(BUMP, "p", "count") == 1
    await alone.command("SET", KEY, there)
    await alone.command("FUNCTION", "FLUSH", "SYNC")
    for _ in range(2):
        with pytest.raises(ToolFailure, match="stop this process") as caught:
            await alone.run(BUMP, "p", "count")
        assert (caught.value.code, caught.value.kind) == ("layout_unknown", "transient")
    with pytest.raises(ToolFailure, match="stop this process"):
        await alone.load_functions()
    assert await names(alone) == set()
    await alone.command("SET", KEY, VERSION)
    await alone.layout.look()
    assert await alone.run(BUMP, "p", "count") == 2


@pytest.mark.parametrize("everything", [False, True])
async def test_functions_that_are_loaded_while_the_layout_changes_are_deleted(
    alone: Store, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    """As by a process that was stopped between its question and its load."""
    await alone.command("FUNCTION", "FLUSH", "SYNC")
    demand, asked = KnownLayout.demand, 0

    async def stopped(layout: KnownLayout) -> None:
        nonlocal asked
        await demand(layout)
        asked += 1
        if asked == 1:
            await alone.command("SET", KEY, NEWER)

    monkeypatch.setattr(KnownLayout, "demand", stopped)
    if everything:
        with pytest.raises(ToolFailure, match="stop this process"):
            await alone.load_functions()
    else:
        await alone.run(BUMP, "p", "count")  # it is sent with the load, lest somebody deletes that in between

    async def gone() -> bool:
        return not await names(alone)

    await wait_until(gone, what="what was loaded to be deleted")
    assert "newer release" in alone.layout.problem


async def test_libraries_for_an_older_layout_are_deleted_and_others_stay(alone: Store) -> None:
    await key_space.settle(alone)
    before = counted(FOREIGN_LIBRARIES)
    same, unmarked = library("0" * 16, MARK), library("1" * 16, "")
    await alone.command("FUNCTION", "LOAD", FOREIGN)
    older = [library(digit * 16, f"-- layout {VERSION - 1}") for digit in "23"]
    newer = library("4" * 16, f"-- layout {NEWER}")
    for _, text in (same, unmarked, newer, *older):
        await alone.command("FUNCTION", "LOAD", text)

    async def gone() -> bool:
        return not {name for name, _ in older} & await names(alone)

    await wait_until(gone, what="the libraries to be deleted")
    assert {same[0], unmarked[0], newer[0], STORE.name, "fleet_mgmt"} <= await names(alone)
    assert counted(FOREIGN_LIBRARIES) == before + 2


async def test_nothing_is_deleted_where_another_database_may_have_the_older_layout(alone: Store) -> None:
    await key_space.settle(alone)
    older = library("2" * 16, f"-- layout {VERSION - 1}")
    await alone.client.execute_command("SELECT", 1)
    await alone.client.set("another", "fleet")
    await alone.command("FUNCTION", "LOAD", older[1])
    for _ in range(2):
        await alone.layout.look()
    looked = asyncio.Event()
    execute = alone.link().execute

    async def told(*words: str | bytes | int) -> object:
        if words == ("INFO", "keyspace"):
            looked.set()
        return await execute(*words)

    alone.link().execute = told  # type: ignore[method-assign]
    async with asyncio.timeout(30):
        await looked.wait()
    assert older[0] in await names(alone)
    await alone.command("FUNCTION", "DELETE", older[0])


async def test_a_look_that_fails_hinders_no_other() -> None:
    looked: list[int] = []

    async def broken() -> None:
        looked.append(0)
        raise LookupError

    async def works() -> None:
        looked.append(1)

    following = asyncio.create_task(follow(broken, works))
    await wait_until(lambda: looked.count(1) > 1, what="two looks")
    assert not following.done()
    following.cancel()


async def test_a_process_of_an_older_layout_deletes_nothing(alone: Store) -> None:
    await alone.command("SET", KEY, NEWER)
    await alone.layout.look()
    older = library("2" * 16, f"-- layout {VERSION - 1}")
    await alone.command("FUNCTION", "LOAD", older[1])
    alone.follow()
    await alone.command("SET", KEY, NEWER + 1)
    await wait_until(lambda: f"version {NEWER + 1}" in alone.layout.problem, what="a look at the store")
    assert older[0] in await names(alone)


async def test_what_a_script_cannot_read_is_no_defect_if_the_layout_is_another(alone: Store) -> None:
    await alone.command("HSET", keys.request.key("p", "count"), "of", "another type")
    with pytest.raises(ServerError, match="WRONGTYPE"):
        await alone.run(BUMP, "p", "count")
    await alone.command("SET", KEY, NEWER)
    with pytest.raises(ToolFailure) as caught:
        await alone.run(BUMP, "p", "count")
    assert caught.value.code == "layout_unknown"


def test_libraries_say_their_layout() -> None:
    assert layout_of(STORE.text) == VERSION
    assert layout_of("#!lua name=x\n-- layout 12\nlocal m={}\n") == 12
