"""Notes of create_work_tree: given and blank ones, and their actors."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.actor import Actor, Distrusted, Trusted
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.trees import MAX_NOTES, MAX_NOTES_EACH
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.planting import SCHEMAS, note, notes_of, plant

pytestmark = pytest.mark.anyio


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(SCHEMAS, Settings))


async def test_blank_notes_are_added_to_given_ones(with_schemas: Client) -> None:
    tools = with_schemas
    made = await tools(
        "create_work_tree",
        root={"title": "R", "type": "bug", "traits": "careful"},
        children=[{"ref": "a", "title": "A", "tags": "x,task"}, {"ref": "b", "title": "B"}],
        createNotes=True,
        notes=[
            note("b", "free", "review", body="f"),
            note("root", "extra", "work", body="e"),
            note("root", "plan", body="p"),
        ],
    )
    listed = [(each["itemRef"], each["key"], each["role"]) for each in made["notes"]]
    assert listed == [
        ("b", "free", "review"), ("root", "extra", "work"), ("root", "plan", "queue"),
        ("root", "log", "work"), ("root", "check", "review"),
        ("a", "log", "work"), ("a", "check", "review"), ("a", "plan", "work"),
    ]  # fmt: skip
    a = made["children"][0]["id"]
    stored = {each["id"]: (each["itemId"], each["key"], each["role"], each["body"])
              for item in (made["root"]["id"], a, made["children"][1]["id"])
              for each in await notes_of(tools, item)}  # fmt: skip
    refs = {"root": made["root"]["id"], **{child["ref"]: child["id"] for child in made["children"]}}
    bodies = {"free": "f", "extra": "e", ("root", "plan"): "p"}
    assert stored == {
        each["id"]: (refs[each["itemRef"]], each["key"], each["role"],
                     bodies.get(each["key"], bodies.get((each["itemRef"], each["key"]), "")))
        for each in made["notes"]
    }  # fmt: skip
    assert [each["exists"] for each in made["root"]["expectedNotes"]] == [True] * 3
    progress = (await tools("get_context", itemId=a))["schema"]
    assert [(each["key"], each["exists"], each["filled"]) for each in progress] == [
        ("log", True, False), ("check", True, False), ("plan", True, False),
    ]  # fmt: skip


async def test_blank_notes_open_no_gate_and_given_ones_do(with_schemas: Client) -> None:
    tools = with_schemas
    call: Json = {"root": {"title": "R", "type": "bug"}, "children": [], "createNotes": True}
    blank = await plant(tools, **call, notes=[note("root", "plan", body=" \n")])
    refused = await tools.advance(blank["root"], "start")
    assert (refused["applied"], refused["missingNotes"][0]["key"]) == (False, "plan")
    filled = await plant(tools, **call, notes=[note("root", "plan", body="p")])
    assert (await tools.advance(filled["root"], "start"))["applied"]


async def test_blank_notes_count_towards_the_limit(store: Store, project: str) -> None:
    each = [{"key": f"k{n}", "role": "queue", "required": True} for n in range(100)]
    tools = Client(store, project, msgspec.convert({"work_item_schemas": {"wide": {"notes": each}}}, Settings))
    wide = [{"ref": f"c{n}", "title": "t", "type": "wide"} for n in range(MAX_NOTES // 100)]
    call: Json = {"root": {"title": "R"}, "children": wide, "createNotes": True}
    refused = await tools.refusal("create_work_tree", **call, notes=[note("root", "one too many")])
    assert refused.message.endswith(f"those of createNotes with them, not {MAX_NOTES + 1}")
    ids = await plant(tools, **call, notes=[note("c3", "k7", body="given")])
    assert not await notes_of(tools, ids.pop("root"))
    for ref, item in ids.items():
        bodies = {each["key"]: each["body"] for each in await notes_of(tools, item)}
        assert bodies == {f"k{n}": "given" if (ref, n) == ("c3", 7) else "" for n in range(100)}
        started = await tools.advance(item, "start")
        assert (started["applied"], len(started["missingNotes"])) == (False, 99 if ref == "c3" else 100)
    assert not (await audit(tools.store, tools.project)).differences


async def test_the_most_notes_of_one_item_are_accepted(tools: Client) -> None:
    notes = [note("root", str(n)) for n in range(MAX_NOTES_EACH)]
    ids = await plant(tools, notes=[*notes, note("root", "result")])  # which is one more
    more = {"itemId": ids["root"], "key": "one too many", "role": "queue"}
    answer = await tools("manage_notes", operation="upsert", notes=[more])
    assert answer["failures"][0]["error"].startswith(f"an item can have at most {MAX_NOTES_EACH} notes")
    again = {"itemId": ids["root"], "key": "0", "role": "queue", "body": "new"}
    assert (await tools("manage_notes", operation="upsert", notes=[again]))["upserted"] == 1
    assert len(await notes_of(tools, ids["root"])) == MAX_NOTES_EACH + 1


async def test_no_notes_are_created_by_default(with_schemas: Client) -> None:
    made = await with_schemas("create_work_tree", root={"title": "R", "type": "bug"})
    assert (made["notes"], await notes_of(with_schemas, made["root"]["id"])) == ([], [])


async def test_the_last_of_a_repeated_note_counts_in_the_place_of_the_first(tools: Client) -> None:
    made = await tools(
        "create_work_tree",
        root={"title": "R"},
        notes=[note("root", "k", body="1"), note("root", "l"), note("root", "k", "work", body="2")],
    )
    assert [(each["key"], each["role"]) for each in made["notes"]] == [("k", "work"), ("l", "queue")]
    stored = {each["key"]: each["body"] for each in await notes_of(tools, made["root"]["id"])}
    assert stored == {"k": "2", "l": ""}


@pytest.mark.parametrize("body", [None, "", " \t", "text"])
async def test_a_body_is_kept_unless_it_is_blank(tools: Client, body: str | None) -> None:
    ids = await plant(tools, notes=[note("a", "k", body=body)])
    (stored,) = await notes_of(tools, ids["a"])
    assert stored["body"] == (body if body == "text" else "")


@pytest.mark.every_store
async def test_every_note_has_its_actor(with_schemas: Client) -> None:
    tools = with_schemas
    root = {"title": "R", "type": "bug"}
    given = [note("root", "own", body="b")]
    who = {**actor("ann", parent="boss", proof="secret"), "kind": "Orchestrator"}
    signed = await plant(tools, root=root, notes=given, createNotes=True, actor=who)
    stored = await notes_of(tools, signed["root"])
    assert sorted(each["key"] for each in stored) == ["log", "own", "plan"]
    for each in stored:
        assert each["actor"] == {"id": "ann", "kind": "orchestrator", "parent": "boss"}
        assert each["verification"] == {"status": "unchecked", "verifier": "noop", "reason": None}
    unsigned = await plant(tools, root=root, notes=given, createNotes=True)
    for each in await notes_of(tools, unsigned["root"]):
        assert "actor" not in each
        assert "verification" not in each


async def test_notes_of_the_tree_can_be_overwritten(tools: Client) -> None:
    made = await tools("create_work_tree", root={"title": "R"}, notes=[note("root", "k", body="old")])
    item, (first,) = made["root"]["id"], made["notes"]
    written = await tools("manage_notes", operation="upsert",
                          notes=[{"itemId": item, "key": "k", "role": "work", "body": "new"}])  # fmt: skip
    assert written["notes"][0]["id"] == first["id"]
    assert [(each["role"], each["body"]) for each in await notes_of(tools, item)] == [("work", "new")]


async def test_an_untrusted_actor_creates_a_tree_each_time_with_unverified_notes(store: Store, project: str) -> None:
    """Nothing depends on the actor, so no policy applies; but there is no record under its name."""

    async def distrust(actor: Actor) -> Trusted:
        raise Distrusted("the proof is no good", await trust_self_reported(actor))

    tools = Client(store, project, resolve_actor=distrust)
    call: Json = {"children": [], "notes": [note("root", "k")], "actor": actor("ann"), "requestId": fresh_id()}
    ids = [(await plant(tools, **call))["root"] for _ in range(2)]
    assert ids[0] != ids[1]
    for item in ids:
        (stored,) = await notes_of(tools, item)
        assert stored["actor"] == {"id": "ann", "kind": "subagent"}
        assert stored["verification"]["status"] == "unchecked"
