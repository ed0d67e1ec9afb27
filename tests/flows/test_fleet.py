"""Flows on a running fleet, beyond the examples: tools of all kinds, retries, timeouts, rights."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.flows.fleet import Agent, Json, result
from tests.support.downstream import PROGRAM, HttpServer
from tests.support.fleets import RunningFleet, fleet_command
from tests.support.ports import free_port
from tests.support.wait import process_alive, wait_until

pytestmark = pytest.mark.anyio

CALLABLES = '''
import asyncio
import json, os, subprocess, time

def square(number):
    """Squares a number, in a process of its own."""
    return {"square": number * number, "pid": os.getpid(), "key": os.environ["IDEMPOTENCY_KEY"]}

def spin():
    """Never ends."""
    while True:
        pass

def square_once(number, idempotency_key):
    """The same, for those who have to know whether it is a repetition."""
    return [number * number, idempotency_key]

def start(path):
    """Starts a program and waits for it."""
    program = subprocess.Popen(["sleep", "3600"])
    with open(path, "w") as file:
        file.write(str(program.pid))
    program.wait()

async def nap(ms, idempotency_key):
    await asyncio.sleep(ms / 1000)
    return idempotency_key

async def wait_for(path):
    while not os.path.exists(path):
        await asyncio.sleep(0.05)

async def take_all(things, beside):
    taken = things["left"][:]
    things["left"].clear()
    return [taken, beside["left"]]
'''
CONFIG = """
flows:
  demo_tools: true
  step_results: true
  tools: {{square: "{module}:square", square_once: "{module}:square_once",
    spin: "{module}:spin", start: "{module}:start", nap: "{module}:nap",
    take_all: "{module}:take_all", wait_for: "{module}:wait_for"}}
auth:
  mode: optional
  tokens: {tokens}
connections:
  local: {{kind: mcp, command: {python}, args: ["{program}"], env: {{SECRET: "${{STEP_SECRET}}"}}}}
  web: {{kind: mcp, url: "{url}"}}
  dead: {{kind: mcp, url: "http://127.0.0.1:{dead}/mcp"}}
"""
TOKENS = {
    "ana": ["workflow", "items", "echo"],
    "bob": ["workflow"],
    "root": ["workflow", "workflow.admin", "*"],
}


class World:
    """A fleet with all kinds of tools for steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.http = HttpServer(folder)
        self.http.start()
        module = f"callables_{uuid.uuid4().hex}"
        (folder / f"{module}.py").write_text(CALLABLES)
        self.tokens = folder / "tokens.yaml"
        self.write_tokens(TOKENS)
        self.config = folder / "fleet.yaml"
        self.config.write_text(
            CONFIG.format(
                module=module,
                tokens=self.tokens,
                python=sys.executable,
                program=PROGRAM,
                url=self.http.url,
                dead=free_port(),
            )
        )
        self.fleet = RunningFleet(
            folder / "data",
            *("--config", str(self.config), "--port", "0", "--frontends", "1", "--workers", "1"),
            PYTHONPATH=f"{folder}:{Path(__file__).parent.parent.parent}",
            STEP_SECRET="hush",
        )
        self.fleet.wait_ready()

    def write_tokens(self, permissions: dict[str, list[str]]) -> None:
        lines = ["tokens:"]
        for who, words in permissions.items():
            digest = hashlib.sha256(token(who).encode()).hexdigest()
            lines.append(f'  - {{id: {who}, sha256: "{digest}", permissions: {words}}}')
        new = self.tokens.with_suffix(".new")
        new.write_text("\n".join(lines))
        new.chmod(0o600)
        new.rename(self.tokens)

    @contextlib.asynccontextmanager
    async def client(self, project: str, who: str = "") -> AsyncIterator[Agent]:
        """A client, with a bearer token if it has an identity."""
        url = f"http://127.0.0.1:{self.fleet.port}/p/{project}/mcp/flows"
        headers = {"authorization": f"Bearer {token(who)}"} if who else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield Agent(client)

    def close(self) -> None:
        self.fleet.clean_up()
        self.http.kill()


