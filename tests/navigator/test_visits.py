"""Which progress counts across visits of an activity, and completion of the workflow."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from tests.navigator.client import Json
from tests.navigator.workflows import Make, loop, question, step, when, write
from tests.support.workflows import Tree

pytestmark = pytest.mark.anyio


async def test_a_skip_lasts_until_the_activity_is_entered(tree: Tree, client: Make) -> None:
    skip = [question(name, {"id": "o", "label": "O", "effect": {"skipActivities": ["b"]} | more})
            for name, more in (("c", {}), ("d", {"transitionTo": "b"}))]  # fmt: skip
    write(tree, {"id": "a", "checkpoints": skip, "transitions": [{"to": "c"}]},
          {"id": "b", "transitions": [{"to": "a"}]}, {"id": "c"})  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "respond_to_checkpoint", checkpoint_id="c", option_id="o")
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="d", option_id="o")
    assert nav.state(now).skipped_activities == ["b"]
    now = await nav.must(now, "transition", activity_id="b")
    assert nav.state(now).skipped_activities == []
    # A completed activity is not skipped while it is visited again.
    now = await nav.must(now, "transition", activity_id="a")
    assert (nav.state(now).completed_activities, nav.state(now).ahead) == ([], ["b"])


async def test_variables_of_an_action_can_reopen_a_completed_workflow(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "transitions": [{"to": "b", "condition": when("more")}]},
          {"id": "b", "steps": [step("one")]})  # fmt: skip
    nav = client()
    now = await nav.start("w", more=False)
    assert now["completed"]
    now = await nav.must(now, "transition", activity_id="b", variables={"more": True})
    state = nav.state(now)
    assert (state.status, state.completed_activities) == ("running", ["a"])
    assert "completed" not in now


async def test_variables_of_an_action_can_complete_a_workflow(tree: Tree, client: Make) -> None:
    steps = [step("one", condition=when("todo"))]
    write(tree, {"id": "a", "steps": steps, "transitions": [{"to": "workflow-end"}]})
    nav = client()
    now = await nav.start("w", todo=True)
    assert await nav.refused(now, "transition", activity_id="workflow-end") == "ACTIVITY_NOT_COMPLETE"
    now = await nav.must(now, "transition", activity_id="workflow-end", variables={"todo": False})
    state = nav.state(now)
    assert (state.status, state.current_step) == ("completed", UNSET)


async def test_reentering_an_activity_begins_a_new_visit(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "checkpoints": [question("c")], "loops": [loop("l", "x")],
                 "transitions": [{"to": "a"}]})  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "respond_to_checkpoint", checkpoint_id="c", option_id="yes")
    now = await nav.must(now, "complete_step", step_id="one")
    now = await nav.must(now, "advance_loop", loop_id="l", loop_items=[])
    now = await nav.must(now, "transition", activity_id="a")
    assert now["checkpoint"]["id"] == "c"
    assert now["position"]["step"]["id"] == "one"
    state = nav.state(now)
    assert (state.completed_steps, state.completed_loops, state.answers) == ([], [], {})


async def test_a_loop_removed_while_active_begins_again(tree: Tree, client: Make) -> None:
    def activity(*loops: Json) -> Json:
        return {"id": "a", "loops": list(loops), "transitions": [{"to": "a"}]}

    write(tree, activity(loop("l", "x", "y")))
    before = client()
    now = await before.must(await before.start("w"), "advance_loop", loop_id="l", loop_items=[1])
    now = await before.must(now, "complete_step", step_id="x")
    write(tree, activity())
    now = await client().must(now, "transition", activity_id="a")
    assert before.state(now).active_loops == []
    now = await before.must(now, "advance_loop", loop_id="l", loop_items=[1])
    assert now["position"]["step"]["id"] == "x"


async def test_a_checkpoint_missing_at_reentry_is_asked_again(tree: Tree, client: Make) -> None:
    """As when two front-ends differ for a moment: its answer from an earlier visit does not count."""
    asked = question("c", {"id": "o", "label": "O", "effect": {"transitionTo": "a"}})

    def activity(*questions: Json) -> Json:
        return {"id": "a", "checkpoints": list(questions), "transitions": [{"to": "a"}, {"to": "workflow-end"}]}

    write(tree, activity(asked))
    before = client()
    now = await before.must(await before.start("w"), "respond_to_checkpoint", checkpoint_id="c", option_id="o")
    write(tree, activity())
    now = await client().must(now, "transition", activity_id="a")
    now = await before("nav_situation", state=now["state"])
    assert now["checkpoint"]["id"] == "c"
    assert await before.refused(now, "transition", activity_id="workflow-end") == "ACTIVITY_NOT_COMPLETE"
