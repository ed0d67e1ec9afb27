"""The tools that show definitions, by their documented shapes, over the examples and test definitions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from coordinator import __version__
from coordinator.definitions import shipped
from coordinator.errors import ToolFailure
from tests.navigator.client import Client, Json, offered
from tests.support.workflows import WORKFLOW, Tree

pytestmark = pytest.mark.anyio

Make = Callable[[], Client]

CONTRACT = {
    "nav_start": ("workflow_id", "initial_variables?", "state?"),
    "nav_situation": ("state",),
    "nav_action": (
        "state", "action", "step_id?", "checkpoint_id?", "option_id?", "activity_id?", "loop_id?", "loop_items?",
        "variables?",
    ),
    "nav_checkpoint": ("state",),
    "list_workflows": (),
    "get_workflow": ("workflow_id",),
    "get_workflow_activity": ("workflow_id", "activity_id"),
    "get_checkpoint": ("workflow_id", "activity_id", "checkpoint_id"),
    "validate_transition": ("workflow_id", "from_activity", "to_activity"),
    "health_check": (),
    "get_activities": (),
    "get_activity": ("activity_id",),
    "get_skills": (),
    "list_skills": ("workflow_id?",),
    "get_skill": ("skill_id", "workflow_id?"),
    "list_workflow_resources": ("workflow_id",),
    "get_resource": ("workflow_id", "index"),
    "list_templates": ("workflow_id",),
    "get_template": ("workflow_id", "index"),
    "discover_resources": (),
}  # fmt: skip
"""Names and parameters of the contract, in its order; ``variables``, and nav_start's ``state``, are additions."""


async def missing(nav: Client, tool: str, **arguments: Any) -> str:
    with pytest.raises(ToolFailure) as caught:
        await nav(tool, **arguments)
    assert caught.value.code == "RESOURCE_NOT_FOUND"
    return without_names(caught.value.message)


def without_names(message: str) -> str:
    """A message about an unknown id, without the list of existing ones."""
    said, *exist = re.split(r"; (?=there are: |did you mean ')", message)
    assert len(exist) == 1, message
    return said


async def test_the_tools_and_their_parameters_are_the_contracts(nav: Client) -> None:
    from coordinator.toolsets.schema import input_schema

    found = {}
    for tool in nav.toolset.tools:
        schema = input_schema(tool.arguments)
        required = schema.get("required", ())
        found[tool.name] = tuple(name if name in required else f"{name}?" for name in schema.get("properties", {}))
    assert found == CONTRACT
    assert list(found) == list(CONTRACT)
    weights = {tool.name: tool.weigh(None).label for tool in nav.toolset.tools}
    assert weights["nav_action"] == "critical"
    assert [name for name, label in weights.items() if label == "read"][:3] == [
        "nav_situation",
        "nav_checkpoint",
        "get_workflow",
    ]
    assert weights["nav_start"] == "normal"
    assert weights["discover_resources"] == "sheddable"
    writing = [tool.name for tool in nav.toolset.tools if not tool.read_only]
    assert writing == ["nav_start", "nav_action"]


async def test_the_response_has_the_documented_fields(nav: Client) -> None:
    now = await nav.start("change", needs_design=True)
    assert set(now) == {"success", "position", "message", "availableActions", "checkpoint", "state"}
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="scope-agreed", option_id="small")
    for step in ("read-request", "find-places", "name-risks"):
        now = await nav.must(now, "complete_step", step_id=step)
    now = await nav.must(now, "transition", activity_id="build")
    now = await nav.must(now, "advance_loop", loop_id="tasks", loop_items=["p", "q"])
    now = await nav.must(now, "complete_step", step_id="write-test")
    assert now["position"] == {
        "workflow": "change",
        "activity": {"id": "build", "name": "Build"},
        "step": {"id": "write-code", "index": 2, "name": "Write the code"},
        "loop": {"id": "tasks", "name": "Task by task", "iteration": 1, "total": 2, "item": "p"},
    }
    assert now["message"] == "Completed step 'write-test'"
    assert now["availableActions"]["required"] == [
        {"action": "complete_step", "step": "write-code", "description": "Complete: Write the code"}
    ]
    assert now["availableActions"]["optional"] == [{"action": "get_resource"}]
    assert now["availableActions"]["blocked"] == []
    assert now["checkpoint"] is None
    situation = await nav("nav_situation", state=now["state"])
    assert situation["message"] == ("Activity: Build | Step 2: Write the code | Loop: Task by task (iteration 1 of 2)")
    assert situation == now | {"message": situation["message"]}


