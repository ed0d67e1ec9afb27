"""Connections at the top of the settings are reloaded while flows use them, over two front-ends and two workers."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from coordinator.client import SyncFleet
from coordinator.client.errors import FleetError
from tests.gateway.fleet import GatewayFleet, Json
from tests.support.fleets import scrape
from tests.support.wait import process_alive, wait_until_sync

CLIENTS = 2
PROGRAM = """
import json, os, sys, threading, time

def answer(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **result}), flush=True)

def text(id, said):
    answer(id, {"result": {"content": [{"type": "text", "text": said}]}})

def hold(id, path):
    open(path + ".begun", "w").close()
    while not os.path.exists(path):
        time.sleep(0.01)
    text(id, "there")

for line in sys.stdin:
    asked = json.loads(line)
    id, given = asked.get("id"), asked.get("params") or {}
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}
    if asked["method"] == "initialize":
        answer(id, {"result": {"protocolVersion": given["protocolVersion"], **about}})
    elif asked["method"] == "tools/list":
        answer(id, {"result": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}})
    elif asked["method"] == "tools/call" and given["name"] == "hold":
        threading.Thread(target=hold, args=(id, given["arguments"]["path"]), daemon=True).start()
    elif asked["method"] == "tools/call":
        text(id, {"greet": "hello", "pid": str(os.getpid()), "word": os.environ.get("WORD", "")}[given["name"]])
    elif id is not None:
        answer(id, {"error": {"code": -32601, "message": "no such method"}})
"""
"""A server that starts in no time: greet, pid, word (from its environment), and hold, which waits for a file."""
RELOADS = "coordinator_config_reloads_total{outcome=ok}"
DEAD = {"kind": "mcp", "command": "/no/such/program"}


def config(connections: Json, *imports: str) -> Json:
    gateway = {
        "version": "1.0.0",
        "connections": {"guarded": server()},
        "proxy": {"import": [{"connection": name, "prefix": name, "include": ["greet"]} for name in imports]},
    }
    return {"connections": connections, "gateway": gateway}


def server(**env: str) -> Json:
    return {"kind": "mcp", "command": sys.executable, "args": ["-I", "-S", "-c", PROGRAM], "env": env}


BEGINNING = config({"steady": server(), "changing": server(WORD="old"), "leaving": server(), "dead": DEAD})
CHANGED = config({"steady": server(), "changing": server(WORD="new"), "late": server(), "dead": server()}, "late")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[GatewayFleet]:
    with GatewayFleet(tmp_path, BEGINNING) as running:
        yield running


def reload(fleet: GatewayFleet, changed: Json) -> None:
    """Reloads the settings, and waits until both front-ends have applied them."""
    fleet.write(changed)
    before = scrape(fleet.fleet.port)[RELOADS]
    fleet.fleet.process.send_signal(signal.SIGHUP)
    wait_until_sync(
        lambda: scrape(fleet.fleet.port)[RELOADS] == before + 2, what="the front-ends to apply the settings"
    )


def created(client: SyncFleet, tool: str, **arguments: Any) -> int:
    """A flow of one step."""
    step = {"name": "start", "tool": tool, "args": arguments, "done": True}
    return int(client.call("workflow_create", {"name": tool, "flow": {"start": step}}, toolset="flows")["id"])


def refusal(client: SyncFleet, tool: str) -> str:
    with pytest.raises(FleetError) as refused:
        created(client, tool)
    return str(refused.value)


def ended(client: SyncFleet, flow: int) -> Json:
    """A flow that has ended."""
    found: Json = {"status": "running"}
    while found["status"] == "running":
        found = client.call("workflow_get", {"id": flow, "waitMs": 20_000, "waitFor": "ended"}, toolset="flows")
    return found


def run(client: SyncFleet, tool: str, **arguments: Any) -> Any:
    """The result of a flow of one step; None if it failed."""
    found = ended(client, created(client, tool, **arguments))
    return json.loads(found["steps"][0]["result_json"]) if found["status"] == "completed" else None


def processes(client: SyncFleet, connection: str) -> set[int]:
    """The processes of a server, one for each worker."""
    found: set[int] = set()

    def both() -> bool:
        together = [created(client, f"{connection}.pid") for _ in range(8)]
        found.update(json.loads(ended(client, one)["steps"][0]["result_json"]) for one in together)
        return len(found) == 2

    wait_until_sync(both, what=f"both workers to call {connection}")
    return found


@contextlib.contextmanager
def load(url: str) -> Iterator[list[Any]]:
    """Clients that call a connection which stays, one flow after the other; yields the results, None for a failure."""
    results: list[Any] = []
    stop = Event()

    def work() -> None:
        with SyncFleet(url) as client:
            while not stop.is_set():
                results.append(run(client, "steady.greet"))

    threads = [Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_reload_changes_connections_without_a_failed_call(fleet: GatewayFleet, tmp_path: Path) -> None:
    url = fleet.fleet.state.base_url
    with SyncFleet(url) as client:
        old = {name: processes(client, name) for name in ("steady", "changing", "leaving")}
        assert "unknown tool 'late.greet'" in refusal(client, "late.greet")
        told = "unknown tool 'guarded.greet': 'guarded' is a connection of the gateway, whose guards protect it"
        assert told in refusal(client, "guarded.greet")
        assert run(client, "dead.greet") is None
        files = {name: tmp_path / name for name in old}
        waiting = {name: created(client, f"{name}.hold", path=str(file)) for name, file in files.items()}
        for file in files.values():
            wait_until_sync(Path(f"{file}.begun").exists, what="the calls to be under way")
        with load(url) as results:
            wait_until_sync(lambda: len(results) > 20, what="some calls before the reload")
            reload(fleet, CHANGED)

            def renewed() -> bool:
                seen = [run(client, "changing.word") for _ in range(8)]
                assert set(seen) <= {"old", "new"}
                return set(seen) == {"new"}

            wait_until_sync(renewed, what="both workers to use the new settings")
            # A front-end knows of it at once, and a worker soon.
            wait_until_sync(lambda: run(client, "late.greet") == "hello", what="the new connection")
            wait_until_sync(lambda: run(client, "dead.greet") == "hello", what="the repaired connection")
            assert "unknown tool 'leaving.greet'" in refusal(client, "leaving.greet")
            calls = len(results)
            wait_until_sync(lambda: len(results) > calls + 20, what="some calls after the reload")
        assert set(results) == {"hello"}, "no call to a connection that stays has failed"
        # Servers whose connections have changed or gone end when their calls have.
        assert any(map(process_alive, old["changing"])), "one of them still has a call"
        assert any(map(process_alive, old["leaving"]))
        for file in files.values():
            file.touch()
        for name, flow in waiting.items():
            found = ended(client, flow)
            assert (found["status"], found["steps"][0]["result_json"]) == ("completed", '"there"'), name
        for pid in old["changing"] | old["leaving"]:
            wait_until_sync(lambda: not process_alive(pid), what="the end of the servers")  # noqa: B023
        assert processes(client, "steady") == old["steady"]
    agent = fleet.agent()

    def catalogue() -> set[str]:
        return {item["id"] for item in agent("gateway.home")["items"]}

    wait_until_sync(lambda: "late.greet" in catalogue(), what="the imported tool, without a restart")
    called = agent.start("proxy_default", capability="late.greet", arguments={})
    assert called["context"]["lastResult"] == {"content": [{"type": "text", "text": "hello"}]}
    reload(fleet, BEGINNING)
    wait_until_sync(lambda: "late.greet" not in catalogue(), what="the imported tool to be gone")
