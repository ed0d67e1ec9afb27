"""``fleet flows``: the commands of operators for workflows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import run
from coordinator.cli.acting import user_at_host
from coordinator.cli.flows.diagram import mermaid, tree
from coordinator.metrics import Exposition, Recording, SharedCells
from coordinator.steps.metrics import RUNS_ENDED
from coordinator.steps.results import result_json
from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.flows.rules.check import check_flow
from coordinator.toolsets.flows.store import flows as flow_store
from coordinator.toolsets.flows.store.flows import FlowRecord, FlowRow, StepRecord
from tests.flows.client import Flows, gate
from tests.flows.programs import Json
from tests.support import leaks
from tests.support.counts import counted
from tests.support.downstream import PROGRAM, RAW
from tests.support.fleets import ROOT, fleet_command
from tests.support.ports import free_port

FLOW: Json = {
    "start": {"name": "look", "tool": "query_items", "branch": [
        {"if": "result == true", "then": "fork"}, {"if": 'result == "<b>\x1b[2J"', "then": "last"}]},
    "fork": {"name": "fork", "tool": None, "parallel": ["a", "b"]},
    "a": {"name": "a", "tool": "query_items", "join": "wait"},
    "b": {"name": "b [red]x", "tool": "query_items", "join": "wait"},
    "wait": gate("wait", next="last"),
    "last": {"name": "last", "tool": "query_items", "done": True},
}  # fmt: skip


def record(**states: dict[str, Any]) -> FlowRecord:
    """A workflow of that flow with these statuses of steps."""
    steps = [
        StepRecord(id=1001 + number, key=key, **{"attempt": 1, **state})
        for number, (key, state) in enumerate(states.items())
    ]
    row = FlowRow(id=1000, name="a [bold]flow", status="running", creator="ana", created_at=1000)
    return FlowRecord(row=row, spec=b"", steps=steps)


def drawn(found: FlowRecord) -> list[str]:
    from rich.console import Console

    console = Console(width=200, no_color=True, force_terminal=False)
    with console.capture() as capture:
        console.print(tree(found, check_flow(FLOW, {}, lambda name: "", with_results=False)))
    return [line.rstrip() for line in capture.get().splitlines()]


STATES: dict[str, dict[str, Any]] = {
    "start": {"status": "done", "result_json": "true", "started_at": 1000, "completed_at": 3500},
    "fork": {"status": "done", "result_json": "null"},
    "a": {"status": "failed", "result_json": '{"error":"no","type":"x"}', "attempt": 3},
    "b": {"status": "running", "started_at": 1000},
    "wait": {"status": "running", "gate": True, "started_at": 1000},
}


def test_the_graph_is_drawn() -> None:
    assert drawn(record(**STATES)) == [
        "a [bold]flow  1000  running  by ana  1970-01-01 00:00:01",
        "├── \u2713 look  query_items  2.5 s  true",
        "│   ├── if result == true",
        "│   │   ├── \u2713 fork  nothing",
        "│   │   │   ├── in parallel",
        '│   │   │   │   └── \u2717 a  query_items  failed  attempt 3  {"error":"no","type":"x"}',
        "│   │   │   └── in parallel",
        "│   │   │       └── \u25cf b [red]x  query_items  running",
        "│   │   └── \u2016 wait  gate  waits for workflow_step_ready, step 1005",
        '│   └── if result == "<b>?[2J"',
        "└── \u00b7 last  query_items",
    ]


def test_of_a_cut_result_the_beginning_is_drawn() -> None:
    cut = result_json({"a": "x" * 2_000_000})
    (line,) = [one for one in drawn(record(start={"status": "done", "result_json": cut})) if "look" in one]
    assert line.endswith('query_items  {"a":"' + "x" * 93 + "\u2026")


def test_the_state_is_rendered_as_a_mermaid_flowchart() -> None:
    flow = check_flow(FLOW, {}, lambda name: "", with_results=False)
    lines = mermaid(record(**STATES), flow).splitlines()
    assert lines[0] == "flowchart TD"
    assert lines[1:16] == [
        '  s0["look<br/>query_items<br/>done"]:::done',
        '  s1["fork<br/>done"]:::done',
        '  s2["a<br/>query_items<br/>failed, attempt 3"]:::failed',
        '  s3["b #91;red#93;x<br/>query_items<br/>running"]:::running',
        '  s4{{"wait<br/>approval gate<br/>waits"}}:::gate',
        '  s5(["last<br/>query_items"]):::none',
        '  s0 -->|"result == true"| s1',
        '  s0 -->|"result == #34;#60;b#62;#27;#91;2J#34;"| s5',
        "  s1 --> s2",
        "  s1 --> s3",
        "  s2 --> s4",
        "  s3 --> s4",
        "  s4 --> s5",
        f"  classDef done {lines[14].split(' ', 4)[-1]}",
        lines[15],
    ]
    named = {match[1] for line in lines if (match := re.match(r"  classDef (\w+) ", line))}
    assert {line.rpartition(":::")[2] for line in lines if ":::" in line} <= named


class Shell:
    """Commands against the session's server, on the test's project."""

    def __init__(self, url: str, project: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._given = ("--redis-url", url, "--project", project)
        self._capsys = capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        assert run(["flows", *words, *self._given]) == code
        out, self.error = self._capsys.readouterr()
        return out


@pytest.fixture
def shell(redis_url: str, project: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(redis_url, project, capsys)


@pytest.fixture
def workflows(redis_url: str, project: str) -> Iterator[dict[str, int]]:
    """Existing workflows: one waits, one was cancelled."""

    async def make() -> dict[str, int]:
        store = Store(redis_url, 5000)
        await store.open()
        flows = Flows(store, project)
        found = {"waits": await flows.create({"start": gate("wait", next="b"), "b": gate("b", done=True)}, "waits")}
        found["cancelled"] = await flows.create(name="cancelled", actor={"id": "ana", "kind": "user"})
        await flows("workflow_cancel", id=found["cancelled"])
        await store.close()
        return found

    yield asyncio.run(make())
    with redis_client(parse(redis_url), project) as client:
        leaks.delete_keys(client, project)


def test_list(shell: Shell, workflows: dict[str, int]) -> None:
    lines = shell("list").splitlines()
    assert lines == [
        f"{workflows['cancelled']}  cancelled  ana  cancelled",
        f"{workflows['waits']}  running    anonymous  waits",
    ]
    assert shell("list", "--status", "running", "--name", "WAIT").splitlines() == lines[1:]
    assert shell("list", "--limit", "1").splitlines() == lines[:1]
    assert shell.error == "fleet: more than 1 workflow; --limit shows more\n"
    shell("list", "--limit", "2")
    assert shell.error == ""
    assert [row["id"] for row in json.loads(shell("list", "--format", "json"))] == [
        workflows["cancelled"], workflows["waits"],
    ]  # fmt: skip
    table = shell("list", "--format", "table")
    assert "Created by" in table
    assert "waits" in table
    shell("list", "--limit", "0", code=2)


def test_a_list_that_stops_early_says_so(
    shell: Shell, workflows: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_store, "PAGE", 1)
    monkeypatch.setattr(flow_store, "MAX_PAGES", 1)
    assert shell("list", "--name", "waits") == ""
    assert shell.error == f"workflows older than {workflows['cancelled']} were not searched\n"


def test_show(shell: Shell, workflows: dict[str, int]) -> None:
    lines = shell("show", str(workflows["waits"])).splitlines()
    assert lines[0].startswith(f"waits  {workflows['waits']}  running  by anonymous")
    assert "\u2016 wait  gate  waits for workflow_step_ready, step " in lines[1]
    assert lines[2].endswith("\u00b7 b  gate")
    assert shell("show", str(workflows["waits"]), "--format", "mermaid").startswith("flowchart TD\n  s0{{")
    found = json.loads(shell("show", str(workflows["waits"]), "--format", "json"))
    assert found["flow"]["start"] == {"name": "wait", "tool": None, "next": "b"}
    assert found["steps"][0]["name"] == "wait"
    shell("show", "12345", code=1)
    assert "there is no workflow 12345 in the project" in shell.error


def test_cancel_and_retry(
    shell: Shell, workflows: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts with the fleet of its host, as a cancellation by a tool does."""
    waits = str(workflows["waits"])
    monkeypatch.setenv("FLEET_METRICS_DIR", str(tmp_path))
    before = counted(RUNS_ENDED, "flows", "cancelled")
    frontend = Recording(SharedCells(tmp_path, "fe-0"), "fe-0")
    assert shell("cancel", waits) == f"workflow {waits} is cancelled\n"
    assert 'coordinator_runs_ended_total{kind="flows",status="cancelled"} 1.0' in Exposition(tmp_path).text().decode()
    assert counted(RUNS_ENDED, "flows", "cancelled") == before, "only the command's own recording has it"
    assert shell("retry", waits)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert shell("cancel", waits)
    assert 'status="cancelled"} 1.0' in Exposition(tmp_path).text().decode(), (
        "another user's files are none of a fleet's"
    )
    frontend.close()
    shell("cancel", waits, code=1)
    assert shell.error == f"fleet: workflow {waits}: it had ended already: it is cancelled\n"
    assert f"cancelled by {user_at_host()}" in shell("show", waits)
    assert shell("retry", waits) == f"workflow {waits} was cancelled and runs again: 1 step\n"
    assert "waits for workflow_step_ready" in shell("show", waits)
    shell("retry", waits, code=1)
    assert "it has no failed or cancelled steps to run again" in shell.error
    for command in ("cancel", "retry", "pause", "resume"):
        shell(command, "12345", code=1)
        assert "there is no workflow 12345" in shell.error


