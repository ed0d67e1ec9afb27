"""The store against real servers: concurrency, script outcomes, and how scripts get there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Script, ScriptError, ScriptFailure, ServerError, Store, keys
from coordinator.store import store as store_module
from coordinator.store.cluster import places
from coordinator.store.outcomes import LEFT
from coordinator.store.scripts import pack_key
from tests.store.calls import BLOB, BUMP, ECHO, FAULTY, REFUSE, WRITE_NUMBER
from tests.store.conftest import MakeStore
from tests.support.servers import Kind
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


async def test_many_callers_each_get_their_own_replies(store: Store, project: str) -> None:
    async def caller(number: int) -> None:
        for turn in range(50):
            text = f"{number}-{turn}"
            assert await store.run(ECHO, project, text, turn, "a", "b") == (text, turn, ["a", "b"])

    await asyncio.gather(*(caller(number) for number in range(64)))
    assert store.in_flight == 0


async def test_cancelled_callers_do_not_shift_the_replies_of_others(store: Store, project: str) -> None:
    calls = [asyncio.ensure_future(store.run(ECHO, project, str(n), n)) for n in range(300)]
    await asyncio.sleep(0)
    for call in calls[::3]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    for n, result in enumerate(results):
        if n % 3:
            assert result == (str(n), n, [])
        else:
            assert isinstance(result, asyncio.CancelledError)
    assert await store.run(ECHO, project, "after", 1) == ("after", 1, [])


async def test_an_error_reply_reaches_only_its_caller(store: Store, project: str) -> None:
    calls = [
        store.run(REFUSE, project, "returned") if n % 7 == 3 else store.run(ECHO, project, str(n), n)
        for n in range(100)
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    for n, result in enumerate(results):
        if n % 7 == 3:
            assert isinstance(result, ScriptFailure)
        else:
            assert result == (str(n), n, [])


async def test_large_replies_and_arguments_keep_their_place(store: Store, project: str) -> None:
    size = 3_000_000
    blob, echoed, small, last = await asyncio.gather(
        store.run(BLOB, project, size),
        store.command("ECHO", b"y" * size),
        store.run(ECHO, project, "small", 1),
        store.run(BLOB, project, 1),
    )
    assert blob == b"x" * size
    assert echoed == b"y" * size
    assert small == ("small", 1, [])
    assert last == b"x"


async def test_text_round_trips(store: Store, project: str) -> None:
    text = 'é \0 \r\n "$5\r\n" 🜁'
    assert await store.run(ECHO, project, text, -(2**53) + 1, "", text) == (text, -(2**53) + 1, ["", text])


@pytest.mark.parametrize("zeros", range(16))
async def test_numbers_in_commands_have_all_their_digits(store: Store, project: str, zeros: int) -> None:
    for number in (10**zeros, 17 * 10 ** min(zeros, 14), 123_456_789_012_345 // 10**zeros * 10**zeros):
        assert await store.run(WRITE_NUMBER, project, number) == str(number).encode()


@pytest.mark.parametrize(
    ("how", "code", "detail"),
    [("returned", "CONFLICT", "it moved on"), ("bare", "GONE", ""), ("raised", "GONE", "for good")],
)
async def test_a_declared_refusal_has_its_code(how: str, code: str, detail: str, store: Store, project: str) -> None:
    with pytest.raises(ScriptFailure) as raised:
        await store.run(REFUSE, project, how)
    assert (raised.value.code, raised.value.detail) == (code, detail)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("undeclared", ["refuse", "SURPRISE is not in its header"]),
        ("wrong type", ["refuse", "WRONGTYPE"]),
        ("fail", ["refuse", "refuse.lua:20", "missing"]),
    ],
)
async def test_a_defect_of_a_script_is_reported_with_its_place(
    how: str, words: list[str], store: Store, project: str
) -> None:
    with pytest.raises(ServerError) as raised:
        await store.run(REFUSE, project, how)
    for word in words:
        assert word in str(raised.value)


async def test_a_bad_project_name_is_the_callers_mistake(store: Store) -> None:
    with pytest.raises(ToolFailure, match="project") as raised:
        await store.run(BUMP, "no such project", "a")
    assert raised.value.code == "VALIDATION_ERROR"


async def test_cached_project_names_are_bounded(store: Store, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MAX_CACHED_PLACES", 3)
    packed = list[str]()

    def noted(name: str) -> bytes:
        packed.append(name)
        return pack_key(name)

    monkeypatch.setattr("coordinator.store.cluster.places.pack_key", noted)
    await store.run(BUMP, f"{project}-9", "count")  # in a cluster, unwritten projects are looked at each time
    for _ in range(2):
        packed.clear()
        for number in range(10):
            assert await store.run(ECHO, f"{project}-{number}", "text", number) == ("text", number, [])
        assert len(packed) >= 10 - 3, "those of before are forgotten"
    again = len(packed)
    assert await store.run(ECHO, f"{project}-9", "text", 9) == ("text", 9, [])
    assert len(packed) == again, "the last one is not"


async def test_a_script_stays_in_its_scope(store: Store) -> None:
    with pytest.raises(ValueError, match="scope"):
        await store.run(BUMP, keys.FLEET, "a")


async def functions(store: Store) -> set[str]:
    """The libraries that the server holds."""
    listed = await store.client.execute_command("FUNCTION", "LIST")
    entries = (one if isinstance(one, dict) else dict(zip(one[::2], one[1::2], strict=True)) for one in listed)
    return {entry[b"library_name"].decode() for entry in entries}


async def test_scripts_are_loaded_when_the_store_is_opened(store: Store) -> None:
    assert store.scripts_loaded
    assert {script.function_library.name for script in (ECHO, store_module.CHECK)} <= await functions(store)


async def test_garbage_of_scripts_is_collected_in_small_steps(store: Store) -> None:
    name = "a_test_of_the_collector"
    text = f"redis.register_function('{name}', function() return collectgarbage('setpause', 100) end)"
    await store.command("FUNCTION", "LOAD", "REPLACE", f"#!lua name={name}\n{text}")
    assert await store.command("FCALL", name, 0) == 150
    await store.command("FUNCTION", "DELETE", name)


async def test_only_other_versions_of_a_script_are_deleted(
    redis_url: str, store_kind: Kind, store: Store, make_store: MakeStore
) -> None:
    ours = ["fleet_scripts_0123456789abcdef", "fleet_scripts_bump_0123456789abcdef"]  # the latter of one operation
    others = ["fleet_scriptsfor_0123456789abcdef", "fleet_gone_0123456789abcdef", "somebody_elses"]
    for name in (*ours, *others):
        text = f"#!lua name={name}\nredis.register_function('{name}', function() return 1 end)"
        await store.command("FUNCTION", "LOAD", text)
    again = make_store(redis_url, protocol=store_kind.protocol)
    await again.open()
    assert await functions(store) & {*ours, *others} == set(others)
    assert BUMP.function_library.name in await functions(store)
    for name in others:
        await store.command("FUNCTION", "DELETE", name)


async def test_a_deleted_version_is_loaded_again_when_it_is_called(store: Store, project: str) -> None:
    assert await store.run(BUMP, project, "count") == 1
    await store.command("FUNCTION", "DELETE", BUMP.function_library.name)
    assert await store.run(BUMP, project, "count") == 2
    assert BUMP.function_library.name in await functions(store)


async def test_a_library_deleted_under_load_is_loaded_again_once(store: Store, project: str) -> None:
    await store.command("FUNCTION", "DELETE", BUMP.function_library.name)
    send, loads = store.link().submit, 0

    def submit(command: bytes) -> asyncio.Future[object]:
        nonlocal loads
        loads += command.startswith(b"*4\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD")
        return send(command)

    store.link().submit = submit
    texts = [str(number) for number in range(100)]
    echoed = asyncio.gather(*(store.run(ECHO, project, text, 1) for text in texts))
    counts = await asyncio.gather(*(store.run(BUMP, project, "count") for _ in range(100)))
    assert sorted(counts) == list(range(1, 101))
    assert await echoed == [(text, 1, []) for text in texts]
    assert loads < 100


async def test_flushed_functions_fail_no_calls_under_load(store: Store, project: str) -> None:
    answered = 0
    done = False

    async def caller() -> None:
        nonlocal answered
        for _ in range(60):
            await store.run(BUMP, project, "count")
            answered += 1

    async def flush() -> int:
        flushes = 0
        while not done:
            await store.command("FUNCTION", "FLUSH")
            flushes += 1
        return flushes

    flusher = asyncio.ensure_future(flush())
    await asyncio.gather(*(caller() for _ in range(32)))
    done = True
    assert await flusher > 5
    assert answered == 32 * 60
    assert await store.run(BUMP, project, "count") == answered + 1


async def test_functions_flushed_between_load_and_call_are_loaded_again(store: Store, project: str) -> None:
    await store.command("FUNCTION", "FLUSH")
    send, loads = store.link().submit, 0

    def submit(command: bytes) -> asyncio.Future[object]:
        nonlocal loads
        future = send(command)
        if command.startswith(b"*4\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD"):
            loads += 1
            if loads < 3:
                send(b"*2\r\n$8\r\nFUNCTION\r\n$5\r\nFLUSH\r\n")
        return future

    store.link().submit = submit
    assert await store.run(BUMP, project, "count") == 1
    assert await store.run(BUMP, project, "count") == 2


@pytest.fixture
def uncompilable() -> Iterator[Script[object]]:
    script = Script(FAULTY, "uncompilable")
    yield script
    script.forget()  # tracebacks may hold it beyond the test


async def test_a_script_that_does_not_compile_fails_the_open(
    redis_url: str, store_kind: Kind, make_store: MakeStore, uncompilable: Script[object]
) -> None:
    store = make_store(redis_url, protocol=store_kind.protocol)
    with pytest.raises(ScriptError, match=r"uncompilable: .*modules/broken.lua:5"):
        await store.open()
    assert not store.connected


async def test_a_script_that_does_not_compile_is_reported_by_calls_too(
    store: Store, project: str, uncompilable: Script[object]
) -> None:
    with pytest.raises(ScriptError, match=r"uncompilable: .*modules/broken.lua:5"):
        await store.run(uncompilable, project)


async def test_each_call_is_observed_with_its_outcome(store: Store, project: str) -> None:
    seen: list[tuple[str, float, str]] = []
    store.observe = lambda name, seconds, outcome, *_: seen.append((name, seconds, outcome))
    await store.run(BUMP, project, "a")
    for how in ("returned", "bare", "wrong type"):
        with pytest.raises((ScriptFailure, ServerError)):
            await store.run(REFUSE, project, how)
    for reason in (LEFT, None):
        call = asyncio.ensure_future(store.run(BUMP, project, "a"))
        await asyncio.sleep(0)
        call.cancel(reason)
        await asyncio.wait([call])
    assert [(name, outcome) for name, _, outcome in seen] == [
        ("bump", "ok"), ("refuse", "refused"), ("refuse", "refused"), ("refuse", "defect"), ("bump", "cancelled"),
        ("bump", "stopped"),
    ]  # fmt: skip
    assert all(0 < seconds < 60 for _, seconds, _ in seen)


@pytest.mark.parametrize(
    "words",
    [
        ("subscribe", "c"), ("BLPOP", "k", 0), ("XREAD", "block", 0, "STREAMS", "s", "$"), (b"multi",),
        ("XREADGROUP", "GROUP", "g", "c", b"BLOCK", 5, "STREAMS", "s", ">"), ("SELECT", 1), ("HELLO", 2),
    ],
)  # fmt: skip
async def test_commands_unfit_for_a_shared_connection_are_rejected(
    words: tuple[str | bytes | int, ...], store: Store
) -> None:
    with pytest.raises(ValueError, match=r"Store\.client"):
        await store.command(*words)
    assert await store.ping() < 60


async def test_plain_commands_answer_or_raise(store: Store, project: str) -> None:
    assert await store.command("ECHO", "a") == b"a"
    with pytest.raises(ServerError, match="unknown command") as raised:
        await store.command("NOSUCHCOMMAND")
    assert raised.value.code == "ERR"


async def test_push_messages_do_not_disturb_replies(store: Store, project: str) -> None:
    await store.command("CLIENT", "TRACKING", "OFF")
    await store.command("CLIENT", "TRACKING", "ON", "BCAST", "NOLOOP")
    calls = []
    for n in range(50):
        calls.append(store.run(ECHO, project, str(n), n))
        await store.client.set(keys.FAMILIES["project"]["q"].key(project, str(n)), "x", px=60000)
    assert await asyncio.gather(*calls) == [(str(n), n, []) for n in range(50)]
    await store.command("CLIENT", "TRACKING", "OFF")


async def test_a_lost_connection_is_replaced_and_the_next_call_succeeds(store: Store, project: str) -> None:
    for turn in range(2, 5):
        identity = await store.command("CLIENT", "ID")
        await store.client.client_kill_filter(_id=identity)
        await wait_until(partial(_connected_for_the, store, turn), what="another connection")
        assert await store.run(BUMP, project, "a") == turn - 1
    await wait_until(lambda: store.scripts_loaded, what="the scripts")


def _connected_for_the(store: Store, times: int) -> bool:
    return store.link().connects == times


async def test_the_redis_client_reads_data_written_by_scripts(store: Store, project: str) -> None:
    await store.run(BUMP, project, "a")
    assert await store.client.get(keys.FAMILIES["project"]["q"].key(project, "a")) == b"1"
    assert store.client is store.client


async def test_the_server_reports_its_own_name(store: Store, store_kind: Kind) -> None:
    name, version = store.server
    assert name == ("Redis" if store_kind.server == "redis7" else "Valkey")
    assert int(version.split(".")[0]) >= 7


async def test_after_closing_calls_fail_as_unavailable(redis_url: str, store_kind: Kind, make_store: MakeStore) -> None:
    store = make_store(redis_url, protocol=store_kind.protocol)
    await store.open()
    await store.client.ping()
    await store.close()
    await store.close()
    with pytest.raises(ToolFailure, match="closed") as raised:
        await store.run(BUMP, "default", "a")
    assert raised.value.code == "store_unavailable"
    assert not store.connected
    assert not store.scripts_loaded
