"""The pure rules: ids, texts, traits, edges, requests, times and ranks."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import UNSET

from coordinator.errors import ToolFailure
from coordinator.store.idempotency import NO_KEY, idempotency_key
from coordinator.store.record_layout import NO_COMPLEXITY, RANK_EPOCH
from coordinator.toolsets.items.contract.dependencies import DependencySpec, ManageDependencies
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.items.rules import ids, records, values
from coordinator.toolsets.items.rules import items as item_rules
from coordinator.toolsets.items.rules.dependencies import edges
from coordinator.toolsets.timestamp import iso
from tests.items.query_world import score_of

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
NAMES = st.text("abc-", min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def refused(call: Any, *arguments: Any) -> str:
    """The message of a VALIDATION_ERROR."""
    with pytest.raises(ToolFailure) as raised:
        call(*arguments)
    assert raised.value.code == "VALIDATION_ERROR"
    return raised.value.message


# --- ids


@given(HEX)
def test_ids_round_trip_through_their_dashed_form(inner: str) -> None:
    assert ids.parse(ids.dashed(inner), "id") == ids.parse(inner.upper(), "id") == inner
    assert ids.parse_uuid(ids.dashed(inner).upper(), "id") == inner


@given(HEX, st.integers(0, 40))
def test_prefixes_have_four_to_thirty_two_digits(inner: str, length: int) -> None:
    text = (inner + inner)[:length]
    if 4 <= length <= 32:
        assert ids.parse(text.upper(), "id") == text
    else:
        assert refused(ids.parse, text, "id").startswith("id: ")


@given(st.text(max_size=40) | st.from_regex(r"[0-9a-fA-F-]{0,40}"))
def test_any_text_is_an_id_or_rejected(text: str) -> None:
    try:
        inner = ids.parse(text, "id")
    except ToolFailure as failure:
        assert failure.code == "VALIDATION_ERROR"  # noqa: PT017 - both outcomes are right
        return
    assert set(inner) <= set("0123456789abcdef")
    assert 4 <= len(inner) <= 32


@given(st.text(max_size=40))
def test_only_whole_uuids_name_notes_and_dependencies(text: str) -> None:
    assume(not ids.is_uuid(text))
    refused(ids.parse_uuid, text, "id")


@given(st.uuids())
def test_any_uuid_is_a_request_id(value: uuid.UUID) -> None:
    assert all(ids.is_uuid(text) for text in (str(value), value.hex, str(value).upper(), value.urn))


def test_new_ids_are_random_uuids() -> None:
    made = {ids.new_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(uuid.UUID(inner).version == 4 for inner in made)


# --- item fields


@given(st.text(max_size=600))
def test_a_title_has_one_to_five_hundred_characters(text: str) -> None:
    if text.strip() and len(text) <= 500:
        assert values.title(text) == text
    else:
        assert refused(values.title, text).startswith("title: ")


@given(st.integers(-(2**70), 2**70))
def test_a_complexity_is_one_to_ten(number: int) -> None:
    if 1 <= number <= 10:
        assert values.count(number, "complexity", 1, 10) == number
    else:
        assert refused(values.count, number, "complexity", 1, 10).startswith("complexity: ")


@given(st.lists(st.text("ab1-A _.:/", max_size=4), max_size=4))
def test_tags_are_lower_case_words(parts: list[str]) -> None:
    text = ",".join(parts)
    words = [part.strip() for part in parts if part.strip()]
    if all(word[0] in "ab1" and set(word) <= set("ab1-_.:/") for word in words):
        assert values.tags(text) == (text if words or text.strip() else "")
    else:
        assert refused(values.tags, text).startswith("tags: ")


@pytest.mark.parametrize("value", [UNSET, None, "", " "])
def test_missing_fields_take_defaults(value: Any) -> None:
    spec = ItemSpec(title="t", summary=value, tags=value, metadata=value, not_before=value, priority=value)
    assert item_rules.new_item(spec, "0" * 32, "") == ("0" * 32, "", 0, {"t": "t", "p": 1}, 0, 0)


# --- traits


def shown(item: item_rules.NewItem) -> str | None:
    """The properties of a new item in results."""
    return values.with_traits(item.fields.get("o"), item.fields["q"].split(",") if "q" in item.fields else [])


def made(properties: str | None, traits: str | None = None, default: str | None = None) -> str | None:
    return shown(item_rules.new_item(ItemSpec(title="t", properties=properties, traits=traits), "0" * 32, "", default))


OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)
TRAITS = st.none() | st.lists(NAMES | st.sampled_from([" a", "", "a,b", "a"])) | st.sampled_from(["a", " b,a , b"])


@given(OBJECTS, st.none() | st.fixed_dictionaries({"traits": TRAITS}))
def test_properties_are_shown_as_given(members: dict[str, Any], traits: dict[str, Any] | None) -> None:
    members.pop("traits", None)
    text = json.dumps(members | (traits or {}))
    assert made(text) == text


@pytest.mark.parametrize("traits", [["a", "b"], "a,b", " b,a , b", ["a,b"]])
def test_properties_may_name_traits_as_a_list_or_as_a_text(traits: Any) -> None:
    text = json.dumps({"traits": traits})
    assert sorted(values.properties(text)[1] or []) == ["a", "b"]
    assert made(text) == text


@pytest.mark.parametrize("traits", [1, {"a": 1}, ["a", 1], [["a"]]])
def test_traits_in_properties_are_names(traits: Any) -> None:
    assert refused(made, json.dumps({"traits": traits})).startswith("properties.traits: must be a list of names")


@given(st.text(max_size=8))
def test_properties_are_a_json_object(text: str) -> None:
    try:
        right = isinstance(json.loads(text, parse_constant=lambda name: [][0]), dict)
    except (ValueError, IndexError):
        right = False
    if right or not text.strip():
        assert made(text) == (text if right else None)
    else:
        assert refused(made, text).startswith("properties: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": NaN}', "NaN is no number that JSON can hold"),
        ('{"a": [1, {"b": -Infinity}]}', "-Infinity is no number that JSON can hold"),
        ('{"a": 1e400}', "1e400 is no number that JSON can hold"),
        ('{"a": -1.5E+999}', "-1.5E+999 is no number that JSON can hold"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\udc00": 1}', "half of a surrogate pair"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
    ],
)
def test_values_outside_of_json_are_rejected(text: str, problem: str) -> None:
    assert problem in refused(made, text)
    assert problem in refused(made, text, "a")
    assert problem in refused(lambda: values.metadata(text))
    with pytest.raises(ToolFailure, match="metadata: "):
        item_rules.changes(ItemSpec(id="0000", metadata=text))
    with pytest.raises(ToolFailure, match="properties: "):
        item_rules.changes(ItemSpec(id="0000", properties=text))


@given(st.sampled_from("[{"), st.text('[]{}:,"a1 ', max_size=6))
def test_metadata_that_begin_like_json_are_json(begin: str, rest: str) -> None:
    text, why = begin + rest, ""
    try:
        json.loads(text)
    except ValueError as problem:
        why = f"metadata: must be JSON as a string: {problem} (text that begins with {{ or [ must be JSON)"
    if not why:
        assert values.metadata(text) == text
        return
    assert refused(item_rules.new_item, ItemSpec(title="t", metadata=text), "0" * 32, "") == why
    assert refused(item_rules.changes, ItemSpec(id="0000", metadata=text)) == why


@pytest.mark.parametrize(
    "text",
    ["12345678901234567890123", "-" + "9" * 5000, "1e308", "1.10", "0.1000000000000000055511151231257827", "1E-400"],
)
def test_numbers_keep_every_digit(text: str) -> None:
    given = f'{{"n": [{text}], "m": {text}}}'
    assert made(given) == values.metadata(given) == given
    assert made(given, "a") == f'{{"n":[{text}],"m":{text},"traits":["a"]}}'
    assert made(f'{{"n":{text},"traits":["b"]}}', "a") == f'{{"n":{text},"traits":["a"]}}'
    assert made(f'{{"n":{text},"traits":["b"]}}', "") == f'{{"n":{text}}}'


@given(OBJECTS, st.lists(NAMES, min_size=1, max_size=3))
def test_traits_are_merged_and_all_else_is_kept(properties: dict[str, Any], names: list[str]) -> None:
    properties.pop("traits", None)
    merged = json.loads(made(json.dumps(properties), ",".join(names)) or "")
    assert merged.pop("traits") == list(dict.fromkeys(names))
    assert merged == properties


# --- edges


@given(st.lists(HEX, min_size=2, max_size=8))
def test_linear_joins_neighbours(items: list[str]) -> None:
    found = edges.edges_asked_for(ManageDependencies(operation="create", pattern="linear", item_ids=items))
    assert [edge.from_item_id for edge in found] == items[:-1]
    assert [edge.to_item_id for edge in found] == items[1:]


@given(HEX, st.lists(HEX, min_size=1, max_size=8))
def test_fans_join_one_with_all(one: str, many: list[str]) -> None:
    out = edges.edges_asked_for(ManageDependencies(operation="create", pattern="fan-out", source=one, targets=many))
    into = edges.edges_asked_for(ManageDependencies(operation="create", pattern="fan-in", sources=many, target=one))
    assert [(edge.from_item_id, edge.to_item_id) for edge in out] == [(one, each) for each in many]
    assert [(edge.from_item_id, edge.to_item_id) for edge in into] == [(each, one) for each in many]


TYPES = st.sampled_from([None, "BLOCKS", "blocks", "is-blocked-by", "Is_Blocked_By", "RELATES_TO", "relates-to", "x"])
ROLES = st.sampled_from([None, "queue", "WORK", "Review", "terminal", "blocked", "x"])


@given(TYPES, ROLES, st.sampled_from([None, "BLOCKS", "RELATES_TO"]), st.sampled_from([None, "work"]))
def test_an_edges_own_kind_overrides_the_shared_one(
    kind: str | None, threshold: str | None, shared: str | None, shared_threshold: str | None
) -> None:
    spec = DependencySpec(from_item_id="0000", to_item_id="1111", type=kind, unblock_at=threshold)
    call = ManageDependencies(operation="create", dependencies=[spec], type=shared, unblock_at=shared_threshold)
    found, failures = edges.checked([spec], call)
    wanted = (kind or shared or "BLOCKS").upper().replace("-", "_")
    until = (threshold or shared_threshold or "").lower()
    if wanted == "X" or until in ("x", "blocked") or (wanted == "RELATES_TO" and until):
        assert found == []
        assert [failure.index for failure in failures] == [0]
    else:
        assert (found, failures) == ([edges.Edge("0000", "1111", wanted, until or None)], [])


# --- requests


def test_a_request_is_its_actor_and_id() -> None:
    first = idempotency_key("a", str(uuid.UUID(int=1)), "tool", [1])
    assert first == idempotency_key("a", uuid.UUID(int=1).urn[9:].upper(), "tool", [1])
    assert first.key != idempotency_key("b", str(uuid.UUID(int=1)), "tool", [1]).key
    assert first.key != idempotency_key("a", str(uuid.UUID(int=2)), "tool", [1]).key
    for other in (("tool", [2]), ("other", [1])):
        again = idempotency_key("a", str(uuid.UUID(int=1)), *other)
        assert again.key == first.key
        assert again.fingerprint != first.fingerprint
    assert first.slice(0) == first
    assert first.slice(1).key != first.key


def test_the_slices_of_a_call_without_a_record_have_none() -> None:
    assert NO_KEY.slice(3) == NO_KEY


@given(st.text(max_size=5), st.text(max_size=5))
def test_agents_are_never_confused(one: str, other: str) -> None:
    assume(one and other and one != other)
    request_id = str(uuid.UUID(int=1))
    assert idempotency_key(one, request_id, "t").key != idempotency_key(other, request_id, "t").key


# --- times and ranks


@given(st.integers(0, 4_102_444_800_000))
def test_times_are_iso_with_milliseconds(ms: int) -> None:
    text = iso(ms)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == datetime.fromtimestamp(ms / 1000, UTC).replace(microsecond=ms % 1000 * 1000)


RANKED = st.tuples(st.integers(0, 2), st.none() | st.integers(1, 10), st.integers(0, 2**41 - 1))


@given(RANKED, RANKED)
def test_ranks_order_by_priority_complexity_and_age_exactly(one: Any, other: Any) -> None:
    def rank(item: Any) -> int:
        priority, complexity, age = item
        score = records.Score(4, 3, priority, complexity or NO_COMPLEXITY, age + RANK_EPOCH)
        assert records.parts_of(score_of(score)) == score
        return score_of(score)

    def position(item: Any) -> tuple[int, int, int]:
        return item[0], item[1] or 11, item[2]

    assert (rank(one) < rank(other)) == (position(one) < position(other))
    assert int(float(rank(one))) == rank(one) < 2**53
