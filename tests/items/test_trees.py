"""create_work_tree: every argument and answer, all or nothing, and the resulting tree."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.trees import MAX_ELEMENTS, MAX_NOTES, MAX_NOTES_EACH, MAX_TEXT
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.planting import LEAVES, LOG, PLAN, SCHEMAS, edge, note, notes_of, plant

pytestmark = pytest.mark.anyio

EPOCH = "1970-01-01T00:00:00Z"


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(SCHEMAS, Settings))


async def everything(tools: Client) -> dict[bytes, bytes | None]:
    """All of the project's keys, including records of requests."""
    client = tools.store.client
    prefix = keys.project_prefix(tools.project)
    return {key: await client.dump(key) async for key in client.scan_iter(match=prefix + b"*")}


def expected_note(spec: Json, exists: bool) -> Json:
    return {"required": False, "description": "", **spec, "exists": exists}


# --- results ----------------------------------------------------------------------------------


@pytest.mark.every_store
async def test_every_field_of_every_item_is_kept(tools: Client) -> None:
    parent = await tools.add("above")
    fields: Json = {
        "priority": "HIGH",
        "complexity": 3,
        "tags": "backend, api",
        "type": "feature-task",
        "traits": "careful, fast,careful",
        "summary": "short",
        "description": "what and why " * 20,
        "requiresVerification": True,
    }
    made = await tools(
        "create_work_tree",
        root={"title": "Root", **fields},
        children=[{"ref": "a", "title": "Child", **fields}, {"ref": "b", "title": "Bare"}],
        parentId=parent,
    )
    root, child, bare = made["root"]["id"], *(child["id"] for child in made["children"])
    shared = {**fields, "priority": "high", "role": "queue", "properties": '{"traits":["careful","fast"]}'}
    del shared["traits"]
    for item, title, above, depth in ((root, "Root", parent, 1), (child, "Child", root, 2)):
        shown = await tools.get(item)
        times = {shown.pop(name) for name in ("createdAt", "modifiedAt", "roleChangedAt")}
        assert len(times) == 1
        assert shown == {"id": item, "title": title, "parentId": above, "depth": depth, **shared}
        assert (await tools.update(item, summary="s"))["items"][0]["requiresVerification"] is True
    plain = {
        "summary": "",
        "requiresVerification": False,
        "role": "queue",
        "priority": "medium",
        "complexity": None,
        "depth": 2,
        "parentId": root,
    }
    shown = await tools.get(bare)
    assert shown == {"id": bare, "title": "Bare", **plain, **{n: shown[n] for n in shown if n.endswith("At")}}
    assert (await tools.update(bare, summary="s"))["items"][0]["requiresVerification"] is False


async def test_the_answer_shows_everything_created(with_schemas: Client) -> None:
    made = await with_schemas(
        "create_work_tree",
        root={"title": "R", "tags": " other , bug", "type": "unknown"},
        children=[
            {"ref": "a", "title": "A", "type": "bug", "tags": "free"},
            {"ref": "b", "title": "B", "type": "free"},
            {"ref": "c", "title": "C", "tags": "   "},
        ],
        deps=[edge("a", "b", type="blocks", unblockAt="WORK"), edge("c", "root", type="relates-to")],
        notes=[note("c", "anything", "REVIEW", body="text"), note("a", "log", "work")],
    )
    ids = {"root": made["root"]["id"], **{child["ref"]: child["id"] for child in made["children"]}}
    made_ids = [*ids.values(), *(each["id"] for part in ("dependencies", "notes") for each in made[part])]
    assert len(set(made_ids)) == 8
    item = {"role": "queue", "depth": 1}
    assert made == {
        "root": {"id": ids["root"], "title": "R", "role": "queue", "depth": 0, "tags": " other , bug",
                 "schemaMatch": True, "expectedNotes": [expected_note(PLAN, False), expected_note(LOG, False)]},
        "children": [
            {"ref": "a", "id": ids["a"], "title": "A", **item, "tags": "free", "schemaMatch": True,
             "expectedNotes": [expected_note(PLAN, False), expected_note(LOG, True)]},
            {"ref": "b", "id": ids["b"], "title": "B", **item, "schemaMatch": True, "expectedNotes": []},
            {"ref": "c", "id": ids["c"], "title": "C", **item, "schemaMatch": False, "expectedNotes": []},
        ],
        "dependencies": [
            {"id": made_ids[4], "fromRef": "a", "toRef": "b", "type": "BLOCKS", "unblockAt": "work"},
            {"id": made_ids[5], "fromRef": "c", "toRef": "root", "type": "RELATES_TO"},
        ],
        "notes": [
            {"itemRef": "c", "key": "anything", "role": "review", "id": made_ids[6]},
            {"itemRef": "a", "key": "log", "role": "work", "id": made_ids[7]},
        ],
    }  # fmt: skip


