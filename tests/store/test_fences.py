"""Fenced projects are refused by every function, in one step with it, and other projects pay nothing for that."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ResponseError

from coordinator.errors import ToolFailure
from coordinator.store import Script, ServerError, Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fences import copies
from coordinator.store.fences.copies import CannotFence, Fence, FenceLost, Fencing
from coordinator.store.fences.known import Fenced
from coordinator.store.functions import load, present_libraries
from coordinator.store.layout import VERSION
from coordinator.store.libraries.build import FENCED_PREFIX, Library, fenced_name, fenced_text
from coordinator.store.link import clients
from coordinator.store.link.address import parse
from tests.store.calls import BUMP, FIXTURES
from tests.store.conftest import MakeStore
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "GRACE_SECONDS", 0.01)


@pytest.fixture
async def fences(alone: Store) -> AsyncIterator[Fencing]:
    """Those of a store, which has none afterwards."""
    copies = Fencing(alone)
    yield copies
    for project in await copies.all():
        await copies.note(project, None)
    await alone.client.delete(b"fc:{p}:cy")
    await copies.end()


async def libraries(store: Store) -> set[str]:
    return await present_libraries(store.link())


async def fence(fences: Fencing, project: str = "p", identity: str = "") -> str:
    """Fences a project as a copy does; returns the copy's id."""
    identity = identity or secrets.token_hex(8)
    await fences.note(project, Fence(identity, "leaving", 0, "", ""))
    await fences.begin(identity)
    await fences.put(project, identity, "leaving")
    return identity


async def test_a_fenced_project_is_refused_and_others_go_on(alone: Store, fences: Fencing) -> None:
    assert await alone.run(BUMP, "p", "count") == 1
    copy = await fence(fences)
    for _ in range(2):  # first by the function, then without a call
        with pytest.raises(Fenced, match="the project p is being copied to another store; nothing was done") as caught:
            await alone.run(BUMP, "p", "count")
        assert (caught.value.kind, caught.value.retry_after_ms) == ("transient", 1000)
    with pytest.raises(Fenced):
        await alone.command("GET", b"fc:{p}:count")
    assert await alone.run(BUMP, "q", "count") == 1
    await fences.turn("p", copy, copy, None)
    assert await alone.run(BUMP, "p", "count") == 2
    await alone.client.delete("fc:{p}:count", "fc:{q}:count")


async def test_the_usual_functions_are_the_same_as_before(alone: Store, fences: Fencing) -> None:
    before = await alone.command("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*", "WITHCODE")
    copy = await fence(fences)
    assert all(name.startswith(FENCED_PREFIX) for name in await libraries(alone))
    await fences.turn("p", copy, copy, None)
    await fences.end()
    assert await fences.looks()  # the list still has it
    await fences.note("p", None)
    await fences.end()
    after = await alone.command("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*", "WITHCODE")
    assert sorted(map(repr, after)) == sorted(map(repr, before))


@pytest.mark.parametrize("how", ["starts", "calls"])
async def test_lost_functions_come_back_as_those_that_look(
    alone: Store, fences: Fencing, make_store: MakeStore, how: str
) -> None:
    await fence(fences)
    await alone.command("FUNCTION", "FLUSH")
    if how == "starts":
        other = make_store(alone.url)
        await other.open()
    with pytest.raises(Fenced):
        await alone.run(BUMP, "p", "count")
    await alone.client.delete("fc:{p}:cy")
    assert await alone.run(BUMP, "q", "count") == 1
    assert all(name.startswith(FENCED_PREFIX) for name in await libraries(alone))
    await alone.client.delete("fc:{q}:count")


async def test_a_late_load_of_the_usual_functions_changes_nothing(alone: Store, fences: Fencing) -> None:
    await fence(fences)
    before = await libraries(alone)
    with pytest.raises(Exception, match="already exists"):
        await alone.command("FUNCTION", "LOAD", "REPLACE", FIXTURES.text)
    assert await libraries(alone) == before
    with pytest.raises(Fenced):
        await alone.run(BUMP, "p", "count")


async def test_a_process_that_was_late_to_end_a_copy_does_not_undo_the_next(alone: Store, fences: Fencing) -> None:
    first = await fence(fences)
    await fences.turn("p", first, first, None)
    await fence(fences)
    with pytest.raises(Exception, match="not found"):
        await alone.command("FUNCTION", "DELETE", fenced_name(FIXTURES.name, first))
    with pytest.raises(FenceLost):
        await fences.turn("p", first, first, None)
    with pytest.raises(Fenced):
        await alone.run(BUMP, "p", "count")


