"""The console and the command line: what they leave in the log, and who of two at the same time has the effect."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from coordinator.cli.acting import user_at_host
from coordinator.cli.exits import Exit
from coordinator.client import SyncFleet
from coordinator.store.fleet.drains import Drains
from tests.console.asking import CONFIG
from tests.console.visitors import Got, Visitor, of_store, operator
from tests.support.fleets import RunningCommand, RunningFleet, fleet_command
from tests.support.wait import wait_until_sync

Json = dict[str, Any]
HERE = {"id": user_at_host(), "kind": "user", "via": "cli", "verified": False}
ADA = {"id": "ada", "kind": "user", "via": "console", "verified": True}
WAITS = {"start": {"name": "wait", "tool": None, "done": True}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("ways")
    settings = folder / "fleet.yaml"
    settings.write_text(json.dumps(CONFIG))
    options = ("--port", "0", "--frontends", "2", "--workers", "1", "--config", str(settings))
    with RunningFleet(folder / "data", *options) as fleet:
        fleet.wait_ready()
        yield fleet


class Ways:
    """Both ways into one project."""

    def __init__(self, fleet: RunningFleet, client: SyncFleet) -> None:
        self.fleet = fleet
        self.project = client.project
        self.client = client
        self.visitor = operator(fleet, "ada")

    def command(self, *words: str, of_fleet: bool = False) -> subprocess.CompletedProcess[str]:
        """A command of an operator."""
        of = () if of_fleet else ("--project", self.project)
        return fleet_command(*words, *of, "--reason", "from here", "--data-dir", str(self.fleet.data_dir))

    def click(self, path: str, of_fleet: bool = False, **arguments: Any) -> Json:
        """A click on a button of the console, by a visitor of their own connection; its answer."""
        of = "" if of_fleet else f"/p/{self.project}"
        visitor = Visitor(self.fleet.port, self.visitor.cookies)
        why = {"reason": "from there"} if path.startswith("operate") else {}
        got: Got = visitor.change(f"/console{of}/api/{path}", {**why, **arguments})
        told: Json = json.loads(got.body)
        return told

    def log(self, *words: str) -> list[Json]:
        """The log, as the command prints it."""
        given = ("audit-log", "tail", "--json", *words, "--data-dir", str(self.fleet.data_dir))
        done = fleet_command(*given)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def flow(self) -> int:
        """A workflow that waits at a gate."""
        return int(self.client.call("workflow_create", {"name": "waits", "flow": WAITS})["id"])

    def approval(self) -> tuple[Json, str]:
        """An instance of the gateway that waits for a person, and its approval."""
        made = self.client.call("workflow.start", {"definitionId": "release", "input": {"version": "1"}})
        at = {"workflowId": made["workflowId"], "expectedVersion": made["version"], "transition": "pass"}
        asked = self.client.call("workflow.submit", {**at, "arguments": {}})
        return asked, str(asked["pendingHuman"][0]["requestId"])


@pytest.fixture
def ways(running: RunningFleet) -> Iterator[Ways]:
    name = f"p{uuid.uuid4().hex[:12]}"
    with SyncFleet(f"http://127.0.0.1:{running.port}", project=name, agent="agent-7") as client:
        yield Ways(running, client)


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What they return; all begin together."""
    barrier = Barrier(len(acts))

    def begin(act: Callable[[], Any]) -> Any:
        barrier.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [one.result() for one in [pool.submit(begin, act) for act in acts]]


def without_who(found: Sequence[Json]) -> list[Json]:
    return [{name: value for name, value in one.items() if name not in ("at", "who", "reason")} for one in found]


