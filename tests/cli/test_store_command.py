"""A fleet whose store is emptied refuses everything until ``fleet store accept``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from coordinator.cli.exits import Exit
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import open_for_serving
from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, call_body, fleet_command, once
from tests.support.wait import wait_until_sync


def test_an_emptied_store_is_refused_until_it_is_accepted(own_server: EmbeddedServer, tmp_path: Path) -> None:
    env: dict[str, Any] = {"FLEET_REDIS_URL": own_server.url, "FLEET_DATA_DIR": str(tmp_path / "data")}
    with (
        redis.Redis(**parse(own_server.url).client_options()) as server,
        RunningCommand(tmp_path / "serve", "serve", "--port", "0", "--frontends", "1", **env) as serve,
        RunningCommand(tmp_path / "worker", "worker", **env) as worker,
    ):
        worker.wait_ready()
        port = int(serve.wait_ready().split("ready at ")[1].split()[0].rsplit(":", 1)[1])
        with Http(port) as client:

            def create() -> dict[str, object]:
                body = call_body("manage_items", {"operation": "create", "items": [{"title": "work"}]})
                client.connection.request("POST", "/mcp", body, MCP_HEADERS)
                answer = msgspec.json.decode(client.connection.getresponse().read())
                return dict(answer["result"]["structuredContent"])

            assert create()["created"] == 1
            mine = fleet_command("doctor", "--verbose", **env)
            assert "it is the store that the fleet has" in mine.stdout
            strange = fleet_command("doctor", "--verbose", **env | {"FLEET_DATA_DIR": str(tmp_path / "other")})
            assert "nothing here remembers which store the fleet had" in strange.stdout
            server.flushall()
            refusals = [create() for _ in range(20)]
            assert not [one for one in refusals if "created" in one], "an emptied store was taken for the truth"
            wait_until_sync(lambda: "store_changed" in str(create()), what="the refusal")
            error = create()["error"]
            assert isinstance(error, dict)
            assert (error["kind"], error["code"]) == ("transient", "store_changed")
            wait_until_sync(lambda: once(port, "/readyz")[0] == 503, what="the fleet to be unready")
            assert b"it has no identity" in once(port, "/readyz")[1]

            def kept() -> list[bytes]:
                # A worker whose heartbeat was under way enters itself in RQ's lists, which say nothing of any work.
                return sorted(key for key in server.keys("*") if not key.startswith(b"fc:{RQ}:worker"))

            # The call that was sent before its connection heard of the flush may have taken effect, as its error says.
            before = kept()
            assert len([key for key in before if b":i:" in key]) <= 1
            assert not any("created" in create() for _ in range(20))
            assert kept() == before
            found = fleet_command("doctor", "--verbose", **env)
            assert found.returncode == Exit.FAILED
            assert "store.identity" in found.stdout
            done = fleet_command("store", "accept", "--reason", "restored", **env)
            assert done.returncode == 0, done.stderr
            wait_until_sync(lambda: "created" in create(), what="the accepted store")
            wait_until_sync(lambda: once(port, "/readyz")[0] == 200, what="readiness")
            again = fleet_command("store", "accept", **env)
            assert "is the one that the fleet has" in again.stdout
            log = fleet_command("audit-log", "tail", "--json", "-n", "2", **env).stdout.splitlines()
            first, second = map(json.loads, log)
            assert first["action"] == second["action"] == "accept_store"
            assert (first["outcome"], first["reason"]) == ("allowed", "restored")
            assert " now, in place of " in first["detail"]
            assert second["detail"] == again.stdout.strip()
        assert worker.end() == 0
        assert serve.end() == 0
        server.flushall()


def test_without_a_known_store_the_command_explains_instead_of(own_server: EmbeddedServer, tmp_path: Path) -> None:
    """On a host without processes of the fleet, which alone know the earlier store."""
    accept = "store", "accept", "--redis-url", own_server.url, "--data-dir"
    with redis.Redis(**parse(own_server.url).client_options()) as server:
        server.flushall()
        first = fleet_command(*accept, str(tmp_path / "one"))
        assert "if processes still refuse calls, repeat this with --instead-of" in first.stdout
        second = fleet_command(*accept, str(tmp_path / "two"), "--instead-of", "earlier")
        assert "in place of earlier" in second.stdout
        assert server.hget(keys.identity.key(keys.FLEET), "was") == b"earlier"
        server.flushall()
        given = fleet_command(*accept, str(tmp_path / "three"), FLEET_STORE_ID="prod")
        assert given.stdout == "the store is prod now\n"
        server.flushall()


async def serve_from(home: Path) -> None:
    """The first step of a fleet on the directory."""
    with EmbeddedServer(home) as server:
        settings = Settings(data_dir=str(home))
        await (await open_for_serving(settings, server.url)).close()


@pytest.mark.anyio
async def test_a_data_directory_remembers_its_embedded_store(tmp_path: Path) -> None:
    """Its data is replaced by that of another fleet while it is stopped."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for home in (ours, theirs, ours):
        await serve_from(home)
    (ours / "redis").rename(tmp_path / "aside")
    (theirs / "redis").rename(ours / "redis")
    with pytest.raises(ProcessProblem, match="the store is not the one that the fleet had"):
        await serve_from(ours)
    refused = fleet_command("up", "--port", "0", "--data-dir", str(ours))
    assert refused.returncode == Exit.FAILED
    assert "the store is not the one that the fleet had" in refused.stderr
    assert "Traceback" not in refused.stderr
    accepted = fleet_command("store", "accept", "--data-dir", str(ours))
    assert "the next `fleet up` takes the data" in accepted.stdout
    await serve_from(ours)
    again = fleet_command("store", "accept", "--data-dir", str(tmp_path / "nowhere"))
    assert again.returncode == Exit.FAILED
    assert "remembers none" in again.stderr
