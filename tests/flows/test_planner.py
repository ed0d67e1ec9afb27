"""The planner against a plain interpreter of programs, and against random flows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.steps.model import Arrival, Failure, NewStep, Plan, Success
from coordinator.toolsets.flows.rules import planner
from coordinator.toolsets.flows.rules.check import check_flow
from coordinator.toolsets.flows.rules.spec import Flow, Spec, pack, unpack
from tests.flows.machine import Machine
from tests.flows.programs import CONDITIONS, RESULTS, Json, flow_of, meaning, programs, results_of


def checked(flow: Json, **given: Any) -> Flow:
    return check_flow(flow, given, lambda name: "", with_results=False)


@given(programs(), st.data())
@settings(max_examples=25)
def test_flows_match_the_interpreter(program: Any, data: st.DataObject) -> None:
    flow = unpack(pack(Spec(checked(flow_of(program))))).flow
    expected = meaning(program)
    machine = Machine(flow, results_of(program))
    machine.run(lambda ready: data.draw(st.sampled_from(ready)))
    assert len(set(machine.ran)) == len(machine.ran)
    event("stuck" if expected.stuck else "complete")
    if expected.stuck:
        # Which siblings had begun when it failed depends on the order; so does which of two stuck ones came first.
        assert machine.status == "failed"
        return
    assert machine.status == "completed"
    assert {key for key in machine.ran if "-" not in key} == expected.run
    place = {key: position for position, key in enumerate(machine.ran)}
    for key, earlier in expected.before.items():
        assert all(place[one] < place[key] for one in earlier if one in place and key in place)


KEYS = ("start", "a", "b", "c", "d", "e", "f")


@st.composite
def wild_flows(draw: st.DrawFn) -> Json:
    """Flows with arbitrary edges, valid or not."""
    keys = KEYS[: draw(st.integers(1, len(KEYS)))]
    targets = st.sampled_from(keys[1:] or keys)

    def follow(number: int) -> Json:
        kind = draw(st.sampled_from(["next", "next", "branch", "parallel", "join", "join", "done"]))
        # Mostly forward, otherwise nearly all would have loops.
        forward = st.sampled_from(keys[number + 1 :]) if number + 1 < len(keys) and draw(st.booleans()) else targets
        if kind in ("next", "join"):
            return {kind: draw(forward)}
        if kind == "branch":
            arms = st.lists(st.tuples(st.sampled_from(list(CONDITIONS)), forward), min_size=1, max_size=3)
            return {"branch": [{"if": condition, "then": then} for condition, then in draw(arms)]}
        if kind == "parallel":
            return {"parallel": draw(st.lists(forward, min_size=1, max_size=3, unique=True))}
        return {"done": True}

    return {key: {"name": key, "tool": "give", **follow(number)} for number, key in enumerate(keys)}


@given(wild_flows(), st.data())
@settings(max_examples=40)
def test_an_accepted_flow_cannot_strand_or_repeat_a_step(flow: Json, data: st.DataObject) -> None:
    try:
        accepted = checked(flow)
    except ToolFailure:
        return
    event("accepted")
    results = {key: data.draw(st.sampled_from(RESULTS)) for key in flow}
    machine = Machine(accepted, results)
    machine.run(lambda ready: data.draw(st.sampled_from(ready)))
    assert len(set(machine.ran)) == len(machine.ran)
    assert machine.status == "completed" or machine.error.startswith("no branch")


def test_no_matching_branch_names_the_step() -> None:
    flow = checked(
        {
            "start": {"name": "check", "tool": "give", "branch": [{"if": "result == true", "then": "yes"}]},
            "yes": {"name": "yes", "tool": "give", "done": True},
        }
    )
    plan = planner.after(flow, "start", Success(1))
    assert plan == Plan(error="no branch matched the result of step 'check'")


def test_the_first_matching_branch_wins() -> None:
    arms = [{"if": "result != nil", "then": "one"}, {"if": "result == true", "then": "two"}]
    flow = checked(
        {
            "start": {"name": "check", "tool": "give", "branch": arms},
            "one": {"name": "one", "tool": "give", "done": True},
            "two": {"name": "two", "tool": "give", "done": True},
        }
    )
    assert planner.after(flow, "start", Success(True)) == Plan((NewStep("one"),))


def test_branches_are_counted_per_fork() -> None:
    flow = checked(
        {
            "start": {"name": "outer", "tool": None, "parallel": ["a", "b"]},
            "a": {"name": "a", "tool": None, "parallel": ["c", "d"]},
            "c": {"name": "c", "tool": "give", "join": "e"},
            "d": {"name": "d", "tool": "give", "join": "e"},
            "e": {"name": "e", "tool": "give", "join": "end"},
            "b": {"name": "b", "tool": "give", "join": "end"},
            "end": {"name": "end", "tool": "give", "done": True},
        }
    )
    assert planner.after(flow, "c", Success()) == Plan(arrive=Arrival("a", NewStep("e")))
    assert planner.after(flow, "e", Success()) == Plan(arrive=Arrival("start", NewStep("end")))
    steps = (NewStep("start", "done"), NewStep("a", "done"), NewStep("c"), NewStep("d"), NewStep("b"))
    assert planner.begin(flow) == Plan(steps, (("start", 2), ("a", 2)))


@pytest.mark.parametrize(("gate", "waits"), [(None, True), (True, True), (False, False)])
def test_a_step_without_a_tool_is_a_gate_unless_it_says_otherwise(gate: bool | None, waits: bool) -> None:
    spec = {"name": "wait", "tool": None, "done": True, "gate": gate}
    assert checked({"start": spec})["start"].gate is waits


def test_a_failed_step_ends_the_workflow_unless_it_says_otherwise() -> None:
    flow = checked(
        {
            "start": {"name": "try", "tool": "give", "next": "more"},
            "more": {"name": "more", "tool": "give", "on_error": "continue",
                     "branch": [{"if": "result == nil", "then": "end"}, {"if": "result != nil", "then": "go"}]},
            "go": {"name": "go", "tool": "give", "done": True},
            "end": {"name": "end", "tool": "give", "done": True},
        }
    )  # fmt: skip
    failure = Failure("out of paper", "tool_error")
    assert planner.after(flow, "start", failure) == Plan(error="step 'try' failed: out of paper")
    assert planner.after(flow, "more", failure) == Plan((NewStep("end"),))


def test_a_step_keeps_its_queue_and_priority() -> None:
    flow = checked(
        {
            "start": {"name": "s", "tool": "give", "queue": "gpu", "priority": "high", "delay_ms": 5, "next": "wait"},
            "wait": {"name": "w", "tool": None, "timeout_ms": 1000, "next": "later"},
            "later": {"name": "l", "tool": None, "gate": False, "delay_ms": 7, "done": True},
        }
    )
    assert planner.begin(flow) == Plan((NewStep("start", "ready", "gpu", "high", 5),))
    assert planner.after(flow, "start", Success()) == Plan((NewStep("wait", "gate", expires_ms=1000),))
    assert planner.after(flow, "wait", Success()) == Plan((NewStep("later", delay_ms=7),))


def test_steps_that_do_nothing_are_done_at_once() -> None:
    nothing = {"tool": None, "gate": False}
    flow = checked(
        {
            "start": {"name": "s", **nothing, "branch": [{"if": "result == nil", "then": "a"}]},
            "a": {"name": "a", **nothing, "next": "b"},
            "b": {"name": "b", **nothing, "done": True},
        }
    )
    # A worker ends workflows, so it sees one step of each.
    assert planner.begin(flow) == Plan((NewStep("start"),))
    assert planner.after(flow, "start", Success()) == Plan((NewStep("a", "done"), NewStep("b", "done")), complete=True)
    flow = checked(
        {
            "start": {"name": "s", **nothing, "parallel": ["a", "b"]},
            "a": {"name": "a", "tool": "give", "join": "c"},
            "b": {"name": "b", **nothing, "branch": [{"if": "result == true", "then": "d"}]},
            "d": {"name": "d", **nothing, "join": "c"},
            "c": {"name": "c", **nothing, "done": True},
        }
    )
    stuck = "no branch matched the result of step 'b'"
    assert planner.begin(flow) == Plan((NewStep("start"),))
    assert planner.after(flow, "start", Success()) == Plan((NewStep("b", "done"),), error=stuck)