def token(who: str) -> str:
    return f"fct_{who}_{'0' * 40}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    yield made
    made.close()


@pytest.fixture
def project() -> str:
    return f"p{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def agent(world: World, project: str) -> AsyncIterator[Agent]:
    async with world.client(project) as agent:
        yield agent


def alone(tool: str, args: Json | None = None, **more: Any) -> Json:
    """A flow of one step."""
    return {"start": {"name": "it", "tool": tool, "args": args or {}, "done": True, **more}}


async def test_servers_are_called_over_stdio_and_http_while_one_is_dead(agent: Agent) -> None:
    flow: Json = {
        "start": {"name": "fork", "tool": None, "parallel": ["a", "b", "c"]},
        "a": {"name": "local", "tool": "local.add", "args": {"left": 1, "right": 2}, "join": "end"},
        "b": {"name": "web", "tool": "web.greet", "args": {"name": "World"}, "join": "end"},
        "c": {"name": "dead", "tool": "dead.any", "on_error": "continue", "join": "end"},
        "end": {"name": "end", "tool": "local.facts", "done": True},
    }
    steps = await agent.run(flow)
    assert steps["local"]["result_json"] == "3"
    assert steps["web"]["result_json"] == '"Hello, World!"'
    assert steps["dead"]["status"] == "failed"
    assert result(steps["dead"])["type"] == "connection_error"
    assert result(steps["end"])["secret"] == "***", "it was given to the server, and is hidden in what that answers"


async def test_a_server_that_dies_fails_only_the_attempt(agent: Agent) -> None:
    flow: Json = {
        "start": {"name": "die", "tool": "local.die", "on_error": "continue", "next": "again"},
        "again": {"name": "again", "tool": "local.add", "args": {"left": 2, "right": 2}, "done": True},
    }
    steps = await agent.run(flow)
    assert result(steps["die"])["type"] == "connection_error"
    assert steps["again"]["result_json"] == "4"


async def test_the_key_of_a_step_reaches_tools_of_all_kinds(agent: Agent, project: str) -> None:
    for tool, args in (("web.key", {}), ("nap", {"ms": 1}), ("square", {"number": 3}), ("square_once", {"number": 3})):
        step = (await agent.run(alone(tool, args)))["it"]
        found = result(step)
        key = found["key"] if isinstance(found, dict) else found[-1] if isinstance(found, list) else found
        assert key.startswith(f"{project}-")
        assert key.endswith(f"-{step['id']}")


async def test_blocking_callables_run_in_other_processes(agent: Agent, world: World) -> None:
    found = result((await agent.run(alone("square", {"number": 7})))["it"])
    assert found["square"] == 49
    assert found["pid"] not in world.fleet.pids
    step = (await agent.run(alone("spin", timeout_ms=300), "failed"))["it"]
    assert result(step)["type"] == "timeout"


async def test_the_coordinator_s_own_tools_are_steps(agent: Agent) -> None:
    item = {"operation": "create", "items": [{"title": "{{input.title}}", "priority": "high"}]}
    flow: Json = {
        "start": {"name": "add", "tool": "manage_items", "args": item, "next": "next"},
        "next": {"name": "next", "tool": "get_next_item", "next": "child"},
        "child": {
            "name": "child",
            "tool": "workflow_create",
            "args": {"name": "child", "flow": alone("echo", {"value": "{{input.title}}"}), "input": {"title": "t"}},
            "done": True,
        },
    }
    # Tokens in the child's flow belong to the child.
    flow["child"]["args"]["flow"] = "{{input.child}}"
    given = {"title": "From a step", "child": alone("echo", {"value": "{{input.title}}"})}
    steps = await agent.run(flow, input=given)
    assert result(steps["next"])["recommendations"][0]["title"] == "From a step"
    child = await agent.ended(result(steps["child"])["id"])
    assert child["steps"][0]["result_json"] == '"t"'
    assert child["parent"] == (await agent("workflow_list"))[1]["id"]


