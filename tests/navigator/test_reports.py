"""Actions blocked by variables: how answers show them, and the effects of reports."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.definitions import Condition, holds
from coordinator.toolsets.navigator.rules import variables
from coordinator.toolsets.navigator.rules.wanted import Want, opposites, wants
from tests.navigator import walker
from tests.navigator.client import Json, offered
from tests.navigator.workflows import Make, loop, question, step, when, write
from tests.support.workflows import Tree

anyio = pytest.mark.anyio

HOW = "To open what is blocked, report {} in variables of nav_action, with action report or another one"


def blocked(now: Json) -> dict[str, Any]:
    """The actions blocked by variables: target or loop, and the wanted values."""
    entries = now["availableActions"]["blocked"]
    return {one.get("activity") or one["loop"]: one["variables"] for one in entries if "variables" in one}


@anyio
async def test_a_blocked_way_names_its_variables(tree: Tree, client: Make) -> None:
    both = {"type": "and", "conditions": [when("good"), when("level", 3, ">")]}
    write(tree, {"id": "a", "steps": [step("one"), step("two")], "transitions": [{"to": "b", "condition": both}]},
          {"id": "b"})  # fmt: skip
    nav = client()
    now = await nav.start("w")
    assert now["availableActions"]["blocked"] == []
    now = await nav.must(now, "complete_step", step_id="one")
    wanted = [{"name": "good", "wanted": True}, {"name": "level", "wanted": 3, "operator": ">"}]
    # Before the last step, so that the result can be reported with it.
    entry = {"action": "transition", "activity": "b", "reason": "needs good == true AND level > 3", "variables": wanted}
    assert entry in now["availableActions"]["blocked"]
    assert now["message"] == f"Completed step 'one'. {HOW.format('good, level')}"
    waiting = await nav.must(now, "complete_step", step_id="two")
    assert offered(waiting) == ["get_resource"]
    assert entry in waiting["availableActions"]["blocked"]
    assert waiting["message"].endswith(HOW.format("good, level"))
    assert "completed" not in waiting
    assert (await nav("nav_situation", state=waiting["state"]))["message"].endswith(HOW.format("good, level"))
    refused = await nav.do(waiting, "transition", activity_id="b")
    assert "Report good, level in the argument variables" in refused["error"]["message"]
    half = await nav.must(waiting, "report", variables={"good": True})
    assert half["message"] == f"Reported good. {HOW.format('level')}"
    assert blocked(half)["b"] == [{"name": "level", "wanted": 3, "operator": ">"}]
    now = await nav.must(half, "report", variables={"level": 4})
    assert offered(now, "required") == ["transition b"]
    now = await nav.must(half, "transition", activity_id="b", variables={"level": 4})
    assert now["completed"]


@anyio
async def test_completion_can_depend_on_a_report(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "transitions": [{"to": "b", "condition": when("more")}]},
          {"id": "b"})  # fmt: skip
    nav = client()
    waiting = await nav.must(await nav.start("w"), "complete_step", step_id="one")
    assert blocked(waiting) == {
        "b": [{"name": "more", "wanted": True}], "__terminal__": [{"name": "more", "wanted": False}]
    }  # fmt: skip
    assert await nav.refused(waiting, "transition", activity_id="__terminal__") == "INVALID_TRANSITION"
    for action in ({"action": "report"}, {"action": "transition", "activity_id": "__terminal__"}):
        over = await nav.must(waiting, **action, variables={"more": False})
        assert over["completed"]
        assert "Workflow 'w' is completed" in over["message"]


@anyio
async def test_a_default_value_counts_as_reported(tree: Tree, client: Make) -> None:
    write(tree, {"id": "a", "steps": [step("one")], "transitions": [{"to": "b", "condition": when("more")}]},
          {"id": "b"}, variables=[{"name": "more", "type": "boolean", "defaultValue": False}])  # fmt: skip
    nav = client()
    assert (await nav.must(await nav.start("w"), "complete_step", step_id="one"))["completed"]


@anyio
@pytest.mark.parametrize("default", [False, True])
async def test_ways_back_are_not_taken_on_a_guess(tree: Tree, client: Make, default: bool) -> None:
    """For example a validation leads forward, or back by default: its failure must be reported."""
    declared = [{"name": "passed", "type": "boolean", **({"defaultValue": False} if default else {})}]
    checks = {"id": "check", "steps": [step("run")], "transitions": [
        {"to": "done", "condition": when("passed")}, {"to": "make", "isDefault": True}]}  # fmt: skip
    write(tree, {"id": "make", "steps": [step("do")], "transitions": [{"to": "check"}]}, checks, {"id": "done"},
          variables=declared)  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="do")
    now = await nav.must(now, "transition", activity_id="check")
    now = await nav.must(now, "complete_step", step_id="run")
    assert offered(now) == ["get_resource"]
    wanted = {"done": [{"name": "passed", "wanted": True}], "make": [{"name": "passed", "wanted": False}]}
    assert blocked(now) == wanted
    assert await nav.refused(now, "transition", activity_id="make") == "INVALID_TRANSITION"
    now = await nav.must(now, "report", variables={"passed": False})
    assert offered(now, "required") == ["transition make"]
    now = await nav.must(now, "transition", activity_id="make")
    # Whether it has failed the second time must be reported again.
    now = await nav.must(now, "complete_step", step_id="do")
    now = await nav.must(now, "transition", activity_id="check")
    now = await nav.must(now, "complete_step", step_id="run")
    assert offered(now) == ["get_resource"]
    assert blocked(now) == wanted
    now = await nav.must(now, "transition", activity_id="done", variables={"passed": True})
    assert now["completed"]


@anyio
async def test_reports_of_earlier_visits_do_not_open_ways_back(tree: Tree, client: Make) -> None:
    options: list[Json] = [
        {"id": "bad", "label": "Bad", "effect": {"setVariable": {"bad": True}}},
        {"id": "fine", "label": "Fine"},
    ]
    write(tree, {"id": "make", "transitions": [{"to": "look"}]},
          {"id": "look", "checkpoints": [question("how", *options)], "transitions": [
              {"to": "make", "condition": when("bad")}, {"to": "done", "isDefault": True}]},
          {"id": "done"})  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "transition", activity_id="look")
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="how", option_id="bad")
    assert offered(now, "required") == ["transition make"]
    now = await nav.must(now, "transition", activity_id="make")
    again = await nav.must(now, "transition", activity_id="look")
    now = await nav.must(again, "respond_to_checkpoint", checkpoint_id="how", option_id="fine")
    assert offered(now) == ["get_resource"]
    assert blocked(now) == {"done": [{"name": "bad", "wanted": False}], "make": [{"name": "bad", "wanted": True}]}
    assert "needs bad == true, reported in this visit" in str(now["availableActions"]["blocked"])
    assert (await nav.must(now, "transition", activity_id="done", variables={"bad": False}))["completed"]
    # An answer in this visit counts as a report.
    now = await nav.must(again, "respond_to_checkpoint", checkpoint_id="how", option_id="bad")
    assert offered(now, "required") == ["transition make"]


@anyio
async def test_what_comes_again_after_a_return_is_asked_for_again(tree: Tree, client: Make) -> None:
    write(tree, {"id": "plan", "transitions": [{"to": "make"}]},
          {"id": "make", "transitions": [{"to": "check"}]},
          {"id": "check", "transitions": [
              {"to": "look", "condition": when("passed")}, {"to": "make", "isDefault": True}]},
          {"id": "look", "transitions": [
              {"to": "done", "condition": when("good")}, {"to": "plan", "isDefault": True}]},
          {"id": "done"})  # fmt: skip
    nav = client()
    now = await nav.must(await nav.start("w"), "transition", activity_id="make")
    now = await nav.must(now, "transition", activity_id="check")
    now = await nav.must(now, "transition", activity_id="look", variables={"passed": True})
    now = await nav.must(now, "transition", activity_id="plan", variables={"good": False})
    assert nav.state(now).ahead == ["make", "check", "look"]
    for passed in (False, False, True):
        if offered(now, "required") == ["transition make"]:
            now = await nav.must(now, "transition", activity_id="make")
        now = await nav.must(now, "transition", activity_id="check")
        assert nav.state(now).ahead == ["look"]
        assert offered(now) == ["get_resource"]
        assert blocked(now) == {
            "look": [{"name": "passed", "wanted": True}],
            "make": [{"name": "passed", "wanted": False}],
        }
        now = await nav.must(now, "report", variables={"passed": passed})
        assert offered(now, "required") == ["transition look" if passed else "transition make"]
    now = await nav.must(now, "transition", activity_id="look")
    assert offered(now) == ["get_resource"]
    assert (await nav.must(now, "transition", activity_id="done", variables={"good": True}))["completed"]


@anyio
async def test_a_loop_shows_the_condition_that_blocks_it_or_ends_it(tree: Tree, client: Make) -> None:
    going = when("state", "open")
    write(tree, {"id": "a", "steps": [step("one")], "loops": [loop("l", "x", kind="while", condition=going)]})
    nav = client()
    now = await nav.start("w")
    entry = {"action": "advance_loop", "loop": "l", "reason": 'needs state == "open"',
             "variables": [{"name": "state", "wanted": "open"}]}  # fmt: skip
    assert now["availableActions"]["blocked"] == [entry]
    refused = await nav.do(now, "advance_loop", loop_id="l")
    assert "Report state in the argument variables" in refused["message"]
    now = await nav.must(now, "complete_step", step_id="one", variables={"state": "open"})
    assert now["availableActions"]["required"] == [
        {"action": "advance_loop", "loop": "l", "description": "Start loop: L"}
    ]
    now = await nav.must(now, "advance_loop", loop_id="l")
    now = await nav.must(now, "complete_step", step_id="x")
    entry = now["availableActions"]["required"][0]
    assert entry["variables"] == [{"name": "state", "wanted": "open", "operator": "!="}]
    assert entry["description"] == 'Next iteration: L (continues while state == "open")'
    assert walker.next_call(now)[1]["variables"] == {"state": "not open"}
    ended = await nav.must(now, "report", variables={"state": "closed"})
    assert ended["availableActions"]["required"][0]["description"] == "End loop: L"
    assert (await nav.must(ended, "advance_loop", loop_id="l"))["completed"]


@anyio
async def test_a_required_loop_keeps_the_activity_incomplete(tree: Tree, client: Make) -> None:
    optional = {**loop("soft", "z", over="none"), "steps": [step("z", required=False)]}
    loops = [loop("l", "x", over="plan.items"), optional, loop("kind", "y", kind="doWhile", condition=when("on"))]
    write(tree, {"id": "a", "loops": loops, "transitions": [{"to": "b"}]}, {"id": "b"})
    nav = client()
    now = await nav.start("w")
    assert offered(now) == ["advance_loop l", "get_resource", "advance_loop soft"]
    answer = await nav.do(now, "transition", activity_id="b")
    assert answer["error"]["message"] == "Activity 'a' is not complete: loop 'l', loop 'kind' left"
    # With a known list nothing has to be passed; an empty one means nothing to do.
    full = await nav.start("w", plan={"items": [1]})
    assert full["availableActions"]["required"] == [
        {"action": "advance_loop", "loop": "l", "description": "Start loop: L"}
    ]
    assert offered(await nav.start("w", plan={"items": []}), "required") == ["advance_loop kind"]
    # An empty list from the caller overrides the known one.
    now = await nav.must(full, "advance_loop", loop_id="l", loop_items=[])
    assert now["message"].startswith("Completed loop 'l' without an iteration: there are no items")
    now = await nav.must(now, "advance_loop", loop_id="kind")
    assert await nav.refused(now, "transition", activity_id="b") == "ACTIVITY_NOT_COMPLETE"
    now = await nav.must(now, "complete_step", step_id="y")
    now = await nav.must(now, "advance_loop", loop_id="kind")
    assert offered(now, "required") == ["transition b"]
    more = await nav.must(full, "advance_loop", loop_id="l", loop_items=[1, 2, 3])
    more = await nav.must(more, "complete_step", step_id="x")
    more = await nav.must(more, "advance_loop", loop_id="l", loop_items=[])
    assert more["message"].startswith("Completed loop 'l' after iteration 1")


@anyio
async def test_a_loop_takes_the_place_of_the_steps_that_it_names(tree: Tree, client: Make) -> None:
    each = {**loop("each", over="items"), "activities": ["two"]}
    write(tree, {"id": "a", "steps": [step("one"), step("two"), step("three")], "loops": [each]})
    nav = client()
    now = await nav.start("w")
    assert await nav.refused(now, "complete_step", step_id="two") == "STEP_NOT_FOUND"
    now = await nav.must(now, "complete_step", step_id="one")
    assert offered(now, "required") == ["advance_loop each"]
    assert "step" not in now["position"]
    now = await nav.must(now, "advance_loop", loop_id="each", loop_items=["p", "q"])
    for _ in "pq":
        assert now["position"]["step"] == {"id": "two", "index": 1, "name": "Two"}
        now = await nav.must(now, "complete_step", step_id="two")
        now = await nav.must(now, "advance_loop", loop_id="each")
    assert now["position"]["step"] == {"id": "three", "index": 3, "name": "Three"}
    assert (await nav.must(now, "complete_step", step_id="three"))["completed"]


names = st.sampled_from(("u", "v", "w.x"))
values = st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from(("p", "q")))
operators = st.sampled_from(("==", "!=", "exists", "notExists"))
comparison = st.builds(
    lambda name, operator, value: {"type": "simple", "variable": name, "operator": operator, "value": value},
    names, operators, values,
)  # fmt: skip
ordered = st.builds(
    lambda name, operator, value: {"type": "simple", "variable": name, "operator": operator, "value": value},
    names, st.sampled_from(("<", "<=", ">", ">=")), st.integers(-2, 2),
)  # fmt: skip
leaves = st.one_of(comparison, ordered)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "not", "condition": one}, inner),
        st.builds(lambda kind, some: {"type": kind, "conditions": some}, st.sampled_from(("and", "or")),
                  st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=5,
)  # fmt: skip
worlds = st.dictionaries(st.sampled_from(("u", "v")), values, max_size=2)


def reported(found: tuple[Want, ...], world: Json) -> Json:
    """The variables after all wanted values were reported."""
    after = dict(world)
    for want in found:
        entry = {"wanted": want.value, "operator": want.operator}
        if want.operator == "exists":
            del entry["wanted"]
        variables.assign(after, want.name, walker.wanted_value(entry | ({"operator": "=="} if len(entry) == 1 else {})))
    return after


def mentioned(said: Json) -> list[str]:
    """The variables of a condition, with repetitions."""
    inner = [said["condition"]] if "condition" in said else said.get("conditions", [])
    return [said["variable"]] if "variable" in said else [name for one in inner for name in mentioned(one)]


@given(conditions, worlds, st.booleans())
def test_reporting_the_wanted_values_suffices(said: Json, world: Json, truth: bool) -> None:
    condition = msgspec.convert(said, Condition)
    found = wants(condition, world, truth)
    assert (found == ()) is (holds(condition, world) is truth)
    asked = mentioned(said)
    if len(set(asked)) == len(asked):
        # Otherwise it may contradict itself.
        assert holds(condition, reported(found, world)) is truth


@given(leaves, worlds)
def test_the_opposite_of_the_wanted_values_closes_the_way(said: Json, world: Json) -> None:
    condition = msgspec.convert(said, Condition)
    found = wants(condition, world)
    if found:
        assert not holds(condition, reported(opposites(found), world))
