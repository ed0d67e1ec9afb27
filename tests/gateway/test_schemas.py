"""Which schemas can be used, what is wrong with the others, and which of these are mended."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.schemas import inputs
from coordinator.toolsets.gateway.rules.schemas.inputs import mismatch, schema_problem, violations
from coordinator.toolsets.gateway.rules.schemas.lenient import mended

Json = dict[str, Any]
DRAFT_4, DRAFT_7 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 7))
LATEST = "https://json-schema.org/draft/2020-12/schema"


def of(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        of(x={"pattern": r"^\p{L}+$"}),
        of(x={"patternProperties": {r"^\p{L}+$": {}}}),
        of(x={"$ref": DRAFT_7}, y={"$ref": LATEST}),
        {"$schema": DRAFT_7, **of(x={"$ref": "#/definitions/n"}), "definitions": {"n": {"not": of(n={"$ref": "#"})}}},
        {**of(x={"$ref": "#/components/y"}), "components": {"y": {"type": "string"}}},
        {**of(x={}), "$defs": {"unused": {"$ref": "#/nowhere"}}},
        {**of(x={"$ref": "urn:it#here"}), "$defs": {"y": {"$id": "urn:it", "$anchor": "here"}}},
        {"$id": "urn:tree", "$dynamicAnchor": "node", **of(next={"$dynamicRef": "#node"})},
        of(x={"enum": [{"$ref": "#/nowhere", "pattern": "("}], "const": {"$ref": 1}}),
    ],
)  # fmt: skip
def test_what_is_valid_can_be_used(schema: Json) -> None:
    assert schema_problem(schema) == ""


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (of(x={"pattern": "("}), "properties.x.pattern: '(' is not a 'regex': a '(' is not closed"),
        (of(x={"patternProperties": {"(": {}}}), "'(' is not a 'regex': a '(' is not closed"),
        ({"$schema": DRAFT_4, **of(x={"patternProperties": {"(": {}}})}, "'(' is not a 'regex': a '(' is not closed"),
        (of(x={"$ref": "#/$defs/y"}), "$ref '#/$defs/y' leads nowhere"),
        (of(x={"items": {"anyOf": [{"$ref": "#y"}]}}), "$ref '#y' leads nowhere"),
        (of(x={"$ref": "http://example.org/y"}), "$ref 'http://example.org/y' leads nowhere"),
        ({**of(x={"$ref": "#/$defs/y"}), "$defs": {"y": {"$ref": "#/nowhere"}}}, "$ref '#/nowhere' leads nowhere"),
        (of(x={"$ref": "#/properties/y/type"}, y={"type": "string"}), "leads to what is no JSON Schema"),
        ({**of(x={"$ref": "#/z"}), "z": {"type": "banana"}}, "leads to what is no JSON Schema"),
        ({"allOf": [{"$ref": "#"}]}, "references lead in a circle"),
        (of(x={"anyOf": [{"type": "null"}, {"$ref": "#/properties/x"}]}), "references lead in a circle"),
        (of(x={"$dynamicRef": "#nobody"}), "$dynamicRef '#nobody' leads nowhere"),
        ({"type": "string"}, "must describe an object"),
    ],
)
def test_what_cannot_be_used_says_why(schema: Json, why: str) -> None:
    assert why in schema_problem(schema)


def test_a_schema_at_fault_is_not_blamed_on_the_caller() -> None:
    """It was not checked before: an instance may have kept its definition from an earlier release."""
    with pytest.raises(Rejected, match="Nothing was carried out: arguments cannot be checked") as caught:
        checks.checked(of(x={"$ref": "#/nowhere"}), {"x": 1}, "arguments")
    assert (caught.value.code, caught.value.details) == ("EXECUTOR_FAILED", {"errorClass": "permanent_error"})
    assert checks.checked(of(x={"$ref": "#/nowhere"}), {}, "arguments") == {}


def test_an_inner_draft_has_the_same_patterns() -> None:
    """The library takes a class of its own there, which has Python's patterns and no end."""
    schema = of(x={"$schema": DRAFT_7, **of(a={"pattern": r"^\p{L}$"})})
    assert violations(schema, {"x": {"a": "é"}}, "input") == []
    assert violations(schema, {"x": {"a": "1"}}, "input") == [("input.x.a", r"'1' does not match '^\\p{L}$'")]
    slow = of(x={"$schema": DRAFT_7, **of(a={"pattern": "^(a|aa)+$"})})
    ((_, why),) = violations(slow, {"x": {"a": "a" * 5_000 + "b"}}, "input")
    assert why == "takes too long to be checked against its schema"


