"""The five tools without workers: stores, answers and refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.flows import Flows as FlowSettings
from coordinator.steps.metrics import RUNS_ENDED
from coordinator.store import Store
from coordinator.toolsets.flows.store import flows as flow_store
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Call, Reply, Services
from tests.flows.client import ONE_GATE, Flows, Json, gate
from tests.support.counts import counted

pytestmark = pytest.mark.anyio

TWO_GATES: Json = {"start": gate("first", next="second"), "second": gate("second", done=True)}
FORK: Json = {
    "start": gate("fork", parallel=["a", "b"]),
    "a": gate("a", join="end"),
    "b": gate("b", join="end"),
    "end": gate("end", done=True),
}


@pytest.mark.every_store
async def test_a_gate_waits_until_it_is_released(flows: Flows) -> None:
    workflow = await flows.create(TWO_GATES, name="two gates", actor={"id": "ana", "kind": "user"})
    found = await flows.get(workflow)
    first = found["steps"][0]
    assert found == {
        "id": workflow, "name": "two gates", "status": "running", "created_by": "ana",
        "steps": [{"id": first["id"], "name": "first", "tool": None, "status": "running", "attempt": 1,
                   "result_json": None, "started_at": first["started_at"], "completed_at": None}],
    }  # fmt: skip
    assert first["started_at"] >= workflow
    assert first["id"] != workflow
    assert await flows.release(workflow, "first", actor={"id": "boss", "kind": "user"}) == {"queued": True}
    released = await flows.step(workflow, "first")
    # From here on a worker owns it.
    assert released["status"] == "ready"
    assert released["approved_by"] == "boss"


async def test_a_fork_without_a_tool_does_not_wait(flows: Flows) -> None:
    workflow = await flows.create(FORK)
    rows = (await flows.get(workflow))["steps"]
    assert [(row["name"], row["status"], row["result_json"]) for row in rows] == [
        ("fork", "done", "null"), ("a", "running", None), ("b", "running", None),
    ]  # fmt: skip


async def test_a_gate_is_released_once(flows: Flows) -> None:
    workflow = await flows.create(TWO_GATES)
    step = (await flows.step(workflow, "first"))["id"]
    together = await asyncio.gather(*(flows("workflow_step_ready", step_id=step) for _ in range(20)))
    assert together.count({"queued": True}) == 1
    assert together.count({"queued": False, "error": "step is ready"}) == 19


async def test_a_delayed_step_is_pending_and_can_be_released(flows: Flows) -> None:
    flow = {"start": {"name": "later", "tool": "get_next_item", "delay_ms": 3_600_000, "done": True}}
    workflow = await flows.create(flow)
    assert (await flows.step(workflow, "later"))["status"] == "pending"
    assert await flows.release(workflow, "later") == {"queued": True}
    step = await flows.step(workflow, "later")
    assert step["status"] == "ready"
    assert (step["started_at"], step["completed_at"], step["result_json"]) == (None, None, None)
    assert await flows.release(workflow, "later") == {"queued": False, "error": "step is ready"}
    await flows("workflow_cancel", id=workflow)


async def test_a_whole_workflow_can_be_delayed(flows: Flows) -> None:
    flow = {"start": {"name": "later", "tool": "get_next_item", "done": True}}
    workflow = await flows.create(flow, delay_ms=3_600_000)
    assert (await flows.step(workflow, "later"))["status"] == "pending"
    await flows("workflow_cancel", id=workflow)


async def test_a_delayed_workflow_does_not_begin_early(flows: Flows) -> None:
    fork = {
        "start": {"name": "fork", "tool": None, "parallel": ["a", "b"]},
        "a": {"name": "a", "tool": None, "join": "end"},
        "b": {"name": "b", "tool": "get_next_item", "join": "end"},
        "end": {"name": "end", "tool": "get_next_item", "done": True},
    }
    workflow = await flows.create(fork, delay_ms=3_600_000)
    assert [(row["name"], row["status"]) for row in (await flows.get(workflow))["steps"]] == [("fork", "pending")]
    assert await flows.release(workflow, "fork") == {"queued": True}
    await flows("workflow_cancel", id=workflow)
    refused = await flows.refusal("workflow_create", name="w", flow=TWO_GATES, delay_ms=1)
    assert refused.message == "delay_ms: the first step is a gate, which waits for its release and cannot be delayed"


async def test_cancelling_ends_all_steps(flows: Flows) -> None:
    workflow = await flows.create(FORK)
    step = (await flows.step(workflow, "a"))["id"]
    assert await flows("workflow_cancel", id=workflow) == {"cancelled": True}
    found = await flows.get(workflow)
    assert found["status"] == "cancelled"
    assert [row["status"] for row in found["steps"]] == ["done", "cancelled", "cancelled"]
    assert await flows("workflow_cancel", id=workflow) == {"cancelled": False, "status": "cancelled"}
    released = await flows("workflow_step_ready", step_id=step)
    assert released == {"queued": False, "error": "step is cancelled"}
    row = (await flows("workflow_list"))[0]
    assert row["completed_at"] is None
    assert row["cancelled_at"] >= workflow


async def test_lists_are_newest_first(flows: Flows) -> None:
    made = [await flows.create(name=f"n{number}") for number in range(25)]
    assert made == sorted(made)
    rows = await flows("workflow_list")
    assert [row["id"] for row in rows] == made[:4:-1]
    assert rows[0] == {"id": made[-1], "name": "n24", "status": "running", "created_by": "anonymous",
                       "completed_at": None}  # fmt: skip
    assert [row["id"] for row in await flows("workflow_list", limit=3)] == made[:-4:-1]
    assert [row["id"] for row in await flows("workflow_list", limit=100, before=made[3])] == made[2::-1]


async def test_a_limit_above_the_maximum_is_the_maximum_and_the_answer_says_so(flows: Flows) -> None:
    made = [await flows.create(name="n") for _ in range(102)]
    tool = flows.tools["workflow_list"]
    for limit in (100, 101, 10**30):
        reply = await tool.handler(Call(flows.project), tool.arguments(limit=limit))
        assert isinstance(reply, Reply)
        assert [row.id for row in reply.structured] == made[:1:-1]
        if limit == 100:
            assert reply.meta is None
            continue
        said = f"limit: {str(limit)[:20]} is more than the maximum of 100, so 100 was used"
        assert reply.meta == {"fleet-coordinator/notice": said}


async def test_a_list_that_stops_early_returns_a_cursor(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_store, "PAGE", 2)
    monkeypatch.setattr(flow_store, "MAX_PAGES", 1)
    made = [await flows.create(name=name) for name in ("needle", "hay", "hay")]
    tool = flows.tools["workflow_list"]

    async def listed(**arguments: Any) -> tuple[list[int], Any]:
        reply = await tool.handler(Call(flows.project), tool.arguments(**arguments))
        assert isinstance(reply, Reply)
        return [row.id for row in reply.structured], reply.meta

    assert await listed(name="needle") == ([], {"fleet-coordinator/before": made[1]})
    assert await listed(name="needle", before=made[1]) == ([made[0]], None)


async def test_lists_can_be_searched(flows: Flows) -> None:
    first = await flows.create(name="Nightly Report")
    second = await flows.create(name="nightly backup")
    await flows("workflow_cancel", id=second)
    await flows.create(name="other")

    async def ids(**arguments: Any) -> list[int]:
        return [row["id"] for row in await flows("workflow_list", **arguments)]

    assert await ids(name="NIGHTLY") == [second, first]
    assert await ids(status="cancelled") == [second]
    assert await ids(name="report", status="running") == [first]
    assert await ids(name="report", status="failed") == []


async def test_a_parent_is_shown(flows: Flows) -> None:
    parent = await flows.create()
    child = await flows.create(parent=parent)
    assert (await flows.get(child))["parent"] == parent
    assert (await flows("workflow_list"))[0]["parent"] == parent
    assert "parent" not in await flows.get(parent)


async def test_ids_are_unique_over_workflows_and_steps(flows: Flows) -> None:
    workflows = await asyncio.gather(*(flows.create(FORK) for _ in range(50)))
    ids = list(workflows)
    for workflow in workflows:
        ids += [step["id"] for step in (await flows.get(workflow))["steps"]]
    assert len(set(ids)) == len(ids)


REFUSED: list[tuple[str, Json, str]] = [
    ("workflow_create", {"name": " ", "flow": ONE_GATE}, "name: must be 1 to 200 characters"),
    ("workflow_create", {"name": "\x1b[2J", "flow": ONE_GATE}, "name: must not hold control characters"),
    ("workflow_create", {"name": "n", "flow": {}}, 'flow: must have a "start" key'),
    ("workflow_create", {"name": "n", "flow": ONE_GATE, "queue": "No"}, "queue: must be a name of"),
    ("workflow_create", {"name": "n", "flow": ONE_GATE, "priority": "urgent"}, "priority: must be one of high"),
    ("workflow_create", {"name": "n", "flow": ONE_GATE, "requestId": ""}, "requestId: must be 1 to 200"),
    ("workflow_create", {"name": "n", "flow": ONE_GATE, "actor": {"id": "", "kind": "user"}}, "actor.id: must be"),
    ("workflow_list", {"limit": 0}, "limit"),
    ("workflow_list", {"status": "started"}, "status: must be one of running, paused, completed, failed, cancelled"),
    ("workflow_get", {"id": 0}, "id"),
]


@pytest.mark.parametrize(("tool", "arguments", "problem"), REFUSED)
async def test_invalid_arguments_are_rejected(flows: Flows, tool: str, arguments: Json, problem: str) -> None:
    failure = await flows.refusal(tool, **arguments)
    assert failure.code == "VALIDATION_ERROR"
    assert problem in failure.message
    assert await flows("workflow_list") == []


async def test_problems_of_a_flow_are_reported_together_and_nothing_is_stored(flows: Flows) -> None:
    flow = {
        "start": {"name": "a", "tool": "claim_itme", "next": "gone"},
        "b": {"name": "b", "tool": "files.read", "args": {"x": "{{input.y}}"}, "done": True},
    }
    failure = await flows.refusal("workflow_create", name="n", flow=flow)
    assert failure.body()["problems"] == [
        "flow.start.tool: unknown tool 'claim_itme'; did you mean 'claim_item'?",
        f"flow.b.tool: unknown tool 'files.read'; there are: {own_tools(flows)}",
        "flow.b.args.x: {{input.y}}: the input has no 'y'; its keys: none",
        "flow.start.next: unknown step 'gone'; known: b, start",
        "flow.b: cannot be reached from start",
    ]
    assert await flows("workflow_list") == []


@pytest.mark.parametrize("tool", ["workflow_get", "workflow_cancel"])
async def test_unknown_workflows(flows: Flows, tool: str) -> None:
    failure = await flows.refusal(tool, id=12345)
    assert (failure.code, failure.message) == ("RESOURCE_NOT_FOUND", "id: no such workflow in this project")


async def test_unknown_steps(flows: Flows) -> None:
    workflow = await flows.create()
    for step in (12345, workflow, workflow + 500):
        failure = await flows.refusal("workflow_step_ready", step_id=step)
        assert failure.code == "RESOURCE_NOT_FOUND"


@pytest.mark.every_store
async def test_a_repeated_request_has_one_effect(flows: Flows) -> None:
    flow = {"start": gate("first", next="second"), "second": gate("second", done=True)}
    made = await asyncio.gather(*(flows.create(flow, requestId="r1") for _ in range(20)))
    assert len(set(made)) == 1
    assert len(await flows("workflow_list")) == 1
    step = (await flows.step(made[0], "first"))["id"]
    answers = [await flows("workflow_step_ready", step_id=step, requestId="r2") for _ in range(3)]
    assert answers == [{"queued": True}] * 3
    before = counted(RUNS_ENDED, "flows", "cancelled")
    answers = [await flows("workflow_cancel", id=made[0], requestId="r3") for _ in range(3)]
    await flows("workflow_cancel", id=made[0])
    assert counted(RUNS_ENDED, "flows", "cancelled") == before + 1
    assert answers == [{"cancelled": True}] * 3
    failure = await flows.refusal("workflow_create", name="other", flow=flow, requestId="r1")
    assert failure.code == "request_id_reused"
    other = await flows.create(flow, requestId="r1", actor={"id": "somebody", "kind": "user"})
    assert other != made[0]


def own_tools(flows: Flows) -> str:
    """The coordinator's own tools as listed in messages about unknown ones."""
    toolsets = load_toolsets(Services(flows.settings, flows.store, trust_self_reported))
    names = list(dict.fromkeys(tool.name for one in toolsets.values() for tool in one.tools if "." not in tool.name))
    return f"{', '.join(names[:12])} and {len(names) - 12} more"


