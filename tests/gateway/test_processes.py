"""Several front-ends and workers: racing submits, killed processes, changed configuration."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.gateway.fleet import SERVER, STDIO, Agent, GatewayFleet, Json, link
from tests.support.fleets import fleet_command, scrape
from tests.support.ports import free_port
from tests.support.wait import process_alive, wait_until_sync

GATED = """
sleep 300 >/dev/null 2>&1 & echo $$ $! > {directory}/{name}.pids
echo "$IDEMPOTENCY_KEY $PPID" >> {directory}/{name}.runs
while ! [ -e {directory}/{name}.gate ]; do sleep 0.02; done
kill $!
echo 1
"""


def sh(script: str) -> Json:
    return {"kind": "cli", "command": "sh", "args": ["-c", script]}


def one_move(executor: Json, **more: Any) -> Json:
    """A workflow of one transition."""
    move: Json = {"target": "done", "executor": executor, "output": {"n": "$.output.json"}, **more}
    return {"initialState": "ready", "states": {"ready": {"transitions": {"go": move}}, "done": {"terminal": True}}}


class World:
    """A fleet, its configuration, and the directory that its commands write into."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.config: Json = {
            "steps": {"slots": 8},
            "gateway": {
                "version": "1.0.0",
                "audit": {"sink": "file", "path": str(directory / "audit.jsonl")},
                "connections": {
                    "local": STDIO,
                    "remote": {"kind": "mcp", "url": f"http://127.0.0.1:{self.port}/mcp"},
                },
                "proxy": {
                    "import": [
                        {"connection": "local", "prefix": "calc", "include": ["add", "greet", "grow", "new"],
                         "exclude": ["greet"], "tags": ["numbers"]},
                        {"connection": "remote", "prefix": "far"},
                    ]
                },
                "workflows": {
                    name: one_move(sh(GATED.format(directory=directory, name=name)))
                    for name in ("race", "worker", "frontend", "changing")
                } | {
                    "asking": {
                        "initialState": "new",
                        "states": {
                            "new": {"transitions": {"ask": {"target": "asked", "executor": {"kind": "human"}}}},
                            "asked": {"transitions": {"approve": {"target": "done", "actor": "human"}}},
                            "done": {"terminal": True},
                        },
                    }
                },
            },
        }  # fmt: skip
        self.served = GatewayFleet(directory, self.config)

    def agent(self, token: str = "") -> Agent:
        return self.served.agent(token)

    def runs(self, name: str) -> list[tuple[str, int]]:
        """Runs of a gated command so far: idempotency key, and the worker."""
        file = self.directory / f"{name}.runs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(line.split()[0], int(line.split()[1])) for line in lines]

    def open(self, name: str) -> None:
        """Releases the gated commands."""
        (self.directory / f"{name}.gate").touch()

    def running(self, name: str, count: int = 1) -> list[tuple[str, int]]:
        """Waits until a gated command has begun this often."""
        return wait_until_sync(
            lambda: found if len(found := self.runs(name)) >= count else [], what=f"run {count} of {name}"
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("gateway"))
    try:
        world.served.fleet.wait_ready()
        yield world
    finally:
        for name in ("race", "worker", "frontend", "changing"):
            world.open(name)
        world.served.clean_up()


def submitting(world: World, asked: Json) -> tuple[Thread, list[Any]]:
    """A submit in progress, and its outcome."""
    found: list[Any] = []
    agent = world.agent()

    def run() -> None:
        try:
            found.append(agent.reply("workflow.submit", **asked))
        except (http.client.HTTPException, OSError) as error:
            found.append(error)

    thread = Thread(target=run)
    thread.start()
    return thread, found


