"""Rejected arguments: the message names the field and the allowed values."""

from __future__ import annotations

import json
import math
import time
from typing import Annotated, Any

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.errors import ToolFailure
from coordinator.toolsets.arguments import decoded, explained
from coordinator.toolsets.items.contract.claims import ClaimItem
from coordinator.toolsets.lenient import meant
from coordinator.toolsets.schema import input_schema
from coordinator.transport.rounds.asking import filled_in
from tests.transport.rig import Add, Echo, Part, Rig, Tree


class Nullable(Struct, forbid_unknown_fields=True):
    """Fields that may be null, and one that may not."""

    field: str | None | UnsetType = UNSET
    choice: Annotated[str | None, Meta(extra_json_schema={"enum": ["a", None]})] = "a"
    anything: Any = 1
    flag: bool = True
    table: dict[str, int | None] = {}
    inner: list[Nullable] = []


TOOLS = {tool.name: tool for tool in Rig().toolset().tools}


def decode(tool: str, arguments: dict[str, Any]) -> Any:
    return decoded(TOOLS[tool], input_schema(TOOLS[tool].arguments), arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("add", {}, "left: is required; allowed: an integer from -1000 to 1000"),
        ("add", {"left": "x"}, "left: expected `int`, got `str`; allowed: an integer from -1000 to 1000"),
        ("add", {"left": 1001}, "left: expected `int` <= 1000; allowed: an integer from -1000 to 1000"),
        ("add", {"left": None}, "left: expected `int`, got `null`; allowed: an integer from -1000 to 1000"),
        ("add", {"left": 1, "rigth": 2}, "rigth: no such field; allowed here: left, right"),
        ("nothing", {"x": 1}, "x: no such field; allowed here: none"),
        ("echo", {"text": 5}, "text: expected `str`, got `int`; allowed: a string"),
        ("echo", {"text": "", "mode": "shy"},
         "mode: invalid enum value 'shy'; allowed: one of \"loud\", \"odd\", \"plain\""),
        ("echo", {"text": "", "note": 1}, "note: expected `str | null`, got `int`; allowed: a string or null"),
        ("echo", {"text": "", "flag": 3}, "flag: expected `bool`, got `int`; allowed: true or false"),
        ("echo", {"text": "", "parts": {}},
         "parts: expected `array`, got `object`; allowed: an array of at most 20 elements"),
        ("echo", {"text": "", "parts": [{"name": "a"}, {}]},
         "parts[1].name: is required; allowed: a string of 1 to 40 characters"),
        ("echo", {"text": "", "parts": [{"name": "a", "weight": -1}]},
         "parts[0].weight: expected `float` > 0.0; allowed: a number above 0"),
        ("tree", {"name": "a", "children": [{"name": "b", "children": [{"name": 1}]}]},
         "children[0].children[0].name: expected `str`, got `int`; allowed: a string"),
        ("add", {"left": math.nan}, "left: must be a finite number"),
        ("echo", {"text": "half \ud83d"}, "text: must be valid Unicode text"),
        ("add", {"left": "\ud800"}, "left: must be valid Unicode text"),
        ("echo", {"text": "", "\ud800": 1}, "arguments: names in it must be valid Unicode text"),
        ("echo", {"text": "", "parts": [{"name": "a"}, {"name": "a", "weight": math.inf}]},
         "parts[1].weight: must be a finite number"),
        ("tree", {"name": "a", "children": [{"\udfff": "b"}]},
         "children[0]: names in it must be valid Unicode text"),
    ],
)  # fmt: skip
def test_errors_name_the_place(tool: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolFailure) as raised:
        decode(tool, arguments)
    assert raised.value.code == "VALIDATION_ERROR"
    assert raised.value.message == message


def test_quoted_numbers_and_booleans_are_understood() -> None:
    assert decode("add", {"left": "5", "right": "-2"}) == Add(left=5, right=-2)
    given = {"text": "5", "flag": "true", "note": "null", "parts": [{"name": "7", "weight": "0.5"}]}
    assert decode("echo", given) == Echo(text="5", flag=True, note="null", parts=[Part(name="7", weight=0.5)])


def test_null_leaves_out_optional_fields() -> None:
    given = {"text": "x", "flag": None, "note": None, "mode": None, "parts": [{"name": "a", "weight": None}]}
    assert decode("echo", given) == Echo(text="x", note=None, parts=[Part(name="a")])
    assert decode("echo", {"text": "x", "parts": None}) == Echo(text="x")
    with pytest.raises(ToolFailure, match="text: expected `str`, got `null`"):
        decode("echo", {"text": None, "parts": None})