async def test_everything_in_the_answer_exists(tools: Client) -> None:
    made = await tools("create_work_tree", root={"title": "R"}, children=LEAVES, notes=[note("b", "k", body="text")],
                       deps=[edge("a", "b", unblockAt="review"), edge("c", "b", type="IS_BLOCKED_BY")])  # fmt: skip
    a, b, c = (child["id"] for child in made["children"])
    listed = await tools("query_dependencies", itemId=b)
    first, second = made["dependencies"]
    found = {entry["id"]: (entry["fromItemId"], entry["toItemId"], entry["type"], entry["effectiveUnblockRole"])
             for entry in listed["dependencies"]}  # fmt: skip
    assert found == {first["id"]: (a, b, "BLOCKS", "review"), second["id"]: (c, b, "IS_BLOCKED_BY", "terminal")}
    (stored,) = await notes_of(tools, b)
    assert (stored["id"], stored["key"], stored["role"], stored["body"]) == (
        made["notes"][0]["id"],
        "k",
        "queue",
        "text",
    )
    assert (await tools.unlink(id=first["id"]))["deleted"] == 1


async def test_a_root_alone_is_a_tree(tools: Client) -> None:
    made = await tools("create_work_tree", root={"title": "R"})
    assert (made["children"], made["dependencies"], made["notes"]) == ([], [], [])
    assert await tools.next(limit=5) == [made["root"]["id"]]


@pytest.mark.parametrize(
    "title",
    ["a \"quoted\" 'title'", "slash / and \\ back", "tab\tnewline\nbell\x07nul\x00del\x7f", "☃ 漢字 🦊 é", "%s {} $1"],
)
async def test_any_text_is_stored_verbatim(tools: Client, title: str) -> None:
    long = title * 20
    made = await tools(
        "create_work_tree",
        root={"title": title, "summary": long, "description": long},
        children=[{"ref": title, "title": long}],
        deps=[edge("root", title)],
        notes=[note(title, title, body=long)],
    )
    (child,) = made["children"]
    assert (made["root"]["title"], child["ref"], child["title"]) == (title, title, long)
    assert made["dependencies"][0]["toRef"] == made["notes"][0]["itemRef"] == title
    shown = await tools.get(made["root"]["id"])
    assert (shown["title"], shown["summary"], shown["description"]) == (title, long, long)
    (stored,) = await notes_of(tools, child["id"])
    assert (stored["key"], stored["body"]) == (title, long)


# --- all or nothing -----------------------------------------------------------------------------


def many_notes(count: int) -> list[Json]:
    """As many notes, on all leaves."""
    return [note("abc"[n % 3], str(n)) for n in range(count)]


