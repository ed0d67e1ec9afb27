"""manage_notes and query_notes: writing, reading and deleting notes, and itemContext."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store, keys
from tests.items.calls import contents
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse, ms, server_time

pytestmark = pytest.mark.anyio

NONE = {"guidancePointer": None, "noteProgress": None}
DECLARED = {
    "work_item_schemas": {
        "bug": {
            "notes": [
                {"key": "repro", "role": "queue", "required": True, "guidance": "Write steps.", "skill": "reproduce"},
                {"key": "hint", "role": "queue", "guidance": "An idea."},
                {"key": "scope", "role": "queue", "required": True, "skill": "scope-it"},
                {"key": "cause", "role": "work", "required": True, "guidance": "Say why."},
            ]
        },
        "guarded": {
            "default_traits": ["security"],
            "notes": [{"key": "plan", "role": "queue", "required": True, "guidance": "The schema's."}],
        },
        "free": {},
    },
    "traits": {
        "security": {"notes": [{"key": "threats", "role": "queue", "required": True, "guidance": "List threats."}]},
        "careful": {
            "notes": [
                {"key": "plan", "role": "work", "required": True, "guidance": "The trait's."},
                {"key": "rollback", "role": "queue", "required": True, "guidance": "How to undo it."},
            ]
        },
    },
}


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(DECLARED, Settings))


def note(item: str, key: str = "plan", role: str = "queue", **fields: Any) -> Json:
    return {"itemId": item, "key": key, "role": role, **fields}


async def upsert(tools: Client, *notes: Json, **more: Any) -> Json:
    return await tools("manage_notes", operation="upsert", notes=list(notes), **more)


async def write(tools: Client, *notes: Json) -> list[str]:
    """Writes notes that must all be accepted; their ids."""
    answer = await upsert(tools, *notes)
    assert answer["failed"] == 0, answer
    return [written["id"] for written in answer["notes"]]


async def delete(tools: Client, **selector: Any) -> Json:
    return await tools("manage_notes", operation="delete", **selector)


async def read(tools: Client, item: str, **filters: Any) -> list[Json]:
    answer = await tools("query_notes", operation="list", itemId=item, **filters)
    assert answer["total"] == len(answer["notes"])
    found: list[Json] = answer["notes"]
    return found


async def read_one(tools: Client, id: str) -> Json:
    return await tools("query_notes", operation="get", id=id)


async def keys_of(tools: Client, item: str, **filters: Any) -> list[str]:
    return [found["key"] for found in await read(tools, item, **filters)]


async def note_keys(tools: Client) -> list[bytes]:
    """The notes in the store: a list per item with notes, and each note."""
    families = (keys.notes.key(tools.project, "*"), keys.note.key(tools.project, "*"))
    return [key for family in families async for key in tools.store.client.scan_iter(match=family)]


async def later(tools: Client, time: str) -> None:
    """Waits until the server's clock is past a time."""
    while await server_time(tools.store) <= ms(time):
        pass


# --- writing ----------------------------------------------------------------------------------


@pytest.mark.every_store
async def test_the_body_of_a_new_note_is_returned_only_by_reads(tools: Client) -> None:
    item = await tools.add()
    answer = await upsert(tools, note(item, body="Do this."))
    written = {"id": answer["notes"][0]["id"], "itemId": item, "key": "plan", "role": "queue"}
    assert answer == {"notes": [written], "upserted": 1, "failed": 0, "itemContext": {item: NONE}}
    (found,) = await read(tools, item)
    times = dict.fromkeys(("createdAt", "modifiedAt"), found["createdAt"])
    assert found == {**written, "body": "Do this.", **times}
    assert await read_one(tools, written["id"]) == found


@pytest.mark.every_store
async def test_writing_a_key_again_replaces_the_note_and_keeps_its_id_and_creation(tools: Client) -> None:
    item, other = await tools.add_many(2)
    first, _ = await write(tools, note(item, body="old", actor=actor("ann")), note(other, body="other's"))
    before = await read_one(tools, first)
    await later(tools, before["createdAt"])
    assert await write(tools, note(item, role="work", body="new", actor=actor("bob"))) == [first]
    (found,) = await read(tools, item)
    assert (found["id"], found["role"], found["body"], found["actor"]["id"]) == (first, "work", "new", "bob")
    assert found["createdAt"] == before["createdAt"] < found["modifiedAt"]
    assert await keys_of(tools, item, role="queue") == []
    assert [each["body"] for each in await read(tools, other)] == ["other's"]


