"""A hostile agent: it skips children, replays older states, acts for suspended workflows, and changes states.

It knows the definitions and makes any call with any state that the server has signed for it. A state past a trigger
still comes only from a state in which the child's last step was completed.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from coordinator.errors import ToolFailure
from coordinator.toolsets.navigator.rules import token
from coordinator.toolsets.navigator.rules.state import State
from tests.navigator import walker
from tests.navigator.client import Client, Json
from tests.navigator.workflows import Make, loop, other, question, step, trigger, when, write
from tests.support.workflows import Tree

pytestmark = pytest.mark.anyio

CALLS = 1_000
FORGERIES = 300


def definitions(tree: Tree) -> None:
    """A child behind a step, another one in a loop, which runs a child of its own; questions that only users answer."""
    first = {
        "id": "a",
        "steps": [step("before"), step("dispatch", triggers=[trigger("child")]), step("after")],
        "checkpoints": [question("sure", condition=when("risky"))],
        "transitions": [{"to": "b"}],
    }
    second = {
        "id": "b",
        "loops": [loop("each", "x", variable="item")],
        "triggers": trigger("outer"),
        "transitions": [{"to": "c", "condition": when("good")}, {"to": "a", "isDefault": True}],
    }
    write(tree, first, second, {"id": "c", "steps": [step("last")]})
    other(tree, "child")
    other(tree, "outer", {"id": "o", "steps": [step("go", triggers=[trigger("child")])]})


class Call(NamedTuple):
    """An attempted call."""

    tool: str
    arguments: Json


def attempts(dice: random.Random) -> Iterator[Call]:
    """Any call, sensible or not."""
    steps = ("before", "dispatch", "after", "x", "do", "go", "last")
    targets = ("a", "b", "c", "__terminal__")
    reports: list[Json] = [{name: value} for name in ("good", "risky") for value in (True, False)]
    while True:
        yield dice.choice(
            [
                Call("nav_start", {"workflow_id": dice.choice(("child", "outer", "w"))}),
                Call("nav_action", {"action": "complete_step", "step_id": dice.choice(steps)}),
                Call("nav_action", {"action": "complete_step", "step_id": dice.choice(steps)}),
                Call("nav_action", {"action": "advance_loop", "loop_id": "each", "loop_items": ["p", "q"]}),
                Call("nav_action", {"action": "advance_loop", "loop_id": "each"}),
                Call("nav_action", {"action": "transition", "activity_id": dice.choice(targets)}),
                Call("nav_action", {"action": "respond_to_checkpoint", "checkpoint_id": "sure", "option_id": "yes"}),
                Call("nav_action", {"action": "report", "variables": dice.choice(reports)}),
            ]
        )


def outermost(state: State) -> State:
    return [state, *state.suspended()][-1]


def depth(state: State) -> int:
    return len(state.suspended())


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 4))])
async def test_only_the_child_gets_past_a_trigger(tree: Tree, client: Make, seed: int) -> None:
    definitions(tree)
    nav = client()
    dice = random.Random(seed)
    situations = [await nav.start("w")]
    made = 0
    for number, (tool, arguments) in enumerate(attempts(dice)):
        if number == CALLS:
            break
        # Mostly the newest state, to get far; often any older one. Sometimes the required action.
        before = situations[-1] if dice.random() < 0.6 else dice.choice(situations)
        if dice.random() < 0.2 and "completed" not in before:
            tool, arguments = walker.next_call(before)
        after = await nav(tool, **arguments | {"state": before["state"]})
        if not after["success"]:
            assert after["state"] == before["state"]
            continue
        made += 1
        old, new = nav.state(before), nav.state(after)
        check(tool, arguments, old, new)
        situations.append(after)
    assert made > 100
    places = {(one["position"]["workflow"], one["position"]["activity"]["id"]) for one in situations}
    assert places >= {("w", "a"), ("child", "run"), ("w", "b"), ("outer", "o")}


def check(tool: str, arguments: Json, old: State, new: State) -> None:
    """The invariant of every step from one state to the next."""
    here, above = outermost(old), outermost(new)
    fresh = {*above.completed_steps} - {*here.completed_steps}
    if tool == "nav_start":
        assert depth(new) == depth(old) + 1
        assert (above.status, above.completed_steps) == ("suspended", here.completed_steps)
    elif depth(old):
        # While suspended, the outer workflow changes only by the end of the child.
        if depth(new) == depth(old):
            assert [one.state_version for one in new.suspended()] == [one.state_version for one in old.suspended()]
        else:
            assert depth(new) == depth(old) - 1
            assert arguments["action"] == "complete_step"
            assert arguments["step_id"] in ("do", "go")
    if here.current_activity == above.current_activity == "a" and 2 in fresh:
        assert here.children == {"/2": 1}
    if here.current_activity == "a" != above.current_activity:
        assert set(here.completed_steps) == {1, 2, 3}
        assert here.children == {"/2": 1}
    if here.current_activity == "b" and here.active_loops:
        one, other_one = here.active_loops[0].current_iteration, [loop.current_iteration for loop in above.active_loops]
        if other_one != [one]:
            # The next iteration, or the end of the loop: the child of this iteration was run.
            assert here.children == {"each/": 1}
    for place, count in above.children.items():
        if count > here.children.get(place, 0):
            assert depth(old) == 1
            assert depth(new) == 0


async def test_no_report_removes_a_checkpoint(tree: Tree, client: Make) -> None:
    """A raised checkpoint is for the user, whatever the agent reports afterwards."""
    questions = [question("soft", required=False), question("sure", condition=when("risky"))]
    write(tree, {"id": "a", "checkpoints": questions, "loops": [loop("l")], "transitions": [{"to": "b"}]}, {"id": "b"})
    nav = client()
    now = await nav.start("w", risky=True)
    calm = {"variables": {"risky": False}}
    assert await nav.refused(now, "report", **calm) == "CHECKPOINT_BLOCKING"
    assert await nav.refused(now, "transition", activity_id="b", **calm) == "CHECKPOINT_BLOCKING"
    assert await nav.refused(now, "advance_loop", loop_id="l", loop_items=[], **calm) == "CHECKPOINT_BLOCKING"
    soft = {"checkpoint_id": "soft", "option_id": "yes"}
    assert await nav.refused(now, "respond_to_checkpoint", **soft, **calm) == "CHECKPOINT_BLOCKING"
    assert (await nav.must(now, "respond_to_checkpoint", **soft))["checkpoint"]["id"] == "sure"
    answered = await nav.must(now, "respond_to_checkpoint", checkpoint_id="sure", option_id="yes", **calm)
    assert answered["availableActions"]["required"][0]["activity"] == "b"


async def test_variables_of_an_answer_do_not_remove_the_next_checkpoint(tree: Tree, client: Make) -> None:
    calm = {"id": "calm", "label": "Calm", "effect": {"setVariable": {"risky": False}}}
    questions = [question("first", calm, {"id": "yes", "label": "Yes"}), question("second", condition=when("risky"))]
    write(tree, {"id": "a", "checkpoints": questions})
    nav = client()
    now = await nav.start("w", risky=True)
    yes = {"checkpoint_id": "first", "option_id": "yes"}
    assert await nav.refused(now, "respond_to_checkpoint", **yes, variables={"risky": False}) == "CHECKPOINT_BLOCKING"
    assert (await nav.must(now, "respond_to_checkpoint", **yes, variables={"x": 1}))["checkpoint"]["id"] == "second"
    # The user's choice may.
    assert (await nav.must(now, "respond_to_checkpoint", checkpoint_id="first", option_id="calm"))["completed"]


async def test_a_child_cannot_be_exchanged_for_another_walk(tree: Tree, client: Make) -> None:
    """An independently completed workflow is no child, and a child returns only to its own parent."""
    definitions(tree)
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="before")
    own = await nav.must(await nav.start("child"), "complete_step", step_id="do")
    assert own["completed"]
    for state in (own, now):
        assert not (await nav.do(state, "complete_step", step_id="dispatch"))["success"]
    one = await nav("nav_start", workflow_id="child", state=now["state"])
    two = await nav("nav_start", workflow_id="child", state=now["state"], initial_variables={"x": 1})
    back = [await nav.must(state, "complete_step", step_id="do") for state in (one, two)]
    assert [nav.state(state).children for state in back] == [{"/2": 1}] * 2
    # After its return, the child's older state returns to the same place, not further.
    further = await nav.must(back[0], "complete_step", step_id="dispatch")
    again = await nav.must(one, "complete_step", step_id="do")
    assert nav.state(again).completed_steps == [1]
    assert nav.state(further).completed_steps == [1, 2]


@pytest.mark.parametrize("nested", [False, True])
async def test_modified_states_are_rejected(tree: Tree, client: Make, nested: bool) -> None:
    definitions(tree)
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="before")
    if nested:
        now = await nav("nav_start", workflow_id="child", state=now["state"])
    dice = random.Random(5)
    raw = base64.b64decode(now["state"].removeprefix(token.PREFIX))
    for _ in range(FORGERIES):
        at, many = dice.randrange(len(raw)), dice.randrange(1, 4)
        changed = raw[:at] + dice.randbytes(many) + raw[at + many :]
        if changed == raw:
            continue
        with pytest.raises(ToolFailure) as caught:
            await nav("nav_situation", state=token.PREFIX + base64.b64encode(changed).decode())
        assert caught.value.code == "invalid_state"


async def test_forged_states_are_rejected(tree: Tree, client: Make) -> None:
    """Also with the signature of another state or of another purpose."""
    definitions(tree)
    nav = client()
    now = await nav.must(await nav.start("w"), "complete_step", step_id="before")
    held: Any = nav.state(now)
    held.children = {"/2": 1}
    member = token.packed(held)
    real = base64.b64decode(now["state"].removeprefix(token.PREFIX))
    for mac in (real[-token.MAC_BYTES :], bytes(16), (await nav.secrets.sign("navigator-state:", member)).mac):
        with pytest.raises(ToolFailure, match="Invalid token signature"):
            await nav.do({"state": token.token(member, mac)}, "complete_step", step_id="dispatch")
    other_project = Client(nav.store, nav.project + "-2", nav.definitions)
    with pytest.raises(ToolFailure, match="not issued here for this project"):
        await other_project("nav_start", workflow_id="child", state=now["state"])