def test_pause_and_resume(shell: Shell, workflows: dict[str, int]) -> None:
    waits = str(workflows["waits"])
    shell("resume", waits, code=1)
    assert shell.error == f"fleet: workflow {waits}: only a paused workflow can be resumed; it is running\n"
    assert shell("pause", waits) == f"workflow {waits} is paused: running steps continue, no other step starts\n"
    assert shell("list", "--status", "paused") == f"{waits}  paused     anonymous  waits\n"
    assert f"{waits}  paused  by anonymous" in shell("show", waits)
    shell("pause", waits, code=1)
    assert shell.error == f"fleet: workflow {waits}: only a running workflow can be paused; it is paused\n"
    assert shell("resume", waits) == f"workflow {waits} is resumed\n"
    assert "running  by anonymous" in shell("show", waits)
    shell("pause", str(workflows["cancelled"]), code=1)
    assert "only a running workflow can be paused; it is cancelled" in shell.error


def test_a_paused_step_is_drawn() -> None:
    paused = {**STATES, "b": {"status": "paused"}}
    assert "│   │   │       └── \u2016 b [red]x  query_items  paused" in drawn(record(**paused))
    flow = check_flow(FLOW, {}, lambda name: "", with_results=False)
    lines = mermaid(record(**paused), flow).splitlines()
    assert '  s3["b #91;red#93;x<br/>query_items<br/>paused"]:::paused' in lines
    assert any(line.startswith("  classDef paused ") for line in lines)


