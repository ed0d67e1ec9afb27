"""Limits of one element: each stored or looked up name costs the store time."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from coordinator.toolsets.items.rules.values import MAX_TEXT
from coordinator.toolsets.items.store.base import SLICE, slices
from tests.items.client import Client, Json, actor, fresh_id

pytestmark = pytest.mark.anyio


def names(count: int, length: int = 3) -> list[str]:
    return [f"n{number}".ljust(length, "x") for number in range(count)]


def listed(count: int, length: int = 3) -> str:
    return ", ".join(names(count, length))


FITTING: dict[str, Json] = {
    "tags": {"tags": listed(32, 100)},
    "traits": {"traits": listed(32, 100)},
    "properties": {"properties": json.dumps({"traits": names(32, 100)})},
    "label": {"statusLabel": "l" * 200},
    "a long description": {"description": "d" * MAX_TEXT},
    "long metadata": {"metadata": "é" * (MAX_TEXT // 2)},
    "long properties": {"properties": '{"a":"' + "🦊" * (MAX_TEXT // 4 - 2) + '"}'},
}
TOO_MUCH: dict[str, Json] = {
    "many tags": {"tags": listed(33)},
    "a tag many times": {"tags": "t," * 33},
    "a long tag": {"tags": "t" * 101},
    "many commas": {"tags": "a" + "," * 100_000},
    "many traits": {"traits": listed(33)},
    "a long trait": {"traits": "t" * 101},
    "many traits in properties": {"properties": json.dumps({"traits": names(33)})},
    "a long trait in properties": {"properties": json.dumps({"traits": "t" * 101})},
    "a long label": {"statusLabel": "l" * 201},
    "a long description": {"description": "d" * (MAX_TEXT + 1)},
    "long metadata": {"metadata": "é" * (MAX_TEXT // 2) + "m"},
    "long properties": {"properties": "🦊" * (MAX_TEXT // 4) + "p"},
}


TOO_MANY_EDGES = "an item can have at most 600 dependencies"


@pytest.mark.parametrize("fields", FITTING.values(), ids=FITTING)
async def test_the_maximum_is_accepted(tools: Client, fields: Json) -> None:
    created, updated = await tools.add(**fields), await tools.add()
    assert (await tools.update(updated, **fields))["updated"] == 1
    for item in (created, updated):
        shown = await tools.get(item)
        assert shown.items() >= {name: value for name, value in fields.items() if name != "traits"}.items()
        assert (await tools.advance(item, "start"))["applied"]


@pytest.mark.parametrize("fields", TOO_MUCH.values(), ids=TOO_MUCH)
async def test_more_than_the_maximum_is_rejected(tools: Client, fields: Json) -> None:
    item = await tools.add()
    before = await tools.get(item)
    (field,) = fields
    for answer in (await tools.create({"title": "t", **fields}), await tools.update(item, **fields)):
        (failure,) = answer["failures"]
        assert failure["error"].startswith(f"{field}: ")
        assert len(failure["error"]) < 300
    assert await tools.get(item) == before
    if field in ("tags", "traits", "description"):
        many = {"title": "t", **fields}
        refused = await tools.refusal("create_work_tree", root=many)
        assert refused.message.startswith(f"root.{field}: ")
        children = [{"ref": "a", "title": "t"}, {"ref": "b", **many}]
        refused = await tools.refusal("create_work_tree", root={"title": "t"}, children=children)
        assert refused.message.startswith(f"children[1].{field}: ")


@pytest.mark.parametrize("count", [20, 21])
async def test_tags_of_a_filter_are_bounded(tools: Client, count: int) -> None:
    item = await tools.add(tags="n7x")
    tags = listed(count)
    claim = {"claims": [{"selector": {"tags": tags}}], "actor": actor("agent"), "requestId": fresh_id()}
    for tool, field, arguments in (
        ("query_items", "tags", {"operation": "search", "tags": tags}),
        ("get_next_item", "tags", {"tags": tags}),
        ("claim_item", "claims[0].selector.tags", claim),
        ("claim_item", "claims[0].selector.tags", {**claim, "requestId": fresh_id(), "waitMs": 1}),
    ):
        answer = await tools.attempt(tool, **arguments)
        if count <= 20:
            assert item in str(answer) or "waitMs" in arguments
        else:
            assert str(answer) == f"{field}: must be at most 20 tags"


async def test_a_long_summary_of_a_transition_is_rejected(tools: Client) -> None:
    item = await tools.add()
    refused = await tools.refusal(
        "advance_item", transitions=[{"itemId": item, "trigger": "start", "summary": "s" * 2001}]
    )
    assert refused.message.startswith("transitions[0].summary: ")
    assert (await tools.advance(item, "start", summary="s" * 2000))["applied"]


async def test_long_refs_are_rejected_and_truncated_in_messages(tools: Client) -> None:
    children = [{"ref": f"child-{number}", "title": "t"} for number in range(100)]
    long: Any = "r" * 100_000
    for field, more in (
        ("children[100].ref", {"children": [*children, {"ref": long[:101], "title": "t"}]}),
        ("deps[0].from", {"children": children, "deps": [{"from": long, "to": "root"}]}),
        ("notes[0].itemRef", {"children": children, "notes": [{"itemRef": long, "key": "k", "role": "queue"}]}),
    ):
        refused = await tools.refusal("create_work_tree", root={"title": "t"}, **more)
        assert refused.message.startswith(f"{field}: ")
        assert len(refused.message) < 500


@pytest.mark.parametrize(
    ("field", "pattern"),
    [
        ("itemIds", {"pattern": "linear", "itemIds": ["aaaa"] * (MAX_EDGES + 2)}),
        ("targets", {"pattern": "fan-out", "source": "aaaa", "targets": ["bbbb"] * (MAX_EDGES + 1)}),
        ("sources", {"pattern": "fan-in", "target": "aaaa", "sources": ["bbbb"] * (MAX_EDGES + 1)}),
    ],
)
async def test_a_pattern_with_too_many_edges_is_rejected(tools: Client, field: str, pattern: Json) -> None:
    refused = await tools.refusal("manage_dependencies", operation="create", **pattern)
    assert refused.message == f"{field}: must make at most {MAX_EDGES} edges"


async def test_the_most_edges_of_one_call_are_accepted(tools: Client) -> None:
    one, *others = ids = await tools.add_many(MAX_EDGES + 1)
    steps = [{"fromItemId": target, "toItemId": source} for source, target in pairwise(ids)]
    for arguments in (
        {"pattern": "linear", "itemIds": ids},
        {"pattern": "fan-out", "source": one, "targets": others, "type": "RELATES_TO"},
        {"pattern": "fan-in", "sources": others, "target": one, "type": "RELATES_TO"},
        {"dependencies": steps, "type": "IS_BLOCKED_BY"},
    ):
        assert (await tools("manage_dependencies", operation="create", **arguments))["created"] == MAX_EDGES
    assert await tools.next(limit=20) == [one]
    assert not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("fromItemId", {"dependencies": [{"fromItemId": "-", "toItemId": "aaaa"}]}),
        ("itemIds[1]", {"pattern": "linear", "itemIds": ["aaaa", "-", "bbbb"]}),
        ("source", {"pattern": "fan-out", "source": "-", "targets": ["aaaa"]}),
        ("targets[1]", {"pattern": "FAN-OUT", "source": "aaaa", "targets": ["bbbb", "-"]}),
        ("sources[0]", {"pattern": "fan-in", "target": "aaaa", "sources": ["-"]}),
        ("target", {"pattern": "fan-in", "target": "-", "sources": ["aaaa"]}),
    ],
)
async def test_a_malformed_end_of_an_edge_is_named(tools: Client, field: str, arguments: Json) -> None:
    answer = await tools("manage_dependencies", operation="create", **arguments)
    assert answer["failures"][0]["error"].startswith(f"{field}: must be a UUID")


async def test_a_malformed_parent_is_named(tools: Client) -> None:
    item = await tools.add()
    for answer in (await tools.create({"title": "t", "parentId": "xyz"}), await tools.update(item, parentId="xyz")):
        assert answer["failures"][0]["error"].startswith("parentId: must be a UUID")


@pytest.mark.parametrize("blank", ["", " "])
async def test_a_blank_parent_does_not_move_an_item(tools: Client, blank: str) -> None:
    _, child = await tools.chain(1)
    assert (await tools.update(child, parentId=blank, title="new"))["updated"] == 1
    assert ((await tools.get(child))["depth"], (await tools.get(child))["title"]) == (1, "new")
    await tools.update(child, parentId=None)
    assert (await tools.get(child))["depth"] == 0


@pytest.mark.parametrize("key", ["", " "])
async def test_a_blank_key_deletes_nothing(tools: Client, key: str) -> None:
    item = await tools.add()
    await tools("manage_notes", operation="upsert", notes=[{"itemId": item, "key": "k", "role": "queue"}])
    refused = await tools.refusal("manage_notes", operation="delete", itemId=item, key=key)
    assert refused.message.startswith("key: must not be blank")
    assert (await tools("query_notes", operation="list", itemId=item))["total"] == 1


async def test_an_id_cannot_be_chosen(tools: Client) -> None:
    answer = await tools.create({"title": "t", "id": fresh_id()}, {"title": "u", "id": None})
    assert (answer["created"], answer["failures"][0]["index"]) == (1, 0)
    assert answer["failures"][0]["error"].startswith("id: cannot be chosen")


async def test_a_blank_type_means_none(tools: Client) -> None:
    item = await tools.add(type=" ")
    assert "type" not in await tools.get(item)
    assert await tools.next(type=" ") == [item]


async def test_elements_with_many_tags_or_long_texts_are_sent_in_smaller_slices() -> None:
    def parts(*elements: tuple[str, str]) -> list[int]:
        found = list(slices(elements, lambda element: element[:1], lambda element: element[1].count(",")))
        assert [each for part in found for each in part] == list(elements)
        return [len(part) for part in found]

    assert parts() == []
    assert parts(*[("", "")] * (2 * SLICE + 1)) == [SLICE, SLICE, 1]
    assert parts(*[("", listed(32))] * 25) == [10, 10, 5]
    for long in ("x" * 2_000_000, "\u2603" * 700_000):
        assert parts(("", ""), (long, ""), ("", "")) == [1, 1, 1]
    assert parts(*[("\u2603" * 250_000, "")] * 4) == [2, 2]


def outcomes(runs: list[str], script: str) -> list[str]:
    """How the runs of a script ended, in order."""
    return [outcome for name, _, outcome in (run.partition(" ") for run in runs) if name == script]


def one_call(outcome: str, slices: int) -> list[str]:
    """Those of one call in several slices, of which metrics count the first as the call."""
    return [outcome, *["ok"] * (slices - 1)]


async def test_slices_of_any_size_have_one_answer(tools: Client) -> None:
    items = [{"title": str(number), "tags": listed(32 - number % 30)} for number in range(60)]
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(f"{script} {outcome}")
    call = {"operation": "create", "items": items, "actor": actor("agent"), "requestId": fresh_id()}
    first = await tools("manage_items", **call)
    assert [item["title"] for item in first["items"]] == [item["title"] for item in items]
    made = outcomes(runs, "create_items")
    assert 60 / SLICE < 4 <= len(made)
    assert made == one_call("new", len(made))
    assert await tools("manage_items", **call) == first
    assert outcomes(runs, "create_items") == made + one_call("replay", len(made))
    assert (await tools("query_items", operation="search"))["total"] == 60


async def test_a_long_batch_of_transitions_has_one_answer(tools: Client) -> None:
    items = await tools.add_many(50)
    steps = [(item, trigger) for trigger in ("start", "complete") for item in items]
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(f"{script} {outcome}")
    batch = [{"itemId": item, "trigger": trigger, "actor": actor("agent")} for item, trigger in steps]
    call = {"transitions": batch, "requestId": fresh_id()}
    first = await tools("advance_item", **call)
    assert [(result["itemId"], result["trigger"]) for result in first["results"]] == steps
    assert first["summary"] == {"total": 100, "succeeded": 100, "failed": 0}
    assert await tools("advance_item", **call) == first
    assert outcomes(runs, "advance_item") == one_call("new", 2) + one_call("replay", 2)


@pytest.mark.parametrize(("count", "tags", "edges"), [(40, 32, 0), (6, 0, 30)])
async def test_items_with_many_tags_or_edges_are_changed_in_several_runs(
    tools: Client, count: int, tags: int, edges: int
) -> None:
    items = await tools.add_many(count, tags=listed(tags))
    for item in items if edges else ():
        await tools.link_all((item, other) for other in await tools.add_many(edges))
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(f"{script} {outcome}")
    steps = [{"itemId": item, "trigger": "start", "actor": actor("agent")} for item in items]
    call = {"transitions": steps, "requestId": fresh_id()}
    first = await tools("advance_item", **call)
    assert [(result["itemId"], result["applied"]) for result in first["results"]] == [(item, True) for item in items]
    assert outcomes(runs, "advance_item") == one_call("new", 3)
    assert await tools("advance_item", **call) == first


@pytest.mark.parametrize(("tool", "held"), [("advance_item", False), ("complete_tree", False), ("complete_tree", True)])
async def test_items_with_very_many_dependents_are_changed_in_separate_runs(
    tools: Client, tool: str, held: bool
) -> None:
    """Or skipped with their dependents, if others hold them."""
    items, others = await tools.add_many(4), await tools.add_many(450)
    for item in items[:2]:
        await tools.link_all((item, other) for other in others)
        if held:
            await tools.claim(f"holder of {item}", item)
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(f"{script} {outcome}")
    call: Json = {"actor": actor("agent"), "itemIds": items, "requestId": fresh_id()}
    if tool == "advance_item":
        steps = [{"itemId": item, "trigger": "complete", "actor": actor("agent")} for item in items]
        call = {"transitions": steps, "requestId": fresh_id()}
    first = await tools(tool, **call)
    applied = {result["itemId"] for result in first["results"] if result["applied"]}
    assert applied == set(items[2:] if held else items)
    assert {result["itemId"] for result in first["results"]} == set(items)
    script = "advance_item" if tool == "advance_item" else "complete_items"
    assert outcomes(runs, script) == one_call("new", 3)
    assert await tools(tool, **call) == first
    assert outcomes(runs, script) == one_call("new", 3) + one_call("replay", 3)
    assert len(await tools.next(limit=20)) == (0 if held else 20)
    assert not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize("first", [True, False])
async def test_notes_of_an_item(tools: Client, first: bool) -> None:
    """Its result is one more, whoever writes it, and when."""
    item = await tools.add()
    result = {"itemId": item, "key": "result", "role": "queue", "body": "r"}
    if first:
        await tools("manage_notes", operation="upsert", notes=[result])
    notes = [{"itemId": item, "key": f"k{n:03d}", "role": "queue", "body": str(n)} for n in range(500)]
    assert (await tools("manage_notes", operation="upsert", notes=notes))["upserted"] == 500
    more = [{**notes[0], "key": "one too many"}, {**notes[0], "body": "new"}]
    answer = await tools("manage_notes", operation="upsert", notes=more)
    assert (answer["upserted"], answer["failures"][0]["index"]) == (1, 0)
    assert answer["failures"][0]["error"].startswith("an item can have at most 500 notes")
    assert (await tools("manage_notes", operation="upsert", notes=[result]))["upserted"] == 1
    assert (await tools("manage_notes", operation="upsert", notes=more))["failed"] == 1
    read = await tools("query_notes", operation="list", itemId=item)
    found = [(note["key"], note["body"]) for note in read["notes"]]
    assert sorted(found) == [("k000", "new"), *((note["key"], note["body"]) for note in notes[1:]), ("result", "r")]
    assert (await tools("manage_notes", operation="delete", itemId=item))["deleted"] == 501


@pytest.mark.parametrize("letter", ["x", "é", "☃", "🦊"])
async def test_the_size_of_a_note_is_bounded(tools: Client, letter: str) -> None:
    item = await tools.add()
    size = len(letter.encode())
    fitting = letter * (MAX_TEXT // size) + "x" * (MAX_TEXT % size)
    notes = [
        {"itemId": item, "key": key, "role": "work", "body": body}
        for key, body in (("long", fitting + "x"), ("fits", fitting), ("fits", fitting + "x"))
    ]
    answer = await tools("manage_notes", operation="upsert", notes=notes)
    error = "body: must be at most 500,000 bytes, not 500,001"
    assert answer["failures"] == [{"index": 0, "error": error}, {"index": 2, "error": error}]
    (read,) = (await tools("query_notes", operation="list", itemId=item))["notes"]
    assert (read["key"], read["body"] == fitting) == ("fits", True)


async def test_long_notes_are_read_a_few_at_a_time(tools: Client) -> None:
    item = await tools.add()
    for key in "badfceg":
        note = {"itemId": item, "key": key, "role": "work", "body": key * MAX_TEXT}
        await tools("manage_notes", operation="upsert", notes=[note])
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    read = await tools("query_notes", operation="list", itemId=item)
    assert [note["key"] for note in read["notes"]] == list("badfceg")
    assert all(note["body"] == note["key"] * MAX_TEXT for note in read["notes"])
    assert runs == ["read_notes"] * 2
    assert (await tools("query_notes", operation="list", itemId=item, includeBody=False))["total"] == 7
    assert runs == ["read_notes"] * 3


async def test_dependencies_of_an_item(tools: Client) -> None:
    hub, one_more, *others = await tools.add_many(602)
    await tools.link_all((hub, other) for other in others[:-1])
    batch = [{"fromItemId": hub, "toItemId": other} for other in (others[-1], one_more)]
    for edges in (batch, [{**edge, "type": "RELATES_TO"} for edge in batch]):
        answer = await tools("manage_dependencies", operation="create", dependencies=edges)
        assert (answer["created"], answer["failures"]) == (0, [{"index": 1, "error": f"fromItemId: {TOO_MANY_EDGES}"}])
    assert (await tools("query_dependencies", itemId=hub))["counts"]["outgoing"] == 599
    await tools.link(hub, others[-1])
    for end, other_end in (("fromItemId", "toItemId"), ("toItemId", "fromItemId")):
        answer = await tools("manage_dependencies", operation="create", dependencies=[{end: hub, other_end: one_more}])
        assert answer["failures"] == [{"index": 0, "error": f"{end}: {TOO_MANY_EDGES}"}]
    unblocked = (await tools.advance(hub, "complete"))["unblockedItems"]
    assert sorted(entry["itemId"] for entry in unblocked) == sorted(others)
    await tools.move(hub, "reopen")
    assert set(await tools.next(limit=20)) == {hub, one_more}
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    assert (await tools("manage_items", operation="delete", ids=[hub, one_more]))["deleted"] == 2
    assert runs.count("delete_items") > 5, "its edges are deleted in parts"
    report = await audit(tools.store, tools.project)
    assert (report.items, report.edges, report.differences) == (600, 0, [])
