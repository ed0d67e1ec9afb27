"""Processes of releases with different key-space versions do not share a store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import coordinator.processes.frontend  # noqa: F401  # with the other one, registers all scripts
import workers.tools.demo  # noqa: F401
from coordinator.cli.exits import Exit
from coordinator.errors import ToolFailure
from coordinator.store import KeySpaceDiffers, Store, keys
from coordinator.store.checks import key_space
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.layout import VERSION
from tests.support.fleets import RunningCommand, fleet_command, once
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

KEY = keys.key_space.key(keys.FLEET)
OLDER, NEWER = VERSION - 1, VERSION + 1


async def test_the_first_process_records_the_version(alone: Store) -> None:
    assert await key_space.noted(alone) is None
    for _ in range(2):
        await key_space.settle(alone)
        assert await key_space.noted(alone) == VERSION


@pytest.mark.parametrize(("there", "word"), [(NEWER, "newer"), (0, "older"), ("x", "not a number")])
async def test_another_version_is_refused_and_unchanged(alone: Store, there: object, word: str) -> None:
    await alone.command("SET", KEY, str(there))
    with pytest.raises(KeySpaceDiffers, match=word):
        await key_space.settle(alone)
    assert await alone.command("GET", KEY) == str(there).encode()


async def test_data_without_a_version_is_served_and_gets_one(alone: Store) -> None:
    item = keys.item.key("default", "0" * 32)
    await alone.command("HSET", item, "t", "from before")
    await key_space.settle(alone)
    assert await key_space.noted(alone) == VERSION
    assert await alone.command("HGET", item, "t") == b"from before"


async def test_an_unresponsive_store_does_not_prevent_a_start(alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*words: object) -> None:
        raise ToolFailure("store_unavailable", "the store does not answer")

    monkeypatch.setattr(alone, "command", away)
    await key_space.settle(alone)
    with pytest.raises(ToolFailure, match="has not been given its identity"):
        await alone.ping()
    monkeypatch.undo()
    await wait_until(lambda: not alone.unready, what="an identity")
    await alone.ping()


async def test_a_process_is_not_ready_before_the_store_has_identity_and_version(alone: Store) -> None:
    """Its store has all functions, but is read-only."""
    await alone.command("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        await key_space.settle(alone)
        with pytest.raises(ToolFailure, match="too few replicas"):
            await alone.ping()
    finally:
        await alone.command("CONFIG", "SET", "min-replicas-to-write", 0)

    async def ready() -> bool:
        try:
            await alone.ping()
        except ToolFailure:
            return False
        return True

    await wait_until(ready, what="readiness")
    assert await alone.command("HGET", keys.identity.key(keys.FLEET), "id") == alone.identity.known.encode() != b""
    assert await key_space.noted(alone) == VERSION


async def test_a_store_taken_by_another_release_is_unready_until_repaired(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*words: object) -> None:
        raise ToolFailure("store_unavailable", "the store does not answer")

    await alone.command("SET", KEY, NEWER)
    monkeypatch.setattr(alone, "command", away)
    await key_space.settle(alone)
    monkeypatch.undo()
    await wait_until(lambda: "newer" in alone.unready, what="the other release to be noticed")
    with pytest.raises(ToolFailure, match="newer release"):
        await alone.ping()
    await alone.command("DEL", KEY)
    await wait_until(lambda: not alone.unready, what="the store to be settled")


@pytest.mark.parametrize("command", ["serve", "worker"])
async def test_a_process_that_starts_on_a_read_only_store_initialises_it_first(
    alone: Store, own_server: EmbeddedServer, tmp_path: Path, command: str
) -> None:
    port = free_port()
    more = ["--port", str(port), "--frontends", "1"] if command == "serve" else ["--worker-port", str(port)]
    env: dict[str, Any] = {"FLEET_REDIS_URL": own_server.url, "FLEET_DATA_DIR": str(tmp_path / "data")}
    await alone.command("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        with RunningCommand(tmp_path / command, command, *more, **env) as running:

            def status() -> int:
                try:
                    return once(port, "/readyz")[0]
                except OSError:
                    assert running.process.poll() is None, running.stderr
                    return 0

            await wait_until(lambda: asyncio.to_thread(status), what="its port")
            assert await asyncio.to_thread(status) == 503
            assert await key_space.noted(alone) is None
            await alone.command("CONFIG", "SET", "min-replicas-to-write", 0)

            async def ready() -> bool:
                return await asyncio.to_thread(status) == 200

            await wait_until(ready, what="readiness")
            assert await alone.command("HGET", keys.identity.key(keys.FLEET), "id")
            assert await key_space.noted(alone) == VERSION
            assert await asyncio.to_thread(running.end) == Exit.OK
    finally:
        await alone.command("CONFIG", "SET", "min-replicas-to-write", 0)


FOREIGN = {
    OLDER: f"has the key layout of an older release (version {OLDER}; this one has {VERSION})",
    NEWER: f"has the key layout of a newer release (version {NEWER}; this one has {VERSION})",
    "2.0": "the store's key-space version is b'2.0', which is not a number",
}
"""Versions of others, and how they are refused."""


@pytest.mark.parametrize(
    ("command", "there"),
    [
        pytest.param(command, there, marks=() if command == "up" or there == NEWER else pytest.mark.chaos)
        for command in ("up", "serve", "worker", "stdio", "doctor")
        for there in FOREIGN
    ],
)
async def test_no_process_serves_keys_of_another_release(
    alone: Store, own_server: EmbeddedServer, tmp_path: Path, command: str, there: int | str
) -> None:
    await alone.command("SET", KEY, str(there))
    more = ["--port", "0"] if command in ("up", "serve") else []
    done = fleet_command(command, "--data-dir", str(tmp_path), *more, FLEET_REDIS_URL=own_server.url)
    said = done.stdout + done.stderr
    assert done.returncode == Exit.FAILED, said
    assert FOREIGN[there] in said
    assert "Traceback" not in said
    if command == "stdio":
        assert done.stdout == "", "nothing but protocol"
    assert await alone.command("GET", KEY) == str(there).encode()
