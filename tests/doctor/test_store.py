"""``fleet doctor``: its checks of a store, and the command itself."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from coordinator.cli.exits import Exit
from coordinator.doctor import fleet as whole
from coordinator.doctor import host, queues, store
from coordinator.processes.fleetfile import Fleet, FleetFile
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.steps.handoff import RQ_PREFIX
from coordinator.store import ServerError, Store, StoreUnreachable, keys
from coordinator.store.checks import key_space
from coordinator.store.checks.identity import changed
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.layout import VERSION
from coordinator.store.opening import open_patiently
from tests.doctor.servers import GOOD_CONFIG, GOOD_INFO
from tests.support.fleets import Http, RunningFleet, fleet_command
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync


def verdicts(
    info: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    latency_ms: float = 0.1,
    offset: float = 0.0,
) -> dict[str, str]:
    """The findings that are not ok."""
    found = store.check(GOOD_INFO | (info or {}), GOOD_CONFIG | (config or {}), latency_ms, offset)
    return {one.what: one.verdict for one in found if one.verdict != "ok"}


def test_a_healthy_store_has_no_findings() -> None:
    assert verdicts() == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"info": {"aof_enabled": 0}}, {"store.persistence": "fails"}),
        ({"config": {"appendfsync": "no"}}, {"store.persistence": "fails"}),
        ({"info": {"aof_last_write_status": "err"}}, {"store.persistence": "fails"}),
        ({"info": {"rdb_last_bgsave_status": "err"}}, {"store.persistence": "warns"}),
        ({"config": {"maxmemory-policy": "allkeys-lru"}}, {"store.eviction": "fails"}),
        ({"info": {"maxmemory": 11 * 2**20}}, {"store.memory": "warns"}),
        ({"info": {"maxmemory": 10 * 2**20}}, {"store.memory": "fails"}),
        ({"info": {"maxmemory": 100 * 2**20}}, {}),
        ({"info": {"role": "slave"}}, {"store.role": "fails"}),
        ({"config": {"min-replicas-to-write": "0"}}, {"store.role": "warns"}),
        ({"config": {"min-replicas-to-write": "0"}, "info": {"connected_slaves": 0}}, {}),
        ({"offset": 6.0}, {"store.clock": "warns"}),
        ({"offset": -6.0}, {"store.clock": "warns"}),
        ({"latency_ms": 6.0}, {"store.latency": "warns"}),
        ({"config": {"hash-max-listpack-value": "64"}}, {"store.layout": "warns"}),
    ],
)
def test_each_problem_is_found(given: dict[str, Any], expected: dict[str, str]) -> None:
    assert verdicts(**given) == expected


def test_little_memory_is_reported_with_its_alert() -> None:
    (found,) = [one for one in store.check(GOOD_INFO | {"maxmemory": 11 * 2**20}, GOOD_CONFIG, 0.1, 0.0) if one.alert]
    assert (found.what, found.alert, found.runbook) == ("store.memory", "StoreGrows", "deploy/runbooks/StoreGrows.md")


def test_a_denied_config_get_is_reported() -> None:
    found = {one.what: one for one in store.check(GOOD_INFO | {"maxmemory_policy": "noeviction"}, {}, 0.1, 0.0)}
    assert found["store.config"].verdict == "warns"
    assert found["store.eviction"].verdict == "ok"


def test_contradictory_times_are_refused_before_any_check() -> None:
    shown = fleet_command("doctor", "--redis-timeout-ms", "5000", "--request-deadline-ms", "2000")
    assert (shown.returncode, shown.stdout) == (Exit.USAGE, "")
    assert "redis_timeout_ms (5000) must be below request_deadline_ms (2000)" in shown.stderr


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(
        tmp_path_factory.mktemp("doctor") / "data", "--port", "0", "--frontends", "1", "--workers", "0"
    ) as running:
        running.wait_ready()
        yield running


def doctor(fleet: RunningFleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    return fleet_command("doctor", "--data-dir", str(fleet.data_dir), *arguments)


def test_a_fleet_on_its_embedded_server_passes(fleet: RunningFleet) -> None:
    shown = doctor(fleet, "--verbose")
    found = json.loads(doctor(fleet, "--verbose", "--format", "json").stdout)
    assert {one["what"] for one in found} >= {"store.persistence", "store.eviction", "host.files", "settings.times"}
    assert f"key-space version {VERSION}" in [one["said"] for one in found if one["what"] == "store.keys"]
    # The file limit and the disk are those of this machine, and a busy machine may be slow.
    theirs = ("host.files", "host.disk", "store.latency")
    troubles = [one for one in found if one["verdict"] != "ok" and one["what"] not in theirs]
    assert not troubles, shown.stdout
    silent = doctor(fleet)
    assert (silent.returncode == Exit.OK) == (silent.stdout == "")


def test_drains_are_reported_with_the_command_that_ends_them(fleet: RunningFleet) -> None:
    host = socket.gethostname()
    named = ("drain", "--data-dir", str(fleet.data_dir), "--host", host, "--process", "fe-0")
    assert fleet_command(*named, "--wait", "0").returncode == Exit.OK
    try:
        found = doctor(fleet)
        assert found.returncode == Exit.FAILED
        assert f"warns  fleet.drains: process:{host}/fe-0 has taken no new work since 20" in found.stdout
        assert f"`fleet drain --host {host} --process fe-0 --end` ends that" in found.stdout
        assert found.stdout.count("alert DrainForgotten; runbook deploy/runbooks/DrainForgotten.md") == 1
    finally:
        assert fleet_command(*named, "--end").returncode == Exit.OK
        with Http(fleet.port) as http:
            wait_until_sync(lambda: not http.answer("get_next_item", {})[1], what="new work to be taken")


@pytest.mark.anyio
async def test_a_queue_that_no_worker_serves_is_found(alone: Store) -> None:
    async def found() -> list[str]:
        return [f"{one.verdict} {one.said}" async for one in queues.check(alone.client)]

    assert await found() == ["ok a worker serves each queue that has jobs"]
    for name, jobs in (("fleet-steps", 1), ("fleet-steps-gpu", 2), ("fleet-steps-idle", 0)):
        await alone.command("SADD", f"{RQ_PREFIX}:queues", f"{RQ_PREFIX}:queue:{name}")
        for number in range(jobs):
            await alone.command("RPUSH", f"{RQ_PREFIX}:queue:{name}", number)
    worker = f"{RQ_PREFIX}:worker:h.w-0.1.2"
    await alone.command("SADD", f"{RQ_PREFIX}:workers", worker, f"{RQ_PREFIX}:worker:gone")
    nobody = [(one.verdict, one.alert) async for one in queues.check(alone.client)]
    assert nobody == [("fails", "NoWorkers"), ("fails", "NoWorkers")]
    await alone.command("HSET", worker, "queues", "fleet-steps.high,fleet-steps")
    assert await found() == ["warns 2 jobs in fleet-steps-gpu, which no worker serves"]


def test_disk_and_token_file_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text("tokens: []")
    tokens.chmod(0o600)
    settings = Settings(data_dir=str(tmp_path), auth=Auth(tokens=str(tokens)))

    def found() -> dict[str, str]:
        looked_at = ("host.disk", "auth.tokens")
        return {one.what: f"{one.verdict} {one.said}" for one in host.check(settings) if one.what in looked_at}

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000 * 2**20))
    assert found() == {"host.disk": f"ok 1000 MiB are free in {tmp_path}", "auth.tokens": f"ok {tokens} has 0 tokens"}
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100 * 2**20))
    tokens.chmod(0o666)
    assert found()["host.disk"].startswith("warns 100 MiB are free")
    assert "fails others than its owner may write the token file" in found()["auth.tokens"]


def test_states_of_items_are_reported_with_their_alerts(fleet: RunningFleet) -> None:
    """Silent before, and as soon as the runbook's step is done."""

    def told() -> dict[str, str]:
        found = json.loads(doctor(fleet, "--format", "json").stdout)
        return {one["alert"]: one["verdict"] for one in found if one.get("alert")}

    agent = {"id": "one", "kind": "external"}
    assert told() == {}
    with Http(fleet.port) as http:
        due = {"title": "late", "dueAt": "2020-01-01T00:00:00Z"}
        made = http.call("manage_items", operation="create", items=[due], requestId=str(uuid.uuid4()))
        claim = {"itemId": made["items"][0]["id"], "ttlSeconds": 60}
        http.call("claim_item", claims=[claim], actor=agent, requestId=str(uuid.uuid4()))
        gone = {"itemId": claim["itemId"], "reason": "hopeless"}
        http.call("claim_item", releases=[gone], actor=agent, requestId=str(uuid.uuid4()))
        expected = {"ItemsOverdue": "warns", "ItemsQuarantined": "warns"}
        wait_until_sync(lambda: told() == expected, what="the gauges")
        assert doctor(fleet).returncode == Exit.FAILED
        deleted = {"operation": "delete", "ids": [claim["itemId"]], "requestId": str(uuid.uuid4())}
        http.call("manage_items", **deleted)
    wait_until_sync(lambda: told() == {}, what="the gauges")