async def test_attempts_and_timeouts(agent: Agent) -> None:
    retry = {"max_attempts": 3, "delay_ms": 10, "backoff": "fixed"}
    step = (await agent.run(alone("fail", {"until_attempt": 3}, retry=retry)))["it"]
    assert (step["attempt"], step["result_json"]) == (3, '"ok"')
    step = (await agent.run(alone("fail", {"message": "no"}, retry={**retry, "max_attempts": 2}), "failed"))["it"]
    assert (step["attempt"], result(step)["error"]) == (2, "no")
    # Permanent failures are not retried.
    step = (await agent.run(alone("get_greeting", {"x": 1}, retry=retry), "failed"))["it"]
    assert (step["attempt"], result(step)["type"]) == (1, "VALIDATION_ERROR")
    step = (await agent.run(alone("sleep", {"ms": 60_000}, timeout_ms=100), "failed"))["it"]
    assert result(step)["type"] == "timeout"


async def test_a_gate_can_expire(agent: Agent) -> None:
    flow: Json = {
        "start": {"name": "wait", "tool": None, "timeout_ms": 50, "on_error": "continue", "next": "end"},
        "end": {"name": "end", "tool": "get_counter", "done": True},
    }
    steps = await agent.run(flow)
    assert steps["wait"]["status"] == "failed"
    assert steps["end"]["status"] == "done"


async def test_templates_keep_types_and_may_use_results(agent: Agent) -> None:
    flow: Json = {
        "start": {"name": "first", "tool": "echo", "args": {"n": "{{input.n}}", "t": "n={{input.n}}"}, "next": "b"},
        "b": {"name": "second", "tool": "echo", "args": {"value": "{{steps.first.result.n.0}}"}, "done": True},
    }
    steps = await agent.run(flow, input={"n": [4, {"x": None}]})
    assert result(steps["first"]) == {"n": [4, {"x": None}], "t": 'n=[4,{"x":null}]'}
    assert result(steps["second"]) == 4
    flow["b"]["args"]["value"] = "{{steps.first.result.nowhere}}"
    steps = await agent.run(flow, "failed", input={"n": 1})
    assert result(steps["second"])["type"] == "template"


async def test_a_coroutine_that_mutates_its_arguments_affects_no_other_step(agent: Agent) -> None:
    args = {"things": "{{input.v}}", "beside": "{{input.v}}"}
    flow: Json = {
        "start": {"name": "first", "tool": "take_all", "args": args, "next": "b"},
        "b": {"name": "second", "tool": "take_all", "args": args, "done": True},
    }
    steps = await agent.run(flow, input={"v": {"left": [1, 2]}})
    assert [result(step) for step in steps.values()] == [[[1, 2], [1, 2]]] * 2


async def test_a_long_result_is_cut_and_the_step_is_done(agent: Agent) -> None:
    step = (await agent.run(alone("echo", {"value": "{{input.v}}"}), input={"v": ["x" * 700_000] * 1}))["it"]
    assert len(step["result_json"]) == 700_004
    twice = alone("echo", {"a": "{{input.v}}", "b": "{{input.v}}"})
    step = (await agent.run(twice, input={"v": "y" * 700_000}))["it"]
    assert step["status"] == "done"
    found = result(step)
    assert found["truncated"] is True
    assert found["bytes"] > 1_400_000
    assert len(step["result_json"]) <= 1_048_576
    workflow = (await agent("workflow_list"))[0]["id"]
    (shown,) = (await agent("workflow_get", id=workflow))["steps"]
    assert result(shown) == {**found, "beginning": found["beginning"][:200]}
    (alone_again,) = (await agent("workflow_get", id=workflow, step=step["id"]))["steps"]
    assert alone_again == step


