"""No process serves from a Redis whose user lacks a command that scripts use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.cli.exits import Exit
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from tests.support.fleets import fleet_command

pytestmark = pytest.mark.anyio


@pytest.fixture
async def url(alone: Store, own_server: EmbeddedServer) -> AsyncIterator[str]:
    """The URL of a user that lacks commands of the scripts."""
    rights = "on >secret ~* &* +@all -lmove -hset"
    await alone.command("ACL", "SETUSER", "half", *rights.split())
    yield f"unix://half:secret@{parse(own_server.url).path}"
    await alone.command("ACL", "DELUSER", "half")


@pytest.mark.parametrize("command", ["up", "serve", "worker", "stdio"])
async def test_a_process_refuses_to_start_and_names_the_commands(url: str, tmp_path: Path, command: str) -> None:
    more = ["--port", "0"] if command in ("up", "serve") else []
    done = fleet_command(command, "--data-dir", str(tmp_path), *more, FLEET_REDIS_URL=url)
    said = done.stdout + done.stderr
    assert done.returncode == Exit.FAILED, said
    assert "the Redis user may not run HSET, LMOVE, which scripts use" in said
    assert "Traceback" not in said


async def test_the_doctor_names_them(url: str, tmp_path: Path) -> None:
    done = fleet_command("doctor", "--data-dir", str(tmp_path), "--format", "json", FLEET_REDIS_URL=url)
    assert done.returncode == Exit.FAILED
    (found,) = [one for one in json.loads(done.stdout) if one["what"] == "store.permissions"]
    assert found["verdict"] == "fails"
    assert "HSET, LMOVE" in found["said"]