async def test_a_body_left_out_empties_the_note(tools: Client) -> None:
    item = await tools.add()
    await write(tools, note(item, body="text"))
    await write(tools, note(item))
    assert [found["body"] for found in await read(tools, item)] == [""]


async def test_the_last_of_repeated_keys_in_a_call_counts(tools: Client) -> None:
    item = await tools.add()
    answer = await upsert(tools, note(item, body="one"), note(item, "log", body="x"), note(item, role="work", body="2"))
    assert [each["role"] for each in answer["notes"]] == ["queue", "queue", "work"]
    assert answer["notes"][0]["id"] == answer["notes"][2]["id"]
    assert answer["upserted"] == 3
    log, plan = await read(tools, item)
    assert [(plan[name], log[name]) for name in ("role", "body")] == [("work", "queue"), ("2", "x")]


BLANK = ["", " ", "\n\t \r", "\u3000\u00a0", None]
KEPT = ["x", "  kept as it is \n", "Größe 10 µm, 日本語, 🙂👩‍👩‍👧", "a\x00b\x7f", '{"json": [1]}', "﷽" * 100_000]


@pytest.mark.parametrize("body", [*BLANK, *KEPT], ids=lambda body: repr(body)[:12])
async def test_a_body_is_stored_verbatim_and_a_blank_one_fills_nothing(with_schemas: Client, body: str | None) -> None:
    item = await with_schemas.add(type="bug")
    answer = await upsert(with_schemas, note(item, "repro", body=body))
    filled = int(body in KEPT)
    assert answer["itemContext"][item]["noteProgress"] == {"filled": filled, "remaining": 2 - filled, "total": 2}
    (found,) = await read(with_schemas, item)
    assert found["body"] == (body if filled else "")
    assert await read_one(with_schemas, found["id"]) == found


async def test_keys_are_compared_exactly(tools: Client) -> None:
    item = await tools.add()
    names = ["plan", "Plan", " plan", "plán", "pla\u0301n", "計画", "p:l*a[n]", "k" * 200, "é" * 200]
    await write(tools, *(note(item, name, body=name) for name in names))
    assert {found["key"]: found["body"] for found in await read(tools, item)} == {name: name for name in names}
    assert (await delete(tools, itemId=item, key="Plan"))["deleted"] == 1
    assert set(await keys_of(tools, item)) == set(names) - {"Plan"}


@pytest.mark.parametrize("role", ["queue", "work", "review", "QUEUE", "Work"])
async def test_phases_of_notes_are_case_insensitive(tools: Client, role: str) -> None:
    item = await tools.add()
    assert (await upsert(tools, note(item, role=role)))["notes"][0]["role"] == role.lower()
    assert [found["role"] for found in await read(tools, item)] == [role.lower()]


async def test_each_invalid_note_fails_alone(three: Client) -> None:
    item = await three.add()
    wrong: list[tuple[Json, str]] = [
        (note(fresh_id()), "no such item"),
        (note("00000"), "no such item"),
        (note("abcd"), "id prefix is ambiguous"),
        (note("item"), "itemId: must be a UUID"),
        ({"key": "plan", "role": "work"}, "itemId: is required"),
        ({"itemId": item, "role": "work"}, "key: is required"),
        ({"itemId": item, "key": "plan"}, "role: is required"),
        (note(item, ""), "key: must be 1 to 200 characters"),
        (note(item, " \t"), "key: must be 1 to 200 characters"),
        (note(item, "k" * 201), "key: must be 1 to 200 characters"),
        (note(item, role="terminal"), "role: 'terminal' is not one of queue, work, review"),
        (note(item, role="blocked"), "role: 'blocked' is not one of"),
        (note(item, role=""), "role: '' is not one of"),
        (note(item, actor={"id": " ", "kind": "user"}), "actor.id: must be"),
        (note(item, actor={"kind": "user"}), "actor.id: must be"),
        (note(item, actor={"id": "a", "kind": "robot"}), "actor.kind: must be one of"),
        (note(item, actor=actor("a", parent="p" * 501)), "actor.parent: must be"),
        (note(item, actor=actor("a", proof="p" * 10_001)), "actor.proof: must be"),
    ]
    batch = [note(item, "first", body="1"), *(each for each, _ in wrong), note(item, "last", body="2")]
    answer = await upsert(three, *batch)
    assert (answer["upserted"], answer["failed"]) == (2, len(wrong))
    assert [failure["index"] for failure in answer["failures"]] == list(range(1, len(wrong) + 1))
    for failure, (_, error) in zip(answer["failures"], wrong, strict=True):
        assert failure["error"].startswith(error), failure
    assert [written["key"] for written in answer["notes"]] == ["first", "last"]
    assert list(answer["itemContext"]) == [item]
    assert await keys_of(three, item) == ["first", "last"]


