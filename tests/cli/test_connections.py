"""Operators see which connections work: `fleet doctor`, `fleet gateway connections` and metrics, over two workers."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator

import msgspec
import pytest

from coordinator.cli.exits import Exit
from coordinator.doctor.connections import check
from coordinator.settings.sections.connections import Connection
from coordinator.store.fleet.processes import Processes
from tests.gateway.fleet import STDIO, Agent, GatewayFleet, Json
from tests.support.fleets import fleet_command, scrape
from tests.support.odd_http import Answer, OddHttp
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync

CALLED = ("fine", "refusing", "nowhere", "old")


@pytest.fixture(scope="module")
def web() -> Iterator[OddHttp]:
    with OddHttp() as server:
        server.answer = Answer(401)
        yield server


@pytest.fixture(scope="module")
def old() -> Iterator[OddHttp]:
    with OddHttp() as server:
        server.old = True
        yield server


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, web: OddHttp, old: OddHttp) -> Iterator[GatewayFleet]:
    headers = {"Authorization": "Bearer ${SEARCH_TOKEN}"}
    config: Json = {
        "connections": {
            "refusing": msgspec.to_builtins(web.connection(headers=headers)),
            "old": msgspec.to_builtins(old.connection(path="/sse")),
            "unused": {"kind": "mcp", "command": "no-such-program"},
        },
        "gateway": {
            "version": "1.0.0",
            "connections": {
                "fine": STDIO,
                "nowhere": {"kind": "mcp", "url": f"http://127.0.0.1:{free_port()}/mcp"},
                "git": {"kind": "cli", "command": "git", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}},
            },
            "capabilities": {
                name: {
                    "title": name,
                    "inputSchema": {"type": "object"},
                    "executor": {"kind": "mcp", "connection": name, "tool": "key"},
                }
                for name in CALLED
            },
        },
    }
    with GatewayFleet(tmp_path_factory.mktemp("connections"), config, SEARCH_TOKEN="s3cret") as running:
        yield running


def told(fleet: GatewayFleet, *command: str) -> subprocess.CompletedProcess[str]:
    return fleet_command(*command, "--data-dir", str(fleet.fleet.data_dir), "--config", str(fleet.file))


def doctor(fleet: GatewayFleet) -> dict[str, list[Json]]:
    """What doctor finds about each connection, without what it finds about the machine."""
    shown = told(fleet, "doctor", "--verbose", "--format", "json")
    found: dict[str, list[Json]] = {}
    for one in json.loads(shown.stdout):
        if one["what"] == "connections":
            found.setdefault(one["said"].partition(":")[0], []).append(one)
    if any(one["verdict"] == "fails" for each in found.values() for one in each):
        assert shown.returncode == Exit.FAILED
    return found


def use(agent: Agent, name: str) -> str:
    """Calls a tool of a connection; returns why that fails."""
    answer, failed = agent.reply("workflow.start", definitionId="proxy_default", input={"capability": name, "x": 1})
    return str(answer["error"]["message"]) if failed else ""


def test_doctor_names_dead_connections_with_reason_and_time_and_starts_nothing(
    fleet: GatewayFleet, web: OddHttp
) -> None:
    def reported() -> bool:
        return ", " in doctor(fleet).get("git", [{"said": ""}])[0]["said"]

    wait_until_sync(reported, what="both workers to report")
    untried = doctor(fleet)
    assert {name: [one["verdict"] for one in found] for name, found in untried.items()} == {
        "not tried": ["note"],
        "git": ["fails"],
    }
    assert untried["not tried"][0]["said"] == "not tried: fine, nowhere, old, refusing, unused"
    host = socket.gethostname()
    missing = f"git: no environment variable NOT_SET_ANYWHERE in {host}/w-0, {host}/w-1"
    assert untried["git"][0]["said"] == missing
    agent, failures = fleet.agent(), dict[str, str]()
    for name in CALLED:
        failures[name] = use(agent, name)
    assert failures["fine"] == ""
    assert failures["refusing"].endswith(
        "it answered with status 401: it refuses the header Authorization (from SEARCH_TOKEN)"
    )
    wait_until_sync(lambda: doctor(fleet).keys() >= set(CALLED), what="the reports of both workers")
    found = {name: each[0] for name, each in doctor(fleet).items()}
    assert found["fine"]["verdict"] == "ok"
    assert (found["not tried"]["verdict"], found["not tried"]["said"]) == ("note", "not tried: unused")
    for name, reason in (
        ("refusing", "it answered with status 401: it refuses the header Authorization (from SEARCH_TOKEN)"),
        ("nowhere", "it cannot be connected to (connection refused)"),
        (
            "old",
            "it speaks the old transport HTTP+SSE only, and Streamable HTTP is needed, which is usually at /mcp "
            "instead of /sse",
        ),
    ):
        said = found[name]["said"]
        assert (found[name]["verdict"], found[name]["alert"]) == ("fails", "ConnectionFails")
        assert said.startswith(f"{name}: {reason}; since 20"), said
        assert "/w-" in said.partition("last used")[2], said
        assert "s3cret" not in said
    assert "old" not in {one["connection"] for one in _counted(fleet) if one["outcome"] == "ok"}
    listed = told(fleet, "gateway", "connections")
    assert listed.returncode == Exit.FAILED
    lines = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert lines.keys() == {*CALLED, "git", "unused"}
    assert "connection refused" in lines["nowhere"]
    assert "mcp  ok  since 20" in lines["fine"]
    assert lines["unused"] == "unused  mcp  not tried"
    # Once both workers have reached it, nothing is left of the failure.
    web.answer = None
    try:

        def works() -> bool:
            together = fleet.together(8, lambda one: use(one, "refusing"))
            return not any(together) and doctor(fleet)["refusing"][0]["verdict"] == "ok"

        wait_until_sync(works, what="the connection is well again")
    finally:
        web.answer = Answer(401)


def _counted(fleet: GatewayFleet) -> list[dict[str, str]]:
    """Connections and outcomes that have been counted."""
    found = []
    for key, value in scrape(fleet.fleet.port).items():
        name, _, labels = key.partition("{")
        if name == "coordinator_connection_uses_total" and value:
            found.append(dict(one.split("=") for one in labels.rstrip("}").split(",")))
    return found


def test_the_list_is_json_for_programs(fleet: GatewayFleet) -> None:
    listed = told(fleet, "gateway", "connections", "--format", "json")
    rows = {one["name"]: one for one in map(json.loads, listed.stdout.splitlines())}
    assert rows["unused"] == {"name": "unused", "kind": "mcp", "state": "not tried", "reason": "", "since": None,
                              "at": None, "worker": "", "unset": {}}  # fmt: skip
    assert list(rows["git"]["unset"].values()) == [["NOT_SET_ANYWHERE"]] * 2


def test_without_a_worker_doctor_says_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "1")
    monkeypatch.delenv("AWAY", raising=False)
    stated = {
        "git": Connection(kind="cli", command="git", env={"A": "${AWAY}", "H": "${HERE}"}),
        "ls": Connection(kind="cli", command="ls"),
    }
    nobody = Processes(0, [])
    assert [(one.verdict, one.said) for one in check(nobody, stated)] == [
        ("note", "not tried: git, ls"),
        ("note", "git: no worker runs, and here is no environment variable AWAY"),
    ]
    assert [(one.verdict, one.said) for one in check(nobody, {})] == [("ok", "there are none")]