WRONG: dict[str, tuple[Json, str]] = {
    "no title": ({"root": {}}, "Object missing required field `title`"),
    "a blank title": ({"root": {"title": " "}}, "root.title: "),
    "a long title": ({"root": {"title": "t" * 501}}, "root.title: "),
    "a long summary": ({"root": {"title": "t", "summary": "s" * 2001}}, "root.summary: "),
    "a priority": ({"root": {"title": "t", "priority": "urgent"}}, "root.priority: "),
    "a complexity": ({"root": {"title": "t", "complexity": 11}}, "root.complexity: "),
    "a tag": ({"root": {"title": "t", "tags": "Not A Tag"}}, "root.tags: "),
    "a long type": ({"root": {"title": "t", "type": "t" * 201}}, "root.type: "),
    "a field of other tools": ({"root": {"title": "t", "role": "work"}}, "Object contains unknown field `role`"),
    "the last child": ({"children": [*LEAVES, {"ref": "d", "title": ""}]}, "children[3].title: "),
    "a child without a ref": ({"children": [{"title": "t"}]}, "Object missing required field `ref`"),
    "a blank ref": ({"children": [{"ref": " ", "title": "t"}]}, "children[0].ref: "),
    "a ref of the root": ({"children": [{"ref": "root", "title": "t"}]}, "children[0].ref: 'root' is reserved"),
    "a ref given twice": ({"children": [*LEAVES, LEAVES[1]]}, "children[3].ref: 'b' is used twice"),
    "an edge from nowhere": ({"deps": [edge("a", "b"), edge("x", "a")]}, "deps[1].from: 'x' is not a ref"),
    "an edge to nowhere": ({"deps": [edge("a", "B")]}, "deps[0].to: 'B' is not a ref of this call; known: root, a"),
    "an edge to itself": ({"deps": [edge("a", "a", type="RELATES_TO")]}, "deps[0]: "),
    "an edge of the root to itself": ({"deps": [edge("root", "root")]}, "deps[0]: "),
    "an edge given twice": ({"deps": [edge("a", "b"), edge("a", "b", type="blocks", unblockAt="work")]}, "deps[1]: "),
    "a type of edges": ({"deps": [edge("a", "b", type="NEEDS")]}, "deps[0].type: "),
    "a threshold": ({"deps": [edge("a", "b", unblockAt="blocked")]}, "deps[0].unblockAt: "),
    "a relation's threshold": ({"deps": [edge("a", "b", type="RELATES_TO", unblockAt="work")]}, "deps[0].unblockAt: "),
    "a circle of two": ({"deps": [edge("a", "b"), edge("b", "a")]}, "deps: the dependencies form a cycle"),
    "a circle of types": ({"deps": [edge("a", "b"), edge("a", "b", type="IS_BLOCKED_BY")]}, "deps: "),
    "a circle in spite of thresholds": (
        {"deps": [edge("a", "b", unblockAt="queue"), edge("b", "a", unblockAt="queue")]},
        "deps: ",
    ),
    "a long circle": (
        {"deps": [edge("root", "a"), edge("c", "a", type="IS_BLOCKED_BY"), edge("c", "b"), edge("b", "root")]},
        "deps: the dependencies form a cycle",
    ),
    "a note on nothing": ({"notes": [note("a", "k"), note("x", "k")]}, "notes[1].itemRef: 'x' is not a ref"),
    "a blank key": ({"notes": [note("a", " ")]}, "notes[0].key: "),
    "a long key": ({"notes": [note("a", "k" * 201)]}, "notes[0].key: "),
    "a role of notes": ({"notes": [note("a", "k", "terminal")]}, "notes[0].role: "),
    "a body that is no text": ({"notes": [note("a", "k", body=1)]}, "Expected `str | null`, got `int`"),
    "a role other than the schema's": (
        {"root": {"title": "t", "tags": "x,bug"}, "notes": [note("a", "plan", "work"), note("root", "plan", "work")]},
        "notes[1].role: key 'plan' has role 'queue' in the item's schema, not 'work'",
    ),
    "a role other than the trait's": (
        {"root": {"title": "t", "type": "task"}, "notes": [note("root", "plan")]},
        "notes[0].role: key 'plan' has role 'work'",
    ),
    "a role other than that of a trait of its own": (
        {"root": {"title": "t", "type": "free", "traits": "careful"}, "notes": [note("root", "check")]},
        "notes[0].role: key 'check' has role 'review'",
    ),
    "a parent that is no id": ({"parentId": "below"}, "parentId: must be a UUID"),
    "a parent that is not there": ({"parentId": "abcd0000-0000-4000-8000-000000000000"}, "parentId: no such item"),
    "a prefix of nothing": ({"parentId": "abcd0"}, "parentId: no item's id begins with 'abcd0'"),
    "a prefix of two": ({"parentId": "abcd1234"}, "parentId: id prefix 'abcd1234' is ambiguous"),
    "a parent at the bottom": ({"parentId": "abcd12340000400080000000000000d3"}, "parentId: the root of"),
    "a parent too deep for children": ({"parentId": "abcd12340000400080000000000000d2"}, "parentId: the root of"),
    "an actor without a name": ({"actor": {"id": " ", "kind": "user"}}, "actor.id: "),
    "an actor of no kind": ({"actor": {"id": "ann", "kind": "robot"}}, "actor.kind: "),
    "too many items and edges": (
        {"deps": [edge("a", "b")] * (MAX_ELEMENTS - len(LEAVES))},
        f"children: at most {MAX_ELEMENTS} items and deps together in one call, not {MAX_ELEMENTS + 1}",
    ),
    "too many notes": (
        {"notes": many_notes(MAX_NOTES + 1)},
        f"notes: at most {MAX_NOTES} notes in one call, those of createNotes with them, not {MAX_NOTES + 1}",
    ),
    "too many notes with the blank ones": (
        {"root": {"title": "t", "type": "bug"}, "notes": many_notes(MAX_NOTES - 1), "createNotes": True},
        f"notes: at most {MAX_NOTES} notes in one call, those of createNotes with them, not {MAX_NOTES + 1}",
    ),
    "too many notes on one item": (
        {"notes": [note("a", str(n)) for n in range(MAX_NOTES_EACH + 1)]},
        f"notes: an item can have at most {MAX_NOTES_EACH} notes, not {MAX_NOTES_EACH + 1} ('a')",
    ),
    "a long description": (
        {"root": {"title": "t", "description": "d" * 500_001}},
        "root.description: must be at most 500,000 bytes, not 500,001",
    ),
    "too much text": (
        {"notes": [note("a", "k", body="\u00e9" * (MAX_TEXT // 2))]},
        f"notes: at most {MAX_TEXT:,} bytes of text in one call, root, children and notes together, "
        f"not {MAX_TEXT + 4:,}",
    ),
}  # fmt: skip


def name_ids(monkeypatch: pytest.MonkeyPatch, ids: list[str]) -> None:
    """Lets the next items of manage_items have these ids."""
    upcoming = iter(ids)
    monkeypatch.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(upcoming, count)))


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
async def test_invalid_arguments_create_nothing(
    with_schemas: Client, monkeypatch: pytest.MonkeyPatch, wrong: Json, message: str
) -> None:
    tools = with_schemas
    name_ids(monkeypatch, [f"abcd12340000400080000000000000d{depth}" for depth in range(4)])
    await tools.chain(3)
    monkeypatch.undo()
    before = await everything(tools)
    by: Json = {"actor": actor("agent"), "requestId": fresh_id()}
    failure = await tools.refusal("create_work_tree", **{"root": {"title": "R"}, "children": LEAVES, **by, **wrong})
    not_found = message.startswith(("parentId: no such item", "parentId: no item's id"))
    assert failure.code == ("RESOURCE_NOT_FOUND" if not_found else "VALIDATION_ERROR")
    assert failure.message.startswith(message)
    assert len(failure.message) < 300
    assert await everything(tools) == before
    report = await audit(tools.store, tools.project)
    assert (report.items, report.edges, report.differences) == (4, 0, [])
    assert await tools("create_work_tree", root={"title": "R"}, **by), "it may be corrected under its id"


async def test_an_ambiguous_parent_is_rejected_with_the_candidates(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_ids(monkeypatch, ["abcd" + "0" * 28, "abcd" + "1" * 28])
    ids = [await tools.add("one"), await tools.add("two")]
    failure = await tools.refusal("create_work_tree", root={"title": "t"}, parentId="ABCD")
    matches = [{"id": item, "title": title} for item, title in zip(ids, ("one", "two"), strict=True)]
    assert failure.data == {"prefix": "abcd", "matches": matches}


# --- place of the tree ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "children", "fits"),
    [(0, 1, True), (1, 1, True), (2, 1, False), (2, 0, False), (3, 0, False), (3, 1, False)],
)
async def test_a_tree_fits_below_a_parent_down_to_depth_three(
    tools: Client, depth: int, children: int, fits: bool
) -> None:
    parent = (await tools.chain(depth))[-1]
    call: Json = {"root": {"title": "R"}, "children": LEAVES[:children], "parentId": parent}
    if not fits:
        refused = await tools.refusal("create_work_tree", **call)
        assert refused.message.startswith("parentId: the root of a tree can be at depth 0, 1 or 2")
        assert (await tools("query_items", operation="search"))["total"] == depth + 1
        return
    made = await tools("create_work_tree", **call)
    assert [item["depth"] for item in (made["root"], *made["children"])] == [depth + 1, *[depth + 2] * children]
    assert (await tools.get(made["root"]["id"]))["parentId"] == parent
    ancestors = (await tools.get(made["root"]["id"], includeAncestors=True))["ancestors"]
    assert [entry["depth"] for entry in ancestors] == list(range(depth + 1))


@pytest.mark.every_store
@pytest.mark.parametrize("digits", [4, 8, 31, 32, 36])
async def test_the_parent_may_be_named_by_a_prefix(tools: Client, monkeypatch: pytest.MonkeyPatch, digits: int) -> None:
    name_ids(monkeypatch, ["abcdef" + "0" * 26])
    parent = await tools.add()
    written = (parent if digits == 36 else parent.replace("-", "")[:digits]).upper()
    ids = await plant(tools, parentId=written)
    assert (await tools.get(ids["root"]))["parentId"] == parent


async def test_a_blank_parent_means_none(tools: Client) -> None:
    ids = await plant(tools, parentId="")
    assert (await tools.get(ids["root"]))["depth"] == 0


@pytest.mark.parametrize("kind", ["again", "bug", "manual", "permanent", None])
@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked", "terminal"])
async def test_only_a_terminal_auto_reopen_parent_reopens(with_schemas: Client, kind: str | None, role: str) -> None:
    tools = with_schemas
    above, waits = await tools.add("above", type="again"), await tools.add("waits")
    parent = await tools.add("parent", parentId=above, role=role, type=kind)
    await tools.link(parent, waits)
    await tools.move(above, "cancel")
    ids = await plant(tools, parentId=parent)
    shown = await tools.get(parent)
    assert [await tools.role(item) for item in (ids["root"], above)] == ["queue", "terminal"]
    rows = (await tools("get_context", since=EPOCH))["recentTransitions"]
    if (kind, role) == ("again", "terminal"):
        assert (shown["role"], shown["statusLabel"]) == ("work", "in-progress")
        row = {"itemId": parent, "fromRole": "terminal", "toRole": "work", "trigger": "cascade"}
        assert rows[0].items() >= row.items()
        assert waits not in await tools.next(limit=9)
    else:
        assert (shown["role"], len(rows)) == (role, 1)
        assert (waits in await tools.next(limit=9)) == (role == "terminal")
    assert not (await audit(tools.store, tools.project)).differences


# --- edges and readiness ------------------------------------------------------------------------


@pytest.mark.every_store
async def test_readiness_follows_the_edges_at_once(tools: Client) -> None:
    ids = await plant(
        tools,
        children=[*LEAVES, {"ref": "d", "title": "D"}, {"ref": "e", "title": "E", "priority": "high"}],
        deps=[
            edge("a", "b"),
            edge("c", "b", type="IS_BLOCKED_BY", unblockAt="work"),
            edge("a", "d", unblockAt="queue"),
            edge("b", "e", type="relates_to"),
            edge("e", "b", type="RELATES_TO"),
        ],
    )
    assert await tools.next(limit=9) == [ids["e"], *sorted([ids["root"], ids["a"], ids["d"]])]
    blocked = {entry["title"]: entry for entry in (await tools("get_blocked_items"))["blockedItems"]}
    assert sorted(blocked) == ["B", "C"]
    (blocker,) = blocked["C"]["blockedBy"]
    assert (blocker["itemId"], blocker["unblockAt"], blocker["satisfied"]) == (ids["b"], "work", False)
    assert [entry["title"] for entry in (await tools.advance(ids["a"], "complete"))["unblockedItems"]] == ["B", "D"]
    assert not (await tools.advance(ids["c"], "start"))["applied"]
    assert [entry["itemId"] for entry in (await tools.advance(ids["b"], "start"))["unblockedItems"]] == [ids["c"]]
    assert not (await audit(tools.store, tools.project)).differences


async def test_both_spellings_of_one_edge_are_kept_and_end_together(tools: Client) -> None:
    ids = await plant(tools, deps=[edge("a", "b"), edge("b", "a", type="IS_BLOCKED_BY", unblockAt="work")])
    assert (await tools("query_dependencies", itemId=ids["b"]))["counts"]["relatesTo"] == 0
    await tools.move(ids["a"], "start")
    assert (await tools("get_next_status", itemId=ids["b"]))["recommendation"] == "Blocked"
    await tools.move(ids["a"], "complete")
    assert (await tools("get_next_status", itemId=ids["b"]))["recommendation"] == "Ready"


async def test_edges_between_the_root_and_its_children_count(tools: Client) -> None:
    ids = await plant(tools, deps=[edge("a", "root"), edge("root", "b")])
    assert await tools.next(limit=9) == sorted([ids["a"], ids["c"]])
    await tools.move(ids["a"], "complete")
    await tools.move(ids["root"], "start", "complete")
    assert (await tools.advance(ids["b"], "start"))["applied"]


async def test_counts_and_overviews_include_the_tree_at_once(tools: Client) -> None:
    parent = await tools.add("above")
    ids = await plant(tools, parentId=parent, root={"title": "R", "tags": "x"}, deps=[edge("a", "b")])
    scoped = await tools("query_items", operation="overview", itemId=ids["root"])
    assert scoped["childCounts"] == {"queue": 3, "work": 0, "review": 0, "blocked": 0, "terminal": 0}
    assert {child["title"] for child in scoped["children"]} == {"A", "B", "C"}
    (above,) = (await tools("query_items", operation="overview"))["items"]
    assert (above["id"], above["childCounts"]["queue"]) == (parent, 1)
    assert above["claimSummary"] == {"active": 0, "expired": 0, "unclaimed": 1}
    for total, options in ((5, {}), (3, {"parentId": ids["root"]}), (1, {"tags": "x"}), (3, {"depth": 2})):
        assert (await tools("query_items", operation="search", **options))["total"] == total
    found = await tools("query_items", operation="search", query="B", sortBy="title", sortOrder="asc")
    assert [entry["title"] for entry in found["items"]] == ["above", "B"]


@pytest.mark.parametrize("part", ["root", "children", "notes"])
async def test_too_much_text_is_reported_at_its_longest_part(tools: Client, part: str) -> None:
    text = {one: "x" * (MAX_TEXT - 9 if one == part else 99) for one in ("root", "children", "notes")}
    refused = await tools.refusal(
        "create_work_tree",
        root={"title": "R", "description": text["root"]},
        children=[{"ref": "c", "title": "C", "description": text["children"]}],
        notes=[note("root", "k", body=text["notes"])],
    )
    assert refused.message.startswith(f"{part}: at most 200,000 bytes of text in one call")
    assert await everything(tools) == {}


async def test_the_largest_tree_is_created(tools: Client) -> None:
    count = MAX_ELEMENTS // 2
    children = [{"ref": f"c{n}", "title": str(n)} for n in range(count)]
    deps = [edge(f"c{n}", f"c{n + 1}") for n in range(count - 1)]
    titles = sum(len(item["title"]) for item in [{"title": "R"}, *children])
    body = "é" * 50_000 + "x" * (MAX_TEXT - 100_000 - titles)
    notes = [note("root", "long", body=body), *(note(f"c{n % count}", str(n)) for n in range(MAX_NOTES - 1))]
    call: Json = {"children": children, "deps": deps, "notes": notes}
    refused = await tools.refusal("create_work_tree", root={"title": "R", "summary": "s"}, **call)
    assert "200,000 bytes of text" in refused.message
    assert await everything(tools) == {}
    made = await tools("create_work_tree", root={"title": "R"}, **call)
    assert [child["ref"] for child in made["children"]] == [child["ref"] for child in children]
    assert [(each["fromRef"], each["toRef"]) for each in made["dependencies"]] == [(d["from"], d["to"]) for d in deps]
    assert set(await tools.next(limit=9)) == {made["root"]["id"], made["children"][0]["id"]}
    ids = [made["root"]["id"], *(child["id"] for child in made["children"])]
    stored = [each for item in ids for each in await notes_of(tools, item)]
    assert sorted(each["id"] for each in stored) == sorted(each["id"] for each in made["notes"])
    assert (len(stored), stored[0]["body"] == body) == (MAX_NOTES, True)
    report = await audit(tools.store, tools.project)
    assert (report.items, report.edges, report.differences) == (count + 1, count - 1, [])


# --- idempotency --------------------------------------------------------------------------------


def keyed(**arguments: Any) -> Json:
    return {
        "root": {"title": "R"},
        "children": LEAVES,
        "deps": [edge("a", "b")],
        "notes": [note("a", "k", body="b")],
        "actor": actor("ann"),
        "requestId": fresh_id(),
        **arguments,
    }


async def test_a_retry_gets_the_first_answer_for_any_later_state(tools: Client) -> None:
    call = keyed(parentId=(await tools.add()).replace("-", "")[:12])
    first = await tools.answer("create_work_tree", **call)
    report = await audit(tools.store, tools.project)
    assert await tools.answer("create_work_tree", **call) == first
    assert await audit(tools.store, tools.project) == report
    everywhere = await tools("query_items", operation="search", depth=0)
    await tools.delete(everywhere["items"][0]["id"], recursive=True)
    assert await tools.answer("create_work_tree", **call) == first
    assert (await audit(tools.store, tools.project)).items == 0


async def test_equal_concurrent_calls_create_one_tree(tools: Client) -> None:
    call = keyed()
    answers = await asyncio.gather(*(tools.answer("create_work_tree", **call) for _ in range(10)))
    assert len(set(answers)) == 1
    report = await audit(tools.store, tools.project)
    assert (report.items, report.edges, report.differences) == (4, 1, [])


@pytest.mark.parametrize(
    "other",
    [
        {"root": {"title": "R", "complexity": 1}},
        {"children": LEAVES[:2]},
        {"deps": [edge("a", "b", unblockAt="work")]},
        {"notes": []},
        {"createNotes": True},
        {"parentId": "abcd"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_a_request_id_stands_for_all_arguments(
    tools: Client, monkeypatch: pytest.MonkeyPatch, other: Json
) -> None:
    name_ids(monkeypatch, ["abcd" + "0" * 28])
    await tools.add()
    call = keyed()
    await tools("create_work_tree", **call)
    before = await everything(tools)
    assert (await tools.refusal("create_work_tree", **{**call, **other})).code == "request_id_reused"
    assert await everything(tools) == before


@pytest.mark.parametrize("left_out", [{"actor": None}, {"requestId": None}, {"requestId": "no uuid"}])
async def test_without_actor_or_request_id_each_call_takes_effect(tools: Client, left_out: Json) -> None:
    call = keyed(**left_out)
    answers = [await tools("create_work_tree", **call) for _ in range(2)]
    assert answers[0]["root"]["id"] != answers[1]["root"]["id"]


async def test_a_rejected_tree_may_be_corrected_under_its_request_id(tools: Client) -> None:
    """Nothing was recorded under it."""
    call = keyed(deps=[edge("a", "x")])
    await tools.refusal("create_work_tree", **call)
    assert (await tools("create_work_tree", **{**call, "deps": [edge("a", "c")]}))["dependencies"][0]["toRef"] == "c"
