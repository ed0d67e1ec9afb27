"""The store while its server is killed, stopped, demoted, full, or guarded."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from coordinator.errors import ToolFailure
from coordinator.store import AccessRefused, Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from tests.store.calls import BUMP, ECHO
from tests.store.conftest import MakeStore
from tests.support.servers import Kind, binary_for, kill
from tests.support.wait import wait_until, wait_until_sync

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def server(tmp_path: Path, store_kind: Kind) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path, binary=binary_for(store_kind.server)) as server:
        yield server


@pytest.fixture
async def fragile(server: EmbeddedServer, store_kind: Kind, make_store: MakeStore) -> Store:
    """A store on a server of the test's own."""
    store: Store = make_store(server.url, timeout_ms=5000, protocol=store_kind.protocol)
    await store.open()
    return store


def _fail_to_save(admin: redis.Redis) -> None:
    place = admin.config_get("dir", "dbfilename")
    in_the_way = Path(str(place["dir"])) / str(place["dbfilename"])
    in_the_way.unlink(missing_ok=True)
    in_the_way.mkdir()
    admin.config_set("save", "3600 1")
    admin.bgsave()
    wait_until_sync(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err", what="the failure to save")


def _lack_replicas(admin: redis.Redis) -> None:
    admin.config_set("min-replicas-to-write", 1)


def _forbid_deletion(admin: redis.Redis) -> None:
    admin.acl_setuser("default", commands=["-del"])


def _demote(admin: redis.Redis) -> None:
    admin.replicaof("127.0.0.1", 1)


async def test_a_killed_server_loses_no_acknowledged_write(fragile: Store, server: EmbeddedServer) -> None:
    answered = [0] * 32
    unknown = [0] * 32
    codes: set[str] = set()
    done, recoveries = False, 0

    def recovered() -> None:
        nonlocal recoveries
        recoveries += 1

    fragile.recovered = recovered

    async def caller(number: int) -> None:
        while not done:
            try:
                count = await fragile.run(BUMP, "p", str(number))
            except ToolFailure as failure:
                codes.add(failure.code)
                unknown[number] += "nothing was sent" not in failure.message
                await asyncio.sleep(0.01)
            else:
                answered[number] += 1
                assert answered[number] <= count <= answered[number] + unknown[number]

    async def traffic() -> None:
        before = sum(answered)
        await wait_until(lambda: sum(answered) > before + 200, what="traffic")

    callers = [asyncio.ensure_future(caller(number)) for number in range(32)]
    for kills in range(2):
        await traffic()
        assert recoveries == kills
        kill(server)
        await wait_until(lambda: server.poll() is not None and not fragile.connected, what="the loss")
        await asyncio.to_thread(server.start)
        await wait_until(lambda: fragile.scripts_loaded and recoveries > kills, what="the recovery")  # noqa: B023
    await traffic()
    done = True
    await asyncio.gather(*callers)
    assert codes == {"store_unavailable"}
    assert sum(unknown) > 0
    for number in range(32):
        count = await fragile.run(BUMP, "p", str(number)) - 1
        assert answered[number] <= count <= answered[number] + unknown[number]


async def test_calls_to_a_hung_server_fail_by_their_deadline(
    server: EmbeddedServer, store_kind: Kind, make_store: MakeStore
) -> None:
    # Long enough for a busy machine to load every script.
    store: Store = make_store(server.url, timeout_ms=1000, protocol=store_kind.protocol)
    await store.open()
    waits: list[float] = []

    async def call() -> None:
        started = time.monotonic()
        with pytest.raises(ToolFailure) as raised:
            await store.run(BUMP, "p", "a")
        assert raised.value.code == "store_unavailable"
        waits.append(time.monotonic() - started)

    kill(server, signal.SIGSTOP)
    await asyncio.gather(*(call() for _ in range(100)))
    assert min(waits) >= 1
    for _ in range(20):
        # While the server is known to be down, calls fail without waiting.
        with pytest.raises(ToolFailure, match="nothing was sent"):
            store.run(BUMP, "p", "a").send(None)
    assert store.in_flight == 0
    kill(server, signal.SIGCONT)
    await wait_until(lambda: store.connected, what="the recovery")
    assert await store.run(ECHO, "p", "a", 1) == ("a", 1, [])


async def test_replacing_an_idle_connection_fails_no_call(fragile: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process was paused; its timer finds out before the next call does."""
    connects, loop = fragile.link().connects, asyncio.get_running_loop()
    time, ahead = loop.time, 60.0
    with monkeypatch.context() as paused:
        paused.setattr(loop, "time", lambda: time() + ahead)
        await wait_until(lambda: fragile.link().connects > connects, what="another connection")
    assert await fragile.run(BUMP, "p", "count") == 1


async def test_a_full_server_keeps_other_versions_of_functions(
    fragile: Store, server: EmbeddedServer, store_kind: Kind, make_store: MakeStore
) -> None:
    name = BUMP.function_library.name.rpartition("_")[0] + "_0123456789abcdef"
    text = f"#!lua name={name}\nredis.register_function('{name}', function() return 1 end)"
    await fragile.command("FUNCTION", "LOAD", text)
    for memory, kept in ((1, 1), (0, 0)):
        await fragile.command("CONFIG", "SET", "maxmemory", memory)
        store = make_store(server.url, timeout_ms=5000, protocol=store_kind.protocol)
        await store.open()
        assert store.scripts_loaded
        assert len(await fragile.command("FUNCTION", "LIST", "LIBRARYNAME", name)) == kept


@pytest.mark.parametrize("known", [True, False], ids=["with its functions", "without"])
async def test_a_demoted_server_is_not_used_until_it_is_the_primary_again(
    fragile: Store, server: EmbeddedServer, known: bool
) -> None:
    assert await fragile.run(BUMP, "p", "a") == 1
    if not known:
        await fragile.command("FUNCTION", "FLUSH")
    with redis.Redis(**parse(server.url).client_options()) as admin:
        admin.replicaof("127.0.0.1", 1)
        with pytest.raises(ToolFailure, match="no longer the primary") as raised:
            await fragile.run(BUMP, "p", "a")
        assert raised.value.code == "store_unavailable"
        with capture_logs() as logged:
            await wait_until(lambda: _refused_for(fragile, "is a replica", logged), what="the refusal of a replica")
        admin.replicaof("NO", "ONE")
    await wait_until(lambda: fragile.connected, what="the recovery")
    assert await fragile.run(BUMP, "p", "a") == 2


async def test_a_full_server_rejects_writes_and_still_reads(fragile: Store) -> None:
    await fragile.command("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(ToolFailure) as raised:
        await fragile.run(BUMP, "p", "a")
    assert raised.value.code == "store_full"
    assert raised.value.retry_after_ms
    with pytest.raises(ToolFailure) as raised:
        await fragile.command("SET", "fc:{p}:q:x", 1)
    assert raised.value.code == "store_full"
    assert await fragile.run(ECHO, "p", "a", 1) == ("a", 1, [])
    await fragile.command("CONFIG", "SET", "maxmemory", 0)
    assert await fragile.run(BUMP, "p", "a") == 1


async def test_a_full_server_is_opened_and_gets_its_functions_when_there_is_room(
    fragile: Store, server: EmbeddedServer, store_kind: Kind, make_store: MakeStore
) -> None:
    await fragile.command("FUNCTION", "FLUSH")
    await fragile.command("CONFIG", "SET", "maxmemory", 1)
    store = make_store(server.url, timeout_ms=5000, protocol=store_kind.protocol)
    await store.open()
    for one in (fragile, store):
        with pytest.raises(ToolFailure) as raised:
            await one.run(ECHO, "p", "a", 1)
        assert raised.value.code == "store_full"
    assert not store.scripts_loaded
    await fragile.command("CONFIG", "SET", "maxmemory", 0)
    await store.ping()
    await wait_until(lambda: store.scripts_loaded, what="the functions")
    assert await store.run(BUMP, "p", "a") == 1


@pytest.mark.parametrize("known", [True, False], ids=["with its functions", "without"])
async def test_too_few_replicas_are_reported(fragile: Store, known: bool) -> None:
    if not known:
        await fragile.command("FUNCTION", "FLUSH")
    await fragile.command("CONFIG", "SET", "min-replicas-to-write", 1)
    with pytest.raises(ToolFailure, match="too few replicas") as raised:
        await fragile.run(BUMP, "p", "a")
    assert raised.value.code == "store_unavailable"
    await fragile.command("CONFIG", "SET", "min-replicas-to-write", 0)
    assert await fragile.run(BUMP, "p", "a") == 1


@pytest.mark.parametrize(
    ("refusing", "why"),
    [
        (_fail_to_save, "cannot write to its disk"),
        (_lack_replicas, "has too few replicas"),
        (_forbid_deletion, "does not permit this process"),
        (_demote, "no longer the primary"),
    ],
)
async def test_ping_fails_while_the_server_rejects_writes(
    fragile: Store, server: EmbeddedServer, refusing: Callable[[redis.Redis], None], why: str
) -> None:
    await fragile.ping()
    with redis.Redis(**parse(server.url).client_options(), decode_responses=True) as admin:
        refusing(admin)
        with pytest.raises(ToolFailure, match=why) as raised:
            await fragile.ping()
        assert raised.value.code == "store_unavailable"
        assert admin.time(), "it does answer"
        admin.config_set("save", "")  # a server that cannot save ignores a request to shut down


async def test_ping_writes_nothing_and_succeeds_on_a_full_server(fragile: Store) -> None:
    async def written() -> tuple[Any, ...]:
        stats = await fragile.command("INFO", "persistence", "replication")
        facts = dict(line.split(b":", 1) for line in stats.splitlines() if b":" in line)
        return facts[b"aof_current_size"], facts[b"master_repl_offset"], await fragile.command("DBSIZE")

    before = await written()
    await fragile.ping()
    assert await written() == before
    await fragile.command("CONFIG", "SET", "maxmemory", 1)
    await fragile.ping()
    await fragile.command("CONFIG", "SET", "maxmemory", 0)


async def test_a_wrong_password_is_reported_and_not_shown(
    server: EmbeddedServer, store_kind: Kind, make_store: MakeStore
) -> None:
    url = f"unix://:tops3cret@{parse(server.url).path}"
    with pytest.raises(AccessRefused, match="wrong user or password") as raised:
        await make_store(url, protocol=store_kind.protocol).open()
    assert "tops3cret" not in str(raised.value)
    with pytest.raises(AccessRefused, match="a password is needed"):
        await make_store(f"unix://{parse(server.url).path}", protocol=store_kind.protocol).open()


async def test_a_changed_password_fails_calls_until_it_is_changed_back(fragile: Store, server: EmbeddedServer) -> None:
    address = parse(server.url)
    with redis.Redis(**address.client_options()) as admin:
        admin.config_set("requirepass", "another")
        admin.client_kill_filter(_type="normal", skipme=True)
        with capture_logs() as logged:
            await wait_until(lambda: _refused_for(fragile, "wrong user or password", logged), what="the refusal")
        admin.config_set("requirepass", address.password)
    await wait_until(lambda: fragile.connected, what="the recovery")
    assert await fragile.run(BUMP, "p", "a") == 1


async def test_a_user_without_permission_to_call_functions_is_rejected_and_the_reason_logged(fragile: Store) -> None:
    assert await fragile.run(BUMP, "p", "a") == 1
    await fragile.command("ACL", "SETUSER", "default", "-fcall")
    with capture_logs() as logged:
        for _ in range(3):
            with pytest.raises(ToolFailure, match="does not permit") as raised:
                await fragile.run(BUMP, "p", "a")
            assert raised.value.code == "store_unavailable"
    (line,) = logged
    assert line["event"] == "the store refuses calls"
    assert "fcall" in line["reason"]
    await fragile.command("ACL", "SETUSER", "default", "+fcall")
    assert await fragile.run(BUMP, "p", "a") == 2


async def _refused_for(store: Store, why: str, logged: list[Any]) -> bool:
    """Whether callers are rejected, and only the log says why."""
    try:
        await store.ping()
    except ToolFailure as failure:
        return why not in failure.message and any(why in entry.get("reason", "") for entry in logged)
    return False


async def test_tcp_with_another_database_and_user(tmp_path: Path, store_kind: Kind, make_store: MakeStore) -> None:
    directory = tmp_path / ("long" * 30)
    with EmbeddedServer(directory, binary=binary_for(store_kind.server)) as server:
        address = parse(server.url)
        assert address.host == "127.0.0.1"
        with redis.Redis(**address.client_options()) as admin:
            admin.acl_setuser("fleet", enabled=True, passwords=["+p@ss:word"], commands=["+@all"], keys=["fc:*"])
        url = f"redis://fleet:p%40ss%3Aword@127.0.0.1:{address.port}/3"
        store: Store = make_store(url, protocol=store_kind.protocol)
        await store.open()
        counts = await asyncio.gather(*(store.run(BUMP, "p", "a") for _ in range(200)))
        assert counts == list(range(1, 201))
        with redis.Redis(**address.client_options() | {"db": 3}) as admin:
            assert admin.get("fc:{p}:q:a") == b"200"
        await store.close()