async def test_functions_of_another_release_look_too(alone: Store, fences: Fencing) -> None:
    other = FIXTURES.text.replace(FIXTURES.name.rpartition("_")[2], "0123456789abcdef")
    await alone.command("FUNCTION", "LOAD", other)
    await fence(fences)
    name = BUMP.function.rpartition("_")[0] + "_0123456789abcdef"
    with pytest.raises(Exception, match="the project p is being copied"):
        await alone.command_of("p", "FCALL", name, 1, "fc:{p}:", "count")


async def test_a_release_that_cannot_look_stops_a_copy(alone: Store, fences: Fencing) -> None:
    text = "#!lua name=fleet_older_01234567\nredis.register_function('fleet_older', function() return 1 end)"
    await alone.command("FUNCTION", "LOAD", text)
    with pytest.raises(CannotFence, match="fleet_older_01234567 are of a release that does not know of fences"):
        await fence(fences)
    await alone.command("FUNCTION", "DELETE", "fleet_older_01234567")


async def test_processes_learn_of_fences_without_a_call(
    alone: Store, fences: Fencing, make_store: MakeStore, own_server: EmbeddedServer
) -> None:
    assert await alone.run(BUMP, "p", "count") == 1
    copy = await fence(fences)
    await fences.turn("p", copy, copy, "moved")
    await fences.note("p", Fence(copy, "moved", 0, "", "", settled=True))
    await alone.fences.look()
    await fences.end()
    assert FIXTURES.name in await libraries(alone)  # nothing looks for the fence now
    later = make_store(own_server.url)
    await later.open()
    for store in (alone, later):
        with pytest.raises(Fenced, match="the project p was moved to another store"):
            await store.run(BUMP, "p", "count")
    await alone.client.delete("fc:{p}:count")


async def test_a_worker_thread_loads_what_is_wanted(alone: Store, fences: Fencing, own_server: EmbeddedServer) -> None:
    await fence(fences)
    await alone.command("FUNCTION", "FLUSH")
    with clients.client(parse(own_server.url)) as client:
        for _ in range(2):
            load(client, FIXTURES)
    assert all(name.startswith(FENCED_PREFIX) for name in await libraries(alone))


async def test_a_worker_thread_loads_nothing_into_a_store_of_another_layout(
    alone: Store, own_server: EmbeddedServer
) -> None:
    await alone.command("FUNCTION", "FLUSH")
    await alone.command("SET", keys.key_space.key(keys.FLEET), VERSION + 1)
    with clients.client(parse(own_server.url)) as client, pytest.raises(ResponseError, match="another release"):
        load(client, FIXTURES)
    assert await libraries(alone) == set()


async def test_no_call_gets_through_while_functions_come_and_go(
    alone: Store, fences: Fencing, make_store: MakeStore
) -> None:
    """Many processes call, lose their functions, and load them again, while the project is fenced."""
    stores = [make_store(alone.url) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    done, refused = False, 0

    async def caller(store: Store) -> None:
        nonlocal refused
        while not done:
            try:
                await store.run(BUMP, "p", "count")
            except Fenced:
                refused += 1
                store.projects.fenced.clear()  # asks the function again
            except ToolFailure:
                pass

    async def losing() -> None:
        while not done:
            with contextlib.suppress(ServerError):
                await alone.command("FUNCTION", "DELETE", FIXTURES.name)
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(caller(store)) for store in stores] + [asyncio.ensure_future(losing())]
    counts = []
    try:
        for _ in range(5):
            copy = await fence(fences)
            before = int(await alone.client.get("fc:{p}:count") or 0)
            for _ in range(10):
                seen = refused
                await alone.command("FUNCTION", "FLUSH")
                await wait_until(lambda seen=seen: refused > seen + 5, what="calls to be refused")  # type: ignore[misc]
            counts.append(int(await alone.client.get("fc:{p}:count") or 0) - before)
            await fences.note("p", None)
            await fences.turn("p", copy, copy, None)
            await fences.end()
    finally:
        done = True
        await asyncio.gather(*tasks)
    assert counts == [0] * 5
    await alone.client.delete("fc:{p}:count")


def test_every_library_can_look() -> None:
    for library in {script.function_library for script in Script.registered()} | {Library("coordinator.webhooks")}:
        lines = zip(library.text.splitlines(), fenced_text(library.text, "1").splitlines(), strict=True)
        assert [number for number, (usual, fenced) in enumerate(lines) if usual != fenced] == [0, 1]