@pytest.mark.anyio
async def test_an_unresponsive_store_is_logged_once() -> None:
    with capture_logs() as logs, pytest.raises(StoreUnreachable):
        await open_patiently(f"redis://127.0.0.1:{free_port()}", 500, timeout=0.3)
    assert [line["event"] for line in logs] == ["waiting for the store"]


@pytest.mark.anyio
async def test_a_store_that_takes_no_writes_is_found(alone: Store, own_server: EmbeddedServer) -> None:
    def found() -> dict[str, str]:
        done = fleet_command("doctor", "--verbose", "--format", "json", FLEET_REDIS_URL=own_server.url)
        return {one["verdict"]: one["said"] for one in json.loads(done.stdout) if one["what"] == "store.writes"}

    assert found() == {"ok": "the server takes writes"}
    await alone.command("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        assert found() == {"fails": "the store has too few replicas to take writes"}
    finally:
        await alone.command("CONFIG", "SET", "min-replicas-to-write", 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "why"), [(None, "nothing within 0 seconds"), (ServerError("NOPERM no"), "NOPERM no")], ids=str
)
async def test_a_store_that_stops_answering_is_reported(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, error: ServerError | None, why: str
) -> None:
    async def noted(_: Store) -> int:
        if error is not None:
            raise error
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(key_space, "noted", noted)
    monkeypatch.setattr(whole, "ANSWER_SECONDS", 0.05 if error is None else 30.0)
    with pytest.raises(StoreUnreachable, match=f"^the store does not answer: {why}$"):
        await whole.check_store(redis_url, 5000)


