"""Which commands the scripts use, and whether a Redis user may run them."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

import coordinator.feed  # noqa: F401 (it has a script too)
import workers.tools.demo  # noqa: F401 (so has this)
from coordinator.errors import ToolFailure
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import CommandsDenied, Script, Store
from coordinator.store.checks import permissions
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from tests.store.conftest import MakeStore

pytestmark = pytest.mark.anyio


async def test_the_commands_are_those_of_all_scripts(alone: Store) -> None:
    load_toolsets(Services(Settings(), Store("redis://127.0.0.1:1"), trust_self_reported))
    known = {name.decode().upper() for name in await alone.command("COMMAND", "LIST")}
    scripts = [script for script in Script.registered() if not script.function_library.package.startswith("tests")]
    assert len(scripts) > 70
    words = {word for script in scripts for word in re.findall(r"'([A-Z]{3,})'", script.function_library.text)}
    assert set(permissions.used()) == words & known


async def test_denied_commands_are_named(alone: Store, own_server: EmbeddedServer, make_store: MakeStore) -> None:
    assert await permissions.denied(alone) == []
    await permissions.require(alone)
    rights = "on >half ~fc:* &fc:* +@all"
    await alone.command("ACL", "SETUSER", "half", *rights.split(), "-lmove", "-hset")
    try:
        half = make_store(_as_user(own_server, "half"))
        await half.open()
        assert await permissions.denied(half) == ["HSET", "LMOVE"]
        with pytest.raises(CommandsDenied, match="may not run HSET, LMOVE, which scripts use"):
            await permissions.require(half)
        await alone.command("ACL", "SETUSER", "half", "+lmove", "+hset", "resetchannels")
        assert await permissions.denied(half) == ["PUBLISH"]
    finally:
        await alone.command("ACL", "DELUSER", "half")


async def test_a_command_that_the_server_does_not_have_is_named_too(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permissions, "used", lambda: ["GET", "RENAMED"])
    assert await permissions.denied(alone) == ["RENAMED"]


async def test_a_process_starts_while_the_store_does_not_answer(alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*arguments: object) -> None:
        raise ToolFailure("store_unavailable", "the store does not answer")

    monkeypatch.setattr(alone, "run", away)
    await permissions.require(alone)


def _as_user(server: EmbeddedServer, user: str) -> str:
    return f"unix://{user}:{user}@{quote(str(parse(server.url).path))}"