async def test_without_a_valid_note_there_is_no_context(tools: Client) -> None:
    answer = await upsert(tools, note(fresh_id()), note(await tools.add(), role="done"))
    assert [failure["index"] for failure in answer.pop("failures")] == [0, 1]
    assert answer == {"notes": [], "upserted": 0, "failed": 2, "itemContext": {}}


@pytest.mark.parametrize(
    "spoilt",
    [{"body": 7}, {"role": None}, {"key": None}, {"title": "x"}, {"actor": "ann"}, {"actor": {"id": "a", "x": 1}}],
    ids=str,
)
async def test_a_malformed_note_fails_the_call(tools: Client, spoilt: Json) -> None:
    item = await tools.add()
    refused = await tools.refusal("manage_notes", operation="upsert", notes=[note(item), note(item, "log") | spoilt])
    assert (refused.code, refused.kind) == ("VALIDATION_ERROR", "permanent")
    assert await read(tools, item) == []


@pytest.mark.parametrize("count", [0, 501])
async def test_a_call_has_1_to_500_notes(tools: Client, count: int) -> None:
    item = await tools.add()
    notes = [note(item, str(number)) for number in range(count)]
    refused = await tools.refusal("manage_notes", operation="upsert", notes=notes)
    assert refused.message == "notes: must hold 1 to 500 elements"
    assert (await tools.refusal("manage_notes", operation="upsert")).message == refused.message
    assert await read(tools, item) == []


# --- actors -----------------------------------------------------------------------------------


async def test_a_note_shows_its_actor_and_verification(tools: Client) -> None:
    item = await tools.add()
    who = {"id": "sub-1", "kind": "SUBAGENT", "parent": "orch-1", "proof": "secret-token"}
    shown = {
        "actor": {"id": "sub-1", "kind": "subagent", "parent": "orch-1"},
        "verification": {"status": "unchecked", "verifier": "noop", "reason": None},
    }
    answer = await upsert(tools, note(item, actor=who), note(item, "log"), actor=actor("caller"))
    signed, unsigned = answer["notes"]
    for answered in (signed, await read_one(tools, signed["id"]), (await read(tools, item, includeBody=False))[1]):
        assert {name: answered[name] for name in shown} == shown
        assert "secret-token" not in str(answered)
    # The actor of the call is not the writer of its notes.
    for answered in (unsigned, await read_one(tools, unsigned["id"])):
        assert not answered.keys() & shown.keys()


async def test_an_unsigned_write_removes_the_actor(tools: Client) -> None:
    item = await tools.add()
    await write(tools, note(item, actor=actor("ann", parent="boss")))
    await write(tools, note(item, actor=actor("bob")))
    assert [found["actor"] for found in await read(tools, item)] == [actor("bob")]
    await write(tools, note(item))
    (found,) = await read(tools, item)
    assert not found.keys() & {"actor", "verification"}


@pytest.mark.parametrize("writer", [{}, {"actor": actor("rival")}], ids=["nobody", "rival"])
async def test_anybody_writes_and_deletes_the_notes_of_a_held_item(tools: Client, writer: Json) -> None:
    """Claims affect only transitions; notes do not change the item itself."""
    item = await tools.add()
    claim = await tools.claim("holder", item)
    before = await tools("get_context", itemId=item), await tools.get(item)
    await write(tools, note(item, **writer), note(item, "log", **writer))
    assert (await delete(tools, itemId=item, key="log", **writer))["deleted"] == 1
    assert (await tools("get_context", itemId=item), await tools.get(item)) == before
    assert (await tools.advance(item, "start", "holder", fenceToken=claim["fenceToken"]))["applied"]
    await lapse(tools, item)
    assert (await upsert(tools, note(item, body="after", **writer)))["upserted"] == 1


