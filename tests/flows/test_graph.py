"""The checks of a flow: every rule, all problems together, and no false positives."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.toolsets.flows.rules import limits
from coordinator.toolsets.flows.rules.check import check_flow
from coordinator.toolsets.flows.rules.problems import MOST, MOST_SHOWN
from tests.flows.graphs import FORK, RIGHT, end, step
from tests.flows.programs import Json

TOOLS = {"give", "take"}


def problems(flow: Json, *, with_results: bool = False, **given: Any) -> list[str]:
    """The problems of a flow."""

    def known(name: str) -> str:
        return "" if name in TOOLS else f"unknown tool {name!r}"

    try:
        check_flow(flow, given, known, with_results=with_results)
    except ToolFailure as refused:
        failure = refused
    else:
        return []
    assert failure.code == "VALIDATION_ERROR"
    found: list[str] = failure.data["problems"] if failure.data is not None else [failure.message]
    assert found
    assert all(problem in failure.message for problem in found[:MOST_SHOWN])
    return found


WRONG: dict[str, tuple[Json, str]] = {
    "no start": ({"begin": end("begin")}, 'flow: must have a "start" key, the first step'),
    "nothing": ({}, 'flow: must have a "start" key, the first step'),
    "no object": ({"start": "give"}, "flow.start: must be an object"),
    "no name": ({"start": {"tool": "give", "done": True}}, "flow.start.name: is required"),
    "blank name": ({"start": end(" ")}, "flow.start.name: must be 1 to 200 characters"),
    "escape sequence": ({"start": end("a\x1b[2J")}, "flow.start.name: must not hold control characters"),
    "no tool": ({"start": {"name": "a", "done": True}}, "flow.start.tool: is required"),
    "tool of another type": ({"start": end("a", tool=5)}, "flow.start.tool: must be a tool's name or null"),
    "unknown tool": ({"start": end("a", tool="giv")}, "flow.start.tool: unknown tool 'giv'"),
    "args": ({"start": end("a", args=[])}, "flow.start.args: must be an object"),
    "unknown field": (
        {"start": end("a", timeout=5)},
        "flow.start.timeout: unknown field 'timeout'; allowed: name, tool, args, next, ",
    ),
    "nothing follows": ({"start": step("a")}, "flow.start: must have exactly one of next, branch"),
    "done: false": ({"start": step("a", done=False)}, "flow.start: must have exactly one of next, branch"),
    "two follow": (
        {"start": end("a", next="b"), "b": end("b")},
        "flow.start: must have exactly one of next, branch, parallel, join, done; it has next and done",
    ),
    "same name": ({"start": step("b", next="b"), "b": end("b")}, "flow.b.name: 'b' is also the name of flow.start"),
    "name is another's key": (
        {"start": step("s", next="a"), "a": step("b", next="b"), "b": end("c")},
        "flow.a.name: 'b' is the key of another step",
    ),
    "unknown reference": (
        {"start": step("a", next="cuont"), "count": end("count")},
        "flow.start.next: unknown step 'cuont'; did you mean 'count'?",
    ),
    "reference by name": (
        {"start": step("s", next="two"), "x": end("two")},
        "flow.start.next: 'two' is the name of a step; its key is 'x'",
    ),
    "loop": (
        {"start": step("s", next="a"), "a": step("a", next="b"), "b": step("b", next="a")},
        "flow.b: leads back to an earlier step: a > b > a; flows have no loops",
    ),
    "loop to itself": ({"start": step("s", next="start")}, "flow.start: leads back to an earlier step: start > start"),
    "unreachable": ({"start": end("s"), "x": end("x")}, "flow.x: cannot be reached from start"),
    "condition": (
        {"start": step("s", branch=[{"if": "result > 3", "then": "a"}]), "a": end("a")},
        "flow.start.branch[0].if: must be exactly one of: result == true",
    ),
    "condition with other blanks": (
        {"start": step("s", branch=[{"if": "result==true", "then": "a"}]), "a": end("a")},
        "flow.start.branch[0].if: must be exactly one of",
    ),
    "arm without then": (
        {"start": step("s", branch=[{"if": "result == true"}])},
        "flow.start.branch[0].then: must be the key of a step",
    ),
    "arm with more": (
        {"start": step("s", branch=[{"if": "result == true", "then": "a", "else": "a"}]), "a": end("a")},
        "flow.start.branch[0].else: no such field; allowed: if, then",
    ),
    "no arms": ({"start": step("s", branch=[])}, "flow.start.branch: must be a list of 1 to 50"),
    "no branches": ({"start": step("s", parallel=[])}, "flow.start.parallel: must be a list of 1 to 50"),
    "branch twice": (FORK | {"start": step("s", parallel=["a", "b", "a"])}, "flow.start.parallel[2]: 'a' is there"),
    "join outside": (
        {"start": step("s", join="a"), "a": end("a")},
        "flow.start.join: stands outside of parallel branches, so there is nothing to join",
    ),
    "done inside": (FORK | {"b": end("b")}, "flow.b.done: stands in the branch 'b' of flow.start"),
    "two joins": (
        FORK | {"b": step("b", join="other"), "other": end("other")},
        "flow.start.parallel: all its branches have to end in the same join",
    ),
    "join is a branch": (
        FORK | {"start": step("s", parallel=["a", "b", "end"]), "end": step("end", join="end")},
        "flow.a.join: 'end' is itself a branch of flow.start",
    ),
    "shared step": (
        FORK | {"a": step("a", next="c"), "b": step("b", next="c"), "c": step("c", join="end")},
        "flow.c: is reached in the branch 'a' of flow.start and in the branch 'b' of flow.start",
    ),
    "way around the join": (
        FORK | {"a": step("a", next="end")},
        "parallel branches meet in a join only",
    ),
    "inner fork joins outside": (
        FORK | {"a": step("a", parallel=["c"]), "c": step("c", join="end"), "end": end("end")},
        "flow.end: is reached",
    ),
    "gate with a tool": ({"start": end("s", gate=True)}, "flow.start.gate: only a step without a tool can be a gate"),
    "gate of another type": ({"start": end("s", tool=None, gate="no")}, "flow.start.gate: must be true or false"),
    "approver without gate": ({"start": end("s", approver_role="lead")}, "flow.start.approver_role: only a gate"),
    "retry": ({"start": end("s", retry=3)}, "flow.start.retry: must be an object with max_attempts"),
    "retry without attempts": ({"start": end("s", retry={})}, "flow.start.retry.max_attempts: is required"),
    "retry beyond": (
        {"start": end("s", retry={"max_attempts": 1000})},
        "flow.start.retry.max_attempts: must be a whole number from 1 to 100",
    ),
    "retry true": ({"start": end("s", retry={"max_attempts": True})}, "flow.start.retry.max_attempts: must be a whole"),
    "backoff": (
        {"start": end("s", retry={"max_attempts": 2, "backoff": "linear"})},
        "flow.start.retry.backoff: must be one of fixed, exponential",
    ),
    "timeout": ({"start": end("s", timeout_ms=0)}, "flow.start.timeout_ms: must be a whole number from 1"),
    "on_error": ({"start": end("s", on_error="ignore")}, "flow.start.on_error: must be one of fail, continue"),
    "queue": ({"start": end("s", queue="Big One")}, "flow.start.queue: must be a name of"),
    "priority": ({"start": end("s", priority=1)}, "flow.start.priority: must be one of high, normal, low"),
    "delay": ({"start": end("s", delay_ms=-1)}, "flow.start.delay_ms: must be a whole number from 0"),
    "namespace": (
        {"start": end("s", args={"deep": [{"q": "a {{env.HOME}}"}]})},
        "flow.start.args.deep[0].q: {{env.HOME}} means nothing; allowed: {{input.key}}",
    ),
    "absent key": (
        {"start": end("s", args={"q": "{{input.topci}}"})},
        "flow.start.args.q: {{input.topci}}: the input has no 'topci'; its keys: topic",
    ),
    "absent path": ({"start": end("s", args={"q": "{{input.topic.x}}"})}, "the input has no 'topic.x'"),
    "results": (
        {"start": end("s", args={"q": "{{steps.s.result}}"})},
        "{{steps.s.result}} means nothing without the setting flows.step_results; allowed: {{input.key}}",
    ),
}


WITH_OTHERS = ("way around the join", "inner fork joins outside", "join is a branch", "reference by name",
               "unknown reference", "join outside")  # fmt: skip
"""Cases that always cause further problems."""


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_flow_is_rejected(name: str) -> None:
    flow, problem = WRONG[name]
    found = problems(flow, topic="x")
    assert any(problem in one for one in found), found
    if name not in WITH_OTHERS:
        assert len(found) == 1, found


def test_all_problems_are_reported_together() -> None:
    flow = {
        "start": {"name": "s", "tool": "giv", "branch": [{"if": "maybe", "then": "nowhere"}]},
        "a": end("s", args={"q": "{{x}}"}),
        "b": step("b", next="b"),
    }
    found = problems(flow)
    for place in (
        "flow.start.tool", "flow.start.branch[0].if", "flow.start.branch[0].then", "flow.a.name", "flow.a.args.q",
        "flow.a: cannot", "flow.b: leads back", "flow.b: cannot",
    ):  # fmt: skip
        assert any(one.startswith(place) for one in found), (place, found)
    assert len(found) == 8


def test_a_long_list_of_problems_is_shortened_only_in_the_message() -> None:
    flow = {"start": end("s")} | {f"x{number}": end(f"x{number}") for number in range(40)}
    assert len(problems(flow)) == 40


def test_limits() -> None:
    long = {"start": step("s", next="x1")}
    long |= {f"x{n}": step(f"x{n}", next=f"x{n + 1}") for n in range(1, limits.MAX_STEPS - 1)}
    last = f"x{limits.MAX_STEPS - 1}"
    assert problems(long | {last: end(last)}) == []
    more = f"x{limits.MAX_STEPS}"
    # A step beyond the limit is not reported as unknown.
    assert problems(long | {last: step(last, next=more), more: end(more)}) == [
        "flow: has 201 steps; at most 200 are allowed"
    ]
    name = "n" * limits.MAX_NAME
    assert problems({"start": end(name)}) == []
    assert problems({"start": end(name + "n")})[0].startswith("flow.start.name: must be 1 to 200 characters")
    wide = {f"b{n}": step(f"b{n}", join="end") for n in range(limits.MAX_WIDTH)}
    fork = {"start": step("s", parallel=list(wide)), "end": end("end")}
    assert problems(fork | wide) == []
    assert problems({"start": end("s", args={"q": "x" * limits.MAX_FLOW_BYTES})})[0].startswith("flow: has 262")
    assert problems({"start": end("s")}, q="x" * limits.MAX_INPUT_BYTES)[0].startswith("input: has 1048")


@pytest.mark.parametrize("name", RIGHT)
def test_a_valid_flow_is_accepted(name: str) -> None:
    assert problems(RIGHT[name]) == []


def test_templates_of_results_are_optional() -> None:
    flow = {"start": step("s", next="b"), "b": end("b", args={"q": "{{steps.s.result.0.title}}"})}
    assert problems(flow, with_results=True) == []
    flow["b"]["args"]["q"] = "{{steps.x.result}}"
    assert "unknown step 'x'" in problems(flow, with_results=True)[0]
    flow["b"]["args"]["q"] = "{{steps.b.result}}"
    assert problems(flow, with_results=True) == [
        "flow.b.args.q: {{steps.b.result}}: 'b' does not come before this step"
    ]
    beside = FORK | {"b": step("b", join="end", args={"q": "{{steps.a.result}}"})}
    assert problems(beside, with_results=True) == [
        "flow.b.args.q: {{steps.a.result}}: 'a' does not come before this step"
    ]
    behind = FORK | {"end": end("end", args={"q": "{{steps.a.result}}"})}
    assert problems(behind, with_results=True) == []


FIELDS = ("start", "a", "name", "tool", "args", "next", "branch", "parallel", "join", "done", "if", "then", "retry",
          "gate", "max_attempts")  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["start", "a", "{{input.x}}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["start", "a", "b", ""]) | st.text(max_size=3), ANYTHING, max_size=4))
@settings(max_examples=40)
def test_any_input_is_checked_without_crashing(flow: Json) -> None:
    for problem in problems(flow, x=1):
        assert problem.startswith("flow")
        assert problem.isprintable(), problem


def test_integers_may_have_a_decimal_point() -> None:
    assert problems({"start": end("s", retry={"max_attempts": 2.0, "delay_ms": 1e3}, timeout_ms=500.0)}) == []
    for value in (2.5, 0.0, 1e300):
        found = problems({"start": end("s", retry={"max_attempts": value})})
        assert found[0].startswith("flow.start.retry.max_attempts: must be a whole number from 1 to 100"), value


def test_bounds_are_inclusive() -> None:
    retry = {"max_attempts": limits.MAX_ATTEMPTS, "max_delay_ms": limits.MAX_TIMEOUT_MS}
    most: Json = {"timeout_ms": limits.MAX_TIMEOUT_MS, "delay_ms": limits.MAX_DELAY_MS, "queue": "q" * 50}
    gate: Json = {"name": "g", "tool": None, "next": "s", "timeout_ms": limits.MAX_DELAY_MS}
    assert problems({"start": gate, "s": end("s", retry=retry, **most)}) == []
    for field, value in most.items():
        over = value + ("q" if field == "queue" else 1)
        assert problems({"start": end("s", **{field: over})})[0].startswith(f"flow.start.{field}: must be a ")
    assert problems({"start": {**gate, "timeout_ms": limits.MAX_DELAY_MS + 1}, "s": end("s")}) != []
    assert problems({"start": {**gate, "delay_ms": 1}, "s": end("s")}) == [
        "flow.start.delay_ms: a gate waits for its release and cannot be delayed"
    ]


def test_numbers_and_texts_that_cannot_be_stored_are_rejected() -> None:
    for value in (2**64, -(2**63) - 1, "\ud800"):
        assert problems({"start": end("s", args={"x": [value]})})[0].startswith("flow: may hold whole numbers")
        assert problems({"start": end("s")}, x=value)[0].startswith("input: may hold whole numbers")
    assert problems({"start": end("s", args={"x": 2**64 - 1})}, y=-(2**63)) == []


def test_checking_the_worst_flow_is_fast() -> None:
    arms = [{"if": "nonsense", "then": "y" * 20 + str(number)} for number in range(limits.MAX_WIDTH)]
    names = [f"{'x' * 20}{number}" for number in range(limits.MAX_STEPS)]
    wide = {"start": step("s", branch=arms)} | {name: step(name, branch=arms[:5]) for name in names[1:]}
    tokens = {"start": end("s", args={"q": "{{steps.a.result}}" * 12_000})}
    braces = {"start": end("s", tool="?", args={"q": "{" * 200_000})}
    deep = {"start": end("s", args={"q": "{{input." + "a." * 100_000 + "a}}"})}
    long = {"start": end("s", args={"k" * 100_000: ["{{q}}"] * 10_000})}
    alike = {name: step("ab" * 45 + name, next="ba" * 47 + str(at)) for at, name in enumerate(names)}
    lacking = {"start": end("s", args={"q": "{{input.q}} " * 10_000})}
    split = {"start": end("s", args={"q": ("{{input.split." + "a." * 45 + "b}}") * 2_400})}
    given: Json = {f"k{number}": "" for number in range(30_000)} | {"split": {}}
    members = deque([given["split"]])
    for _ in range(8_000):  # an exponential number of paths leads through them
        member = members.popleft()
        member |= {".".join("a" * dots): {} for dots in range(1, 6)}
        members.extend(member.values())
    for flow in (
        *(wide, tokens, braces, deep, long, alike, lacking, split),
        {name: end(name, tool="z" * 150 + name) for name in names},
    ):
        began = time.process_time()
        found = problems(flow, with_results=True, **given)
        assert time.process_time() - began < 10.0
        assert 1 <= len(found) <= MOST
        assert len("".join(found)) < 200_000


def test_problems_are_short_for_any_names() -> None:
    args = {f"k{number}": f"{{{{input.z{number}}}}}" for number in range(300)}
    flow = {"start": end("s", args=args), "y" * 100_000: step("y" * 100_000, next="start")}
    given: Json = {"x" * 200_000: 1}
    found = problems(flow, **given)
    assert len(found) == MOST
    assert max(map(len, found)) < 1_000


def test_arguments_that_become_too_large_are_rejected() -> None:
    text = "x" * 1_000_000
    for args in (
        {"q": "{{input.text}}" * 5},
        {"q": ["{{input.text}}"] * 5},
        {f"q{n}": "{{input.text}}" for n in "12345"},
    ):
        assert problems({"start": end("s", args=args)}, text=text) == [
            "flow.start.args: the arguments have more than 4194304 bytes when their templates are replaced"
        ]
    assert problems({"start": end("s", args={"q": "{{input.text}}" * 4})}, text=text) == []