def test_one_of_twenty_wins_and_the_executor_runs_once(world: World) -> None:
    before = world.served.answered()
    started = world.agent().start("race")
    asked = link(started, "go")

    def submit(agent: Agent) -> Json:
        while True:
            body, _ = agent.reply("workflow.submit", **asked)
            # Calls that have waited long enough for the first one are told to retry.
            if "about to change" not in body.get("error", {}).get("message", ""):
                return body

    def open_later() -> None:
        world.running("race")
        wait_until_sync(lambda: world.served.in_flight() >= 20, what="all twenty to wait")
        world.open("race")

    opener = Thread(target=open_later)
    opener.start()
    answers = world.served.together(20, submit)
    opener.join()
    won = [answer for answer in answers if "error" not in answer]
    assert len(won) == 1
    assert (won[0]["state"], won[0]["version"], won[0]["context"]) == ("done", 2, {"n": 1})
    lost = [answer for answer in answers if "error" in answer]
    assert {answer["error"]["code"] for answer in lost} == {"STALE_WORKFLOW_VERSION"}
    assert {answer["error"]["message"] for answer in lost} == {"Expected workflow version 1, but current version is 2."}
    assert len(world.runs("race")) == 1

    def both_answered() -> bool:
        after = world.served.answered()
        return sum(after[slot] > before.get(slot, 0) for slot in after) == 2

    wait_until_sync(both_answered, what="both front-ends to have answered")


def test_a_killed_worker_causes_a_second_run_with_the_same_key(world: World) -> None:
    started = world.agent().start("worker")
    thread, found = submitting(world, link(started, "go"))
    ((key, worker),) = world.running("worker")
    assert worker in world.served.fleet.pids
    left = [int(pid) for pid in (world.directory / "worker.pids").read_text().split()]
    os.kill(worker, signal.SIGKILL)
    # Its command does not keep running beside the second run, without a timeout.
    wait_until_sync(lambda: not any(map(process_alive, left)), what="the end of the first command")
    (_, (second_key, second_worker)) = world.running("worker", 2)
    assert second_key == key
    assert second_worker != worker
    world.open("worker")
    thread.join()
    answer, failed = found[0]
    assert not failed
    assert (answer["state"], answer["version"], answer["context"]) == ("done", 2, {"n": 1})
    assert len(world.runs("worker")) == 2
    assert world.agent().get(started)["version"] == 2


def test_a_killed_front_end_loses_only_the_answer(world: World) -> None:
    started = world.agent().start("frontend")
    asked = link(started, "go")
    thread, found = submitting(world, asked)
    ((key, first),) = world.running("frontend")
    asking = world.agent(world.served.human)
    question = asking.asked("workflow.submit", **link(asking.start("asking"), "ask"))
    task = asking.begun("workflow.submit", **link(asking.start("frontend"), "go"))
    dropped = asking.begun("workflow.submit", **link(asking.start("frontend"), "go"))
    slots = [one.slot for one in world.served.fleet.state.processes if one.role == "frontend"]
    old = [world.served.fleet.pid(slot) for slot in slots]
    for pid in old:
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    thread.join()
    assert not isinstance(found[0], tuple)
    wait_until_sync(
        lambda: (
            all(world.served.fleet.pid(slot) not in (None, *old) for slot in slots)
            and all(one.ready for one in world.served.fleet.state.processes)
        ),
        what="new front-ends",
    )
    agent = world.agent()
    seen = agent.get(started)
    assert seen["inFlight"]["transition"] == "go"
    assert world.agent(world.served.human).task(dropped, "cancel")["resultType"] == "complete"
    busy = agent.refused("workflow.submit", **asked)
    assert busy["error"]["code"] == "STALE_WORKFLOW_VERSION"
    world.open("frontend")
    # Questions to people and tasks go on in the processes that took their places.
    person = world.agent(world.served.human)
    assert person.answered(question, decision="approve")["terminal"]
    wait_until_sync(lambda: person.task(task)["status"] != "working", what="the end of the task")
    ended = person.task(task)
    assert (ended["status"], ended["result"]["structuredContent"]["terminal"]) == ("completed", True)
    assert person.task(dropped)["status"] == "cancelled"
    wait_until_sync(lambda: agent.get(started).get("terminal"), what="the end of the workflow")
    assert [run for run in world.runs("frontend") if run[0] == key] == [(key, first)]
    assert agent.refused("workflow.submit", **asked)["error"]["code"] == "STALE_WORKFLOW_VERSION"


