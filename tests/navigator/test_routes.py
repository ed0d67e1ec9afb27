"""The ways out of an activity: which of several to one target counts, and why others are closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.definitions import END, Activity, Condition
from coordinator.toolsets.navigator.rules.routes import Closed, Route, Routes, ends, routes
from coordinator.toolsets.navigator.rules.state import State
from coordinator.toolsets.navigator.rules.wanted import Want

Json = dict[str, Any]
TRUE, FALSE, OTHER = (
    {"type": "simple", "variable": name, "operator": "==", "value": True} for name in ("true", "false", "other")
)


NEEDS_FALSE = Closed("needs false == true", (Want("false", "==", True),))


def open_way(target: str, rank: int = 0) -> Route:
    """A way whose condition holds."""
    return Route(target, rank, msgspec.convert(TRUE, Condition))


def activity(name: str, transitions: Sequence[Json] = (), branches: Sequence[Json] = (), **more: Any) -> Activity:
    """An activity, with a decision if branches are given."""
    named = [{"id": f"b{number}", "label": "B", **branch} for number, branch in enumerate(branches)]
    decisions = [{"id": "d", "name": "D", "branches": named}] if named else []
    given = {"id": name, "version": "1.0.0", "name": name, "transitions": list(transitions), "decisions": decisions}
    return msgspec.convert({**given, **more}, Activity)


def ways(*activities: Activity, **more: Any) -> Routes:
    """The ways out of the first one; ``a`` to ``c`` also exist."""
    state = State(
        workflow_id="w",
        workflow_version="1.0.0",
        started_at="",
        updated_at="",
        current_activity=activities[0].id,
        variables={"true": True, "false": False, "other": False},
        **more,
    )
    there = {name: activity(name) for name in "abc"} | {one.id: one for one in activities}
    return routes(activities[0], state, there, {})


def test_the_option_chosen_last_closes_all_other_ways() -> None:
    targets = {"k": "ghost", "l": "a", "m": "b"}
    asking = activity(
        "x",
        [{"to": "a"}, {"to": "ghost"}, {"to": "b"}],
        checkpoints=[
            {"id": name, "name": name, "message": "?", "options": [{"id": "o", "label": "O", "transitionTo": target}]}
            for name, target in targets.items()
        ],
    )
    found = ways(asking, answers={"m": "o", "l": "o", "k": "o"})
    assert found == Routes((Route("a"),), {"b": Closed("the option chosen leads to 'a'")})


def test_a_branch_without_a_target_ends_the_workflow() -> None:
    assert ways(activity("x", branches=[{}])).open == (Route(END, rank=1),)


def test_an_activity_named_like_an_end_is_not_an_end() -> None:
    assert ends("workflow-end", {})
    assert not ends("workflow-end", {"workflow-end": activity("workflow-end")})
    # Nor does skipping an activity of that name remove the end.
    assert ways(activity("x", [{"to": "workflow-end"}]), skipped_activities=["workflow-end"]).to("workflow-end")


def test_a_default_comes_after_ways_without_a_condition() -> None:
    found = ways(activity("x", [{"to": "b", "isDefault": True}, {"to": "a"}]))
    assert found.open == (Route("a", rank=1), Route("b", rank=2))


def test_the_first_closed_way_to_a_target_gives_the_reason() -> None:
    found = ways(activity("x", [{"to": "a", "condition": FALSE}, {"to": "a", "condition": OTHER}]))
    assert found == Routes((), {"a": NEEDS_FALSE}, over=True)


def test_a_closed_way_does_not_close_another_to_its_target() -> None:
    found = ways(activity("x", [{"to": "a", "condition": FALSE}], [{"transitionTo": "a"}]))
    assert found == Routes((Route("a", rank=1),), {})


def test_the_best_open_way_to_a_target_counts_and_the_first_of_equals() -> None:
    found = ways(activity("x", [{"to": "a"}], [{"transitionTo": "a"}, {"transitionTo": "b", "condition": TRUE}]))
    assert found.open == (open_way("b"), Route("a", rank=1))
    found = ways(activity("x", [{"to": "a"}], [{"transitionTo": "a", "condition": TRUE}]))
    assert found.open == (open_way("a"),)


def test_ways_past_a_skipped_activity_have_the_rank_of_the_way_to_it() -> None:
    first = activity("x", [{"to": "s"}, {"to": "b"}])
    skipped = activity("s", [{"to": "a", "condition": TRUE}, {"to": "c", "isDefault": True}])
    found = ways(first, skipped, skipped_activities=["s"])
    assert found.open == (open_way("a", rank=1), Route("b", rank=1))
    assert found.closed == {
        "s": Closed("it was skipped"),
        "c": Closed("it is the default, and true == true holds", (Want("true", "==", False),)),
    }


def test_a_skipped_activity_is_followed_again_by_a_better_way() -> None:
    first = activity("x", [{"to": "s"}], [{"transitionTo": "s", "condition": TRUE}])
    skipped = activity("s", [{"to": "a", "condition": TRUE}, {"to": "x"}])
    found = ways(first, skipped, skipped_activities=["s"])
    assert found.open[0] == open_way("a")


def test_a_closed_way_to_a_skipped_activity_is_not_followed() -> None:
    found = ways(
        activity("x", [{"to": "s", "condition": FALSE}]), activity("s", [{"to": "a"}]), skipped_activities=["s"]
    )
    assert found == Routes((), {"s": NEEDS_FALSE}, over=True)


def test_skipped_activities_may_form_a_cycle() -> None:
    circle = activity("s", [{"to": "t"}]), activity("t", [{"to": "s"}, {"to": "a"}])
    found = ways(activity("x", [{"to": "s"}]), *circle, skipped_activities=["s", "t"])
    assert found == Routes((Route("a", rank=1),), {"s": Closed("it was skipped"), "t": Closed("it was skipped")})