def test_a_missing_store_is_reported(tmp_path_factory: pytest.TempPathFactory) -> None:
    nowhere = fleet_command("doctor", "--data-dir", str(tmp_path_factory.mktemp("none")))
    assert nowhere.returncode == Exit.STORE_UNREACHABLE
    assert "no Redis to work with" in nowhere.stderr


def test_a_clock_that_stepped_back_is_reported() -> None:
    """It is behind the latest time recorded in the store."""
    now = int(time.time() * 1000)
    for ahead_ms, expected in ((-60_000, "ok"), (100, "ok"), (60_000, "fails")):
        found = store.check(GOOD_INFO, GOOD_CONFIG, 0.1, 0.0, moment_ms=now + ahead_ms)
        (judged,) = [one for one in found if one.what == "store.clock" and "stepped back" in one.said]
        assert judged.verdict == expected


def test_another_store_is_reported() -> None:
    found = store.check(GOOD_INFO, GOOD_CONFIG, 0.1, 0.0, changed=changed("ours", "theirs"))
    (judged,) = [one for one in found if one.what == "store.identity"]
    assert (judged.verdict, judged.said) == (
        "fails",
        "the store is not the one that the fleet had (ours): it has the identity theirs",
    )
    assert "fleet store accept" in judged.advice


@pytest.mark.parametrize(
    ("identity", "known", "version", "verdict", "said"),
    [
        ("ours", "ours", 2, "ok", "it is the store that the fleet has (ours)"),
        ("theirs", "", 2, "ok", "it is theirs; nothing here remembers which store the fleet had"),
        ("", "", None, "ok", "it has none: no fleet has used the store yet"),
        ("", "", 2, "fails", "the store has data but no identity: processes refuse to start"),
    ],
)
def test_the_stores_identity_is_reported(
    identity: str, known: str, version: int | None, verdict: str, said: str
) -> None:
    found = store.check(GOOD_INFO, GOOD_CONFIG, 0.1, 0.0, key_version=version, identity=identity, known=known)
    (judged,) = [one for one in found if one.what == "store.identity"]
    assert (judged.verdict, judged.said) == (verdict, said)


@pytest.mark.parametrize("command", ["doctor", "drain", "audit"])
def test_problems_of_a_running_fleet_are_reported(tmp_path: Path, command: str) -> None:
    arguments = (command, "--data-dir", str(tmp_path))
    with closing(FleetFile(tmp_path)) as file:
        starting = fleet_command(*arguments)
        assert (starting.returncode, "is still starting" in starting.stderr) == (Exit.STORE_UNREACHABLE, True)
        fleet = Fleet(7, "1.0", "http://127.0.0.1:9", True, "2026-01-01T00:00:00Z", str(tmp_path), "embedded", 8, ())
        file.write(fleet)
        silent = fleet_command(*arguments)
        assert silent.returncode == Exit.STORE_UNREACHABLE
        assert "(process 7), but its embedded store (process 8) does not answer" in silent.stderr
        file.write(msgspec.structs.replace(fleet, store="redis://ann:***@127.0.0.1:1/0"))
        locked = fleet_command(*arguments)
        assert (
            "with the Redis redis://ann:***@127.0.0.1:1/0: put its password into FLEET_REDIS_PASSWORD" in locked.stderr
        )


def test_the_redis_of_a_fleet_is_found_by_its_data_directory(tmp_path: Path, redis_url: str) -> None:
    at = "2026-01-01T00:00:00Z"
    with closing(FleetFile(tmp_path)) as file:
        file.write(Fleet(7, "1.0", "http://127.0.0.1:9", True, at, str(tmp_path), redis_url, None, ()))
        done = fleet_command("audit", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout.startswith("project default: ")) == (0, True), done.stderr


@pytest.mark.anyio
async def test_a_store_of_another_layout_is_reported_although_it_lacks_the_functions(
    alone: Store, own_server: EmbeddedServer
) -> None:
    await alone.command("SET", keys.key_space.key(keys.FLEET), VERSION + 1)
    await alone.command("FUNCTION", "FLUSH")
    found = await whole.check_store(own_server.url, 5000)
    (judged,) = [one for one in found if one.what == "store.keys"]
    assert (judged.verdict, "newer release" in judged.said) == ("fails", True)
