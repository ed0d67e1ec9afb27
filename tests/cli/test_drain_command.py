"""``fleet drain`` on a running fleet: new work is refused, work in progress finishes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions

from coordinator import __version__
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.processes.drain import drain_scope
from coordinator.operations import in_progress
from coordinator.settings import Settings
from coordinator.store import ServerError, Store, keys
from coordinator.store.embedded.server import find_running
from coordinator.store.fleet import drains
from coordinator.store.fleet.drains import FLEET_SCOPE, Drains, host_scope, process_scope
from coordinator.store.fleet.processes import Process, ProcessStatus, read_processes
from tests.support.downstream import PROGRAM
from tests.support.fleets import (
    MCP_HEADERS,
    Http,
    RunningCommand,
    RunningFleet,
    call_body,
    environment,
    fleet_command,
    once,
)
from tests.support.ports import free_port
from tests.support.wait import wait_until, wait_until_sync

ACTOR = {"id": "ann", "kind": "subagent"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("drain")
    (folder / "fleet.yaml").write_text(
        f"connections: {{until: {{kind: mcp, command: {sys.executable}, args: ['{PROGRAM}']}}}}"
    )
    with RunningFleet(
        folder / "data", "--config", str(folder / "fleet.yaml"), "--port", "0", "--frontends", "1", "--workers", "1",
        FLEET_FLOWS_DEMO_TOOLS="true",
    ) as running:  # fmt: skip
        running.wait_ready()
        yield running


def drain(fleet: RunningFleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    return fleet_command("drain", "--data-dir", str(fleet.data_dir), *arguments)


@contextlib.contextmanager
def draining(fleet: RunningFleet, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A drain with work to wait for, and its output."""
    with subprocess.Popen(
        [sys.executable, "-m", "coordinator", "drain", "--data-dir", str(fleet.data_dir), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as command:
        assert command.stdout is not None
        said: list[str] = []
        while not (said and said[-1].startswith("in progress: ")):
            line = command.stdout.readline()
            assert line, said
            said.append(line.rstrip())
        yield command, said
        said += command.communicate(timeout=60)[0].splitlines()


def answer(fleet: RunningFleet, tool: str, **arguments: Any) -> Any:
    """The structured content, also of a refused call."""
    with Http(fleet.port) as client:
        client.connection.request("POST", "/mcp", call_body(tool, arguments), MCP_HEADERS)
        return json.loads(client.connection.getresponse().read())["result"]["structuredContent"]


def change(fleet: RunningFleet, tool: str, **arguments: Any) -> Any:
    return answer(fleet, tool, requestId=str(uuid.uuid4()), **arguments)


def rejected(fleet: RunningFleet) -> bool:
    found = answer(fleet, "get_next_item")
    return bool(found.get("error", {}).get("code") == "draining")


def add(fleet: RunningFleet) -> str:
    made = change(fleet, "manage_items", operation="create", actor=ACTOR, items=[{"title": "t"}])
    return str(made["items"][0]["id"])


def test_work_in_progress_finishes_and_new_work_is_refused(fleet: RunningFleet) -> None:
    item = add(fleet)
    change(fleet, "claim_item", actor=ACTOR, claims=[{"itemId": item, "ttlSeconds": 600}])
    with draining(fleet) as (command, said):
        wait_until_sync(lambda: rejected(fleet), what="new work to be refused")
        refused = change(fleet, "manage_items", operation="create", actor=ACTOR, items=[{"title": "t"}])["error"]
        assert (refused["kind"], refused["code"]) == ("shedding", "draining")
        assert refused["retryAfterMs"] > 0
        assert once(fleet.port, "/readyz")[0] == 200, "somebody has to answer what is let through"
        done = change(fleet, "advance_item", transitions=[{"itemId": item, "trigger": "cancel", "actor": ACTOR}])
        assert done["results"][0]["applied"]
        assert answer(fleet, "query_items", operation="get", id=item)["role"] == "terminal"
        released = change(fleet, "claim_item", actor=ACTOR, releases=[{"itemId": item}])
        assert released["releaseResults"][0]["outcome"] == "success"
    assert command.returncode == Exit.OK
    assert "in progress: 1 claim (1 in default)" in "\n".join(said)
    assert said[-1] == "no work is in progress"
    assert "takes new work again" in drain(fleet, "--end").stdout
    wait_until_sync(lambda: not rejected(fleet), what="new work to be taken")


def test_workers_finish_running_steps_and_start_no_others(fleet: RunningFleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    flow = {
        "start": {"name": "long", "tool": "until.wait_for", "args": {"path": str(gate)}, "next": "after"},
        "after": {"name": "after", "tool": "echo", "args": {"value": 1}, "done": True},
    }
    made = answer(fleet, "workflow_create", name="drained", flow=flow)["id"]

    def statuses() -> list[str]:
        return [step["status"] for step in answer(fleet, "workflow_get", id=made)["steps"]]

    def heard() -> int:
        told = {"event": "drained", "slot": "w-0", "scope": "fleet"}
        return sum(told.items() <= line.items() for line in fleet.logs)

    before = heard()
    wait_until_sync(lambda: statuses() == ["running"], what="the step to run")
    with draining(fleet) as (command, said):
        wait_until_sync(lambda: heard() > before, what="the worker to hear of it")
        gate.touch()
    assert command.returncode == Exit.OK, said
    assert "1 step (1 in default)" in "\n".join(said)
    assert statuses() == ["done", "ready"]
    assert drain(fleet, "--end").returncode == Exit.OK
    wait_until_sync(lambda: statuses() == ["done", "done"], what="the next step")
    wait_until_sync(lambda: not rejected(fleet), what="new work to be taken")


def test_a_waiting_claim_ends_with_a_retry(fleet: RunningFleet) -> None:
    claim = {"selector": {"tags": "nothing-has-this"}}
    with Http(fleet.port) as client:
        body = call_body(
            "claim_item", {"actor": ACTOR, "requestId": str(uuid.uuid4()), "claims": [claim], "waitMs": 50_000}
        )
        client.connection.request("POST", "/mcp/items", body, MCP_HEADERS)
        assert drain(fleet, "--wait", "0").returncode == Exit.OK
        text = client.connection.getresponse().read().decode()
    assert '"code":"draining"' in text.replace(" ", "").replace("\\", "")
    assert drain(fleet, "--end").returncode == Exit.OK
    wait_until_sync(lambda: not rejected(fleet), what="new work to be taken")


def test_one_process_is_unready_while_it_is_drained(fleet: RunningFleet) -> None:
    done = drain(fleet, "--process", "fe-0")
    assert done.returncode == Exit.OK
    assert "no worker is among them" in done.stdout
    wait_until_sync(lambda: once(fleet.port, "/readyz")[0] == 503, what="it to be unready")
    _, body = once(fleet.port, "/readyz")
    assert json.loads(body)["checks"]["drained"]["scope"] == f"process:{socket.gethostname()}/fe-0"
    told = re.search("`fleet drain (.*)` ends that", done.stdout)
    assert told is not None
    assert drain(fleet, *told[1].split()).stdout == f"process:{socket.gethostname()}/fe-0 takes new work again\n"
    wait_until_sync(lambda: once(fleet.port, "/readyz")[0] == 200, what="it to be ready")


def test_a_name_that_no_process_has_is_refused(fleet: RunningFleet) -> None:
    host = socket.gethostname()
    typo = drain(fleet, "--process", "fe-O")
    assert (typo.returncode, typo.stdout) == (Exit.USAGE, "")
    assert typo.stderr == f"fleet: --process: {host} has no process fe-O; it has fe-0, w-0\n"
    for more in ((), ("--process", "fe-0")):
        elsewhere = drain(fleet, "--host", "elsewhere", *more)
        assert (elsewhere.returncode, elsewhere.stdout) == (Exit.USAGE, "")
        assert elsewhere.stderr == f"fleet: --host: no process runs on elsewhere; processes run on {host}\n"
    assert once(fleet.port, "/readyz")[0] == 200


@pytest.mark.anyio
async def test_a_process_is_registered_while_it_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def apply(scope: str) -> None:
        """Nothing is drained."""

    monkeypatch.setattr(drains, "LOOK_SECONDS", 0.01)
    host = socket.gethostname()

    async def known() -> bool:
        return "fe-77" in (await Drains(store).processes()).get(host, [])

    following = asyncio.create_task(Drains(store).follow("fe-77", apply))
    try:
        await wait_until(known, what="the process to be known")
        # It renews its registration, so that it does not expire.
        monkeypatch.setattr(drains, "NOTE_SECONDS", 0.0)
        await store.command("DEL", keys.processes.key(keys.FLEET))
        await wait_until(known, what="the process to be known again")
    finally:
        following.cancel()
    monkeypatch.setattr(drains, "GONE_SECONDS", 0)
    assert not await known()


def statuses(fleet: RunningFleet) -> dict[str, ProcessStatus]:
    """What the processes of the fleet report of themselves, by slot."""

    async def read() -> list[Process]:
        url = find_running(fleet.data_dir)
        assert url is not None
        store = Store(url, 5000)
        await store.open()
        try:
            return (await read_processes(store)).running
        finally:
            await store.close()

    return {one.slot: one.status for one in asyncio.run(read()) if one.status is not None}


def test_processes_report_what_they_do(fleet: RunningFleet) -> None:
    def reported(slot: str, drained: str) -> bool:
        status = statuses(fleet).get(slot)
        return status is not None and status.drained == drained

    wait_until_sync(lambda: reported("fe-0", "") and reported("w-0", ""), what="both to report")
    found = statuses(fleet)
    front_end, worker = found["fe-0"], found["w-0"]
    assert (front_end.role, front_end.pid, worker.role, worker.pid) == (
        "frontend",
        fleet.pid("fe-0"),
        "worker",
        fleet.pid("w-0"),
    )
    assert (front_end.limit > 0, front_end.breaker, front_end.stopping) == (True, "closed", False)
    assert (worker.slots > 0, worker.stopping) == (True, False)
    assert front_end.version == worker.version == __version__
    assert front_end.config_version == worker.config_version != ""
    assert drain(fleet, "--process", "w-0").returncode == Exit.OK
    drained = process_scope(socket.gethostname(), "w-0")
    wait_until_sync(lambda: reported("w-0", drained), what="the drain to be reported")
    assert drain(fleet, "--process", "w-0", "--end").returncode == Exit.OK


@pytest.mark.chaos
def test_a_worker_is_drained_when_its_steps_are_done(fleet: RunningFleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    flow = {"start": {"name": "long", "tool": "until.wait_for", "args": {"path": str(gate)}, "done": True}}
    made = answer(fleet, "workflow_create", name="of-w-0", flow=flow)["id"]

    def status() -> str:
        return str(answer(fleet, "workflow_get", id=made)["steps"][0]["status"])

    wait_until_sync(lambda: status() == "running", what="the step to run")
    worker = f"{socket.gethostname()}/w-0"
    with draining(fleet, "--process", "w-0") as (command, said):
        gate.touch()
    assert command.returncode == Exit.OK, said
    assert f"in progress: steps of {worker}" in "\n".join(said)
    assert said[-1] == "no work is in progress"
    assert status() == "done"
    assert not rejected(fleet), "front-ends keep serving"
    assert drain(fleet, "--process", "w-0", "--end").returncode == Exit.OK


def test_unfinished_work_is_reported_at_the_timeout(fleet: RunningFleet) -> None:
    item = add(fleet)
    change(fleet, "claim_item", actor=ACTOR, claims=[{"itemId": item, "ttlSeconds": 600}])
    late = drain(fleet, "--wait", "0.1")
    assert late.returncode == Exit.FAILED
    assert "1 claim (1 in default)" in late.stdout
    assert drain(fleet, "--end").returncode == Exit.OK
    wait_until_sync(lambda: not rejected(fleet), what="new work to be taken")
    change(fleet, "claim_item", actor=ACTOR, releases=[{"itemId": item}])


@pytest.mark.anyio
@pytest.mark.parametrize("ends", [True, False], ids=["gone", "hung"])
@pytest.mark.parametrize(
    ("looks", "scope", "at"),
    [("look", FLEET_SCOPE, "the work in progress"), ("workers_of", host_scope("other"), "the workers")],
    ids=["fleet", "host"],
)
async def test_a_lost_store_ends_the_wait(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, looks: str, scope: str, at: str, ends: bool
) -> None:
    async def look(*_: object) -> object:
        if ends:
            raise redis.exceptions.ConnectionError("connection lost")
        return await asyncio.get_running_loop().create_future()

    async def processes(_: Drains) -> dict[str, list[str]]:
        return {"other": ["w-0"]}

    monkeypatch.setattr(Drains, "processes", processes)
    monkeypatch.setattr(in_progress, looks, look)
    monkeypatch.setattr(in_progress, "ANSWER_SECONDS", 0.05)
    why = "connection lost" if ends else "no answer"
    with pytest.raises(CommandFailed, match=f"cannot read {at}: {why}") as failed:
        await drain_scope(Settings(), redis_url, scope, 300, end=False)
    assert failed.value.code == Exit.STORE_UNREACHABLE
    assert await drain_scope(Settings(), redis_url, scope, 0, end=True) == Exit.OK


@pytest.mark.anyio
async def test_a_refused_read_of_drains_is_retried(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read, refusals = Drains.read, [ServerError("NOPERM no permission")]
    told = asyncio.get_running_loop().create_future()

    async def refused(self: Drains) -> dict[str, int]:
        if refusals:
            raise refusals.pop()
        return await read(self)

    async def apply(scope: str) -> None:
        told.set_result(scope)

    monkeypatch.setattr(Drains, "read", refused)
    monkeypatch.setattr(drains, "LOOK_SECONDS", 0.01)
    scope = process_scope(socket.gethostname(), "fe-99")
    await Drains(store).begin(scope)
    following = asyncio.create_task(Drains(store).follow("fe-99", apply))
    try:
        await asyncio.wait([following, told], return_when=asyncio.FIRST_COMPLETED)
        assert not following.done(), "it looks no more"
        assert told.result() == scope
    finally:
        following.cancel()
        await Drains(store).end(scope)


def test_an_interrupted_drain_reports_only_what_is_certain(tmp_path: Path) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}"
    with RunningCommand(tmp_path, "drain", "--redis-url", nowhere) as command:
        wait_until_sync(lambda: "waiting for the store" in command.stdout + command.stderr, what="the wait")
        assert command.end(signal.SIGINT) == Exit.FAILED
        told = "fleet: interrupted; if fleet was asked to take no new work, that holds until `fleet drain --end`\n"
        assert command.stderr.endswith(told)


def test_malformed_names_are_refused(fleet: RunningFleet, tmp_path: Path) -> None:
    for wrong in (["--host", "a b"], ["--process", "../x"], ["--wait", "-1"]):
        assert drain(fleet, *wrong).returncode == Exit.USAGE
    nowhere = fleet_command("drain", "--data-dir", str(tmp_path))
    assert nowhere.returncode == Exit.STORE_UNREACHABLE
