"""The outline of a flow: every step once, in an order that people can follow."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from coordinator.toolsets.flows.rules.check import check_flow
from coordinator.toolsets.flows.rules.outline import Line, outline
from coordinator.toolsets.flows.rules.spec import Flow, as_given
from tests.flows.graphs import FORK, RIGHT, end, step
from tests.flows.programs import Json, flow_of, programs


def checked(flow: Json) -> Flow:
    return check_flow(flow, {}, lambda name: "", with_results=False)


def shown(lines: list[Line]) -> list[Any]:
    """The outline as nested lists: ``key``, ``>key`` for a reference, ``[key, [condition, ...], ...]``."""
    found: list[Any] = []
    for line in lines:
        name = f">{line.key}" if line.again else line.key
        found.append([name, *([condition, *shown(way)] for condition, way in line.ways)] if line.ways else name)
    return found


def test_the_join_is_drawn_below_its_fork() -> None:
    assert shown(outline(checked(FORK))) == [["start", ["", "a"], ["", "b"]], "end"]


def test_alternatives_that_meet_continue_below() -> None:
    flow = checked(RIGHT["alternatives meet"])
    assert shown(outline(flow)) == [["start", ["result == true", "a"], ["result != nil", "b"]], "end"]


def test_alternatives_that_end_apart() -> None:
    flow = checked(RIGHT["alternatives end apart"])
    assert shown(outline(flow)) == [["start", ["result == true", "a"], ["result == nil", "b"]]]


def test_a_choice_around_a_fork() -> None:
    flow = checked(RIGHT["a choice around a fork"])
    fork = ["fork", ["", "a"], ["", "b"]]
    assert shown(outline(flow)) == [["start", ["result == true", fork], ["result == nil"]], "end"]


def test_steps_shared_by_two_of_three_alternatives_are_references() -> None:
    arms = [("result == true", "a"), ("result == false", "b"), ("result == nil", "c")]
    flow = checked(
        {
            "start": step("s", branch=[{"if": condition, "then": then} for condition, then in arms]),
            "a": step("a", next="x"),
            "b": step("b", next="x"),
            "c": end("c"),
            "x": end("x"),
        }
    )
    ways = [["result == true", "a", "x"], ["result == false", "b", ">x"], ["result == nil", "c"]]
    assert shown(outline(flow)) == [["start", *ways]]


def keys(lines: list[Line]) -> list[str]:
    found = [line.key for line in lines if not line.again]
    for line in lines:
        for _, way in line.ways:
            found += keys(way)
    return found


@given(programs())
@settings(max_examples=50)
def test_every_step_is_drawn_once(program: Any) -> None:
    flow = checked(flow_of(program))
    assert sorted(keys(outline(flow))) == sorted(flow)


@given(programs())
@settings(max_examples=12)
def test_a_stored_flow_round_trips(program: Any) -> None:
    flow = checked(flow_of(program))
    assert checked({key: as_given(one) for key, one in flow.items()}) == flow