def test_a_bad_project_is_refused(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flows", "list", "--redis-url", redis_url, "--project", "No/Project"]) == 2
    assert "project: must be 1 to 63 lower-case letters" in capsys.readouterr().err


def test_tools(tmp_path: Path) -> None:
    (tmp_path / "texts_for_steps.py").write_text(
        'def count(text):\n    "Counts. Words."\n    return len(text.split())\n'
    )
    config = tmp_path / "fleet.yaml"
    config.write_text(
        f"""
flows: {{demo_tools: true, tools: {{count: "texts_for_steps:count"}}}}
connections:
  it: {{kind: mcp, command: {sys.executable}, args: ["{PROGRAM}"]}}
  dead: {{kind: mcp, url: "http://127.0.0.1:{free_port()}/mcp"}}
  odd: {{kind: mcp, command: {sys.executable}, args: [{RAW}, rude]}}
"""
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    ended = fleet_command("flows", "tools", "--config", str(config), PYTHONPATH=path)
    assert (ended.returncode, ended.stderr) == (1, "")
    lines = ended.stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == [
        "coordinator:", "python:", "demo:", "it:",
        "dead: the connection 'dead' does not work: it cannot be connected to (connection refused)",
        "odd: no ?[2J list ??",
    ]  # fmt: skip
    assert "  count  Counts" in lines
    assert any(line.startswith("  it.add ") and line.endswith("Adds two numbers") for line in lines)
    assert any(line.startswith("  complete_tree ") and line.endswith("in dependency ...") for line in lines)
    config.write_text("")
    ended = fleet_command("flows", "tools", "--config", str(config), "--format", "json")
    assert ended.returncode == 0
    report = json.loads(ended.stdout)
    assert [one["source"] for one in report] == ["coordinator", "python"]
    assert {"name": "get_next_item", "group": "items", "readOnly": True}.items() <= next(
        tool for tool in report[0]["tools"] if tool["name"] == "get_next_item"
    ).items()


def test_a_failure_is_shown_with_its_reason() -> None:
    ended = {"created_at": 1, "completed_at": 61_001, "error": "step 'x' failed"}
    row = FlowRow(id=1, name="n", status="failed", creator="c\x1b[2J", **ended)  # type: ignore[arg-type]
    found = FlowRecord(row=row, spec=b"", steps=[])
    lines = drawn(found)
    assert lines[0] == "n  1  failed  by c?[2J  1970-01-01 00:00:00  1 min 1 s"
    assert lines[1] == "step 'x' failed"