def test_null_is_kept_if_allowed() -> None:
    kept = {"field": None, "choice": None, "anything": None, "table": {"x": None}, "unknown": None}
    assert meant(input_schema(Nullable), kept | {"flag": None, "inner": [{"flag": None}]}) == kept | {"inner": [{}]}


def test_text_is_kept_if_allowed() -> None:
    assert decode("tree", {"name": "1", "data": "2"}) == Tree(name="1", data="2")


class Listed(Struct, forbid_unknown_fields=True):
    role: Annotated[str | None, Meta(extra_json_schema={"enum": ["queue", "work", None]})] = None


def test_listed_values_beside_the_type_are_named() -> None:
    failure = explained("Expected `str | null`, got `int` - at `$.role`", input_schema(Listed))
    assert failure.message == 'role: expected `str | null`, got `int`; allowed: one of "queue", "work" or null'


PARTS = [{"name": "a", "weight": 0.5}, {"name": "b"}]


@pytest.mark.parametrize(
    "parts",
    [json.dumps(PARTS), f" {json.dumps(PARTS)}\n", [json.dumps(PARTS[0]), PARTS[1]], list(map(json.dumps, PARTS))],
)
def test_arrays_and_objects_may_be_json_strings(parts: Any) -> None:
    assert decode("echo", {"text": "x", "parts": parts}) == Echo(text="x", parts=[Part("a", 0.5), Part("b")])


def test_nested_json_strings_are_decoded() -> None:
    leaf = json.dumps({"name": "leaf", "data": "[1]"})
    given = {"name": "root", "children": json.dumps([{"name": "branch", "children": json.dumps([leaf])}])}
    leaves = [Tree(name="leaf", data="[1]")]
    assert decode("tree", given) == Tree(name="root", children=[Tree(name="branch", children=leaves)])


def test_json_stays_text_if_text_is_allowed() -> None:
    assert decode("echo", {"text": "[1]", "note": '{"a":1}', "parts": "[]"}) == Echo(text="[1]", note='{"a":1}')
    assert decode("tree", {"name": "{}", "data": "[]", "children": "[]"}) == Tree(name="{}", data="[]")


@pytest.mark.parametrize(
    "parts",
    [
        '[{"name": "a"}', '{"name": "a"}', '"[]"', "[NaN]", "", "x", "[" * 100 + "]" * 100, "[" * 100_000,
        '[{"name": "a", "weight": 1e999}]', '[{"name": "\\ud800"}]', "[" + "9" * 5_000 + "]",
    ],
)  # fmt: skip
def test_other_text_is_rejected_unchanged(parts: str) -> None:
    with pytest.raises(ToolFailure) as raised:
        decode("echo", {"text": "x", "parts": parts})
    assert raised.value.message == "parts: expected `array`, got `str`; allowed: an array of at most 20 elements"


def test_errors_in_json_strings_name_the_place() -> None:
    with pytest.raises(ToolFailure, match=r"^parts\[0\].name: is required; allowed: a string of 1 to 40 characters$"):
        decode("echo", {"text": "x", "parts": '[{"weight": 1}]'})


def test_unknown_messages_are_passed_on() -> None:
    assert explained("something else", {}).message == "arguments: something else; allowed: any value"


def test_deep_arguments_are_rejected_without_a_crash() -> None:
    given: dict[str, Any] = {"name": "x"}
    for _ in range(5000):
        given = {"name": "x", "children": [given]}
    with pytest.raises(ToolFailure, match="nested too deeply"):
        decode("tree", given)


@pytest.mark.parametrize("element", ["1", '{"a":1}', '{"name":null}'])
def test_rejecting_very_many_elements_does_not_look_at_each_again(element: str) -> None:
    text = '{"name": "a", "children": [' + ",".join([element] * 500_000) + "]}"
    began = time.process_time()
    given = json.loads(text)
    reading = time.process_time() - began
    began = time.process_time()
    with pytest.raises(ToolFailure, match=r"children\[0\]"):
        decode("tree", given)
    assert time.process_time() - began < 50 * reading  # a search for the fault in each element would take minutes


def test_the_fields_of_an_optional_object_are_named() -> None:
    failure = explained("Object contains unknown field `bogus` - at `$.claims[0].selector`", input_schema(ClaimItem))
    assert failure.message.startswith("claims[0].selector.bogus: no such field; allowed here: role, ")
    assert "tags" in failure.message


def test_no_answer_is_made_of_half_a_surrogate_pair() -> None:
    form = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}
    given: Any
    for given in ({"action": "\ud800"}, {"action": "accept", "content": {"why": "\ud800"}}, "\ud800", {"\ud800": 1}):
        assert filled_in(form, given, None, "") is None
    assert filled_in(form, {"action": "accept", "content": {"why": "x"}}, None, "") is not None
