"""Rights of identified callers: the workflow permission, and the permission of each step's call."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.steps.model import Failure, StepRun, Work
from coordinator.store import Store
from coordinator.toolsets.actor import Actor, Trusted, Verification, echo
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.contract.create import Created, WorkflowCreate
from coordinator.toolsets.flows.rules.spec import unpack
from coordinator.toolsets.flows.run_kind import FlowPlanner, ToolCall
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Call, Services
from tests.flows.client import ONE_GATE, Flows, gate

pytestmark = pytest.mark.anyio


async def test_unidentified_callers_may_do_everything(flows: Flows) -> None:
    workflow = await flows.create()
    assert (await flows.get(workflow))["created_by"] == "anonymous"
    assert await flows("workflow_cancel", id=workflow) == {"cancelled": True}


@pytest.mark.parametrize("permission", ["workflow", "workflow.admin", "flows", "*"])
async def test_each_of_these_permissions_suffices(flows: Flows, permission: str) -> None:
    ana = flows.as_("ana", permission)
    workflow = await ana.create()
    assert (await ana.get(workflow))["created_by"] == "ana"
    assert [row["id"] for row in await ana("workflow_list")] == [workflow]
    assert await ana.release(workflow) == {"queued": True}
    assert await ana("workflow_cancel", id=workflow) == {"cancelled": True}


@pytest.mark.parametrize(
    ("permission", "reads"), [("items", False), ("workflow.read", True), ("flows.read", True), ("*.read", True)]
)
async def test_other_permissions_do_not_suffice(flows: Flows, permission: str, reads: bool) -> None:
    ana = flows.as_("ana", permission)
    workflow = await flows.create()
    step = (await flows.step(workflow, "wait"))["id"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("workflow_create", {"name": "n", "flow": ONE_GATE}),
        ("workflow_cancel", {"id": workflow}),
        ("workflow_step_ready", {"step_id": step}),
    ]
    for tool, arguments in calls:
        assert (await ana.refusal(tool, **arguments)).code == "permission_denied"
    if reads:
        assert await ana("workflow_list") == []
    else:
        assert (await ana.refusal("workflow_list")).message == "workflows need the permission 'workflow'"
        assert (await ana.refusal("workflow_get", id=workflow)).code == "permission_denied"


async def test_callers_see_their_own_workflows_and_admins_see_all(flows: Flows) -> None:
    ana, bob, root = flows.as_("ana", "*"), flows.as_("bob", "workflow"), flows.as_("root", "workflow.admin")
    hers, his = await ana.create(), await bob.create()
    assert [row["id"] for row in await ana("workflow_list")] == [hers]
    assert [row["id"] for row in await bob("workflow_list", status="running")] == [his]
    assert [row["id"] for row in await root("workflow_list")] == [his, hers]
    for tool in ("workflow_get", "workflow_cancel"):
        assert (await ana.refusal(tool, id=his)).message == "id: no such workflow in this project"
    assert (await root.get(hers))["created_by"] == "ana"
    assert await root("workflow_cancel", id=hers) == {"cancelled": True}


async def test_gates_may_require_a_role(flows: Flows) -> None:
    flow = {"start": gate("wait", approver_role="lead", done=True)}
    ana = flows.as_("ana", "workflow")
    lead = flows.as_("lea", "workflow", roles=("lead",))
    workflow = await ana.create(flow)
    failure = await ana.refusal("workflow_step_ready", step_id=(await ana.step(workflow, "wait"))["id"])
    assert failure.code == "permission_denied"
    assert "only somebody with the role 'lead'" in failure.message
    # A caller who can release a gate can also see the workflow.
    assert await lead.release(workflow) == {"queued": True}
    assert (await ana.step(workflow, "wait"))["approved_by"] == "lea"
    assert (await flows.as_("bob", "workflow").refusal("workflow_get", id=workflow)).code == "RESOURCE_NOT_FOUND"


LATER = {"start": {"name": "wait", "tool": "query_items", "args": {}, "delay_ms": 3_600_000, "done": True}}


@pytest.mark.parametrize("flow", [ONE_GATE, LATER], ids=["gate", "delayed"])
async def test_steps_of_invisible_workflows_cannot_be_released(flows: Flows, flow: dict[str, Any]) -> None:
    ana, bob, root = flows.as_("ana", "*"), flows.as_("bob", "*"), flows.as_("root", "workflow.admin")
    hers, other = await ana.create(flow), await ana.create(flow)
    for step in ((await ana.step(hers, "wait"))["id"], hers + 2):
        refused = await bob.refusal("workflow_step_ready", step_id=step)
        assert (refused.code, refused.message) == ("RESOURCE_NOT_FOUND", "step_id: no such step in this project")
    assert (await ana.step(hers, "wait")).get("approved_by") is None
    assert await ana.release(hers) == {"queued": True}
    assert (await ana.step(hers, "wait"))["approved_by"] == "ana"
    assert await root.release(other) == {"queued": True}
    assert (await ana.step(other, "wait"))["approved_by"] == "root"
    # Ended steps are not disclosed either.
    assert (await bob.refusal("workflow_step_ready", step_id=hers + 1)).code == "RESOURCE_NOT_FOUND"
    for workflow in (hers, other):
        await ana("workflow_cancel", id=workflow)


async def test_the_role_of_one_gate_allows_releasing_gates_without_a_role(flows: Flows) -> None:
    flow = {"start": gate("first", next="wait"), "wait": gate("wait", approver_role="lead", done=True)}
    workflow = await flows.as_("ana", "workflow").create(flow)
    assert await flows.as_("lea", "workflow", roles=("lead",)).release(workflow, "first") == {"queued": True}


FLOW = {"start": {"name": "s", "tool": "claim_item", "args": {"x": "{{input.x}}"}, "done": True}}


def run_of(project: str, workflow: int) -> StepRun:
    return StepRun(project, "flows", str(workflow), str(workflow + 1), 1, "start", "", "", "", "", 0, 0, 0, 0, "")


async def prepared(flows: Flows, workflow: int, now: Caller | str = "") -> Any:
    """The worker's call for the first step, and the permission checks of its creator."""
    asked: list[tuple[str, Caller, str]] = []

    async def permits(project: str, caller: Caller, tool: str) -> Caller | str:
        asked.append((project, caller, tool))
        return now

    store = FlowStore(flows.store, flows.settings)
    record = await store.get(flows.project, workflow)
    assert record is not None
    planner = FlowPlanner(store, permits)
    return await planner.prepare(run_of(flows.project, workflow), planner.load(record.spec)), asked