async def test_the_situation_names_the_open_checkpoint(nav: Client) -> None:
    now = await nav.start("change")
    assert now["message"] == "Started workflow 'Make a change' at activity 'Understand the change'"
    situation = await nav("nav_situation", state=now["state"])
    assert situation["message"] == (
        "Activity: Understand the change | Step 1: Read the request | Checkpoint: Scope agreed"
    )
    shown = await nav("nav_checkpoint", state=now["state"])
    assert shown["checkpoint"]["options"][2] == {
        "id": "other",
        "label": "No, understand it differently",
        "description": "Take what the user says and begin this activity again",
    }


async def test_a_workflow_without_an_initial_activity_cannot_be_started(nav: Client) -> None:
    with pytest.raises(ToolFailure, match="has no initial activity") as caught:
        await nav.start("meta")
    assert caught.value.code == "VALIDATION_ERROR"
    assert "start-workflow, resume-workflow, end-workflow" in caught.value.message
    assert await missing(nav, "nav_start", workflow_id="nobody") == "Workflow not found: nobody"


async def test_an_unreadable_initial_activity_is_reported_as_such(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a", "b")
    begun = await client().start("one")
    (tree.root / "one/activities/01-a.toon").write_text("id: a\n")
    nav = client()
    with pytest.raises(ToolFailure, match="begins with activity 'a'") as caught:
        await nav.start("one")
    assert "fixed" in caught.value.message
    situation = await nav("nav_situation", state=begun["state"])
    assert situation["message"].startswith("Activity: a | This activity is no longer part of the workflow")
    assert situation["availableActions"] == {"required": [], "optional": [], "blocked": []}


async def test_workflows(nav: Client) -> None:
    listed = await nav("list_workflows")
    assert [one["id"] for one in listed] == ["change", "hotfix", "meta"]
    assert set(listed[0]) == {"id", "title", "version", "description"}
    whole = await nav("get_workflow", workflow_id="change")
    assert whole["initialActivity"] == "understand"
    assert [one["id"] for one in whole["activities"]] == [
        "understand",
        "design",
        "build",
        "verify",
        "review",
        "deliver",
    ]
    assert whole["variables"][2] == {
        "name": "checks_passed", "type": "boolean", "description": "Whether all checks passed", "required": False
    }  # fmt: skip
    assert await nav("get_workflow_activity", workflow_id="change", activity_id="build") == whole["activities"][2]
    assert await missing(nav, "get_workflow", workflow_id="../meta") == "Workflow not found: ../meta"
    assert len(await missing(nav, "get_workflow", workflow_id="x" * 10_000)) < 300
    unknown = {"workflow_id": "change", "activity_id": "triage"}
    assert await missing(nav, "get_workflow_activity", **unknown) == "Activity not found: triage"


async def test_a_workflow_is_shown_with_its_folder_id(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a")
    tree.write("one/workflow.toon", WORKFLOW.format(id="other", first="a"))
    assert (await client()("get_workflow", workflow_id="one"))["id"] == "one"


async def test_a_workflow_is_shown_with_its_format(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a", more='"$schema": ../schemas/workflow.schema.json\n')
    assert (await client()("get_workflow", workflow_id="one"))["$schema"] == "../schemas/workflow.schema.json"


async def test_an_activity_is_shown_with_defaults_and_all_fields_of_its_file(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a")
    tree.write(
        "one/activities/01-a.toon",
        "id: a\nversion: 1.0.0\nname: A\nskills:\n  primary: s\nowner: me\nextra[1]{x,y}:\n  1,two\n"
        "steps[1]:\n  - id: do\n    name: Do\ntransitions[1]:\n  - to: a\n"
        "loops[1]{id,name,type}:\n  l,L,forEach\n",
    )
    assert await client()("get_workflow_activity", workflow_id="one", activity_id="a") == {
        "id": "a",
        "version": "1.0.0",
        "name": "A",
        "skills": {"primary": "s"},
        "required": True,
        "owner": "me",
        "extra": [{"x": 1, "y": "two"}],
        "steps": [{"id": "do", "name": "Do", "required": True}],
        "transitions": [{"to": "a", "isDefault": False}],
        "loops": [{"id": "l", "name": "L", "type": "forEach", "maxIterations": 100}],
    }


async def test_checkpoints(nav: Client) -> None:
    where = {"workflow_id": "change", "activity_id": "understand"}
    found = await nav("get_checkpoint", **where, checkpoint_id="scope-agreed")
    assert (found["id"], found["required"], found["blocking"]) == ("scope-agreed", True, True)
    assert found["options"][0]["effect"] == {"setVariable": {"needs_design": False}, "skipActivities": ["design"]}
    assert await missing(nav, "get_checkpoint", **where, checkpoint_id="x") == "Checkpoint not found: x"
    where["activity_id"] = "nothing"
    assert await missing(nav, "get_checkpoint", **where, checkpoint_id="x") == "Activity not found: nothing"


@pytest.mark.parametrize(
    ("source", "target", "answer"),
    [
        ("understand", "design", {"valid": True}),
        ("understand", "understand", {"valid": True}),
        ("verify", "review", {"valid": True}),
        ("review", "build", {"valid": True}),
        ("understand", "deliver", {"valid": False, "reason": "No valid transition. Valid: design, build, understand"}),
        ("deliver", "build", {"valid": False, "reason": "No valid transition. Valid: none"}),
        ("nothing", "build", {"valid": False, "reason": "Source activity not found: nothing"}),
        ("build", "nothing", {"valid": False, "reason": "Target activity not found: nothing"}),
    ],
)
async def test_transitions(nav: Client, source: str, target: str, answer: Json) -> None:
    found = await nav("validate_transition", workflow_id="change", from_activity=source, to_activity=target)
    if "not found" in answer.get("reason", ""):
        found["reason"] = without_names(found["reason"])
    assert found == answer
    unknown = {"workflow_id": "nobody", "from_activity": source, "to_activity": target}
    assert await missing(nav, "validate_transition", **unknown) == "Workflow not found: nobody"


async def test_the_end_is_a_target_only_if_named(nav: Client) -> None:
    answers = [
        await nav("validate_transition", workflow_id=workflow, from_activity=source, to_activity="workflow-end")
        for workflow, source in (("hotfix", "triage"), ("change", "deliver"))
    ]
    assert answers[0] == {"valid": True}
    assert without_names(answers[1]["reason"]) == "Target activity not found: workflow-end"


async def test_the_end_of_a_branch_without_a_target_is_valid(tree: Tree, client: Make) -> None:
    """As in nav_action; other ends, to which nothing leads, remain invalid."""
    tree.workflow("w", "first", "second")
    more = "decisions[1]:\n  - id: d\n    name: D\n    branches[2]{id,label}:\n      over,Over\n      out,Out\n"
    tree.activity("w", "01", "first", more="transitions[1]{to}:\n  second\n" + more)
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="do")
    assert offered(now)[:3] == ["transition second", "transition __terminal__", "get_resource"]
    asked = {"workflow_id": "w", "from_activity": "first"}
    assert await nav("validate_transition", **asked, to_activity="__terminal__") == {"valid": True}
    reason = "No valid transition. Valid: second, __terminal__"
    assert await nav("validate_transition", **asked, to_activity="first") == {"valid": False, "reason": reason}
    reason = "Target activity not found: workflow-end; there are: first, second"
    assert await nav("validate_transition", **asked, to_activity="workflow-end") == {"valid": False, "reason": reason}


async def test_health(nav: Client) -> None:
    health = await nav("health_check")
    assert health.pop("uptime_seconds") >= 0
    assert health == {
        "status": "healthy", "server": "fleet-coordinator", "version": __version__, "workflows_available": 3
    }  # fmt: skip


async def test_activities(nav: Client) -> None:
    index = await nav("get_activities")
    assert set(index) == {"description", "usage", "next_action", "activities", "quick_match", "rules"}
    assert index["next_action"]["tool"] == "get_activity"
    assert len(index["activities"]) == 11
    build = next(one for one in index["activities"] if one["id"] == "build")
    assert build == {
        "id": "build",
        "workflowId": "change",
        "problem": "The change is understood and has to be made",
        "primary_skill": "building",
        "next_action": {"tool": "get_skill", "parameters": {"skill_id": "building", "workflow_id": "change"}},
    }
    for one in index["activities"]:
        assert (await nav("get_skill", **one["next_action"]["parameters"]))["id"] == one["primary_skill"].split("/")[-1]
    start = next(one for one in index["activities"] if one["id"] == "start-workflow")
    assert list(start["next_action"]["parameters"]) == ["skill_id"]
    assert index["quick_match"]["start a workflow"] == "start-workflow"
    assert set(index["quick_match"].values()) <= {one["id"] for one in index["activities"]}
    assert index["rules"]["sections"][0]["priority"] == "critical"
    found = await nav("get_activity", activity_id="triage")
    assert (found["workflowId"], found["name"]) == ("hotfix", "Triage")
    assert found["next_action"] == {
        "tool": "get_skill", "parameters": {"skill_id": "meta/worker", "workflow_id": "hotfix"}
    }  # fmt: skip
    assert (await nav("get_skill", **found["next_action"]["parameters"]))["id"] == "worker"
    assert await missing(nav, "get_activity", activity_id="x") == "Activity not found: x"


async def test_the_index_names_the_skill_of_the_activity(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a")
    tree.workflow("two", "b")
    tree.skill("meta", "00", "work", "universal")
    tree.skill("one", "00", "work", "its own")
    nav = client()
    calls = {one["id"]: one["next_action"]["parameters"] for one in (await nav("get_activities"))["activities"]}
    assert calls == {"a": {"skill_id": "work", "workflow_id": "one"}, "b": {"skill_id": "work"}}
    for activity, capability in (("a", "its own"), ("b", "universal")):
        assert (await nav("get_skill", **calls[activity]))["capability"] == capability
        told = (await nav("get_activity", activity_id=activity))["next_action"]["parameters"]
        assert (await nav("get_skill", **told))["capability"] == capability


async def test_empty_indexes_are_empty_lists(tree: Tree, client: Make) -> None:
    nav = client()
    assert await nav("get_activities") == []
    assert await nav("list_workflows") == []
    assert await nav("list_skills") == []
    assert (await nav("health_check"))["workflows_available"] == 0
    assert (await nav("discover_resources"))["workflows"] == []


async def test_skills(nav: Client) -> None:
    index = await nav("get_skills")
    assert [one["id"] for one in index["universal"]] == [
        "activity-resolution", "workflow-execution", "orchestrator", "worker"
    ]  # fmt: skip
    assert index["workflow_specific"]["change"][0] == {
        "id": "analysis",
        "capability": "Find out what a change touches before it is made",
        "workflow_id": "change",
        "next_action": {"tool": "get_skill", "parameters": {"skill_id": "analysis", "workflow_id": "change"}},
    }
    universal = await nav("list_skills")
    assert universal[0] == {
        "index": "00",
        "id": "activity-resolution",
        "name": "Activity Resolution",
        "path": "meta/skills/00-activity-resolution.toon",
    }
    both = await nav("list_skills", workflow_id="change")
    assert both["universal"] == universal
    assert both["workflow"][1] == {
        "index": "01", "id": "building", "name": "Building", "path": "skills/01-building.toon", "workflowId": "change"
    }  # fmt: skip
    assert (await nav("list_skills", workflow_id="meta"))["workflow"] == []
    assert await missing(nav, "list_skills", workflow_id="nobody") == "Workflow not found: nobody"
    skill = await nav("get_skill", skill_id="workflow-execution")
    assert skill["interpretation"]["loops"].startswith("Give the items")
    assert await nav("get_skill", skill_id="workflow-execution", workflow_id="change") == skill
    assert (await nav("get_skill", skill_id="building", workflow_id="change"))["rules"]["size"]
    for more in ({}, {"workflow_id": "hotfix"}):
        assert await missing(nav, "get_skill", skill_id="building", **more) == "Skill not found: building"
    assert await missing(nav, "get_skill", skill_id="x", workflow_id="nobody") == "Workflow not found: nobody"


async def test_a_workflows_own_skill_overrides_the_universal_one_unless_broken(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a")
    tree.skill("meta", "00", "s", "universal")
    path = tree.skill("one", "05", "s", "own")
    assert (await client()("get_skill", skill_id="s", workflow_id="one"))["capability"] == "own"
    path.write_text("id: s\n")
    assert (await client()("get_skill", skill_id="s", workflow_id="one"))["capability"] == "universal"


async def test_resources_and_templates(nav: Client) -> None:
    assert await nav("list_workflow_resources", workflow_id="change") == [
        {"index": "01", "name": "review-guide", "title": "Review Guide", "format": "markdown"},
        {"index": "02", "name": "sizes", "title": "Sizes", "format": "toon"},
    ]
    assert await nav("list_templates", workflow_id="change") == [
        {"index": "01", "name": "design", "title": "Design"},
        {"index": "02", "name": "change-note", "title": "Change Note"},
    ]
    for tool in ("list_workflow_resources", "list_templates"):
        assert await missing(nav, tool, workflow_id="nobody") == "Workflow not found: nobody"
    folder = shipped() / "change"
    for index in ("1", "01"):
        text = await nav("get_resource", workflow_id="change", index=index)
        assert text == (folder / "resources/01-review-guide.md").read_text()
        assert (
            await nav("get_template", workflow_id="change", index=index)
            == (folder / "templates/01-design.md").read_text()
        )
    assert (await nav("get_resource", workflow_id="change", index="2")).startswith("id: sizes\n")
    for index in ("001", "9", "../01", ""):
        unknown = {"workflow_id": "change", "index": index}
        assert await missing(nav, "get_resource", **unknown) == f"Resource not found: {index} in workflow change"
        said = await missing(nav, "get_template", **unknown)
        assert said == f"Template not found: index {index} in workflow change"
    said = await missing(nav, "get_resource", workflow_id="nobody", index="1")
    assert said == "Workflow not found: nobody"


async def test_everything_can_be_discovered(nav: Client) -> None:
    found = await nav("discover_resources")
    assert found["activities"]["tool"] == "get_activities"
    assert found["universal_skills"]["items"][1] == "workflow-execution"
    assert found["workflows"][0] == {
        "id": "change", "title": "Make a change", "tool": 'get_workflow { workflow_id: "change" }'
    }  # fmt: skip
    assert found["change"] == {
        "resources": {"count": 2, "tool": 'list_workflow_resources { workflow_id: "change" }'},
        "templates": {"count": 2, "tool": 'list_templates { workflow_id: "change" }'},
        "skills": {
            "items": ["analysis", "building", "reviewing"],
            "tool": 'list_skills { workflow_id: "change" }',
            "get": 'get_skill { skill_id, workflow_id: "change" }',
        },
    }
    assert "hotfix" not in found


async def test_answers_follow_the_definitions(tree: Tree, client: Make) -> None:
    tree.workflow("one", "a")
    nav = client()
    assert [one["id"] for one in await nav("list_workflows")] == ["one"]
    tree.workflow("two", "b")
    assert [one["id"] for one in await client()("list_workflows")] == ["one", "two"]
    assert [one["id"] for one in await nav("list_workflows")] == ["one"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("nav_start", {"workflow_id": "chnage"}, "Workflow not found: chnage; did you mean 'change'?"),
        ("list_templates", {"workflow_id": "hot-fix"}, "Workflow not found: hot-fix; did you mean 'hotfix'?"),
        ("get_resource", {"workflow_id": "change", "index": "7"},
         "Resource not found: 7 in workflow change; there are: 01, 02"),
        ("get_template", {"workflow_id": "hotfix", "index": "7"},
         "Template not found: index 7 in workflow hotfix; there are: none"),
        ("get_activity", {"activity_id": "biuld"}, "Activity not found: biuld; did you mean 'build'?"),
        ("get_skill", {"skill_id": "buildin", "workflow_id": "change"},
         "Skill not found: buildin; did you mean 'building'?"),
    ],
)  # fmt: skip
async def test_unknown_ids_are_reported_with_the_existing_ones(
    nav: Client, tool: str, arguments: Json, message: str
) -> None:
    with pytest.raises(ToolFailure) as caught:
        await nav(tool, **arguments)
    assert caught.value.message == message
