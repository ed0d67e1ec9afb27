"""Workflows that run others: suspend, run, return."""

from __future__ import annotations

import pytest

from coordinator.definitions import toon
from coordinator.errors import ToolFailure
from tests.navigator import walker
from tests.navigator.client import Json, offered
from tests.navigator.workflows import Make, loop, other, question, run, step, trigger, when, write
from tests.support.workflows import Tree

pytestmark = pytest.mark.anyio


async def test_a_step_runs_its_workflow_before_completion(tree: Tree, client: Make) -> None:
    triggered = step("dispatch", triggers=[trigger("child", "target", "absent", description="Run it")])
    write(tree, {"id": "a", "steps": [step("before"), triggered, step("after")], "loops": [loop("l")],
                 "context_to_preserve": ["result - what it found", "target"]})  # fmt: skip
    other(tree, "child", {"id": "run", "steps": [step("do")]},
          variables=[{"name": "depth", "type": "number", "defaultValue": 3}])  # fmt: skip
    nav = client()
    now = await nav.start("w", target="x", secret="s")
    assert offered(now, "required") == ["complete_step before"]
    now = reached = await nav.must(now, "complete_step", step_id="before")
    assert now["availableActions"]["required"] == [
        {"action": "nav_start", "workflow": "child", "passContext": ["target", "absent"], "description": "Run it"}
    ]
    assert now["availableActions"]["optional"] == []
    assert now["message"] == ("Completed step 'before'. Next, call nav_start with workflow_id 'child' and this state")
    reason = "Workflow 'child' must be run first, so call nav_start with workflow_id 'child' and this state"
    assert now["availableActions"]["blocked"] == [
        {"action": action, "reason": reason} for action in ("complete_step", "advance_loop", "transition")
    ]
    assert now["position"]["step"]["id"] == "dispatch"
    for name in ("dispatch", "after"):
        assert await nav.refused(now, "complete_step", step_id=name) == "WORKFLOW_NOT_RUN"
    assert await nav.refused(now, "advance_loop", loop_id="l", loop_items=[1]) == "WORKFLOW_NOT_RUN"
    assert await nav.refused(now, "report", variables={"target": "y"}) == "WORKFLOW_NOT_RUN"
    assert await nav.refused(now, "transition", activity_id="workflow-end") == "ACTIVITY_NOT_COMPLETE"

    now = await run(nav, now, "child", given=1)
    assert (
        now["message"] == "Started workflow 'CHILD' at activity 'Run'. Workflow 'w' is suspended until it is completed"
    )
    assert now["position"]["workflow"] == "child"
    assert offered(now) == ["complete_step do", "get_resource"]
    suspended = {"action": "transition", "workflow": "w", "activity": "a",
                 "reason": "Workflow 'w' is suspended until 'child' is completed"}  # fmt: skip
    assert now["availableActions"]["blocked"] == [suspended]
    child = nav.state(now)
    assert child.variables == {"depth": 3, "target": "x", "given": 1}
    assert child.parent
    assert child.parent.status == "suspended"
    answer = await nav.do(now, "complete_step", step_id="dispatch")
    assert answer["error"]["message"] == (
        "Step 'dispatch' belongs to workflow 'w', which is suspended until workflow 'child' is completed"
    )

    now = await nav.must(now, "complete_step", step_id="do", variables={"result": [1], "mine": 2, "target": "y"})
    assert now["message"] == (
        "Completed step 'do'. Workflow 'child' is completed. Workflow 'w' resumes at activity 'A'"
    )
    assert "completed" not in now
    assert now["returned"] == {"result": [1], "target": "y"}
    assert now["position"]["workflow"] == "w"
    assert nav.state(now).variables == {"target": "y", "secret": "s", "result": [1]}
    assert nav.state(now).status == "running"
    assert offered(now, "required") == ["complete_step dispatch"]
    now = await nav.must(now, "complete_step", step_id="dispatch")
    assert offered(now, "required") == ["complete_step after"]
    assert "returned" not in now
    # The older state resumes at the trigger, not past it.
    assert (await run(nav, reached, "child"))["position"]["workflow"] == "child"


@pytest.mark.parametrize("form", ["object", "list"])
async def test_an_activity_runs_its_workflow_when_its_steps_are_done(tree: Tree, client: Make, form: str) -> None:
    own = trigger("child")
    write(tree, {"id": "a", "steps": [step("one")], "triggers": own if form == "object" else [own, trigger("second")],
                 "transitions": [{"to": "b"}]}, {"id": "b"})  # fmt: skip
    other(tree, "child")
    other(tree, "second")
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="one")
    for name in ("child", "second")[: 1 if form == "object" else 2]:
        assert offered(now) == ["nav_start"]
        assert now["availableActions"]["required"][0]["workflow"] == name
        assert await nav.refused(now, "transition", activity_id="b") == "ACTIVITY_NOT_COMPLETE"
        now = await nav.must(await run(nav, now, name), "complete_step", step_id="do")
    assert offered(now, "required") == ["transition b"]
    assert (await nav.must(now, "transition", activity_id="b"))["completed"]