# --- itemContext ------------------------------------------------------------------------------


async def test_the_context_names_the_first_required_note_that_is_missing(with_schemas: Client) -> None:
    item = await with_schemas.add(type="bug")

    async def context(*notes: Json) -> Json:
        answer = await upsert(with_schemas, *notes)
        found: Json = answer["itemContext"][item]
        return found

    first = {"guidancePointer": "Write steps.", "skillPointer": "reproduce"}
    second = {"guidancePointer": None, "skillPointer": "scope-it"}

    def progress(filled: int) -> Json:
        return {"noteProgress": {"filled": filled, "remaining": 2 - filled, "total": 2}}

    for key in ("hint", "of no schema", "cause"):  # not required, not known, of another phase
        assert await context(note(item, key, body="x")) == first | progress(0)
    assert await context(note(item, "repro", body="\n")) == first | progress(0)
    assert await context(note(item, "scope", body="x")) == first | progress(1)
    assert await context(note(item, "repro", body="x"), note(item, "scope", body=" ")) == second | progress(1)
    assert await context(note(item, "scope", body="x")) == {"guidancePointer": None, **progress(2)}
    await with_schemas.move(item, "start")
    await delete(with_schemas, itemId=item, key="cause")
    work = {"filled": 0, "remaining": 1, "total": 1}
    assert await context(note(item, "log")) == {"guidancePointer": "Say why.", "noteProgress": work}


async def test_a_key_is_filled_under_any_phase(with_schemas: Client) -> None:
    item = await with_schemas.add(type="bug")
    notes = [note(item, "repro", "review", body="x"), note(item, "scope", "work", body="x")]
    answer = await upsert(with_schemas, *notes)
    assert answer["itemContext"][item]["noteProgress"] == {"filled": 2, "remaining": 0, "total": 2}
    assert (await with_schemas.advance(item, "start"))["applied"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"type": "free"}, 0),
        ({"type": "bug", "role": "terminal"}, None),
        ({"type": "bug", "role": "blocked"}, 0),
        ({"type": "bug", "role": "review"}, 0),
        ({"tags": "x,bug"}, 2),
        ({"type": "free", "tags": "bug"}, 0),
    ],
    ids=str,
)
async def test_the_context_is_that_of_the_items_schema_and_role(
    with_schemas: Client, fields: Json, expected: int | None
) -> None:
    item = await with_schemas.add(**fields)
    context = (await upsert(with_schemas, note(item, body="x")))["itemContext"][item]
    assert context["noteProgress"] == (
        None if expected is None else {"filled": 0, "remaining": expected, "total": expected}
    )
    assert context["guidancePointer"] == ("Write steps." if expected else None)


async def test_traits_add_notes_to_the_context(with_schemas: Client) -> None:
    item = await with_schemas.add(type="guarded", traits="careful")

    async def missing(*written: str) -> tuple[str | None, int]:
        answer = await upsert(with_schemas, note(item, "log"), *(note(item, key, body="x") for key in written))
        context = answer["itemContext"][item]
        return context["guidancePointer"], context["noteProgress"]["remaining"]

    # The schema's own first, then its default traits, then the item's; the first definition of a key counts.
    assert await missing() == ("The schema's.", 3)
    assert await missing("plan") == ("List threats.", 2)
    assert await missing("threats") == ("How to undo it.", 1)
    await with_schemas.update(item, properties='{"traits": []}')
    assert await missing() == (None, 0)
    free = await with_schemas.add(traits="careful")
    assert (await upsert(with_schemas, note(free)))["itemContext"] == {free: NONE}


async def test_each_item_of_a_call_has_its_final_context(with_schemas: Client) -> None:
    bug, free, plain = [await with_schemas.add(**fields) for fields in ({"type": "bug"}, {"type": "free"}, {})]
    many = [note(bug, f"log {n}") for n in range(60)]
    answer = await upsert(
        with_schemas,
        note(bug, "repro", body="x"), note(plain), note(free), *many, note(bug, "repro"), note(bug, "scope", body="x"),
        note(fresh_id()),
    )  # fmt: skip
    assert answer["upserted"] == 65
    assert answer["itemContext"] == {
        bug: {
            "guidancePointer": "Write steps.",
            "skillPointer": "reproduce",
            "noteProgress": {"filled": 1, "remaining": 1, "total": 2},
        },
        plain: NONE,
        free: {"guidancePointer": None, "noteProgress": {"filled": 0, "remaining": 0, "total": 0}},
    }


