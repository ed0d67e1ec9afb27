"""Each action: its effects and its refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.definitions import Activity, toon
from coordinator.errors import ToolFailure
from coordinator.toolsets.navigator.rules import routes
from coordinator.toolsets.navigator.rules.loops import MOST_CARRIED_BYTES
from tests.navigator.client import Client, Json, offered
from tests.navigator.workflows import Make, loop, question, step, when, write
from tests.support.workflows import Tree

pytestmark = pytest.mark.anyio


async def test_steps_are_completed_in_any_order(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one"), step("two"), step("three")], "transitions": [{"to": "a"}]})
    nav = client()
    now = await nav.start("w")
    assert now["message"] == "Started workflow 'W' at activity 'A'"
    assert now["position"] == {
        "workflow": "w", "activity": {"id": "a", "name": "A"}, "step": {"id": "one", "index": 1, "name": "One"}
    }  # fmt: skip
    assert now["availableActions"] == {
        "required": [{"action": "complete_step", "step": "one", "description": "Complete: One"}],
        "optional": [{"action": "get_resource"}],
        "blocked": [],
    }
    assert now["checkpoint"] is None
    now = await nav.must(now, "complete_step", step_id="two")
    assert now["message"] == "Completed step 'two'"
    assert now["position"]["step"]["index"] == 1
    assert await nav.refused(now, "complete_step", step_id="two") == "STEP_ALREADY_COMPLETE"
    assert await nav.refused(now, "complete_step", step_id="four") == "STEP_NOT_FOUND"
    now = await nav.must(now, "complete_step", step_id="one")
    assert offered(now, "required") == ["complete_step three"]
    assert await nav.refused(now, "transition", activity_id="a") == "ACTIVITY_NOT_COMPLETE"
    now = await nav.must(now, "complete_step", step_id="three")
    assert "step" not in now["position"]
    assert offered(now, "required") == ["transition a"]
    assert nav.state(now).completed_steps == [2, 1, 3]


async def test_steps_with_one_id_are_completed_one_by_one(tree: Tree, client: Make) -> None:
    """A mistake of the author, but the walk must not get stuck."""
    twice = loop("l", "s", "s")
    write(tree, {"id": "a", "steps": [step("s"), step("s")], "loops": [twice], "transitions": [{"to": "b"}]},
          {"id": "b"})  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "advance_loop", loop_id="l", loop_items=[1])
    for number in (1, 2):
        assert now["position"]["step"]["index"] == number
        now = await nav.must(now, "complete_step", step_id="s")
    assert await nav.refused(now, "complete_step", step_id="s") == "STEP_ALREADY_COMPLETE"
    now = await nav.must(now, "advance_loop", loop_id="l")
    for number in (1, 2):
        assert now["position"]["step"]["index"] == number
        now = await nav.must(now, "complete_step", step_id="s")
    assert await nav.refused(now, "complete_step", step_id="s") == "STEP_ALREADY_COMPLETE"
    await nav.must(now, "transition", activity_id="b")


async def test_only_the_first_checkpoint_or_loop_with_one_id_is_offered(tree: Tree, client: Make) -> None:
    """The id refers only to that one, so every offered action is possible."""
    never = when("never")
    questions = [question("k", condition=never), question("k", {"id": "no", "label": "No"})]
    loops = [loop("l", kind="while", condition=never), loop("l", kind="doWhile", condition=never)]
    write(tree, {"id": "a", "checkpoints": questions, "loops": loops, "transitions": [{"to": "b"}]}, {"id": "b"})
    nav = client()
    now = await nav.start("w")
    assert now["checkpoint"] is None
    assert offered(now) == ["transition b", "get_resource", "respond_to_checkpoint k"]
    await nav.must(now, "respond_to_checkpoint", checkpoint_id="k", option_id="yes")


async def test_a_checkpoint_blocks_until_it_is_answered(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "checkpoints": [question("sure"), question("really")],
                 "loops": [loop("l", "x")]})  # fmt: skip
    nav = client()
    now = await nav.start("w")
    assert now["checkpoint"] == {"id": "sure", "message": "sure?", "options": [{"id": "yes", "label": "Yes"}]}
    assert now["availableActions"]["required"] == [
        {"action": "respond_to_checkpoint", "checkpoint": "sure", "description": "Sure"}
    ]
    assert now["availableActions"]["optional"] == []
    blocked = now["availableActions"]["blocked"]
    assert [one["action"] for one in blocked] == ["complete_step", "advance_loop", "transition"]
    assert {one["reason"] for one in blocked} == {"Checkpoint 'sure' must be responded to first"}
    assert await nav.refused(now, "complete_step", step_id="one") == "CHECKPOINT_BLOCKING"
    assert await nav.refused(now, "advance_loop", loop_id="l", loop_items=[1]) == "CHECKPOINT_BLOCKING"
    assert await nav.refused(now, "transition", activity_id="a") == "ACTIVITY_NOT_COMPLETE"
    shown = await nav("nav_checkpoint", state=now["state"])
    assert (shown["active"], shown["checkpoint"], shown["success"]) == (True, now["checkpoint"], True)
    unknown = {"checkpoint_id": "nothing", "option_id": "yes"}
    assert await nav.refused(now, "respond_to_checkpoint", **unknown) == "CHECKPOINT_NOT_FOUND"
    unknown = {"checkpoint_id": "sure", "option_id": "maybe"}
    assert await nav.refused(now, "respond_to_checkpoint", **unknown) == "OPTION_NOT_FOUND"
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="really", option_id="yes")
    assert now["checkpoint"]["id"] == "sure"
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="sure", option_id="yes")
    assert now["message"] == "Responded to checkpoint 'sure' with 'yes'"
    again = {"checkpoint_id": "sure", "option_id": "yes"}
    assert await nav.refused(now, "respond_to_checkpoint", **again) == "CHECKPOINT_ALREADY_RESPONDED"
    shown = await nav("nav_checkpoint", state=now["state"])
    assert (shown["active"], shown["checkpoint"], shown["message"]) == (False, None, "No active checkpoint")
    assert offered(now, "required") == ["complete_step one"]


async def test_optional_parts_can_be_done_and_block_nothing(tree: Tree, client: Make) -> None:
    write(
        tree,
        {
            "id": "a",
            "steps": [step("must"), step("may", required=False), step("if", condition=when("wanted"))],
            "checkpoints": [
                question("soft", blocking=False),
                question("extra", required=False),
                question("conditional", condition=when("wanted")),
            ],
            "transitions": [{"to": "b"}],
        },
        {"id": "b"},
    )
    nav = client()
    now = await nav.start("w")
    optional = [
        "get_resource",
        "complete_step may",
        "complete_step if",
        "respond_to_checkpoint soft",
        "respond_to_checkpoint extra",
        "respond_to_checkpoint conditional",
    ]
    assert offered(now, "optional") == optional
    done = await nav.must(now, "complete_step", step_id="must")
    assert offered(done, "required") == ["transition b"]
    assert offered(done, "optional") == optional
    assert (await nav.must(done, "transition", activity_id="b"))["position"]["activity"]["id"] == "b"
    now = await nav.must(now, "complete_step", step_id="must", variables={"wanted": True})
    assert now["checkpoint"]["id"] == "conditional"
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="conditional", option_id="yes")
    assert offered(now, "required") == ["complete_step if"]
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="extra", option_id="yes")
    now = await nav.must(now, "complete_step", step_id="may")
    now = await nav.must(now, "complete_step", step_id="if")
    assert offered(now) == ["transition b", "get_resource", "respond_to_checkpoint soft"]


async def test_effects_are_applied(tree: Tree, client: Make) -> None:
    effect = {"setVariable": {"x": 1, "deep.y": "z"}, "skipActivities": ["b", "ghost", "a"]}
    write(
        tree,
        {"id": "a", "checkpoints": [question("c", {"id": "o", "label": "O", "effect": effect})],
         "transitions": [{"to": "b", "isDefault": True}]},
        {"id": "b", "transitions": [{"to": "c", "condition": when("x", 1)}, {"to": "d", "isDefault": True}]},
        {"id": "c"}, {"id": "d"},
    )  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "respond_to_checkpoint", checkpoint_id="c", option_id="o")
    state = nav.state(now)
    assert state.variables == {"x": 1, "deep": {"y": "z"}}
    assert state.skipped_activities == ["b"]
    assert state.answers == {"c": "o"}
    assert state.state_version == 2
    # b is skipped: its own ways out replace it.
    assert offered(now, "required") == ["transition c"]
    assert {one["activity"]: one["reason"] for one in now["availableActions"]["blocked"]} == {
        "b": "it was skipped", "d": "it is the default, and x == 1 holds"
    }  # fmt: skip
    assert await nav.refused(now, "transition", activity_id="b") == "INVALID_TRANSITION"
    now = await nav.must(now, "transition", activity_id="c")
    assert nav.state(now).completed_activities == ["a", "c"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_chosen_target_is_the_only_way(tree: Tree, client: Make, beside: bool) -> None:
    leads = {"transitionTo": "b"} if beside else {"effect": {"transitionTo": "b"}}
    stays = {"id": "stay", "label": "Stay"}
    write(
        tree,
        {
            "id": "a",
            "steps": [step("one")],
            "checkpoints": [question("c", {"id": "go", "label": "Go", **leads}, stays)],
            "transitions": [{"to": "d", "isDefault": True}],
        },
        {"id": "b"},
        {"id": "d"},
    )
    nav = client()
    start = await nav.start("w")
    now = await nav.must(start, "respond_to_checkpoint", checkpoint_id="c", option_id="go")
    assert nav.state(now).answers == {"c": "go"}
    assert await nav.refused(now, "transition", activity_id="b") == "ACTIVITY_NOT_COMPLETE"
    now = await nav.must(now, "complete_step", step_id="one")
    assert offered(now, "required") == ["transition b"]
    assert now["availableActions"]["blocked"] == [
        {"action": "transition", "activity": "d", "reason": "the option chosen leads to 'b'"}
    ]
    answer = await nav.do(now, "transition", activity_id="d")
    assert answer["error"]["code"] == "INVALID_TRANSITION"
    assert answer["error"]["message"].endswith("(the option chosen leads to 'b'). Valid: b")
    now = await nav.must(start, "respond_to_checkpoint", checkpoint_id="c", option_id="stay")
    now = await nav.must(now, "complete_step", step_id="one")
    assert offered(now, "required") == ["transition d"]


async def test_a_cycle_of_skipped_activities_has_no_way_out(tree: Tree, client: Make) -> None:
    effect = {"skipActivities": ["b", "c"]}
    write(
        tree,
        {"id": "a", "checkpoints": [question("k", {"id": "o", "label": "O", "effect": effect})],
         "transitions": [{"to": "b"}]},
        {"id": "b", "transitions": [{"to": "c"}]},
        {"id": "c", "transitions": [{"to": "b"}, {"to": "b", "isDefault": True}]},
    )  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "respond_to_checkpoint", checkpoint_id="k", option_id="o")
    assert offered(now) == ["get_resource"]
    assert nav.state(now).status == "completed"


async def test_many_skipped_activities_are_followed_without_trying_every_path(
    tree: Tree, client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a{number}" for number in range(14)]
    effect = {"skipActivities": names[1:-1]}
    first = {"checkpoints": [question("k", {"id": "o", "label": "O", "effect": effect})]}
    later = [{"id": one, "transitions": [{"to": to} for to in names[number:]]} for number, one in enumerate(names, 1)]
    write(tree, later[0] | first, *later[1:])
    looked_at: list[str] = []
    lists = routes.entry_lists

    def noted(activity: Activity) -> Iterator[Any]:
        looked_at.append(activity.id)
        return lists(activity)

    monkeypatch.setattr(routes, "entry_lists", noted)
    nav = client()
    now = await nav.start("w")
    looked_at.clear()
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="k", option_id="o")
    assert offered(now) == [f"transition {names[-1]}", "get_resource"]
    # once to check for completion, once to show the ways
    assert sorted(looked_at) == sorted(2 * names[:-1])


async def test_the_better_of_two_ways_past_a_skipped_activity_counts(tree: Tree, client: Make) -> None:
    effect = {"skipActivities": ["b", "c"]}
    write(
        tree,
        {"id": "a", "checkpoints": [question("k", {"id": "o", "label": "O", "effect": effect})],
         "transitions": [{"to": "b", "isDefault": True}, {"to": "d"}],
         "decisions": [{"id": "x", "name": "X", "branches": [
             {"id": "y", "label": "Y", "transitionTo": "c", "condition": when("go")},
         ]}]},
        {"id": "b", "transitions": [{"to": "c"}]},
        {"id": "c", "transitions": [{"to": "e", "condition": when("go")}]},
        {"id": "d"},
        {"id": "e"},
    )  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w", go=True), "respond_to_checkpoint", checkpoint_id="k", option_id="o")
    assert offered(now) == ["transition e", "transition d", "get_resource"]


async def test_conditions_decide_the_target(tree: Tree, client: Make) -> None:
    ways = [
        {"to": "b", "condition": when("level", 5, ">")},
        {"to": "c", "condition": when("level", 2, ">")},
        {"to": "d", "isDefault": True},
        {"to": "ghost"},
    ]
    write(tree, {"id": "a", "transitions": ways}, {"id": "b"}, {"id": "c"}, {"id": "d"})
    nav = client()
    now: Json = {}
    for level, best, others in ((9, "b", ["c"]), (3, "c", []), (1, "d", []), (None, "d", [])):
        now = await nav.start("w", **({"level": level} if level is not None else {}))
        targets = [one for one in offered(now) if one.startswith("transition")]
        assert targets == [f"transition {target}" for target in (best, *others)]
        closed = {"b", "c", "d"} - {best, *others}
        for target in sorted(closed):
            assert await nav.refused(now, "transition", activity_id=target) == "INVALID_TRANSITION"
    assert await nav.refused(now, "transition", activity_id="ghost") == "TARGET_ACTIVITY_NOT_FOUND"
    assert await nav.refused(now, "transition", activity_id="b") == "INVALID_TRANSITION"
    now = await nav.must(now, "transition", activity_id="b", variables={"level": 6})
    assert now["message"] == "Transitioned to activity 'b'. Workflow 'w' is completed"
    assert now["completed"]
    assert nav.state(now).variables == {"level": 6}


async def test_decision_branches_are_ways_out(tree: Tree, client: Make) -> None:
    branches = [
        {"id": "good", "label": "Good", "transitionTo": "b", "condition": when("good")},
        {"id": "bad", "label": "Bad", "transitionTo": "c"},
        {"id": "ugly", "label": "Ugly", "transitionTo": "d", "isDefault": True},
        {"id": "over", "label": "Over"},
        {"id": "lost", "label": "Lost", "transitionTo": "some-step"},
    ]
    write(tree, {"id": "a", "decisions": [{"id": "x", "name": "X", "branches": branches}]},
          {"id": "b"}, {"id": "c"}, {"id": "d"})  # fmt: skip
    nav = client()
    now = await nav.start("w", good=True)
    assert offered(now)[:3] == ["transition b", "transition c", "transition __terminal__"]
    now = await nav.must(now, "transition", activity_id="b")
    now = await nav.start("w")
    assert offered(now)[0] == "transition c"
    assert await nav.refused(now, "transition", activity_id="b") == "INVALID_TRANSITION"
    await nav.must(now, "transition", activity_id="d")


async def test_the_end_of_a_workflow(tree: Tree, client: Make) -> None:
    write(
        tree,
        {"id": "a", "steps": [step("one")], "transitions": [{"to": "b", "condition": when("more")}],
         "checkpoints": [question("late", {"id": "o", "label": "O", "effect": {"setVariable": {"more": True}}},
                                  required=False)]},
        {"id": "b", "transitions": [{"to": "workflow-end"}, {"to": "a"}]},
    )  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w", more=False), "complete_step", step_id="one")
    done = nav.state(now)
    assert (done.status, done.completed_activities) == ("completed", ["a"])
    assert now["completed"]
    assert now["message"].startswith("Completed step 'one'. Workflow 'w' is completed. To open what is blocked")
    assert now["availableActions"]["required"] == []
    assert (await nav("nav_situation", state=now["state"]))["message"].startswith("Activity: A | Workflow 'w' is comp")
    # A remaining option can still open a way out.
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="late", option_id="o")
    open_again = nav.state(now)
    assert (open_again.status, open_again.completed_activities) == ("running", [])
    assert "completed" not in now
    now = await nav.must(now, "transition", activity_id="b")
    assert offered(now) == ["transition workflow-end", "transition a", "get_resource"]
    now = await nav.must(now, "transition", activity_id="workflow-end")
    assert now["message"] == "Workflow 'w' is completed"
    ended = nav.state(now)
    assert (ended.status, ended.completed_activities, ended.current_activity) == ("completed", ["a", "b"], "b")
    assert now["availableActions"] == {"required": [], "optional": [], "blocked": []}
    for action, arguments in {"transition": {"activity_id": "a"}, "complete_step": {"step_id": "one"}}.items():
        assert await nav.refused(now, action, **arguments) == "WORKFLOW_COMPLETED"


async def test_a_loop_iterates_over_its_items(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "transitions": [{"to": "a"}],
                 "loops": [loop("l", "x", "y", variable="item", over="plan.items")]})  # fmt: skip
    nav = client()
    now = await nav.start("w")
    assert offered(now) == ["complete_step one", "get_resource"]
    assert await nav.refused(now, "complete_step", step_id="x") == "STEP_NOT_FOUND"
    assert await nav.refused(now, "advance_loop", loop_id="l") == "LOOP_ITEMS_REQUIRED"
    refused = await nav.do(now, "advance_loop", loop_id="l")
    assert "an array, the items of 'plan.items'; one iteration for each, at most 100; []" in refused["message"]
    assert await nav.refused(now, "advance_loop", loop_id="nothing") == "LOOP_NOT_FOUND"
    now = await nav.must(now, "advance_loop", loop_id="l", loop_items=["p", {"q": 1}])
    assert now["message"] == "Started loop 'l' (iteration 1 of 2)"
    assert now["position"]["loop"] == {"id": "l", "name": "L", "iteration": 1, "total": 2, "item": "p"}
    assert now["position"]["step"] == {"id": "x", "index": 1, "name": "X"}
    assert now["availableActions"]["required"] == [
        {"action": "complete_step", "step": "x", "description": "Complete: X"}
    ]
    assert now["availableActions"]["optional"] == [{"action": "get_resource"}]
    assert await nav.refused(now, "advance_loop", loop_id="l") == "LOOP_STEPS_INCOMPLETE"
    now = await nav.must(now, "complete_step", step_id="x")
    assert await nav.refused(now, "complete_step", step_id="x") == "STEP_ALREADY_COMPLETE"
    now = await nav.must(now, "complete_step", step_id="y")
    assert nav.state(now).loop_steps == {"l": [1, 2]}
    assert offered(now, "required") == ["advance_loop l"]
    assert await nav.refused(now, "transition", activity_id="a") == "ACTIVITY_NOT_COMPLETE"
    situation = (await nav("nav_situation", state=now["state"]))["message"]
    assert situation == "Activity: A | Loop: L (iteration 1 of 2)"
    now = await nav.must(now, "advance_loop", loop_id="l")
    assert now["message"] == "Advanced loop 'l' to iteration 2 of 2"
    assert now["position"]["loop"]["item"] == '{"q":1}'
    assert nav.state(now).variables == {"item": {"q": 1}}
    for one in ("x", "y"):
        now = await nav.must(now, "complete_step", step_id=one)
    # A step of the activity itself may be completed in between.
    between = nav.state(await nav.must(now, "complete_step", step_id="one"))
    assert (between.completed_steps, between.loop_steps) == ([1], {"l": [1, 2]})
    now = await nav.must(now, "advance_loop", loop_id="l")
    assert now["message"] == "Completed loop 'l' after iteration 2"
    assert "loop" not in now["position"]
    assert offered(now, "required") == ["complete_step one"]
    assert nav.state(now).active_loops == []


async def test_items_come_from_the_variable_or_with_each_call(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "transitions": [{"to": "a"}], "loops": [loop("l", over="plan.items", maxIterations=2)]})
    nav = client()
    now = await nav.start("w", plan={"items": ["p", "q", "r", "s"]})
    now = await nav.must(now, "advance_loop", loop_id="l")
    assert now["position"]["loop"] == {"id": "l", "name": "L", "iteration": 1, "total": 2, "item": "p"}
    assert now["message"] == "Started loop 'l' (iteration 1 of 2); its maxIterations leaves out 2 of 4 items"
    now = await nav.must(now, "advance_loop", loop_id="l")
    assert now["position"]["loop"]["item"] == "q"
    now = await nav.must(now, "advance_loop", loop_id="l")
    assert now["message"] == "Completed loop 'l' after iteration 2"
    # Too large for the state: without them the item is unknown.
    for size, known in ((MOST_CARRIED_BYTES, True), (MOST_CARRIED_BYTES + 1, False)):
        many = ["p", "x" * (size - len('["p",""]'))]
        now = await nav.must(await nav.start("w"), "advance_loop", loop_id="l", loop_items=many)
        assert ("loopItems" in now["availableActions"]["required"][0]) is not known
        assert ("item" in (await nav.must(now, "advance_loop", loop_id="l"))["position"]["loop"]) is known
    now = await nav.must(await nav.start("w"), "advance_loop", loop_id="l", loop_items=["a", "b"])
    assert (await nav.must(now, "advance_loop", loop_id="l", loop_items=["c", "d"]))["position"]["loop"]["item"] == "d"


@pytest.mark.parametrize(
    ("action", "field", "rest", "close", "has"),
    [
        ("complete_step", "step_id", {}, "one", {"steps": [step("one")]}),
        ("respond_to_checkpoint", "checkpoint_id", {"option_id": "yes"}, "sure", {"checkpoints": [question("sure")]}),
        ("respond_to_checkpoint", "option_id", {"checkpoint_id": "sure"}, "yes", {"checkpoints": [question("sure")]}),
        ("transition", "activity_id", {}, "start", {}),
        ("advance_loop", "loop_id", {}, "each", {"loops": [loop("each", "x")]}),
    ],
)
async def test_unknown_ids_are_rejected_with_the_existing_ones(
    tree: Tree, client: Make, action: str, field: str, rest: Json, close: str, has: Json
) -> None:
    write(tree, {"id": "start", "transitions": [{"to": "start"}], **has})
    nav = client()
    now = await nav.start("w")
    answer = await nav.do(now, action, **rest, **{field: close + "x"})
    assert answer["message"].endswith(f"; did you mean '{close}'?")
    answer = await nav.do(now, action, **rest, **{field: "q" * 100_000})
    assert not answer["success"]
    assert answer["message"].endswith(f"; there are: {close}")
    assert len(toon.write(answer)) < 3_000


async def test_a_loop_may_have_a_condition_and_a_break(tree: Tree, client: Make) -> None:
    going = when("going")
    write(tree, {"id": "a", "transitions": [{"to": "a"}], "loops": [
        loop("w", "x", kind="while", condition=going, maxIterations=3, variable="going"),
        loop("d", "x", kind="doWhile", condition=going, maxIterations=3),
        loop("b", kind="forEach", breakCondition=when("enough")),
    ]})  # fmt: skip
    nav = client()
    now = await nav.start("w")
    assert offered(now) == ["advance_loop d", "get_resource", "advance_loop b"]
    assert await nav.refused(now, "advance_loop", loop_id="w") == "LOOP_CONDITION_NOT_MET"
    once = await nav.must(now, "advance_loop", loop_id="d")
    assert once["position"]["loop"]["total"] == 3
    once = await nav.must(once, "complete_step", step_id="x")
    once = await nav.must(once, "advance_loop", loop_id="d")
    assert once["message"].startswith("Completed loop 'd' after iteration 1. To open what is blocked, report going in")
    now = await nav.start("w", going=True)
    now = await nav.must(now, "advance_loop", loop_id="w")
    for number in (2, 3):
        now = await nav.must(now, "complete_step", step_id="x")
        now = await nav.must(now, "advance_loop", loop_id="w")
        assert now["position"]["loop"]["iteration"] == number
    now = await nav.must(now, "complete_step", step_id="x")
    now = await nav.must(now, "advance_loop", loop_id="w")
    assert now["message"] == "Completed loop 'w' after iteration 3"
    now = await nav.must(now, "advance_loop", loop_id="b", loop_items=[1, 2, 3])
    now = await nav.must(now, "advance_loop", loop_id="b")
    assert now["message"] == "Advanced loop 'b' to iteration 2 of 3"
    now = await nav.must(now, "advance_loop", loop_id="b", variables={"enough": True})
    assert now["message"] == "Left loop 'b' after iteration 2: enough == true"


async def test_loops_within_loops_end_from_the_inside(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("x")], "transitions": [{"to": "a"}],
                 "loops": [loop("o", "x", "z"), loop("i", "y")]})  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "advance_loop", loop_id="o", loop_items=[1])
    now = await nav.must(now, "advance_loop", loop_id="i", loop_items=[1])
    assert now["position"]["loop"]["id"] == "i"
    assert await nav.refused(now, "advance_loop", loop_id="o") == "LOOP_NOT_CURRENT"
    assert "belongs to another loop than 'i'" in (await nav.do(now, "complete_step", step_id="z"))["message"]
    now = await nav.must(now, "complete_step", step_id="y")
    now = await nav.must(now, "advance_loop", loop_id="i")
    assert now["position"]["loop"]["id"] == "o"
    # The loop's step comes before the activity's of the same id.
    now = await nav.must(now, "complete_step", step_id="x")
    assert (nav.state(now).completed_steps, nav.state(now).loop_steps) == ([], {"o": [1]})


async def test_variables_begin_with_their_defaults_and_keep_their_types(tree: Tree, client: Make) -> None:
    declared = [
        {"name": "text", "type": "string", "defaultValue": "d"},
        {"name": "flag", "type": "boolean"},
        {"name": "count", "type": "number", "defaultValue": 3},
        {"name": "list", "type": "array"},
        {"name": "map", "type": "object"},
    ]
    write(tree, {"id": "a", "steps": [step("one"), step("two")]}, variables=declared)
    nav = client()
    now = await nav.start("w", count=4, free=[1])
    assert nav.state(now).variables == {"text": "d", "count": 4, "free": [1]}
    for name, value in {"text": 1, "flag": "true", "count": True, "list": {}, "map": []}.items():
        with pytest.raises(ToolFailure, match=f"initial_variables.{name}: must be"):
            await nav.start("w", **{name: value})
        with pytest.raises(ToolFailure, match=f"variables.{name}: must be"):
            await nav.do(now, "complete_step", step_id="one", variables={name: value})
    for name in ("", ".", "a..b", "x" * 201):
        with pytest.raises(ToolFailure, match="a name has 1 to 200 characters"):
            await nav.start("w", **{name: 1})
    now = await nav.must(now, "complete_step", step_id="one", variables={"flag": False, "map": {"k": 1}, "text": None})
    assert nav.state(now).variables == {"text": None, "count": 4, "free": [1], "flag": False, "map": {"k": 1}}
    again = await nav.do(now, "complete_step", step_id="one", variables={"count": 9})
    assert nav.state(again).variables["count"] == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"action": "complete_step"}, "step_id is required"),
        ({"action": "complete_step", "step_id": ""}, "step_id is required"),
        ({"action": "respond_to_checkpoint", "checkpoint_id": "c"}, "checkpoint_id and option_id are required"),
        ({"action": "respond_to_checkpoint", "option_id": "o"}, "checkpoint_id and option_id are required"),
        ({"action": "transition"}, "activity_id is required"),
        ({"action": "advance_loop"}, "loop_id is required"),
        ({"action": "report"}, "variables is required"),
        ({"action": "report", "variables": {}}, "variables is required"),
        (
            {"action": "jump"},
            "action: must be one of complete_step, respond_to_checkpoint, transition, advance",
        ),
    ],
)
async def test_missing_arguments_of_actions_are_rejected(nav: Client, arguments: Json, said: str) -> None:
    state = (await nav.start("change"))["state"]
    with pytest.raises(ToolFailure) as caught:
        await nav.unchecked("nav_action", state=state, **arguments)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.message.startswith(said)


async def test_definitions_may_change_during_a_walk(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "transitions": [{"to": "b"}]}, {"id": "b"})
    before = client()
    now = await before.start("w")
    write(tree, {"id": "a", "steps": [step("one"), step("new")]}, {"id": "b"}, version="1.1.0")
    after = client()
    shown = await after("nav_situation", state=now["state"])
    assert shown["message"] == "Activity: A | Step 1: One | Definition changed: begun with version 1.0.0, now 1.1.0"
    now = await after.must(now, "complete_step", step_id="new")
    write(tree, {"id": "b"}, version="2.0.0")
    gone = client()
    shown = await gone("nav_situation", state=now["state"])
    assert shown["position"]["activity"] == {"id": "a", "name": "a"}
    assert shown["availableActions"] == {"required": [], "optional": [], "blocked": []}
    assert (await gone.do(now, "complete_step", step_id="one"))["error"]["code"] == "ACTIVITY_NOT_FOUND"
    (tree.root / "w.toon").unlink()
    for tool, more in (("nav_situation", {}), ("nav_action", {"action": "complete_step", "step_id": "one"})):
        with pytest.raises(ToolFailure, match="Workflow not found: w"):
            await client()(tool, state=now["state"], **more)