async def test_an_activity_runs_its_workflow_at_the_step_named_for_it(tree: Tree, client: Make) -> None:
    steps = [step("prepare"), step("trigger-child"), step("collect")]
    write(tree, {"id": "a", "steps": steps, "triggers": trigger("child")})
    other(tree, "child")
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="prepare")
    assert offered(now) == ["nav_start"]
    now = await nav.must(await run(nav, now, "child"), "complete_step", step_id="do")
    assert offered(now, "required") == ["complete_step trigger-child"]
    now = await nav.must(now, "complete_step", step_id="trigger-child")
    now = await nav.must(now, "complete_step", step_id="collect")
    assert now["completed"]


@pytest.mark.parametrize("where", ["end", "step", "named"])
async def test_in_a_loop_there_is_one_child_for_each_item(tree: Tree, client: Make, where: str) -> None:
    """The trigger is on the activity or on a step of the loop; the loop has steps or names one of the activity."""
    more: Json = {"triggers": trigger("child", "common")}
    steps, inner = [step("one")], ["x"]
    each = loop("each", "x", variable="item", over="items")
    if where == "step":
        each["steps"][0]["triggers"] = [more.pop("triggers")]
    if where == "named":
        each = loop("each", variable="item", over="items", activities=["one"])
        inner = ["one"]
    write(tree, {"id": "a", "steps": [*steps, step("last")], "loops": [each],
                 "context_to_preserve": ["found"], **more}, variables=[{"name": "items", "type": "array"}])  # fmt: skip
    other(tree, "child")
    nav = client()
    now = await nav.start("w", common=7)
    if where != "named":
        for name in ("one", "last"):
            now = await nav.must(now, "complete_step", step_id=name)
    entry = now["availableActions"]["required"][0]
    assert entry == {
        "action": "advance_loop", "loop": "each", "description": "Start loop: Each",
        "loopItems": "an array, the items of 'items'; one iteration for each, at most 100; [] if there are none",
    }  # fmt: skip
    now = await nav.must(now, "advance_loop", loop_id="each", loop_items=["p", "q"])
    for number, item in enumerate(("p", "q"), 1):
        if where != "step":
            now = await nav.must(now, "complete_step", step_id=inner[0])
        assert offered(now) == ["nav_start"]
        assert await nav.refused(now, "advance_loop", loop_id="each") in ("WORKFLOW_NOT_RUN", "LOOP_STEPS_INCOMPLETE")
        now = await run(nav, now, "child")
        assert nav.state(now).variables == {"common": 7, "item": item}
        now = await nav.must(now, "complete_step", step_id="do", variables={"found": number})
        assert now["position"]["loop"]["iteration"] == number
        assert nav.state(now).variables["found"] == number
        if where == "step":
            now = await nav.must(now, "complete_step", step_id=inner[0])
        assert offered(now, "required") == ["advance_loop each"]
        now = await nav.must(now, "advance_loop", loop_id="each")
    if where == "named":
        now = await nav.must(now, "complete_step", step_id="last")
    assert now["completed"]


async def test_the_loop_with_the_step_named_for_the_trigger_runs_the_child(tree: Tree, client: Make) -> None:
    loops = [loop("plan", "think"), loop("make", "trigger-it")]
    write(tree, {"id": "a", "loops": loops, "triggers": trigger("child")})
    other(tree, "child")
    nav = client()
    now = await nav.must(await nav.start("w"), "advance_loop", loop_id="plan", loop_items=["p"])
    now = await nav.must(now, "complete_step", step_id="think")
    now = await nav.must(now, "advance_loop", loop_id="plan")
    now = await nav.must(now, "advance_loop", loop_id="make", loop_items=["p"])
    assert offered(now) == ["nav_start"]


async def test_no_item_no_child(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "loops": [loop("each", over="items")], "triggers": trigger("child")})
    other(tree, "child")
    nav = client()
    now = await nav.must(await nav.start("w"), "advance_loop", loop_id="each", loop_items=[])
    assert now["completed"]
    assert now["message"].startswith("Completed loop 'each' without an iteration: there are no items")
    assert (await nav.start("w", items=[]))["completed"]