def test_both_ways_leave_the_same_records(ways: Ways) -> None:
    """But for who it was, and why."""
    flow, item = ways.flow(), ways.client.call("manage_items", {"operation": "create", "items": [{"title": "x"}]})
    held = str(item["items"][0]["id"])
    asked, approval = ways.approval()
    other, _ = ways.approval()

    def claim() -> int:
        return int(ways.client.call("claim_item", {"claims": [{"itemId": held}]})["claimResults"][0]["fenceToken"])

    def of_console(asked: Json) -> None:
        ways.click("operate/pause_flow", id=flow)
        ways.click("operate/pause_flow", id=flow)
        ways.click("operate/resume_flow", id=flow)
        ways.click("call/flows/workflow_cancel", id=flow)
        ways.click("operate/retry_flow", id=flow)
        claim()
        ways.click("operate/end_claim", itemId=held)
        ways.click("operate/drain_agents", name="agent-7")
        ways.click("operate/end_drain_agents", name="agent-7")
        submitted = {"workflowId": asked["workflowId"], "expectedVersion": asked["version"], "transition": "approve"}
        ways.click("call/gateway/workflow.submit", **submitted, arguments={})

    def of_commands(approval: str) -> None:
        for words in ("pause", "pause", "resume", "cancel", "retry"):
            ways.command("flows", words, str(flow))
        claim()
        ways.command("items", "end-claim", held[:8])
        for word in ("drain", "undrain"):
            ways.command("agents", word, "agent-7")
        ways.command("gateway", "approvals", "resolve", approval, "approve")

    of_console(other)
    first = ways.log("--project", ways.project, "-n", "100")
    of_commands(approval)
    second = ways.log("--project", ways.project, "-n", "100")[len(first) :]
    instances = [one["target"].pop("id") for one in (first[-1], second[-1])]
    assert instances == [other["workflowId"], asked["workflowId"]]
    assert len(first) == 9
    assert without_who(first) == without_who(second)
    assert {json.dumps(one["who"]) for one in first} == {json.dumps(ADA)}
    assert {json.dumps(one["who"]) for one in second} == {json.dumps(HERE)}
    assert {one["reason"] for one in second} == {"from here"}
    assert [one["outcome"] for one in first].count("refused") == 1


def test_acts_on_the_fleet_leave_the_same_records(ways: Ways) -> None:
    host = of_store(ways.fleet, lambda store: Drains(store).processes())
    (name,) = host
    scope = f"process:{name}/w-0"
    for _ in range(2):
        assert "result" in ways.click("operate/drain", of_fleet=True, scope=scope)
    for _ in range(2):
        ways.click("operate/end_drain", of_fleet=True, scope=scope)
    drains = [
        ways.command("drain", "--process", "w-0", *more, of_fleet=True)
        for more in [("--wait", "0")] * 2 + [("--end",)] * 2
    ]
    assert [one.returncode for one in drains] == [Exit.OK] * 4
    assert "; it was drained already; `fleet drain --host" in drains[1].stdout
    assert drains[3].stdout == f"{scope} takes new work again; it was not drained\n"
    found = [one for one in ways.log("-n", "100") if one["target"] == {"type": "processes", "id": scope}]
    assert without_who(found[:4]) == without_who(found[4:])
    assert [(one["outcome"], one["detail"]) for one in found[4:]] == [
        ("allowed", ""), ("allowed", "it was drained already"), ("allowed", ""), ("allowed", "it was not drained"),
    ]  # fmt: skip
    page = ways.visitor.open("/console/system").text
    assert page.count(f">{user_at_host()}<") >= 4
    assert "from here" in page


def test_of_a_click_and_commands_at_the_same_time_one_pauses_and_the_others_are_told(ways: Ways) -> None:
    for _ in range(2):
        flow = ways.flow()
        command = partial(ways.command, "flows", "pause", str(flow))
        click = partial(ways.click, "operate/pause_flow", id=flow)
        first, second, third = at_once(command, command, click)
        told = [first.stderr, second.stderr, third.get("problem", "")]
        assert sorted(map(bool, told)) == [False, True, True], told
        rule = "only a running workflow can be paused; it is paused"
        assert {text.strip().removeprefix(f"fleet: workflow {flow}: ") for text in told} == {"", rule}
        assert sorted((first.returncode, second.returncode)) in ([0, 1], [1, 1])
        found = [one for one in ways.log("--project", ways.project) if one["target"]["id"] == str(flow)]
        assert sorted((one["outcome"], one["detail"]) for one in found) == [
            ("allowed", ""), ("refused", rule), ("refused", rule),
        ]  # fmt: skip