async def test_an_answer_shows_the_beginning_of_results_that_it_cannot_hold(agent: Agent) -> None:
    """And each of them whole on request."""
    names = [f"s{number}" for number in range(20)]
    flow: Json = {
        "start": {"name": "fork", "tool": None, "parallel": names},
        "end": {"name": "end", "tool": "get_counter", "done": True},
    }
    for number, name in enumerate(names):
        args = {"value": "{{input.long}}" if number < 15 else name}
        flow[name] = {"name": name, "tool": "echo", "args": args, "join": "end"}
    done = await agent.run(flow, input={"long": '"' * 30_000})
    workflow = (await agent("workflow_list"))[0]["id"]
    answer = await agent("workflow_get", id=workflow)
    assert len(json.dumps(answer, ensure_ascii=False)) <= 60_000
    assert "next_after" not in answer
    shown = {step["name"]: step for step in answer["steps"]}
    assert shown.keys() == done.keys()
    cut = [name for name, step in shown.items() if step["result_json"] != done[name]["result_json"]]
    assert len(cut) in range(13, 16)
    assert set(cut) <= set(names[:15]), "small ones are whole"
    for name in cut:
        head = result(shown[name])
        whole = done[name]["result_json"]
        assert (head["truncated"], head["bytes"]) == (True, len(whole))
        assert whole.startswith(head["beginning"])
        (step,) = (await agent("workflow_get", id=workflow, step=shown[name]["id"]))["steps"]
        assert step == done[name]
    assert (await agent.refusal("workflow_get", id=workflow, step=workflow))["code"] == "VALIDATION_ERROR"


async def test_delays(agent: Agent) -> None:
    steps = await agent.run(alone("get_counter", delay_ms=300), delay_ms=100)
    workflow = (await agent("workflow_list"))[0]["id"]
    assert steps["it"]["started_at"] - workflow >= 300


async def test_nothing_begins_in_a_paused_workflow_until_it_is_resumed(
    world: World, agent: Agent, project: str, tmp_path: Path
) -> None:
    """Running steps finish, successors wait, a single step can be released."""

    def command(what: str, workflow: int) -> str:
        given = (str(workflow), "--project", project, "--data-dir", str(world.fleet.data_dir))
        ended = fleet_command("flows", what, *given)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    flow: Json = {
        "start": {"name": "fork", "tool": None, "parallel": ["long", "late", "gate"]},
        "long": {"name": "long", "tool": "wait_for", "args": {"path": str(tmp_path / "go")}, "join": "end"},
        "late": {"name": "late", "tool": "nap", "args": {"ms": 1}, "delay_ms": 3_600_000, "join": "end"},
        "gate": {"name": "gate", "tool": None, "join": "end"},
        "end": {"name": "end", "tool": "echo", "args": {"value": 1}, "done": True},
    }
    workflow = await agent.create(flow)

    def status(found: Json) -> dict[str, str]:
        return {step["name"]: step["status"] for step in found["steps"]}

    await agent.until(workflow, lambda found: status(found).get("long") == "running", "a running step")
    assert "is paused" in await asyncio.to_thread(command, "pause", workflow)
    (tmp_path / "go").touch()
    found = await agent.until(workflow, lambda found: status(found)["long"] == "done", "the end of the running step")
    assert (found["status"], status(found)["late"], status(found)["gate"]) == ("paused", "pending", "running")
    steps = {step["name"]: step["id"] for step in found["steps"]}
    assert await agent("workflow_step_ready", step_id=steps["late"]) == {"queued": True}
    await agent.until(workflow, lambda found: status(found)["late"] == "done", "the released step")
    assert await agent("workflow_step_ready", step_id=steps["gate"]) == {"queued": True}
    found = await agent.until(workflow, lambda found: status(found).get("end") == "paused", "the successor of all")
    assert found["status"] == "paused"
    assert "is resumed" in await asyncio.to_thread(command, "resume", workflow)
    await agent.ended(workflow)


async def test_a_removed_tool_fails_its_step(agent: Agent) -> None:
    step = (await agent.run(alone("web.no_such_tool"), "failed"))["it"]
    assert "Unknown tool" in result(step)["error"]