def reload(world: World, config: Json) -> Json:
    """Reloads the running fleet's configuration; returns what /readyz then says of it."""
    world.served.write(config)
    _, before = ready(world)
    world.served.fleet.process.send_signal(signal.SIGHUP)

    def changed() -> Json:
        found: dict[str, Json] = {}
        while len(found) < 2:  # the kernel spreads connections
            process, config = ready(world)
            found[process] = config
        first, second = found.values()
        return first if before != first == second else {}

    return wait_until_sync(changed, what="the reload")


def ready(world: World) -> tuple[str, Json]:
    """A front-end, and its report of the configuration."""
    connection = http.client.HTTPConnection("127.0.0.1", world.served.fleet.port, timeout=60)
    connection.request("GET", "/readyz")
    answer: Json = json.loads(connection.getresponse().read())
    connection.close()
    found: Json = answer["config"]
    reason = found.get("refused", {}).get("reason")
    return answer["process"], {key: value for key, value in found.items() if key != "since"} | {"refused": reason}


def test_instances_keep_the_definition_that_they_started_with(world: World) -> None:
    agent = world.agent()
    started = agent.start("changing")
    changed = json.loads(json.dumps(world.config))
    changed["gateway"]["workflows"]["changing"] = one_move(sh("echo 2"))
    changed["gateway"]["workflows"]["fresh"] = one_move(sh("echo 3"))
    changed["gateway"]["capabilities"] = {"late": {"executor": {"kind": "cli", "connection": "new", "args": ["hi"]}}}
    changed["gateway"]["connections"]["new"] = {"kind": "cli", "command": "echo"}
    reload(world, changed)
    agent = world.agent()
    assert {"fresh", "late"} <= {item["id"] for item in agent("gateway.home")["items"]}
    new = agent.start("changing")
    assert agent("workflow.submit", **link(new, "go"))["context"] == {"n": 2}
    # Workers use the new connections, too.
    called = agent.start("proxy_default", capability="late", arguments={})
    assert called["context"]["lastResult"]["text"] == "hi"
    world.open("changing")
    assert agent("workflow.submit", **link(started, "go"))["context"] == {"n": 1}
    assert len(world.runs("changing")) == 1
    # An invalid file changes nothing.
    wrong = json.loads(json.dumps(changed))
    wrong["gateway"]["workflows"]["fresh"]["states"]["ready"]["transitions"]["go"]["target"] = "nowhere"
    refused = reload(world, wrong)
    assert "unknown state 'nowhere'" in refused["refused"]
    assert "fleet.yaml:1" in refused["refused"]
    assert agent.start("fresh")["state"] == "ready"
    reload(world, world.config)
    told = fleet_command("gateway", "audit", "--data-dir", str(world.directory / "data"), "--type", "config.reloaded")
    # One entry per applied change, however many processes there are.
    assert len(told.stdout.splitlines()) == 2, told


def items(agent: Agent) -> dict[str, Json]:
    return agent.items()