# --- reading ----------------------------------------------------------------------------------


async def test_a_list_is_in_order_of_creation_then_key_and_can_be_of_one_phase(tools: Client) -> None:
    item = await tools.add()
    await write(tools, note(item, "c", "work", body="C"), note(item, "b", body="B"))
    await later(tools, (await read(tools, item))[0]["createdAt"])
    await write(tools, note(item, "a", body="A"), note(item, "c", "work", body="CC"))
    assert await keys_of(tools, item) == ["b", "c", "a"]
    assert await keys_of(tools, item, role="queue") == ["b", "a"]
    assert await keys_of(tools, item, role="WORK") == ["c"]
    assert await keys_of(tools, item, role="review") == []
    for nothing in ("", None):
        assert await keys_of(tools, item, role=nothing) == ["b", "c", "a"]
    whole = await read(tools, item)
    bare = [{name: value for name, value in found.items() if name != "body"} for found in whole]
    assert await read(tools, item, includeBody=False) == bare
    assert await read(tools, item, includeBody=False, role="queue") == [bare[0], bare[2]]


async def test_other_items_and_other_projects_have_notes_of_their_own(tools: Client, elsewhere: Client) -> None:
    item, other = await tools.add_many(2)
    (written,) = await write(tools, note(item))
    assert await read(tools, other) == []
    refused = await elsewhere.refusal("query_notes", operation="get", id=written)
    assert (refused.code, refused.kind) == ("RESOURCE_NOT_FOUND", "permanent")
    assert (await delete(elsewhere, ids=[written], itemId=item))["deleted"] == 0
    assert await keys_of(tools, item) == ["plan"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"operation": "get"}, "VALIDATION_ERROR", "id: is required for operation get"),
        ({"operation": "get", "itemId": "abcd5"}, "VALIDATION_ERROR", "id: is required for operation get"),
        ({"operation": "get", "id": "abcd5"}, "VALIDATION_ERROR", "id: must be a UUID"),
        ({"operation": "get", "id": fresh_id()}, "RESOURCE_NOT_FOUND", "id: no such note"),
        ({"operation": "list"}, "VALIDATION_ERROR", "itemId: is required for operation list"),
        ({"operation": "list", "itemId": "abc"}, "VALIDATION_ERROR", "itemId: must be a UUID"),
        ({"operation": "list", "itemId": "0000"}, "RESOURCE_NOT_FOUND", "itemId: no item's id begins with '0000'"),
        ({"operation": "list", "itemId": fresh_id()}, "RESOURCE_NOT_FOUND", "itemId: no such item"),
        ({"operation": "list", "itemId": "abcd"}, "VALIDATION_ERROR", "itemId: id prefix 'abcd' is ambiguous"),
        ({"operation": "list", "itemId": "abcd5", "role": "terminal"}, "VALIDATION_ERROR", "role: 'terminal' is not"),
        ({"operation": "search", "itemId": "abcd5"}, "VALIDATION_ERROR", "operation: 'search' is not one of"),
    ],
)
async def test_invalid_reads_are_rejected(three: Client, arguments: Json, code: str, message: str) -> None:
    refused = await three.refusal("query_notes", **arguments)
    assert refused.code == code
    assert refused.message.startswith(message)


