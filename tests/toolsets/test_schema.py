"""The schemas of a contract in tools/list."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.toolsets.schema import (
    ContractError,
    describe,
    input_schema,
    nesting,
    output_schema,
)
from coordinator.toolsets.tool import Tool
from tests.support.contracts import recorded_page, undocumented
from tests.transport.rig import Add, Echo, Echoed, Nothing, Rig, Sum, Tree


class Inner(Struct, forbid_unknown_fields=True):
    """Inside."""

    value: Annotated[int, Meta(description="A value.")]


class Outer(Struct, forbid_unknown_fields=True):
    """Never shown: the tool has a description."""

    inner: Annotated[Inner, Meta(description="What is inside.")]
    more: Annotated[list[Inner], Meta(description="More of it.", max_length=3)] = []


class Leaky(Struct):
    inner: Inner


class Maybe(Struct):
    always: Annotated[int, Meta(description="Always there.")]
    sometimes: Annotated[int | UnsetType, Meta(description="Without a default, and yet not always there.")]


class Other(Struct):
    other: Annotated[str, Meta(description="Another result.")]
    part: Annotated[Inner | UnsetType, Meta(description="A part.")] = UNSET


def test_arguments_have_descriptions_and_bounds_and_are_closed() -> None:
    assert input_schema(Add) == {
        "type": "object",
        "properties": {
            "left": {"description": "First summand.", "type": "integer", "minimum": -1000, "maximum": 1000},
            "right": {"description": "Second summand.", "type": "integer", "default": 1},
        },
        "required": ["left"],
        "additionalProperties": False,
    }


def test_nested_schemas_are_inlined() -> None:
    assert input_schema(Outer) == {
        "type": "object",
        "properties": {
            "inner": {
                "description": "What is inside.",
                "type": "object",
                "properties": {"value": {"description": "A value.", "type": "integer"}},
                "required": ["value"],
                "additionalProperties": False,
            },
            "more": {
                "description": "More of it.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"value": {"description": "A value.", "type": "integer"}},
                    "required": ["value"],
                    "additionalProperties": False,
                },
                "maxItems": 3,
                "default": [],
            },
        },
        "required": ["inner"],
        "additionalProperties": False,
    }


def test_recursive_arguments_refer_to_themselves() -> None:
    schema = input_schema(Tree)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]})
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"name": "a", "children": [{"name": "b", "children": [{"nam": "c"}]}]})


def test_a_contract_that_drops_unknown_arguments_is_a_defect() -> None:
    with pytest.raises(ContractError, match="Leaky: every argument struct needs forbid_unknown_fields"):
        input_schema(Leaky)


@pytest.mark.parametrize("struct", [Add, Echo, Nothing, Tree, Outer])
def test_schemas_agree_with_decoding(struct: type[Struct]) -> None:
    """The oracle is the validator of the official SDK's own dependency."""
    validator = jsonschema.Draft202012Validator(input_schema(struct))
    candidates: list[Any] = [
        {}, {"left": 1}, {"left": 1001}, {"left": "1"}, {"left": 1, "x": 1}, {"left": 1, "right": None}, {"text": "x"},
        {"text": "x", "mode": "odd"}, {"text": "x", "mode": "even"}, {"text": "x", "parts": [{"name": ""}]},
        {"text": "x", "parts": [{"name": "n", "weight": 0.5}]}, {"text": "x", "parts": [{"name": "n", "weight": 0}]},
        {"text": "x", "parts": [{"name": "n"}] * 21}, {"text": "x", "note": None}, {"text": "x", "count": None},
        {"name": "t", "children": [{"name": "u", "data": {"any": [1]}}]}, {"name": "t", "children": [{}]},
        {"inner": {"value": 1}}, {"inner": {"value": 1, "w": 2}}, {"inner": {"value": 1}, "more": [{"value": 2}] * 4},
    ]  # fmt: skip
    for candidate in candidates:
        try:
            msgspec.convert(candidate, struct)
            decodes = True
        except msgspec.ValidationError:
            decodes = False
        assert validator.is_valid(candidate) == decodes, candidate


def test_results_and_failures_both_satisfy_the_output_schema() -> None:
    for results in ((Sum,), (Sum, Other)):
        validator = jsonschema.Draft202012Validator(output_schema(results))
        validator.validate({"sum": 3})
        validator.validate({"error": {"kind": "transient", "code": "conflict", "message": "m", "retryAfterMs": 5}})
        assert output_schema(results)["type"] == "object"
        wrong: list[Any] = [{}, {"sum": "3"}, {"error": {"kind": "odd", "code": "c", "message": "m"}}, {"error": {}}]
        assert [one for one in wrong if validator.is_valid(one)] == []
    jsonschema.validate({"other": "x"}, output_schema((Sum, Other)))
    assert not jsonschema.Draft202012Validator(output_schema((Sum,))).is_valid({"other": "x"})


def test_optional_members_are_not_required() -> None:
    schema = output_schema((Maybe,))
    jsonschema.validate(json.loads(msgspec.json.encode(Maybe(1, UNSET))), schema)
    assert schema["anyOf"] == [{"required": ["always"]}, {"required": ["error"]}]


def test_every_result_of_the_rig_fits_its_schema() -> None:
    echoed = Echoed(text="t", mode="m", parts=[], note=None, flag=False, project="p")
    jsonschema.validate(json.loads(msgspec.json.encode(echoed)), output_schema((Echoed,)))


def test_annotations_describe_the_behaviour_of_a_tool() -> None:
    tools = {tool.name: describe(tool)["annotations"] for tool in Rig().toolset().tools}
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    assert tuple(tools["add"][hint] for hint in hints) == (True, False, True, False)
    assert tuple(tools["echo"][hint] for hint in hints) == (False, False, True, False)
    assert tuple(tools["fail"][hint] for hint in hints) == (False, True, False, False)


def test_recorded_pages_do_not_depend_on_the_process() -> None:
    program = (
        "from tests.support.contracts import recorded_page; from tests.transport.rig import Rig;"
        "print(recorded_page(Rig().toolset()), end='')"
    )
    # Another process has another seed for its hashes.
    shown = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True)
    assert shown.stdout.decode() == recorded_page(Rig().toolset()), shown.stderr.decode()


class Part(Struct):
    value: int


class Bare(Struct):
    plain: int
    part: Annotated[Part, Meta(description="A part.")]


def test_missing_descriptions_are_named() -> None:
    async def handler(_call: object, _given: object) -> Struct:
        return Sum(sum=1)

    assert undocumented(Tool("t", "d", Outer, (Sum,), handler)) == []
    assert undocumented(Tool("t", "d", Outer, (Bare,), handler)) == ["result.plain", "result.Part.value"]


def test_bounded_nesting_is_computed() -> None:
    assert nesting(input_schema(Nothing)) == 1
    assert nesting(input_schema(Add)) == 1
    assert nesting(input_schema(Echo)) == 3
    assert nesting(input_schema(Outer)) == 3
    assert nesting(input_schema(Tree)) is None