def test_of_a_click_and_a_command_at_the_same_time_one_drains_agents_and_the_other_is_told(ways: Ways) -> None:
    ways.client.call("manage_items", {"operation": "create", "items": [{"title": "x"}]})
    command, click = at_once(
        lambda: ways.command("agents", "drain", "bot"), lambda: ways.click("operate/drain_agents", name="bot")
    )
    assert command.returncode == 0, command.stderr
    before = "it was drained already"
    assert (before in command.stdout) == click["result"]["begun"]
    assert click.get("said", "") == ("" if click["result"]["begun"] else before)
    assert sorted((one["outcome"], one["detail"]) for one in ways.log("--project", ways.project)) == [
        ("allowed", ""), ("allowed", before),
    ]  # fmt: skip


def test_of_a_click_and_a_command_at_the_same_time_one_answers_and_the_other_is_told(ways: Ways) -> None:
    for _ in range(2):
        asked, approval = ways.approval()
        submitted = {"workflowId": asked["workflowId"], "expectedVersion": asked["version"], "transition": "approve"}
        command, click = at_once(
            partial(ways.command, "gateway", "approvals", "resolve", approval, "drop"),
            partial(ways.click, "call/gateway/workflow.submit", **submitted, arguments={}),
        )
        won = "problem" not in click
        assert command.returncode == (Exit.FAILED if won else Exit.OK), (command, click)
        assert won == ("it is resolved already, by ada with approve" in command.stderr)
        assert won or "version" in click["problem"]
        found = [one for one in ways.log("--project", ways.project) if one["target"]["id"] == asked["workflowId"]]
        assert sorted(one["outcome"] for one in found) == ["allowed", "refused"]
        (effect,) = [one for one in found if one["outcome"] == "allowed"]
        assert (effect["who"], effect["detail"]) == ((ADA, "approve") if won else (HERE, "drop"))


def test_the_log_is_followed(ways: Ways) -> None:
    flow = ways.flow()
    given = ("audit-log", "tail", "--follow", "--project", ways.project, "--data-dir", str(ways.fleet.data_dir))
    ways.command("flows", "pause", str(flow))
    with RunningCommand(ways.fleet.data_dir.parent / "followed", *given) as log:
        wait_until_sync(lambda: "pause_flow" in log.stdout, what="the last record")
        ways.click("operate/resume_flow", id=flow)
        wait_until_sync(lambda: "resume_flow" in log.stdout, what="the next record")
        first, second = log.stdout.splitlines()
    assert first.endswith(
        f"allowed  {user_at_host()}  pause_flow  flow {flow}  project {ways.project}  because from here"
    )
    assert second.endswith(f"allowed  ada  resume_flow  flow {flow}  project {ways.project}  because from there")


def test_what_is_malformed_is_refused_and_not_recorded(ways: Ways) -> None:
    flow = str(ways.flow())
    for words in (
        ("flows", "pause", flow, "--reason", " "),
        ("flows", "pause", flow, "--reason", "x" * 501),
        ("flows", "cancel", flow, "--reason", "x", "--url", f"http://127.0.0.1:{ways.fleet.port}"),
        ("audit-log", "tail", "-n", "0"),
        ("audit-log", "tail", "--project", "No/Project"),
    ):
        url = "--url" in words
        done = fleet_command(*words, *(() if url else ("--data-dir", str(ways.fleet.data_dir))))
        assert (done.returncode, done.stdout) == (Exit.USAGE, ""), done
        assert done.stderr.startswith("fleet: --"), done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert ways.log("--project", ways.project) == []
