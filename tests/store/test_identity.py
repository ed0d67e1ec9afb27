"""The identity of the store: another one, or a flushed one, is rejected until it is accepted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from structlog.testing import capture_logs

from coordinator.errors import ToolFailure
from coordinator.store import Store, StoreChanged, StoreIdentity, keys
from coordinator.store.checks import key_space
from coordinator.store.checks.identity import IdentityFile
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fleet.drains import Drains
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.store.calls import BUMP
from tests.store.conftest import MakeStore
from tests.support.servers import kill
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

Serve = Callable[..., Any]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of the product only."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "data")
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


@pytest.fixture
def serve(server: EmbeddedServer, make_store: MakeStore) -> Serve:
    """Opens a store as a serving process does."""

    async def opened(identity: StoreIdentity | None = None, url: str = "") -> Store:
        store: Store = make_store(url or server.url, timeout_ms=5000, identity=identity)
        await store.open()
        await key_space.settle(store)
        return store

    return opened


async def bump(store: Store) -> int | str:
    """The outcome of a call that writes: a count, or the code of the failure."""
    try:
        return int(await store.run(BUMP, "default", "count"))
    except ToolFailure as failure:
        return failure.code


async def refused(store: Store) -> None:
    async def changed() -> bool:
        found = await bump(store)
        assert not isinstance(found, int), "the flushed store was accepted"
        return found == "store_changed"

    await wait_until(changed, what="the refusal")


async def served(store: Store) -> None:
    async def answers() -> bool:
        return isinstance(await bump(store), int)

    await wait_until(answers, what="an answer")


async def test_concurrent_starts_give_an_empty_store_one_identity(serve: Serve) -> None:
    stores = await asyncio.gather(*(serve() for _ in range(5)))
    (identity,) = {store.identity.known for store in stores}
    assert identity
    assert await stores[0].command("HGET", keys.identity.key(keys.FLEET), "id") == identity.encode()


async def test_a_process_that_starts_while_another_settles_the_store_learns_its_identity(
    serve: Serve, server: EmbeddedServer, make_store: MakeStore
) -> None:
    late = make_store(server.url, timeout_ms=5000)
    await late.open()
    first = await serve()
    await key_space.settle(late)
    assert late.identity.known == first.identity.known
    await first.command("FLUSHALL")
    await refused(late)


async def test_a_store_flushed_under_its_connections_is_rejected_from_the_next_answer_on(
    serve: Serve, server: EmbeddedServer
) -> None:
    """No connection drops, and the functions stay: the server reports the flush before anything else."""
    one, other = await serve(), await serve()
    assert [await bump(one), await bump(other)] == [1, 2]
    assert await one.command("FLUSHALL") == b"OK"
    assert await bump(other) in ("store_unavailable", "store_changed")
    for store in (one, other):
        await refused(store)
        with pytest.raises(ToolFailure, match="has no identity, like an empty one") as raised:
            await store.ping()
        assert (raised.value.code, raised.value.kind) == ("store_changed", "transient")
        assert raised.value.retry_after_ms
    # The server may have run a call that was sent before its message was read; that one failed, with unknown effect.
    assert await asyncio.to_thread(dbsize, server) <= 1, "more was written"


async def test_only_calls_on_their_way_when_a_store_is_emptied_leave_something_there(
    serve: Serve, server: EmbeddedServer
) -> None:
    """As the runbook of StoreChanged says: nothing is written once a call was refused."""
    store = await serve()
    assert await bump(store) == 1
    with closing(redis.Redis.from_url(server.url)) as other:
        calls = [asyncio.create_task(bump(store)) for _ in range(200)]
        await asyncio.sleep(0)
        await asyncio.to_thread(other.flushall)
        done = await asyncio.gather(*calls)
        await refused(store)
        left = {name: other.dump(name) for name in other.scan_iter()}
        assert set(left) <= {keys.request.key("default", "count")}
        assert [await bump(store) for _ in range(20)] == ["store_changed"] * 20
        assert {name: other.dump(name) for name in other.scan_iter()} == left
    assert {one for one in done if not isinstance(one, int)} <= {"store_changed", "store_unavailable"}


async def test_a_changed_store_that_ends_is_unavailable(serve: Serve, server: EmbeddedServer) -> None:
    store = await serve()
    await store.command("FLUSHALL")
    await refused(store)
    kill(server)

    async def unavailable() -> bool:
        return await bump(store) == "store_unavailable"

    await wait_until(unavailable, what="the store's end to be noticed")


async def test_a_server_that_does_not_report_flushes_is_served_with_a_warning(
    serve: Serve, server: EmbeddedServer, make_store: MakeStore
) -> None:
    admin = await serve()
    await admin.command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-client|tracking")
    path = parse(server.url).path
    with capture_logs() as logged:
        store = make_store(f"unix://app:secret@{path}", timeout_ms=5000)
        await store.open()
    assert any("does not report FLUSHALL and FLUSHDB" in line["event"] for line in logged)
    assert await bump(store) == 1


def server_of(store: Store) -> str:
    return store.url


async def test_calls_that_wait_for_a_connection_are_not_sent_to_another_store(
    serve: Serve, server: EmbeddedServer
) -> None:
    store = await serve()
    assert await bump(store) == 1
    kill(server)
    await wait_until(lambda: server.poll() is not None, what="the server's end")
    for path in (server.data_dir / "redis").iterdir():
        shutil.rmtree(path)
    waiting = [asyncio.create_task(bump(store)) for _ in range(20)]
    server.served = False  # like a supervisor that restarts it
    await asyncio.to_thread(server.start)
    assert not [one for one in await asyncio.gather(*waiting) if isinstance(one, int)]
    await refused(store)
    assert await asyncio.to_thread(dbsize, server) == 0


def dbsize(server: EmbeddedServer) -> int:
    with redis.Redis(**parse(server.url).client_options()) as client:
        return int(client.dbsize())


async def test_other_clients_of_the_process_reject_another_store_too(serve: Serve, server: EmbeddedServer) -> None:
    store = await serve()
    guarded = redis_client(parse(server.url), redis_connect_func=store.identity.guard, retry=Retry(NoBackoff(), 0))
    with guarded:
        assert await store.client.ping()
        assert await asyncio.to_thread(guarded.ping)
        stranger = await serve()
        await stranger.command("HSET", keys.identity.key(keys.FLEET), "id", "stranger")
        await store.client.connection_pool.disconnect()
        guarded.connection_pool.disconnect()
        with pytest.raises(redis.exceptions.ConnectionError, match="not the one that the fleet had"):
            await store.client.ping()
        with pytest.raises(redis.exceptions.ConnectionError, match="not the one that the fleet had"):
            await asyncio.to_thread(guarded.ping)


async def test_lost_functions_are_not_loaded_into_another_store(serve: Serve, server: EmbeddedServer) -> None:
    """As behind a proxy: the connection stays, the server behind it changes."""
    store = await serve()
    assert await bump(store) == 1
    other = await serve()
    await other.command("HSET", keys.identity.key(keys.FLEET), "id", "stranger")
    await other.command("FUNCTION", "FLUSH")
    assert await bump(store) == "store_changed"
    assert await other.command("FUNCTION", "LIST") == []
    # If only the functions are gone, they are loaded again.
    await other.command("HSET", keys.identity.key(keys.FLEET), "id", store.identity.known)
    await served(store)


async def test_an_operators_acceptance_reaches_every_process(
    serve: Serve, make_store: MakeStore, tmp_path: Path
) -> None:
    files = [IdentityFile(tmp_path / name, "here") for name in ("a", "b")]
    stores = [await serve(StoreIdentity(keep=file.keep)) for file in files]
    before = stores[0].identity.known
    assert [file.read() for file in files] == [before, before]
    await stores[0].command("FLUSHALL")
    for store in stores:
        await refused(store)
    operator = make_store(server_of(stores[0]))
    await operator.open()
    after = await operator.accept(before)
    assert after != before
    for store, file in zip(stores, files, strict=True):
        await served(store)
        assert store.identity.known == file.read() == after
    late = await serve(StoreIdentity(before))  # a host that was down meanwhile
    assert late.identity.known == after


async def test_a_foreign_store_is_refused_and_can_be_accepted(
    serve: Serve, make_store: MakeStore, tmp_path: Path
) -> None:
    ours = await serve()
    foreign = EmbeddedServer(tmp_path / "foreign")
    await asyncio.to_thread(foreign.start)
    try:
        theirs = await serve(url=foreign.url)
        with pytest.raises(StoreChanged, match=theirs.identity.known):
            await serve(StoreIdentity(ours.identity.known), url=foreign.url)
        assert await theirs.accept(ours.identity.known) == theirs.identity.known
        joined = await serve(StoreIdentity(ours.identity.known), url=foreign.url)
        assert joined.identity.known == theirs.identity.known
        for store in (theirs, joined):
            await store.close()
    finally:
        await asyncio.to_thread(foreign.stop)


async def test_only_the_newest_acceptance_counts(serve: Serve, make_store: MakeStore, tmp_path: Path) -> None:
    """The new store was accepted in place of ours, then ours again: a return to the new one is an accident."""
    file = IdentityFile(tmp_path, "here")
    ours = await serve(StoreIdentity(keep=file.keep))
    new = EmbeddedServer(tmp_path / "new")
    await asyncio.to_thread(new.start)

    async def accept(url: str) -> None:
        """Like the command."""
        operator = make_store(url)
        await operator.open()
        operator.identity = StoreIdentity(operator.identity.known, keep=file.keep, accepted=file.accepted())
        await operator.accept(file.read())

    def again() -> StoreIdentity:
        return StoreIdentity(file.read(), keep=file.keep, accepted=file.accepted())

    try:
        first = ours.identity.known
        second = (await serve(url=new.url)).identity.known
        await accept(new.url)
        away = again()
        running = await serve(StoreIdentity(first), url=new.url)
        assert (running.identity.known, away.known) == (second, second)
        await accept(server_of(ours))
        assert file.read() == first
        running = await serve(again())
        for back in (again(), running.identity):
            with pytest.raises(StoreChanged, match=second):
                await serve(back, url=new.url)
        assert (await serve(away)).identity.known == first  # a host that was down during the second acceptance
        await accept(new.url)
        assert (await serve(again(), url=new.url)).identity.known == second
    finally:
        await asyncio.to_thread(new.stop)


async def test_an_acceptance_is_newer_than_the_last_one_even_if_the_server_clock_is_behind(serve: Serve) -> None:
    store = await serve()
    far = 2**43
    identity = StoreIdentity("theirs", accepted=far)
    await identity.accept(store.ask)
    waiting = StoreIdentity("theirs", accepted=far)
    await waiting.check(store.ask)
    assert waiting.known == identity.known == store.identity.known


async def test_with_the_setting_auto_any_process_accepts(serve: Serve) -> None:
    stores = [await serve(StoreIdentity(accept="auto")) for _ in range(4)]
    before = stores[0].identity.known
    await stores[0].command("FLUSHALL")
    for store in stores:
        await served(store)
    (after,) = {store.identity.known for store in stores}
    assert after != before
    events = await stores[0].client.xrange(keys.fleet_events.key(keys.FLEET))
    assert {(fields[b"k"], fields[b"i"]) for _, fields in events} == {(b"store.accepted", after.encode())}


async def test_a_pinned_identity_is_given_by_the_operator_only(serve: Serve, make_store: MakeStore) -> None:
    with pytest.raises(StoreChanged, match="the store is not the one that the fleet had \\(prod-1\\): it has no"):
        await serve(StoreIdentity(pinned="prod-1"))
    operator = make_store(server_of(await unserved(serve)), identity=StoreIdentity())
    await operator.open()
    operator.identity = StoreIdentity(pinned="prod-1")
    assert await operator.accept() == "prod-1"
    assert (await serve(StoreIdentity(pinned="prod-1"))).identity.known == "prod-1"
    assert (await serve(StoreIdentity("else", pinned="prod-1"))).identity.known == "prod-1"


async def unserved(serve: Serve) -> Store:
    store: Store = await serve(StoreIdentity())
    await store.command("FLUSHALL")
    return store


async def test_data_without_an_identity_is_not_served(serve: Serve) -> None:
    store = await serve()
    await store.command("DEL", keys.identity.key(keys.FLEET))
    with pytest.raises(StoreChanged, match="in use but has no identity"):
        await serve()


async def test_a_time_that_was_heard_of_during_a_check_is_no_loss(server: EmbeddedServer, serve: Serve) -> None:
    """As when connections are replaced in a rolling upgrade, while the process notes the time on another one."""
    store: Store = await serve()
    identity = store.identity
    await store.command("SET", keys.moment.key(keys.FLEET), 1_000)
    identity.saw(1_000)

    async def ask(commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        replies: list[Any] = await store.ask(commands)
        identity.saw(2_000)  # another task has noted this time since, and the store has acknowledged it
        return replies

    with capture_logs() as logs:
        await identity.check(ask)
    assert [one for one in logs if "gone back" in one["event"]] == []
    assert await store.command("XLEN", keys.fleet_events.key(keys.FLEET)) == 0
    assert identity.latest == 2_000
    with capture_logs() as logs:
        await identity.check(store.ask)
    assert [one["seconds"] for one in logs if "gone back" in one["event"]] == [1.0]


async def test_a_store_that_went_back_in_time_is_served_and_reported(
    serve: Serve, server: EmbeddedServer, tmp_path: Path
) -> None:
    store = await serve()
    following = asyncio.create_task(Drains(store).follow("fe-0", ignore))
    try:
        await wait_until(lambda: store.identity.latest, what="a noted time")
        shutil.copytree(server.data_dir / "redis", tmp_path / "copy")
        copied = store.identity.latest
        await bump(store)
        store.written = True
        await wait_until(lambda: store.identity.latest > copied, what="a later one")
        kill(server)
        await wait_until(lambda: server.poll() is not None, what="the server's end")
        shutil.rmtree(server.data_dir / "redis")
        shutil.copytree(tmp_path / "copy", server.data_dir / "redis")
        with capture_logs() as logged:
            await asyncio.to_thread(server.start)
            await served(store)
            await wait_until(lambda: any("back in time" in line["event"] for line in logged), what="the log")
        events = await store.client.xrange(keys.fleet_events.key(keys.FLEET))
        assert [fields[b"k"] for _, fields in events] == [b"store.went_back"]
    finally:
        following.cancel()
        await asyncio.wait([following])


async def ignore(scope: str) -> None:
    pass


def test_an_unreadable_identity_file_counts_as_missing(tmp_path: Path) -> None:
    file = IdentityFile(tmp_path, "redis://a/0")
    assert file.read() == ""
    file.keep("one")
    IdentityFile(tmp_path, "redis://b/0").keep("two")
    assert (file.read(), IdentityFile(tmp_path, "redis://b/0").read()) == ("one", "two")
    file.keep("")
    assert file.read() == ""
    (tmp_path / "store.json").write_text("{")
    assert file.read() == ""
    IdentityFile(tmp_path / "store.json" / "below", "x").keep("three")