async def test_children_run_children_and_all_return_at_once(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "triggers": trigger("middle"), "context_to_preserve": ["deep"]})
    other(tree, "middle", {"id": "m", "triggers": [trigger("inner")], "context_to_preserve": ["deep - it"]})
    other(tree, "inner", {"id": "i", "steps": [step("do")]})
    nav = client()
    now = await nav.start("w")
    for name in ("middle", "inner"):
        assert offered(now) == ["nav_start"]
        now = await run(nav, now, name)
    assert [one["workflow"] for one in now["availableActions"]["blocked"]] == ["middle", "w"]
    now = await nav.must(now, "complete_step", step_id="do", variables={"deep": {"k": 1}})
    assert now["message"] == (
        "Completed step 'do'. Workflow 'inner' is completed. Workflow 'middle' resumes at activity 'M'. "
        "Workflow 'middle' is completed. Workflow 'w' resumes at activity 'A'. Workflow 'w' is completed"
    )
    assert now["completed"]
    assert nav.state(now).variables == {"deep": {"k": 1}}


async def test_returned_variables(tree: Tree, client: Make) -> None:
    """Those that the activity preserves; else the child's outputs; else those that its last activity preserves."""
    values = {"kept": 1, "declared": 2, "last": 3, "own": 4}
    declared = [{"name": "declared", "type": "string"}]
    for outputs, preserved, taken, returned in (
        (["declared - d"], ["kept - k"], {"kept": 1}, {"kept": 1, "declared": 2}),
        (["last"], [], {"last": 3}, {"last": 3}),
        ([], [], {"last": 3}, {"last": 3}),
        # A value of another type than declared is shown, but not set.
        (["declared"], [], {}, {"declared": 2}),
    ):
        write(tree, {"id": "a", "triggers": trigger("child"), "context_to_preserve": preserved}, variables=declared)
        child = {"id": "run", "steps": [step("do")], "context_to_preserve": ["last"]}
        other(tree, "child", child, **({"outputs": outputs} if outputs else {}))
        nav = client()
        now = await run(nav, await nav.start("w"), "child")
        now = await nav.must(now, "complete_step", step_id="do", variables=values)
        assert now["returned"] == returned
        assert nav.state(now).variables == taken


async def test_a_child_gets_only_values_of_its_declared_types(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "triggers": trigger("child", "name", "size - of it")})
    other(tree, "child", variables=[{"name": "name", "type": "string", "defaultValue": "d"}])
    nav = client()
    now = await run(nav, await nav.start("w", name=5, size=6), "child")
    assert nav.state(now).variables == {"name": "d", "size": 6}
    with pytest.raises(ToolFailure, match="name: must be a string"):
        await run(nav, await nav.start("w"), "child", name=5)


async def test_a_checkpoint_comes_before_a_trigger(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "triggers": trigger("child"), "checkpoints": [question("sure")]})
    other(tree, "child")
    nav = client()
    now = await nav.start("w")
    assert offered(now) == ["respond_to_checkpoint sure"]
    answer = await run(nav, now, "child")
    assert (answer["success"], answer["error"]["code"]) == (False, "CHECKPOINT_BLOCKING")
    assert answer["state"] == now["state"]
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="sure", option_id="yes")
    assert offered(now) == ["nav_start"]


async def test_a_trigger_on_an_optional_step_is_optional(tree: Tree, client: Make) -> None:
    steps = [step("one"), step("may", triggers=[trigger("child")], condition=when("complex"))]
    write(tree, {"id": "a", "steps": steps, "transitions": [{"to": "b"}]}, {"id": "b"})
    other(tree, "child")
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="one")
    assert offered(now) == ["transition b", "get_resource", "complete_step may", "nav_start"]
    assert await nav.refused(now, "complete_step", step_id="may") == "WORKFLOW_NOT_RUN"
    await nav.must(now, "transition", activity_id="b")
    later = await nav.must(await run(nav, now, "child"), "complete_step", step_id="do")
    later = await nav.must(later, "complete_step", step_id="may")
    assert offered(later, "required") == ["transition b"]
    now = await nav.must(now, "report", variables={"complex": True})
    assert offered(now) == ["nav_start"]


async def test_a_workflow_run_after_completion_can_open_a_way_out(tree: Tree, client: Make) -> None:
    may = step("may", required=False, triggers=[trigger("child")])
    write(tree, {"id": "a", "steps": [may], "context_to_preserve": ["more"],
                 "transitions": [{"to": "b", "condition": when("more")}]}, {"id": "b"})  # fmt: skip
    other(tree, "child")
    nav = client()
    now = await nav.start("w", more=False)
    assert now["completed"]
    now = await run(nav, now, "child")
    open_again = await nav.must(now, "complete_step", step_id="do", variables={"more": True})
    assert offered(open_again, "required") == ["transition b"]
    assert nav.state(open_again).completed_activities == []
    assert (await nav.must(now, "complete_step", step_id="do"))["completed"]


