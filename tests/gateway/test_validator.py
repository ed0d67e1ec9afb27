"""Validation takes bounded time, and agrees with the library."""

from __future__ import annotations

import threading
import time
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.schemas import validator
from coordinator.toolsets.gateway.rules.schemas.inputs import violations
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, states

SLOW: list[tuple[Json, Any]] = [
    ({"pattern": r"\s+$"}, " " * 60_000 + "x"),
    ({"pattern": "^(a|aa)+$"}, "a" * 5_000 + "b"),
    ({"patternProperties": {r"^\s*(.*?)\s*$": {}}}, {" " * 20_000 + "x" + " " * 20_000 + "y": 1}),
    ({"patternProperties": {r"\s+$": {}}, "additionalProperties": False}, {" " * 60_000 + "x": 1}),
    ({"items": {"oneOf": [{"type": "string"}, {"type": "array"}, {"type": "object"}, {"const": 0}]}}, [0] * 30_000),
]


@pytest.mark.parametrize(("inner", "value"), SLOW)
def test_slow_validation_is_aborted(inner: Json, value: Any) -> None:
    began = time.thread_time()
    (told,) = violations({"type": "object", "properties": {"a": inner}}, {"a": value}, "input")
    assert told == ("input", "takes too long to be checked against its schema")
    # Other bounds would take minutes, or hours.
    assert time.thread_time() - began < 40


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[0-9]+\.[0-9]+$", "1.0", "1.0\n"),
        (r"^\d+$", "12", "\u0661\u0662"),
        (r"^[\d$]+$", "1$", "1$\n"),
        (r"^\w[\w-]*$", "a_1-", "\u00e9"),
        (r"^\D\W$", "\u0661\u00e9", "1-"),
        (r"^[\D7][\W_]$", "\u0661\u00e9", "1a"),
        (r"^[^\D][^\W]$", "1a", "\u0661\u00e9"),
        (r"^\$[^$]$", "$a", "$$"),
        (r"^a$|^b$", "b", "b\n"),
    ],
)
def test_patterns_mean_what_json_schema_says(pattern: str, good: str, bad: str) -> None:
    one: Json = {"properties": {"a": {"pattern": pattern}}}
    assert violations(one, {"a": good}, "input") == []
    assert violations(one, {"a": bad}, "input") == [("input.a", f"{bad!r} does not match {pattern!r}")]
    names: Json = {"patternProperties": {pattern: {}}, "additionalProperties": False}
    assert violations(names, {good: 1}, "input") == []
    assert len(violations(names, {bad: 1}, "input")) == 1


def test_many_items_are_rejected_quickly() -> None:
    began = time.thread_time()
    schema: Json = {"properties": {"a": {"uniqueItems": True}, "b": {"items": {"type": "string"}}}}
    assert violations(schema, {"a": [None, *range(9_000)]}, "input") == []
    assert len(violations(schema, {"b": [0] * 30_000}, "input")) == 10
    assert time.thread_time() - began < 20


@pytest.mark.parametrize(
    ("value", "unique"),
    [([1, 1.0], False), ([1, True, 0, False, None, "1"], True), ([{"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}], False),
     ([[1], [1, 1]], True), ([0.0, -0.0], False)],
)  # fmt: skip
def test_items_are_compared_as_json(value: Any, unique: bool) -> None:
    assert (violations({"properties": {"a": {"uniqueItems": True}}}, {"a": value}, "input") == []) is unique


SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.just({"a": {"type": "integer"}, "b": {"pattern": "^x"}}),
        "patternProperties": st.sampled_from([{"^a": {"type": "string"}}, {"b$": {"minimum": 2}}, {}]),
        "additionalProperties": st.sampled_from([False, True, {"type": "string"}]),
        "required": st.just(["a"]),
        "propertyNames": st.just({"pattern": "^[abc]+$"}),
    },
)
VALUES = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from(["x", "y", 1, 2.0, None, [1, 1]]))


@given(schema=SCHEMAS, value=VALUES)
def test_violations_match_the_library(schema: Json, value: Json) -> None:
    def found(made: Any) -> list[tuple[str, list[str]]]:
        return sorted((one.validator, list(map(str, one.absolute_path))) for one in made.iter_errors(value))

    validator.begin()
    assert found(validator.validator(schema)) == found(jsonschema.Draft202012Validator(schema))


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["start", "call", "submit"])
async def test_a_slow_pattern_holds_up_no_other_call(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|aa)+$"}}}
    steps = states(ready={"transitions": {"go": {"target": "done", "inputSchema": schema}}}, done={"terminal": True})
    lab = make_lab(
        workflows={"slow": {"title": "Slow", "inputSchema": schema, **steps}},
        capabilities={
            "slow_one": {"title": "Slow", "inputSchema": schema, "executor": {"kind": "cli", "command": "true"}}
        },
    )
    given = {"a": "a" * 5_000 + "b"}
    calls: dict[str, Json] = {
        "start": {"definitionId": "slow", "input": given},
        "call": {"definitionId": "proxy_default", "input": {"capability": "slow_one", **given}},
    }
    name = "workflow.start"
    if tool == "submit":
        begun = await lab.start("slow")
        name = "workflow.submit"
        at = {"workflowId": begun["workflowId"], "expectedVersion": begun["version"]}
        calls["submit"] = {**at, "transition": "go", "arguments": given}
    threads: list[int] = []

    def noting(*of: Any) -> Any:
        threads.append(threading.get_ident())
        return violations(*of)

    monkeypatch.setattr(checks, "violations", noting)
    refused = await lab.refused(name, **calls[tool])
    assert "takes too long to be checked" in str(refused)
    # The matching itself lets other threads run.
    assert threads
    assert threading.get_ident() not in threads
