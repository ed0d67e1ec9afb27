"""Which ways out of an activity there are, which of several to one target counts, and why others are closed."""

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
    """One that has a decision where branches are given."""
    named = [{"id": f"b{number}", "label": "B", **branch} for number, branch in enumerate(branches)]
    decisions = [{"id": "d", "name": "D", "branches": named}] if named else []
    given = {"id": name, "version": "1.0.0", "name": name, "transitions": list(transitions), "decisions": decisions}
    return msgspec.convert({**given, **more}, Activity)


def ways(*activities: Activity, **more: Any) -> Routes:
    """Out of the first of them; ``a`` to ``c`` are there besides."""
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


def test_the_option_that_was_chosen_last_closes_what_there_is_besides() -> None:
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


def test_a_branch_that_leads_nowhere_ends_the_workflow() -> None:
    assert ways(activity("x", branches=[{}])).open == (Route(END, rank=1),)


def test_an_activity_that_is_called_like_an_end_is_none() -> None:
    assert ends("workflow-end", {})
    assert not ends("workflow-end", {"workflow-end": activity("workflow-end")})
    # Nor does an end go because it was once skipped as an activity.
    assert ways(activity("x", [{"to": "workflow-end"}]), skipped_activities=["workflow-end"]).to("workflow-end")


def test_a_default_comes_after_what_has_no_condition() -> None:
    found = ways(activity("x", [{"to": "b", "isDefault": True}, {"to": "a"}]))
    assert found.open == (Route("a", rank=1), Route("b", rank=2))


def test_of_several_closed_ways_to_one_target_the_first_says_why() -> None:
    found = ways(activity("x", [{"to": "a", "condition": FALSE}, {"to": "a", "condition": OTHER}]))
    assert found == Routes((), {"a": NEEDS_FALSE}, over=True)


def test_what_one_way_leads_to_is_not_closed_by_another() -> None:
    found = ways(activity("x", [{"to": "a", "condition": FALSE}], [{"transitionTo": "a"}]))
    assert found == Routes((Route("a", rank=1),), {})


def test_of_several_open_ways_to_one_target_the_best_counts_and_of_equals_the_first() -> None:
    found = ways(activity("x", [{"to": "a"}], [{"transitionTo": "a"}, {"transitionTo": "b", "condition": TRUE}]))
    assert found.open == (open_way("b"), Route("a", rank=1))
    found = ways(activity("x", [{"to": "a"}], [{"transitionTo": "a", "condition": TRUE}]))
    assert found.open == (open_way("a"),)


def test_what_lies_behind_a_skipped_activity_is_as_good_as_the_way_there() -> None:
    first = activity("x", [{"to": "s"}, {"to": "b"}])
    skipped = activity("s", [{"to": "a", "condition": TRUE}, {"to": "c", "isDefault": True}])
    found = ways(first, skipped, skipped_activities=["s"])
    assert found.open == (open_way("a", rank=1), Route("b", rank=1))
    assert found.closed == {
        "s": Closed("it was skipped"),
        "c": Closed("it is the default, and true == true holds", (Want("true", "==", False),)),
    }


def test_a_skipped_activity_is_looked_beyond_again_by_a_better_way() -> None:
    first = activity("x", [{"to": "s"}], [{"transitionTo": "s", "condition": TRUE}])
    skipped = activity("s", [{"to": "a", "condition": TRUE}, {"to": "x"}])
    found = ways(first, skipped, skipped_activities=["s"])
    assert found.open[0] == open_way("a")


def test_nobody_gets_beyond_a_skipped_activity_by_a_way_that_is_closed() -> None:
    found = ways(
        activity("x", [{"to": "s", "condition": FALSE}]), activity("s", [{"to": "a"}]), skipped_activities=["s"]
    )
    assert found == Routes((), {"s": NEEDS_FALSE}, over=True)


def test_skipped_activities_may_lead_to_each_other() -> None:
    circle = activity("s", [{"to": "t"}]), activity("t", [{"to": "s"}, {"to": "a"}])
    found = ways(activity("x", [{"to": "s"}]), *circle, skipped_activities=["s", "t"])
    assert found == Routes((Route("a", rank=1),), {"s": Closed("it was skipped"), "t": Closed("it was skipped")})