@contextlib.contextmanager
def remote(world: World) -> Iterator[subprocess.Popen[bytes]]:
    """The downstream server that is reached over HTTP."""
    process = subprocess.Popen(
        [sys.executable, SERVER, str(world.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_tools_of_downstream_servers_are_in_the_catalogue(world: World) -> None:
    agent = world.agent()
    found = wait_until_sync(lambda: one if "calc.add" in (one := items(agent)) else {}, what="the imported tools")
    assert found["calc.add"]["tags"] == ["numbers"]
    assert "calc.greet" not in found
    assert "calc.facts" not in found
    # A dead server is listed as such, and hides no other.
    down = wait_until_sync(lambda: items(agent).get("connection:remote") or {}, what="the dead server")
    assert down["available"] is False
    described = agent("gateway.describe", id="calc.add")
    start = described["links"][0]
    assert start["input_schema"]["required"] == ["left", "right"]
    answer = agent("workflow.start", **{**start["args"], "input": {"capability": "calc.add", "left": 2, "right": 3}})
    assert answer["context"]["lastResult"] == {"result": 5}
    assert [one["item"]["id"] for one in agent("gateway.search", query="numbers calc")["results"]][:1] == ["calc.add"]
    # A server that says that its tools have changed is asked at once.
    agent.start("proxy_default", capability="calc.grow", name="new")
    wait_until_sync(lambda: "calc.new" in items(agent), what="the new tool")
    # A server that returns is found, and its tools stay listed when it dies.
    with remote(world):
        found = wait_until_sync(lambda: one if "far.add" in (one := items(agent)) else {}, what="the far tools")
        assert "available" not in found["far.add"]
        assert "connection:remote" not in found
        session = agent.start("proxy_default", capability="far.add", left=1, right=1)
        assert session["context"]["lastResult"] == {"result": 2}
    refused = agent.refused("workflow.submit", **{**link(session, "far.add"), "arguments": {"left": 1, "right": 1}})
    assert refused["error"]["details"]["errorClass"] == "connection_error"
    wait_until_sync(lambda: items(agent)["far.add"].get("available") is False, what="the dead server's tools")
    assert "available" not in items(agent)["calc.add"]


def test_people_answer_over_http_and_at_the_terminal(world: World) -> None:
    agent, data = world.agent(), str(world.directory / "data")
    first, second = (agent("workflow.submit", **link(agent.start("asking"), "ask")) for _ in range(2))
    assert agent.refused("workflow.submit", **link(first, "approve"))["error"]["code"] == "ACTOR_MISMATCH"
    person = world.agent(world.served.human)
    assert person("workflow.submit", **link(first, "approve"))["terminal"]
    listed = fleet_command("gateway", "approvals", "list", "--data-dir", data, "--format", "json")
    pending = [json.loads(line) for line in listed.stdout.splitlines()]
    assert first["workflowId"] not in {one["workflow"] for one in pending}
    (question,) = [one["id"] for one in pending if one["workflow"] == second["workflowId"]]
    wrong = fleet_command("gateway", "approvals", "resolve", question, "reject", "--data-dir", data)
    assert wrong.returncode == 2
    assert "people may take: approve" in wrong.stderr
    submitted = "coordinator_gateway_submits_total{result=ok}"
    before = scrape(world.served.fleet.port)[submitted]
    done = fleet_command("gateway", "approvals", "resolve", question, "approve", "--by", "bo", "--data-dir", data)
    assert done.returncode == 0, done
    assert scrape(world.served.fleet.port)[submitted] == before + 1
    assert agent.get(second)["terminal"]
    again = fleet_command("gateway", "approvals", "resolve", question, "approve", "--data-dir", data)
    assert again.returncode == 1
    assert "it is resolved already, by bo with approve" in again.stderr
    shown = fleet_command("gateway", "approvals", "show", question, "--data-dir", data)
    assert json.loads(shown.stdout)["by"] == "bo"


def test_the_audit_is_in_redis_and_in_the_file(world: World) -> None:
    agent = world.agent()
    started = agent.start("asking")
    asked = agent("workflow.submit", **link(started, "ask"))
    told = fleet_command(
        "gateway", "audit", "--workflow", asked["workflowId"], "--format", "json",
        "--data-dir", str(world.directory / "data"),
    )  # fmt: skip
    entries = [json.loads(line) for line in told.stdout.splitlines()]
    assert [entry["type"] for entry in entries] == [
        "workflow.started",
        "transition.requested",
        "executor.started",
        "human.approval.requested",
        "executor.succeeded",
        "workflow.transitioned",
    ]
    assert len({entry["correlationId"] for entry in entries}) == 2
    assert all(entry["id"].startswith("evt_") for entry in entries)
    assert all(entry["correlationId"].startswith("cor_") for entry in entries)
    file = world.directory / "audit.jsonl"

    def copied() -> list[Json]:
        whole = file.read_text().rpartition("\n")[0] if file.exists() else ""  # a worker may be writing
        lines = [json.loads(line) for line in whole.splitlines()]
        found = [line for line in lines if line["workflowId"] == asked["workflowId"]]
        return found if len(found) == len(entries) else []

    # The worker that leads may have been killed by another test: its lease lasts for 20 s.
    lines = wait_until_sync(copied, 60, "the copy of the audit")
    assert lines == [{"project": "default", **entry} for entry in entries]
    assert (file.stat().st_mode & 0o777) == 0o600