async def test_a_workflow_is_only_run_where_it_is_triggered(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "triggers": trigger("child"), "transitions": [{"to": "b"}]},
          {"id": "b", "transitions": [{"to": "workflow-end"}]})  # fmt: skip
    other(tree, "child")
    nav = client()
    now = await nav.start("w")
    answer = await run(nav, now, "child")
    assert answer["error"]["code"] == "WORKFLOW_NOT_TRIGGERED"
    assert "here it runs no workflow now" in answer["message"]
    now = await nav.must(now, "complete_step", step_id="one")
    assert "here it runs 'child'" in (await run(nav, now, "w"))["message"]
    with pytest.raises(ToolFailure, match="Workflow not found: nobody"):
        await run(nav, now, "nobody")
    # Some hosts fill in optional arguments.
    assert (await nav("nav_start", workflow_id="child", state=""))["position"]["workflow"] == "child"
    with pytest.raises(ToolFailure, match="Invalid token format"):
        await nav("nav_start", workflow_id="child", state="made up")
    now = await nav.must(await run(nav, now, "child"), "complete_step", step_id="do")
    assert (await run(nav, now, "child"))["error"]["code"] == "WORKFLOW_NOT_TRIGGERED"
    now = await nav.must(now, "transition", activity_id="b")
    now = await nav.must(now, "transition", activity_id="workflow-end")
    assert (await run(nav, now, "child"))["error"]["code"] == "WORKFLOW_COMPLETED"


async def test_a_workflow_that_cannot_be_run_blocks_the_walk_with_a_reason(tree: Tree, client: Make) -> None:
    """It is not skipped: once it exists, the walk can continue."""
    bare = {"id": "c", "version": "1.0.0", "name": "C"}
    write(tree, {"id": "a", "triggers": [trigger("gone")], "steps": [step("may", required=False)]})
    nav = client()
    now = await nav.start("w")
    cannot = {"action": "nav_start", "workflow": "gone", "reason": "there is no such workflow"}
    assert offered(now) == []
    assert now["availableActions"]["blocked"][0] == cannot
    assert "which is not possible: there is no such workflow" in now["availableActions"]["blocked"][1]["reason"]
    assert "completed" not in now
    tree.write("gone.toon", toon.write({"id": "gone", "version": "1.0.0", "title": "T", "activities": [bare]}))
    answer = await run(client(), now, "gone")
    assert (answer["error"]["code"], answer["availableActions"]["required"]) == ("WORKFLOW_NOT_STARTED", [])
    assert "it has no initial activity" in answer["message"]
    other(tree, "gone")
    assert (await run(client(), now, "gone"))["success"]


async def test_the_waiting_workflow_may_disappear_for_a_while(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "triggers": trigger("child")})
    other(tree, "child")
    nav = client()
    now = await run(nav, await nav.start("w"), "child")
    text = (tree.root / "w.toon").read_text()
    (tree.root / "w.toon").unlink()
    assert await client().refused(now, "complete_step", step_id="do") == "WORKFLOW_NOT_FOUND"
    (tree.root / "w.toon").write_text(text)
    assert (await client().must(now, "complete_step", step_id="do"))["completed"]


async def test_nesting_of_workflows_is_limited(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "triggers": trigger("w")})
    nav = client()
    now = await nav.start("w")
    for _ in range(8):
        now = await run(nav, now, "w")
        assert now["success"]
    answer = await run(nav, now, "w")
    assert answer["error"]["code"] == "WORKFLOW_NOT_STARTED"
    assert "8 workflows are nested already" in answer["message"]


async def test_a_child_may_be_completed_at_its_start(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "triggers": trigger("child")})
    other(tree, "child", {"id": "nothing"})
    nav = client()
    now = await run(nav, await nav.start("w"), "child")
    assert now["completed"]
    assert now["position"]["workflow"] == "w"


async def test_an_agent_that_knows_only_the_answers_completes_the_walk(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "loops": [loop("each", "x", variable="item")], "triggers": trigger("child"),
                 "transitions": [{"to": "b", "condition": when("found", 3, ">")}]}, {"id": "b"})  # fmt: skip
    other(tree, "child", {"id": "run", "steps": [step("do", triggers=[trigger("inner")])]})
    other(tree, "inner")
    walked = await walker.walk(client(), "w")
    assert [place for place in walked.places if place[0] == "inner"] == [("inner", "run")] * 2
    assert walked.places[-1] == ("w", "b")