async def test_a_request_is_replayed_by_a_process_with_other_tools(store: Store, project: str) -> None:
    asked: Json = {"name": "n", "flow": {"start": {"name": "s", "tool": "files.list", "done": True}}}
    knows = Settings(connections={"files": Connection(kind="mcp", command="x")})
    made = await Flows(store, project, knows)("workflow_create", **asked, requestId="r1")
    other = Flows(store, project)
    assert await other("workflow_create", **asked, requestId="r1") == made
    for more in ({}, {"requestId": "r2"}):
        assert (await other.refusal("workflow_create", **asked, **more)).code == "VALIDATION_ERROR"
    assert (await other.refusal("workflow_create", **asked, parent=1, requestId="r1")).code == "request_id_reused"


def test_names_of_step_tools(redis_url: str) -> None:
    settings = Settings(
        flows=FlowSettings(tools={"echo_it": "a:b", "count": "a:c"}),
        connections={"files": Connection(kind="mcp", command="x"), "git": Connection(kind="cli", command="git")},
    )
    flows = Flows(Store(redis_url), "p", settings)

    async def problem(tool: str) -> str:
        failure = await flows.refusal("workflow_create", name="n", flow={"start": {"name": "a", "tool": tool}})
        assert failure.data is not None
        found: list[str] = failure.data["problems"]
        return next((one for one in found if one.startswith("flow.start.tool")), "")

    async def check() -> None:
        for name in ("claim_item", "items.claim_item", "workflow_create", "files.anything"):
            assert await problem(name) == ""
        assert "of kind git" not in await problem("git.status")
        assert "the connection 'git' is of kind cli" in await problem("git.status")
        assert "unknown tool 'echo'" in await problem("echo")
        assert "unknown tool 'files'" in await problem("files")
        assert "navigator" not in await problem("navigator.nothing") or "unknown tool" in await problem("navigator.x")
        # Messages help agents: similar names, else the existing ones; never a shell command.
        assert await problem("clame_item") == "flow.start.tool: unknown tool 'clame_item'; did you mean 'claim_item'?"
        assert (await problem("completeTree")).endswith("did you mean 'complete_tree'?")
        assert (await problem("items.claim_itm")).endswith("did you mean 'items.claim_item'?")
        told = await problem("send_mail_to_everybody")
        assert told.endswith(f"'send_mail_to_everybody'; there are: count, echo_it; files.<tool>; {own_tools(flows)}")

    asyncio.run(check())