async def test_the_creators_permission_is_checked_before_each_step(flows: Flows) -> None:
    ana = flows.as_("ana", "workflow", roles=("lead",))
    workflow = await ana.create(FLOW, input={"x": [1]})
    now = Caller("ana", "user", frozenset(), frozenset({"workflow", "items"}))
    work, asked = await prepared(flows, workflow, now)
    caller = Caller("ana", "user", frozenset({"lead"}), frozenset({"workflow"}))
    assert asked == [(flows.project, caller, "claim_item")]
    assert isinstance(work, ToolCall)
    # Permissions at creation no longer count.
    assert (work.tool, work.arguments, work.caller) == ("claim_item", {"x": [1]}, now)
    outcome, _ = await prepared(flows, workflow, "permission denied: no")
    assert outcome == Failure("permission denied: no", "permission_denied", retryable=False)
    await flows("workflow_cancel", id=workflow)


async def test_an_unidentified_creator_is_not_checked(flows: Flows) -> None:
    workflow = await flows.create(FLOW, input={"x": 1}, actor={"id": "ana", "kind": "user"})
    work, asked = await prepared(flows, workflow, "no")
    assert asked == []
    assert isinstance(work, Work)
    record = await FlowStore(flows.store, flows.settings).get(flows.project, workflow)
    assert record is not None
    assert unpack(record.spec).creator is None
    await flows("workflow_cancel", id=workflow)


async def test_a_verified_proof_identifies_like_a_bearer_token(store: Store, project: str) -> None:
    stated: dict[str, Caller] = {}

    async def resolve(actor: Actor) -> Trusted:
        return Trusted(actor.id, echo(actor), Verification("verified", "jwks", None), stated[actor.id])

    toolset = load_toolsets(Services(Settings(), store, resolve))["flows"]
    create = next(tool for tool in toolset.tools if tool.name == "workflow_create")
    stated["ana"] = Caller("ana", permissions=frozenset({"items"}))
    asked = WorkflowCreate(name="n", flow=ONE_GATE, actor=Actor("ana", "user", proof="x.y.z"))
    with pytest.raises(ToolFailure, match="workflows need the permission 'workflow'"):
        await create.handler(Call(project), asked)
    stated["ana"] = Caller("ana", permissions=frozenset({"workflow", "echo"}))
    created = await create.handler(Call(project), asked)
    assert isinstance(created, Created)
    record = await FlowStore(store, Settings()).get(project, created.id)
    assert record is not None
    assert unpack(record.spec).creator == stated["ana"]


async def test_a_workflow_of_a_slot_belongs_to_its_caller(store: Store, project: str) -> None:
    ana = Caller("ana", permissions=frozenset({"workflow"}))

    async def resolve(actor: Actor) -> Trusted:
        return Trusted(actor.id, echo(actor), Verification("verified", "bearer", None))

    toolset = load_toolsets(Services(Settings(), store, resolve))["flows"]
    tools = {tool.name: tool for tool in toolset.tools}
    asked = WorkflowCreate(name="n", flow=ONE_GATE, actor=Actor("ana/2", "user"))
    created = await tools["workflow_create"].handler(Call(project, caller=ana), asked)
    assert isinstance(created, Created)
    record = await FlowStore(store, Settings()).get(project, created.id)
    assert record is not None
    assert record.row.creator == "ana"