async def test_cancelling_stops_the_call(agent: Agent, tmp_path: Path) -> None:
    for tool in ("local.wait_for", "web.wait_for"):
        path = tmp_path / tool
        workflow = await agent.create(alone(tool, {"path": str(path)}, timeout_ms=600_000))
        await wait_until(Path(f"{path}.begun").exists, what="the call")
        assert await agent("workflow_cancel", id=workflow) == {"cancelled": True}
        await wait_until(Path(f"{path}.cancelled").exists, what="the server hears of it")


async def test_a_sibling_s_failure_ends_the_workflow_and_others_finish(agent: Agent) -> None:
    flow: Json = {
        "start": {"name": "fork", "tool": None, "parallel": ["a", "b"]},
        "a": {"name": "bad", "tool": "fail", "join": "end"},
        "b": {"name": "slow", "tool": "sleep", "args": {"ms": 300}, "join": "end"},
        "end": {"name": "end", "tool": "get_counter", "done": True},
    }
    workflow = await agent.create(flow)
    await agent.ended(workflow, "failed")
    found = await agent.until(workflow, lambda one: one["steps"][2]["status"] == "done", "the sibling's end")
    assert [step["name"] for step in found["steps"]] == ["fork", "bad", "slow"]
    assert found["reason"] == "step 'bad' failed: told to fail"


async def test_permissions_are_those_of_the_creator_at_each_step(world: World, project: str) -> None:
    async with world.client(project, "ana") as ana, world.client(project, "bob") as bob:
        found = await ana.ended(await ana.create(alone("echo", {"value": 1})))
        assert found["created_by"] == "ana"
        steps = await ana.run(alone("get_greeting"), "failed")
        assert result(steps["it"]) == {
            "error": "permission denied: ana may not call get_greeting now", "type": "permission_denied",
        }  # fmt: skip
        item = {"operation": "create", "items": [{"title": "hers"}]}
        assert result((await ana.run(alone("manage_items", item)))["it"])["created"] == 1
        assert (await bob.refusal("workflow_get", id=found["id"]))["code"] == "RESOURCE_NOT_FOUND"
        assert await bob("workflow_list") == []
        gated = {"start": {"name": "wait", "tool": None, "next": "it"}, "it": alone("echo")["start"]}
        workflow, *others = [await ana.create(gated) for _ in range(80)]
        step = (await ana.get(workflow))["steps"][0]["id"]
        try:
            world.write_tokens({**TOKENS, "ana": ["workflow"]})

            async def seen() -> bool:
                # One that was created before, because the front-end may see the new file first.
                await ana("workflow_step_ready", step_id=(await ana.get(others[-1]))["steps"][0]["id"])
                return bool((await ana.ended(others.pop(), None))["status"] == "failed")

            await wait_until(seen, what="the worker sees the new file")
            assert (await bob.refusal("workflow_step_ready", step_id=step))["code"] == "RESOURCE_NOT_FOUND"
            # The releaser of the gate has its own rights; the step has those of the creator.
            async with world.client(project, "root") as root:
                assert await root("workflow_step_ready", step_id=step) == {"queued": True}
            found = await ana.ended(workflow, "failed")
        finally:
            world.write_tokens(TOKENS)
    assert found["steps"][0]["approved_by"] == "root"
    assert result(found["steps"][1])["type"] == "permission_denied"


async def test_is_admin_says_who_created_the_workflow(world: World, project: str) -> None:
    async with world.client(project, "root") as root:
        assert result((await root.run(alone("is_admin")))["it"]) is True
        row = (await root("workflow_list"))[0]
        assert row["created_by"] == "root"


@pytest.mark.skipif(sys.platform != "linux", reason="sessions are found in /proc")
async def test_a_killed_worker_takes_the_processes_of_its_callables_along(world: World, agent: Agent) -> None:
    told = world.folder / "started"
    workflow = await agent.create(alone("start", {"path": str(told)}))
    program = int(await wait_until(lambda: told.exists() and told.read_text(), what="the program") or 0)
    worker = world.fleet.pid("w-0")
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    try:
        await wait_until(lambda: not process_alive(program), what="the end of the program")
    finally:
        await agent("workflow_cancel", id=workflow)