@pytest.fixture
async def three(tools: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A project with the items abcd1..., abcd2... and abcd5..."""
    ids = iter(f"abcd{digit}234000040008000000000000000" for digit in "125")
    monkeypatch.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(ids, count)))
    await tools.add_many(3)
    monkeypatch.undo()
    return tools


async def test_items_may_be_named_by_a_prefix(three: Client) -> None:
    item = "abcd5234-0000-4000-8000-000000000000"
    answer = await upsert(three, note("abcd5", body="x"), note("ABCD5234", "log"), note(item.upper(), "log", "work"))
    assert [written["itemId"] for written in answer["notes"]] == [item] * 3
    assert list(answer["itemContext"]) == [item]
    assert await keys_of(three, "aBcD52") == ["log", "plan"]
    assert (await delete(three, itemId="abcd5", key="log"))["deleted"] == 1
    assert (await delete(three, itemId="abcd52340000"))["deleted"] == 1
    assert await read(three, item) == []


# --- deleting ---------------------------------------------------------------------------------


@pytest.mark.every_store
async def test_notes_are_deleted_by_id_by_item_and_by_key(tools: Client) -> None:
    item, other = await tools.add_many(2)
    ids = await write(tools, *(note(item, key) for key in "abcde"), note(other, "a"))
    assert await delete(tools, ids=[ids[0], ids[5]]) == {"deleted": 2, "failed": 0}
    assert await delete(tools, itemId=item, key="b") == {"deleted": 1, "failed": 0}
    assert await keys_of(tools, item) == ["c", "d", "e"]
    assert await delete(tools, itemId=item) == {"deleted": 3, "failed": 0}
    assert await read(tools, item) == await read(tools, other) == []
    assert (await tools.refusal("query_notes", operation="get", id=ids[2])).code == "RESOURCE_NOT_FOUND"
    for selector in ({"itemId": item}, {"itemId": item, "key": "b"}, {"itemId": fresh_id()}):
        assert await delete(tools, **selector) == {"deleted": 0, "failed": 0}


async def test_each_note_that_is_written_or_deleted_is_an_event(tools: Client) -> None:
    item = await tools.add()
    await write(tools, note(item, "a"), note(item, "b"))
    await delete(tools, itemId=item, key="a")
    given = [{"itemRef": "root", "key": "c", "role": "queue"}]
    root = (await tools("create_work_tree", root={"title": "root"}, notes=given))["root"]["id"]
    entries = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    told = [[part.decode() for part in fields[1:6:2]] for _, fields in entries if fields[1] in (b"note", b"unnote")]
    item, root = item.replace("-", ""), root.replace("-", "")
    assert told == [["note", item, "a"], ["note", item, "b"], ["unnote", item, "a"], ["note", root, "c"]]


async def test_ids_and_an_item_combine_without_counting_a_note_twice(tools: Client) -> None:
    item, other = await tools.add_many(2)
    ids = await write(tools, note(item, "a"), note(item, "b"), note(other, "a"), note(other, "b"))
    assert await delete(tools, ids=ids[:1] + ids[2:3], itemId=item, key="a") == {"deleted": 2, "failed": 0}
    assert await delete(tools, ids=[ids[1], ids[1].upper()], itemId=other) == {"deleted": 2, "failed": 0}


async def test_an_unknown_id_fails_alone(tools: Client) -> None:
    item = await tools.add()
    ids = await write(tools, note(item, "a"), note(item, "b"), note(item, "c"))
    unknown = [fresh_id(), fresh_id().upper()]
    answer = await delete(tools, ids=[unknown[0], ids[0].upper(), unknown[1], item], itemId=item, key="c")
    failures = [{"id": each, "error": "no such note"} for each in (*unknown, item)]
    assert answer == {"deleted": 2, "failed": 3, "failures": failures}
    assert await keys_of(tools, item) == ["b"]
    assert await tools.exists(item)


@pytest.mark.parametrize(
    ("selector", "code", "message"),
    [
        ({}, "VALIDATION_ERROR", "ids: delete needs ids or itemId"),
        ({"ids": [], "key": "plan"}, "VALIDATION_ERROR", "key: needs itemId beside it"),
        ({"key": "plan"}, "VALIDATION_ERROR", "ids: delete needs ids or itemId"),
        ({"ids": ["{note}"], "key": "plan"}, "VALIDATION_ERROR", "key: needs itemId beside it"),
        ({"ids": ["{note}", "abcd"]}, "VALIDATION_ERROR", "ids[1]: must be a UUID"),
        ({"ids": ["{note}"], "itemId": "-"}, "VALIDATION_ERROR", "itemId: must be a UUID"),
        ({"ids": ["{note}"], "itemId": "0000"}, "RESOURCE_NOT_FOUND", "itemId: no item's id begins with '0000'"),
        ({"ids": ["{note}"] * 501}, "VALIDATION_ERROR", "ids: must hold 1 to 500 elements"),
    ],
    ids=lambda given: str(given)[:30],
)
async def test_a_rejected_deletion_deletes_nothing(three: Client, selector: Json, code: str, message: str) -> None:
    (written,) = await write(three, note("abcd5"))
    if "ids" in selector:
        selector = selector | {"ids": [given.format(note=written) for given in selector["ids"]]}
    refused = await three.refusal("manage_notes", operation="delete", **selector)
    assert refused.code == code
    assert refused.message.startswith(message)
    assert await keys_of(three, "abcd5") == ["plan"]


async def test_a_deleted_note_fills_nothing_and_its_key_can_be_reused(with_schemas: Client) -> None:
    item = await with_schemas.add(type="guarded")
    first = await write(with_schemas, note(item, body="x"), note(item, "threats", body="x"))
    assert (await with_schemas("get_context", itemId=item))["gateStatus"]["canAdvance"]
    await delete(with_schemas, ids=first[:1])
    context = await with_schemas("get_context", itemId=item)
    assert [entry["exists"] for entry in context["schema"]] == [False, True]
    assert [each["key"] for each in (await with_schemas.advance(item, "start"))["missingNotes"]] == ["plan"]
    again = await write(with_schemas, note(item, body="x"))
    assert again != first[:1]
    assert (await with_schemas.advance(item, "start"))["applied"]


@pytest.mark.parametrize("whole", [True, False], ids=["its root", "itself"])
async def test_notes_are_deleted_with_their_item(tools: Client, whole: bool) -> None:
    ids = await tools.chain(2)
    written = await write(tools, *(note(item, key, body="x") for item in ids for key in ("a", "b")))
    await tools.delete(ids[0] if whole else ids[2], recursive=whole)
    gone = ids if whole else ids[2:]
    assert [len(await read(tools, item)) for item in ids if item not in gone] == [2] * (0 if whole else 2)
    assert len(await note_keys(tools)) == (0 if whole else 6)  # of two items a list and two notes each
    assert (await delete(tools, ids=written))["failed"] == (6 if whole else 2)
    assert (await upsert(tools, note(gone[0])))["failures"] == [{"index": 0, "error": "no such item"}]


# --- retries and concurrency ------------------------------------------------------------------


async def test_a_retried_write_gets_the_first_answer_and_undoes_nothing(with_schemas: Client) -> None:
    item = await with_schemas.add(type="bug")
    signed: Json = {"actor": actor("ann"), "requestId": fresh_id()}
    call = [note(item, "repro", body="old"), note(fresh_id()), *(note(item, f"log {n}") for n in range(120))]
    first = await upsert(with_schemas, *call, **signed)
    assert (first["upserted"], first["failed"]) == (121, 1)
    await write(with_schemas, note(item, "repro", body="new"), note(item, "scope", body="x"))
    await delete(with_schemas, itemId=item, key="log 0")
    before = await contents(with_schemas)
    assert await upsert(with_schemas, *call, **signed) == first
    assert await contents(with_schemas) == before


async def test_a_retried_deletion_deletes_no_newer_note(tools: Client) -> None:
    item = await tools.add()
    await write(tools, note(item), note(item, "log"))
    call: Json = {"itemId": item, "actor": actor("ann"), "requestId": fresh_id()}
    first = await delete(tools, **call)
    assert first["deleted"] == 2
    await write(tools, note(item))
    assert await delete(tools, **call) == first
    assert await keys_of(tools, item) == ["plan"]


async def test_concurrent_writes_of_one_key_make_one_note(clients: list[Client]) -> None:
    item = await clients[0].add()
    for key in ("a", "b", "c"):
        answers = await asyncio.gather(
            *(upsert(clients[n % 2], note(item, key, body=str(n), actor=actor(f"agent {n}"))) for n in range(40))
        )
        (found,) = [each for each in await read(clients[0], item) if each["key"] == key]
        assert {answer["notes"][0]["id"] for answer in answers} == {found["id"]}
        assert found["actor"]["id"] == f"agent {found['body']}"
    assert await keys_of(clients[1], item) == ["a", "b", "c"]


async def test_a_write_to_an_item_during_its_deletion_leaves_nothing(clients: list[Client]) -> None:
    one, other = clients[:2]
    for item in await one.add_many(20):
        written, gone = await asyncio.gather(upsert(one, note(item, body="x"), note(item, "log")), other.delete(item))
        assert gone["deleted"] == 1
        assert written["upserted"] in (0, 1, 2)
        assert (await one.refusal("query_notes", operation="list", itemId=item)).code == "RESOURCE_NOT_FOUND"
    assert await note_keys(one) == []