INNER = st.sampled_from(
    [
        {"properties": {"a": {"type": "integer"}}},
        {"properties": {"b": True}, "additionalProperties": False},
        {"patternProperties": {"^a": {}}},
        {"patternProperties": {"c$": {"type": "string"}}, "unevaluatedProperties": {"type": "null"}},
        {"$ref": "#/$defs/named"},
        {"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}},
        {"dependentSchemas": {"a": {"properties": {"c": {}}}}},
    ]
)
OUTER = st.fixed_dictionaries(
    {"unevaluatedProperties": st.sampled_from([False, {"type": "integer"}])},
    optional={key: st.lists(INNER, min_size=1, max_size=2) for key in ("allOf", "anyOf", "oneOf")},
)
VALUES = st.dictionaries(st.text("abc", min_size=1, max_size=2), st.sampled_from(["x", 1, None]), max_size=3)


@given(outer=OUTER, inner=INNER, value=VALUES)
def test_unevaluated_properties_match_the_library(outer: Json, inner: Json, value: Json) -> None:
    whole = {**outer, **inner, "$defs": {"named": {"properties": {"ab": {"type": "string"}}}}}
    whole["unevaluatedProperties"] = outer["unevaluatedProperties"]
    valid = jsonschema.Draft202012Validator(whole).is_valid(value)
    assert (violations(whole, value, "input") == []) == valid


def test_unevaluated_properties_have_the_patterns_of_ecma_262() -> None:
    schema = {
        "$ref": "#/$defs/b",
        "unevaluatedProperties": False,
        "$defs": {"b": {"patternProperties": {r"^\p{L}": {}}}},
    }
    assert violations(schema, {"é": 1}, "input") == []
    assert violations(schema, {"1": 1}, "input") == [
        ("input", "Unevaluated properties are not allowed ('1' was unexpected)")
    ]


MENDED: list[tuple[Json, Json]] = [
    (of(a={"type": "string", "required": True}, b={"required": False}),
     {**of(a={"type": "string"}, b={}), "required": ["a"]}),
    ({**of(a={"required": True}), "required": ["b", "b"]}, {**of(a={}), "required": ["b", "a"]}),
    ({**of(a={}), "required": "a"}, {**of(a={}), "required": ["a"]}),
    ({**of(a={}), "required": None}, of(a={})),
    ({"type": "object", "properties": None}, {"type": "object"}),
    ({"type": "object", "properties": []}, of()),
    (of(a=None, b=[], c="int"), of(a={}, b={}, c={"type": "integer"})),
    (of(a={"type": "str"}, b={"type": "String"}, c={"type": "any"}, d={"type": None}),
     of(a={"type": "string"}, b={"type": "string"}, c={}, d={})),
    (of(a={"type": ["String", None]}), of(a={"type": ["string", "null"]})),
    (of(a={"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}),
     of(a={"exclusiveMinimum": 1, "maximum": 9})),
    (of(a={"items": [{"type": "int"}], "additionalItems": False}),
     of(a={"prefixItems": [{"type": "integer"}], "items": False})),
    (of(a={"description": 7, "title": None, "default": None, "enum": [None], "examples": "x"}),
     of(a={"default": None, "enum": [None]})),
    (of(a={"anyOf": [{"type": "int"}, None], "items": {"required": True}}),
     of(a={"anyOf": [{"type": "integer"}, {}], "items": {}})),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "meant"), MENDED)
def test_what_is_plainly_meant_is_mended(sent: Json, meant: Json) -> None:
    assert schema_problem(sent)
    assert mended(sent) == meant
    assert schema_problem(meant) == ""


def test_what_is_not_plain_is_not_mended() -> None:
    for schema in (of(a={"type": "banana"}), of(a={"minLength": "three"}), of(a={"pattern": "("}), of(a=7)):
        assert schema_problem(mended(schema)), schema


KEYWORDS = [
    "type", "properties", "required", "items", "prefixItems", "additionalItems", "additionalProperties", "anyOf", "not",
    "patternProperties", "if", "exclusiveMinimum", "minimum", "maximum", "exclusiveMaximum", "$ref", "$dynamicRef",
    "$defs", "$schema", "$id", "enum", "const", "default", "title", "description", "pattern", "format", "uniqueItems",
    "dependentSchemas", "unevaluatedProperties", "minLength",
]  # fmt: skip
ANYTHING = st.recursive(
    st.sampled_from(
        [None, True, False, 0, -1, 1.5, "", "a", "int", "String", "object", "#", "#/$defs/a", "(", DRAFT_4, LATEST]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=4),
    max_leaves=12,
)


@given(schema=st.dictionaries(st.sampled_from(KEYWORDS), ANYTHING, max_size=5), value=ANYTHING)
def test_whatever_a_server_sends_is_used_or_refused(schema: Json, value: Any) -> None:
    made = mended(schema)
    for one in (schema, made):
        if schema_problem(one) == "":
            assert one is schema or mended(one) == one
            for content in (value, {"a": value}):
                assert isinstance(violations(one, content, "input"), list)
        assert isinstance(mismatch(one, value), str)


VALID = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"enum": [None]}, {"const": None}, {"minimum": 1, "default": None}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("ab"), inner)}),
        st.fixed_dictionaries({"items": inner, "description": st.just("x")}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=6,
)


@given(inner=VALID)
def test_valid_schemas_stay_as_they_are(inner: Any) -> None:
    schema = of(x=inner)
    assert inputs.schema_problem(schema) == ""
    assert mended(schema) == schema
