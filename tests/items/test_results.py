"""Results: text or JSON that comes with the transition that ends an item, kept as its note ``result``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Script, Store
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.results import MAX_RESULT
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.results import client_of, missing, notes_of, read

pytestmark = pytest.mark.anyio

DECLARED: Json = {
    "work_item_schemas": {
        "report": {
            "notes": [
                {"key": "result", "role": "work", "required": True, "description": "what came of it"},
                {"key": "plan", "role": "queue", "required": True},
            ]
        },
        "reviewed": {"notes": [{"key": "verdict", "role": "review"}]},
    }
}
VALUES: list[Any] = [
    "done",
    ' {"not": "JSON, but text"} ',
    "5",
    "zwölf Boxkämpfer \U0001f94a\0\n",
    {"pages": [1, 2.5, None], "ok": True, "ä": {"b": "\u2028"}},
    [],
    {},
    0,
    -1.5,
    False,
    [[[[1]]]],
    2**70,
]


@pytest.fixture
def gated(store: Store, project: str) -> Client:
    return client_of(store, project, DECLARED)


@pytest.mark.every_store
async def test_a_result_is_the_note_of_the_item_that_it_ends(tools: Client) -> None:
    for value in VALUES:
        item = await tools.add()
        await tools.move(item, "start")
        ended = await tools.advance(item, "complete", "ann", result=value)
        assert ended["applied"], ended
        assert ended["newRole"] == "terminal"
        (note,) = await notes_of(tools, item)
        assert (note["key"], note["role"], note["actor"]["id"]) == ("result", "work", "ann")
        assert read(note) == value
        assert type(read(note)) is type(value)
        assert (note.get("format") == "json") is not isinstance(value, str)
        assert await tools("query_notes", operation="get", id=note["id"]) == note


@pytest.mark.parametrize(
    ("before", "trigger", "role"),
    [
        (("start",), "start", "work"),
        ((), "complete", "queue"),
        ((), "cancel", "queue"),
        (("start", "block"), "cancel", "work"),
        (("hold",), "cancel", "queue"),
    ],
)
async def test_every_transition_that_ends_an_item_takes_one(
    tools: Client, before: tuple[str, ...], trigger: str, role: str
) -> None:
    item = await tools.add()
    await tools.move(item, *before)
    assert (await tools.advance(item, trigger, result={"a": 1}))["newRole"] == "terminal"
    (note,) = await notes_of(tools, item)
    assert (note["role"], note["body"]) == (role, '{"a":1}')
    assert "actor" not in note


async def test_a_review_ends_with_a_result_of_that_phase(gated: Client) -> None:
    item = await gated.add(type="reviewed")
    await gated.move(item, "start", "start")
    assert (await gated.advance(item, "start", result="good"))["newRole"] == "terminal"
    assert [note["role"] for note in await notes_of(gated, item)] == ["review"]


@pytest.mark.parametrize(
    ("before", "trigger", "words"),
    [
        ((), "start", "'start' leads to role work here"),
        (("start",), "block", "'block' leads to role blocked here"),
        (("start",), "hold", "'hold' leads to role blocked here"),
        (("start", "block"), "resume", "'resume' leads to role work here"),
        (("complete",), "reopen", "'reopen' leads to role queue here"),
    ],
)
async def test_other_transitions_refuse_it_and_change_nothing(
    tools: Client, before: tuple[str, ...], trigger: str, words: str
) -> None:
    item = await tools.add()
    await tools.move(item, *before)
    state = await tools.get(item)
    refused = await tools.advance(item, trigger, result="too soon")
    assert not refused["applied"]
    assert refused["error"].startswith("result: is allowed only with a transition that ends the item; ")
    assert words in refused["error"]
    assert await tools.get(item) == state
    assert await notes_of(tools, item) == []
    assert (await tools.advance(item, trigger))["applied"]


async def test_whether_a_start_ends_the_item_is_decided_by_its_state(gated: Client) -> None:
    """By the schema, and not for the first start after a takeover."""
    plain, reviewed = await gated.add(), await gated.add(type="reviewed")
    await gated.move(plain, "start")
    await gated.move(reviewed, "start")
    assert "leads to role review here" in (await gated.advance(reviewed, "start", result="x"))["error"]
    assert (await gated.advance(plain, "start", result="x"))["newRole"] == "terminal"
    left = await gated.add()
    await gated.claim("ann", left)
    await gated.advance(left, "start", "ann")
    await gated.release("ann", left)
    assert (await gated.claim("bob", left))["takeover"]
    assert "'start' leaves it in role work here" in (await gated.advance(left, "start", "bob", result="x"))["error"]
    assert (await gated.advance(left, "start", "bob"))["newRole"] == "work"
    assert (await gated.advance(left, "start", "bob", result="x"))["newRole"] == "terminal"
    assert [note["body"] for note in await notes_of(gated, left)] == ["x"]


async def test_refused_transitions_leave_no_result(gated: Client) -> None:
    """By claim, fence, dependency or gate; the gate counts the result as filled."""
    item, blocker = await gated.add(type="report"), await gated.add()
    claim = await gated.claim("ann", item)
    edge = await gated.link(blocker, item)
    for agent, fields in (("bob", {}), ("ann", {"fenceToken": claim["fenceToken"] + 1}), ("ann", {})):
        assert not (await gated.advance(item, "complete", agent, result="x", **fields))["applied"]
    await gated.unlink(id=edge)
    assert missing(await gated.advance(item, "complete", "ann")) == ["result", "plan"]
    assert missing(await gated.advance(item, "complete", "ann", result={"a": 1})) == ["plan"]
    assert missing(await gated.advance(item, "complete", "ann", result=" \n")) == ["result", "plan"]
    assert await notes_of(gated, item) == []
    plan = {"itemId": item, "key": "plan", "role": "queue", "body": "text"}
    await gated("manage_notes", operation="upsert", notes=[plan])
    ended = await gated.advance(item, "complete", "ann", result={"a": 1})
    assert ended["applied"], ended
    notes = await notes_of(gated, item)
    assert {(note["key"], note["role"]) for note in notes} == {("plan", "queue"), ("result", "work")}
    assert (await audit(gated.store, gated.project)).differences == []


async def test_no_text_and_null_are_no_result(tools: Client) -> None:
    for value in (None, "", " \n\t"):
        item = await tools.add()
        assert (await tools.advance(item, "start", result=value))["newRole"] == "work"
        assert (await tools.advance(item, "complete", result=value))["newRole"] == "terminal"
        assert await notes_of(tools, item) == []


async def test_a_new_result_replaces_the_one_before(tools: Client) -> None:
    item = await tools.add()
    await tools.advance(item, "complete", "ann", result={"first": True})
    (first,) = await notes_of(tools, item)
    await tools.move(item, "reopen", "start")
    assert await notes_of(tools, item) == [first]
    await tools.advance(item, "complete", "bob", result="text now")
    (second,) = await notes_of(tools, item)
    assert (second["id"], second["createdAt"]) == (first["id"], first["createdAt"])
    assert (second["body"], second["role"], second["actor"]["id"]) == ("text now", "work", "bob")
    assert "format" not in second
    await tools.move(item, "reopen")
    await tools.advance(item, "complete", result=[1])
    (third,) = await notes_of(tools, item)
    assert (third["format"], third["body"]) == ("json", "[1]")
    by_hand = {"itemId": item, "key": "result", "role": "queue", "body": "[2]"}
    await tools("manage_notes", operation="upsert", notes=[by_hand])
    (fourth,) = await notes_of(tools, item)
    assert (fourth["body"], "format" in fourth) == ("[2]", False)
    assert (await audit(tools.store, tools.project)).differences == []


async def test_an_item_full_of_notes_takes_a_result(tools: Client) -> None:
    item = await tools.add()
    notes = [{"itemId": item, "key": f"k{n}", "role": "work", "body": "x"} for n in range(500)]
    assert (await tools("manage_notes", operation="upsert", notes=notes))["upserted"] == 500
    assert (await tools.advance(item, "complete", result="x"))["applied"]
    assert len(await notes_of(tools, item)) == 501
    assert (await tools.delete(item))["deleted"] == 1
    assert (await audit(tools.store, tools.project)).differences == []


async def test_the_longest_result_and_one_byte_more(tools: Client) -> None:
    texts: list[Any] = ["x" * MAX_RESULT, "é" * (MAX_RESULT // 2), ["x" * (MAX_RESULT - 4)]]
    for value in texts:
        item = await tools.add()
        assert (await tools.advance(item, "complete", result=value))["applied"]
        (note,) = await notes_of(tools, item)
        assert read(note) == value
    item = await tools.add()
    for value, as_json in (("x" * (MAX_RESULT + 1), ""), (["x" * (MAX_RESULT - 3)], " as JSON")):
        elements = [{"itemId": item, "trigger": "complete", "result": one} for one in ("fits", value)]
        failure = await tools.refusal("advance_item", transitions=elements)
        assert failure.code == "VALIDATION_ERROR"
        assert failure.message == f"transitions[1].result: must be at most 262,144 bytes{as_json}, not 262,145"
    assert await tools.role(item) == "queue"


async def test_results_of_one_call_have_a_bound_together(tools: Client) -> None:
    items = await tools.add_many(11)
    value = "x" * MAX_RESULT
    elements = [{"itemId": item, "trigger": "complete", "result": value, "actor": actor("ann")} for item in items]
    failure = await tools.refusal("advance_item", transitions=elements)
    assert failure.message == "transitions: their results must be at most 2,621,440 bytes together, not 2,883,584"
    call: Json = {"transitions": elements[:10], "requestId": fresh_id()}
    answer = await tools.answer("advance_item", **call)
    assert json.loads(answer)["summary"] == {"total": 10, "succeeded": 10, "failed": 0}
    assert len(answer) < 5_000, "answers do not repeat results"
    assert await tools.answer("advance_item", **call) == answer
    for item in items[:10]:
        assert [len(note["body"]) for note in await notes_of(tools, item)] == [MAX_RESULT]


class Dies(Store):
    """The store of a process that dies after some runs of ``advance_item.lua``."""

    left = 0

    async def run(self, script: Script[Any], project: str, *args: Any, **named: Any) -> Any:
        if script.name == "advance_item":
            if not self.left:
                raise ToolFailure("store_unavailable", "died")
            self.left -= 1
        return await super().run(script, project, *args, **named)


async def test_a_process_that_dies_between_slices_leaves_each_result_with_its_item(
    tools: Client, redis_url: str
) -> None:
    items = await tools.add_many(10)
    value = "x" * MAX_RESULT
    elements = [{"itemId": item, "trigger": "complete", "result": value, "actor": actor("ann")} for item in items]
    call: Json = {"transitions": elements, "requestId": fresh_id()}
    store = Dies(redis_url, timeout_ms=20_000)
    await store.open()
    dying, done = Client(store, tools.project), []
    for runs in range(1, 4):
        store.left = runs
        await dying.attempt("advance_item", **call)
        roles = [await tools.role(item) for item in items]
        assert [len(await notes_of(tools, item)) for item in items] == [role == "terminal" for role in roles]
        done.append(roles.count("terminal"))
    await store.close()
    assert 0 < done[0] < done[1] < done[2] < 10, "the call takes several runs, and a retry goes on where it stopped"
    answer = await tools("advance_item", **call)
    assert answer["summary"]["succeeded"] == 10
    assert await tools("advance_item", **call) == answer


async def test_a_repeated_call_gets_the_first_answer_and_another_result_is_another_call(tools: Client) -> None:
    item = await tools.add()

    def call(value: Any) -> Json:
        return {"transitions": [{"itemId": item, "trigger": "complete", "actor": actor("ann"), "result": value}]}

    request = fresh_id()
    first = await tools("advance_item", **call({"a": 1}), requestId=request)
    assert await tools("advance_item", **call({"a": 1}), requestId=request) == first
    for other in ({"a": 2}, '{"a":1}', None):
        failure = await tools.refusal("advance_item", **call(other), requestId=request)
        assert failure.code == "request_id_reused"
    refused = await tools("advance_item", **call("again"), requestId=(later := fresh_id()))
    assert not refused["results"][0]["applied"]
    assert await tools("advance_item", **call("again"), requestId=later) == refused
    assert [read(note) for note in await notes_of(tools, item)] == [{"a": 1}]


async def test_the_event_of_the_transition_tells_of_its_result(tools: Client) -> None:
    item = await tools.add()
    await tools.advance(item, "complete", result="x")
    stream: list[Any] = await tools.store.command("XRANGE", f"fc:{{{tools.project}}}:ev", "-", "+")
    told = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in stream]
    assert [fields[b"k"] for fields in told] == [b"create", b"transition"]
    assert told[-1][b"n"] == b"result"