async def test_the_checked_flow_is_stored(flows: Flows) -> None:
    given = {"text": "{{input.text}} <b>\u00e9</b>", "n": [1, {"a": None}]}
    flow = {
        "start": gate("g", next="use"),
        "use": {"name": "use", "tool": "query_items", "args": {"q": "{{input.text}}"}, "done": True},
    }
    workflow = await flows.create(flow, input=given)
    assert json.loads(json.dumps(await flows.get(workflow)))["status"] == "running"


async def test_a_flow_may_be_passed_as_json_strings(flows: Flows) -> None:
    second = json.dumps({"name": "second", "tool": None, "done": True})
    flow = {"start": json.dumps({**gate("first", next="second"), "retry": '{"max_attempts": 2}'}), "second": second}
    workflow = await flows.create(flow, actor={"id": "ana", "kind": "user"}, requestId="once")
    assert [step["name"] for step in (await flows.get(workflow))["steps"]] == ["first"]
    plain = {"start": {**gate("first", next="second"), "retry": {"max_attempts": 2}}, "second": json.loads(second)}
    assert await flows.create(plain, actor={"id": "ana", "kind": "user"}, requestId="once") == workflow
    refused = await flows.refusal("workflow_create", name="x", flow={"start": "[]"})
    assert "must be an object" in refused.message
