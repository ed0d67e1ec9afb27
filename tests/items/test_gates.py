"""Note gates: the notes that starts and completions require, by schema, trait and lifecycle, also in ancestors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, actor
from tests.items.results import client_of, missing

pytestmark = pytest.mark.anyio

REPRO: Json = {"key": "repro", "role": "queue", "description": "how", "guidance": "Write steps.", "skill": "reproduce"}
BUG_NOTES: list[Json] = [
    {**REPRO, "required": True},
    {"key": "fix", "role": "work", "required": True},
    {"key": "scope", "role": "queue", "required": True},
    {"key": "hint", "role": "queue", "guidance": "An idea."},
    {"key": "check", "role": "review", "required": True, "guidance": "Look at it.", "skill": "review-code"},
]
LIFECYCLES = ("auto", "manual", "permanent", "auto-reopen")
WRAP_UP: list[Json] = [
    {"key": "goal", "role": "queue", "required": True},
    {"key": "wrap-up", "role": "review", "required": True},
    {"key": "aside", "role": "work"},
]
DECLARED: Json = {
    "work_item_schemas": {
        "bug": {"notes": BUG_NOTES},
        "task": {"notes": [{"key": "plan", "role": "queue", "required": True}, {"key": "done", "role": "work"}]},
        "seen": {"notes": [{"key": "seen", "role": "review"}]},
        "guarded": {
            "default_traits": ["security"],
            "notes": [{"key": "plan", "role": "queue", "required": True, "description": "the schema's"}],
        },
        **{name: {"lifecycle": name, "notes": WRAP_UP} for name in LIFECYCLES},
    },
    "traits": {
        "security": {"notes": [{"key": "threats", "role": "work", "required": True}]},
        "careful": {
            "notes": [
                {"key": "plan", "role": "work", "required": True, "description": "the trait's"},
                {"key": "threats", "role": "queue", "required": True},
                {"key": "second look", "role": "review", "required": True},
            ]
        },
    },
}


@pytest.fixture
def gated(store: Store, project: str) -> Client:
    return client_of(store, project, DECLARED)


async def fill(tools: Client, item: str, *names: str, body: str = "text") -> Json:
    """Writes notes, all under the phase work: gates check keys."""
    notes = [{"itemId": item, "key": key, "role": "work", "body": body} for key in names]
    answer = await tools("manage_notes", operation="upsert", notes=notes)
    assert answer["failed"] == 0, answer
    return answer


# --- the item itself --------------------------------------------------------------------------


@pytest.mark.every_store
async def test_a_refusal_names_each_missing_note_and_how_to_fill_it(gated: Client) -> None:
    item = await gated.add(type="bug")
    before = await gated.get(item)
    answer = await gated("advance_item", transitions=[{"itemId": item, "trigger": "start", "actor": actor("ann")}])
    notes = [{"itemId": item, "key": key, "role": "queue", "body": "..."} for key in ("repro", "scope")]
    expected = {
        "itemId": item,
        "trigger": "start",
        "applied": False,
        "error": "Gate check failed: required notes not filled for queue phase: repro, scope. "
        f"Fill them with manage_notes {call_of(notes)}",
        "missingNotes": [REPRO, {"key": "scope", "role": "queue", "description": ""}],
    }
    summary = {"total": 1, "succeeded": 0, "failed": 1}
    assert answer == {"results": [expected], "summary": summary, "allUnblockedItems": []}
    refused = await gated.advance(item, "complete")
    error = "Gate check failed: required notes not filled for all phases: repro, fix, scope, check. "
    assert refused["error"].startswith(error)
    assert missing(refused) == ["repro", "fix", "scope", "check"]
    assert refused["missingNotes"][3] == {
        "key": "check", "role": "review", "description": "", "guidance": "Look at it.", "skill": "review-code",
    }  # fmt: skip
    assert await gated.get(item) == before


def call_of(notes: list[Json]) -> str:
    """The arguments of the call that writes notes, as a refusal shows them."""
    return msgspec.json.encode({"operation": "upsert", "notes": notes}).decode()


async def test_the_suggested_call_opens_the_gate(gated: Client) -> None:
    """In advance_item, complete_tree and a stopped cascade."""
    parent = await gated.add(type="auto")
    first, second = await gated.add_many(2, type="bug", parentId=parent)
    await gated.advance(first, "start")

    async def obey(error: str) -> None:
        call = msgspec.json.decode(error.partition("manage_notes ")[2])
        assert (await gated("manage_notes", **call))["failed"] == 0

    await obey((await gated.advance(first, "complete"))["error"])
    await gated.move(first, "complete")
    (refused,) = (await gated("complete_tree", itemIds=[second]))["results"]
    await obey(refused["error"])
    await gated.move(second, "complete", "reopen")
    (stopped,) = (await gated.advance(second, "complete"))["cascadeEvents"]
    await obey(stopped["error"])
    await gated.move(second, "reopen")
    assert (await gated.advance(second, "complete"))["cascadeEvents"][0]["applied"]


async def test_the_suggested_call_is_bounded(store: Store, project: str) -> None:
    needs = [{"key": f"n{number}", "role": "queue", "required": True} for number in range(8)]
    tools = client_of(store, project, {"work_item_schemas": {"bug": {"notes": needs}}})
    error = (await tools.advance(await tools.add(type="bug"), "start"))["error"]
    assert error.count('"key"') == 5
    assert error.endswith(", and the other 3 in the same way")


@pytest.mark.parametrize(
    ("role", "trigger", "filled", "expected"),
    [
        ("queue", "start", [], ["repro", "scope"]),
        ("queue", "start", ["scope", "hint", "fix", "check"], ["repro"]),
        ("queue", "start", ["repro", "scope"], []),
        ("work", "start", ["repro", "scope", "check"], ["fix"]),
        ("work", "start", ["fix"], []),
        ("review", "start", ["fix"], ["check"]),
        ("review", "start", ["check"], []),
        ("queue", "complete", ["repro", "scope"], ["fix", "check"]),
        ("work", "complete", ["fix"], ["repro", "scope", "check"]),
        ("review", "complete", ["check"], ["repro", "fix", "scope"]),
        ("review", "complete", ["repro", "fix", "scope", "check"], []),
    ],
)
async def test_a_start_requires_its_phase_and_a_completion_all(
    gated: Client, role: str, trigger: str, filled: list[str], expected: list[str]
) -> None:
    item = await gated.add(type="bug", role=role)
    await fill(gated, item, "of no schema", *filled)
    assert missing(await gated.advance(item, trigger)) == expected
    assert (await gated.role(item) == role) is bool(expected)


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u00a0"])
async def test_a_blank_note_fills_no_gate_even_after_a_text(gated: Client, blank: str) -> None:
    item = await gated.add(type="task")
    await fill(gated, item, "plan", body=blank)
    assert missing(await gated.advance(item, "start")) == ["plan"]
    await fill(gated, item, "plan")
    await fill(gated, item, "plan", body=blank)
    assert missing(await gated.advance(item, "start")) == ["plan"]
    await fill(gated, item, "plan")
    assert missing(await gated.advance(item, "start")) == []


async def test_each_step_shows_the_notes_of_the_next_phase(gated: Client) -> None:
    item = await gated.add(type="bug")
    await fill(gated, item, "repro", "scope", "check")
    applied = await gated.advance(item, "start")
    fix = {"key": "fix", "role": "work", "required": True, "description": "", "exists": False}
    assert applied == {
        "itemId": item, "previousRole": "queue", "newRole": "work", "trigger": "start", "applied": True,
        "cascadeEvents": [], "unblockedItems": [], "statusLabel": "in-progress", "expectedNotes": [fix],
        "noteProgress": {"filled": 0, "remaining": 1, "total": 1},
    }  # fmt: skip
    await fill(gated, item, "fix")
    await fill(gated, item, "check", body="")
    applied = await gated.advance(item, "start")
    assert applied["newRole"] == "review"
    assert [(note["key"], note["exists"], note["skill"]) for note in applied["expectedNotes"]] == [
        ("check", True, "review-code")
    ]
    assert (applied["guidancePointer"], applied["skillPointer"]) == ("Look at it.", "review-code")
    assert applied["noteProgress"] == {"filled": 0, "remaining": 1, "total": 1}
    await fill(gated, item, "check")
    applied = await gated.advance(item, "start")
    assert (applied["newRole"], applied["expectedNotes"]) == ("terminal", [])
    assert not applied.keys() & {"guidancePointer", "skillPointer", "noteProgress"}
    reopened = await gated.advance(item, "reopen")
    assert [note["key"] for note in reopened["expectedNotes"]] == ["repro", "scope", "hint"]
    assert reopened["noteProgress"] == {"filled": 2, "remaining": 0, "total": 2}


@pytest.mark.parametrize(("name", "roles"), [("seen", ["work", "review", "terminal"]), ("task", ["work", "terminal"])])
async def test_any_review_note_adds_a_review_and_optional_notes_gate_nothing(
    gated: Client, name: str, roles: list[str]
) -> None:
    item = await gated.add(tags=f"other,{name}")
    await fill(gated, item, "plan")
    assert [(await gated.advance(item, "start"))["newRole"] for _ in roles] == roles


@pytest.mark.parametrize("verify", [True, False])
async def test_only_a_start_and_a_completion_are_gated(gated: Client, verify: bool) -> None:
    for role in ("queue", "work", "review"):
        item = await gated.add(type="bug", role=role, requiresVerification=verify)
        for trigger in ("start", "complete"):
            assert missing(await gated.advance(item, trigger))
        await gated.move(item, "block", "resume", "hold", "resume", "cancel", "reopen", "hold", "cancel")
    assert not missing(await gated.advance(await gated.add(requiresVerification=verify), "complete"))


async def test_ownership_and_dependencies_are_checked_before_the_gate(gated: Client) -> None:
    blocker, item = await gated.add(), await gated.add(type="bug")
    await gated.link(blocker, item)
    await gated.claim("holder", item)
    assert (await gated.advance(item, "start", "rival"))["errorCode"] == "not_claim_holder"
    refused = await gated.advance(item, "start", "holder")
    assert [entry["fromItemId"] for entry in refused["blockers"]] == [blocker]
    assert "missingNotes" not in refused
    await gated.move(blocker, "complete")
    assert missing(await gated.advance(item, "start", "holder")) == ["repro", "scope"]


async def test_a_transition_that_the_role_does_not_allow_is_not_gated(gated: Client) -> None:
    item = await gated.add(type="bug")
    await gated.move(item, "hold")
    for role in ("blocked", "terminal"):
        for trigger in ("start", "complete"):
            refused = await gated.advance(item, trigger)
            assert role in refused["error"]
            assert "missingNotes" not in refused
        await gated.advance(item, "cancel")


async def test_a_rejected_element_stops_no_other(gated: Client) -> None:
    first, second, third = await gated.add_many(3, type="task")
    await fill(gated, second, "plan")
    before = await gated.get(first)
    steps = [(first, "start"), (second, "start"), (third, "complete"), (second, "start"), (third, "cancel")]
    answer = await gated("advance_item", transitions=[{"itemId": item, "trigger": t} for item, t in steps])
    assert [missing(result) for result in answer["results"]] == [["plan"], [], ["plan"], [], []]
    assert answer["summary"] == {"total": 5, "succeeded": 3, "failed": 2}
    assert await gated.get(first) == before
    assert [await gated.role(item) for item in (second, third)] == ["terminal", "terminal"]


# --- which schema -----------------------------------------------------------------------------


async def test_the_gate_follows_the_items_type_and_tags_as_they_change(gated: Client) -> None:
    item = await gated.add(type="task", tags="seen,bug")

    async def asked() -> list[str]:
        return missing(await gated.advance(item, "complete"))

    assert await asked() == ["plan"]
    await gated.update(item, type="bug")
    assert await asked() == ["repro", "fix", "scope", "check"]
    await gated.update(item, type=None, tags="unknown, task,bug")
    assert await asked() == ["plan"]
    await gated.update(item, tags="seen,bug")
    assert await asked() == []


@pytest.mark.parametrize("blank", [" ", "\t\n\v\f\r", "\x1c", "\x85", "\xa0", "\u2003", "\u3000"])
async def test_the_gate_ignores_blanks_around_tags(gated: Client, blank: str) -> None:
    tags = f"unknown,{blank}task{blank}"
    tree = await gated("create_work_tree", root={"title": "root", "tags": tags})
    added = await gated.add(tags=tags)
    updated = await gated.add()
    await gated.update(updated, tags=tags)
    for item in (tree["root"]["id"], added, updated):
        assert missing(await gated.advance(item, "start")) == ["plan"]
    found = await gated("query_items", operation="search", tags="task")
    assert {item["id"] for item in found["items"]} == {tree["root"]["id"], added, updated}
    assert len({item["tags"] for item in [tree["root"], *found["items"]]}) == 1


async def test_traits_add_notes_but_change_no_existing_one(gated: Client) -> None:
    item = await gated.add(type="guarded", traits="careful")
    refused = await gated.advance(item, "complete")
    # The schema's notes, then those of its default traits, then those of the item's own.
    assert missing(refused) == ["plan", "threats", "second look"]
    assert refused["missingNotes"][0]["description"] == "the schema's"
    assert missing(await gated.advance(item, "start")) == ["plan"]
    await fill(gated, item, "plan")
    await gated.move(item, "start")
    assert missing(await gated.advance(item, "start")) == ["threats"]
    await fill(gated, item, "threats")
    assert (await gated.advance(item, "start"))["newRole"] == "review"
    assert missing(await gated.advance(item, "start")) == ["second look"]
    await gated.update(item, traits="")
    assert missing(await gated.advance(item, "start")) == []


async def test_traits_require_nothing_without_a_schema(gated: Client) -> None:
    item = await gated.add(traits="careful", tags="unknown")
    assert (await gated.advance(item, "start"))["expectedNotes"] == []
    assert (await gated.advance(item, "start"))["newRole"] == "terminal"


# --- the items above --------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["start", "complete", "cancel"])
@pytest.mark.parametrize("lifecycle", LIFECYCLES)
async def test_a_parent_ends_with_its_last_child_if_lifecycle_and_notes_allow(
    gated: Client, lifecycle: str, trigger: str
) -> None:
    root = await gated.add("root")
    parent = await gated.add("parent", parentId=root, type=lifecycle)
    item = await gated.add(parentId=parent, role="work")
    event = {"itemId": parent, "title": "parent", "previousRole": "queue", "targetRole": "terminal",
             "trigger": "cascade"}  # fmt: skip
    ends = lifecycle in ("auto", "auto-reopen")
    await fill(gated, parent, "goal")
    await fill(gated, parent, "wrap-up", body=" ")
    before = await gated.get(parent)
    call = call_of([{"itemId": parent, "key": "wrap-up", "role": "review", "body": "..."}])
    error = "Gate check failed: required notes not filled for all phases: wrap-up. Fill them with manage_notes " + call
    stopped = event | {"applied": False, "gateBlocked": True, "missingNotes": ["wrap-up"], "error": error}
    assert (await gated.advance(item, trigger))["cascadeEvents"] == ([stopped] if ends else [])
    assert await gated.get(parent) == before

    await gated.move(item, "reopen", "hold")
    await fill(gated, parent, "wrap-up")
    assert await gated.role(parent) == "queue"  # a note alone changes no role
    await gated.move(item, "resume")
    events = (await gated.advance(item, "complete"))["cascadeEvents"]
    assert [(each["itemId"], each["applied"]) for each in events] == ([(parent, True), (root, True)] if ends else [])
    assert [await gated.role(each) for each in (parent, root)] == ["terminal" if ends else "queue"] * 2
    if not ends:  # it must be advanced explicitly, and then it takes its own parent along
        assert [each["itemId"] for each in (await gated.advance(parent, "complete"))["cascadeEvents"]] == [root]
    assert not (await audit(gated.store, gated.project)).differences


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
async def test_a_parent_starts_with_a_child_for_any_lifecycle_and_notes(gated: Client, lifecycle: str) -> None:
    parent = await gated.add(type=lifecycle)
    item = await gated.add(parentId=parent)
    (event,) = (await gated.advance(item, "start"))["cascadeEvents"]
    assert (event["itemId"], event["targetRole"], event["applied"]) == (parent, "work", True)
    assert not event.keys() & {"gateBlocked", "missingNotes"}
    assert missing(await gated.advance(parent, "complete")) == ["goal", "wrap-up"]


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
async def test_a_parent_reopens_with_a_child_for_any_lifecycle(gated: Client, lifecycle: str) -> None:
    parent = await gated.add(type=lifecycle)
    item = await gated.add(parentId=parent)
    await fill(gated, parent, "goal", "wrap-up")
    await gated.move(item, "complete")
    await gated.move(parent, *([] if lifecycle in ("auto", "auto-reopen") else ["complete"]))
    (event,) = (await gated.advance(item, "reopen"))["cascadeEvents"]
    assert (event["itemId"], event["targetRole"], event["applied"]) == (parent, "work", True)
    assert await gated.role(parent) == "work"


async def create_below(tools: Client, parent: str) -> None:
    await tools.add_many(3, parentId=parent)


async def create_tree_below(tools: Client, parent: str) -> None:
    await tools("create_work_tree", root={"title": "new"}, parentId=parent, children=[{"ref": "a", "title": "a"}])


async def move_below(tools: Client, parent: str) -> None:
    assert (await tools.update(await tools.add(), parentId=parent))["updated"] == 1


@pytest.mark.parametrize("add", [create_below, create_tree_below, move_below])
@pytest.mark.parametrize("lifecycle", LIFECYCLES)
async def test_a_new_child_reopens_its_parent_if_that_is_its_lifecycle(gated: Client, lifecycle: str, add: Any) -> None:
    parent = await gated.add(type=lifecycle, role="terminal", statusLabel="over")
    since = (await gated.get(parent))["createdAt"]
    await add(gated, parent)
    reopens = lifecycle == "auto-reopen"
    shown = await gated.get(parent)
    assert (shown["role"], shown["statusLabel"]) == (("work", "in-progress") if reopens else ("terminal", "over"))
    rows = (await gated("get_context", since=since))["recentTransitions"]
    found = [(row["itemId"], row["fromRole"], row["toRole"], row["trigger"]) for row in rows]
    expected = [(parent, "terminal", "work", "cascade")]
    assert [row for row in found if row[0] == parent] == (expected if reopens else [])
    assert not (await audit(gated.store, gated.project)).differences


async def test_setting_the_same_parent_is_not_a_new_child(gated: Client) -> None:
    parent = await gated.add(type="auto-reopen")
    child = await gated.add(parentId=parent)
    await gated.move(parent, "cancel")
    assert (await gated.update(child, parentId=parent, title="renamed"))["updated"] == 1
    assert await gated.role(parent) == "terminal"


@pytest.mark.parametrize("add", [create_below, create_tree_below, move_below])
async def test_a_parent_reopened_by_a_new_child_cascades_to_its_ancestors(gated: Client, add: Any) -> None:
    ended, root = await gated.add(role="terminal"), await gated.add()
    middle = await gated.add(parentId=root)
    parent = await gated.add(parentId=middle, type="auto-reopen", role="terminal")
    await add(gated, parent) if add is not create_tree_below else await create_below(gated, parent)
    assert [await gated.role(item) for item in (parent, middle, root)] == ["work"] * 3
    below = await gated.add(parentId=ended, type="auto-reopen", role="terminal")
    await add(gated, below)
    assert [await gated.role(item) for item in (below, ended)] == ["work", "terminal"]
    assert not (await audit(gated.store, gated.project)).differences


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
async def test_complete_tree_has_the_same_gates_for_any_lifecycle(gated: Client, lifecycle: str) -> None:
    root = await gated.add()
    ready, unready = await gated.add_many(2, parentId=root, type=lifecycle)
    await fill(gated, ready, "goal", "wrap-up")
    await fill(gated, unready, "goal")
    answer = await gated("complete_tree", rootId=root)
    found = {result["itemId"]: result for result in answer["results"]}
    assert found[ready]["applied"]
    assert found[unready]["gateErrors"] == ["missing: wrap-up"]
    assert answer["summary"] == {"total": 2, "completed": 1, "skipped": 0, "gateFailures": 1}
    assert (await gated("complete_tree", rootId=root, trigger="cancel"))["summary"]["completed"] == 1


# --- a reload in between ----------------------------------------------------------------------


def declared(*notes: Json, **schema: Any) -> Json:
    return {"work_item_schemas": {"bug": {"notes": notes, **schema}}}


PLAN: Json = {"key": "plan", "role": "queue", "required": True}
LOOK: Json = {"key": "look", "role": "review", "required": True}


async def test_a_reload_changes_reads_and_gates_together(store: Store, project: str) -> None:
    tools = client_of(store, project, declared())
    item = await tools.add(type="bug")

    async def asked(*notes: Json) -> tuple[list[str], list[str]]:
        tools.configure(msgspec.convert(declared(*notes), Settings))
        context = await tools("get_context", itemId=item)
        return context["gateStatus"]["missing"], missing(await tools.advance(item, "start"))

    assert await asked(PLAN) == (["plan"], ["plan"])
    await fill(tools, item, "plan")
    assert await asked(PLAN, {**PLAN, "key": "scope"}) == (["scope"], ["scope"])
    assert await asked({**PLAN, "key": "scope", "required": False}) == ([], [])
    assert await asked({**PLAN, "key": "cause", "role": "work"}) == (["cause"], ["cause"])
    # A review that is added or removed: an item in it leaves it normally.
    assert (await tools("get_next_status", itemId=item))["nextRole"] == "terminal"
    assert await asked(LOOK) == ([], [])
    assert await asked(LOOK) == (["look"], ["look"])
    tools.configure(Settings())
    assert (await tools("get_next_status", itemId=item))["nextRole"] == "terminal"
    assert (await tools.advance(item, "start"))["newRole"] == "terminal"


async def test_front_ends_of_two_versions_each_use_their_own(store: Store, project: str) -> None:
    strict, open_handed = (client_of(store, project, declared(*notes)) for notes in ((PLAN, LOOK), ()))
    item = await strict.add(type="bug")
    for tools, names, next_role in ((strict, ["plan"], "review"), (open_handed, [], "terminal")) * 2:
        assert (await tools("get_context", itemId=item))["gateStatus"]["missing"] == names
        assert missing(await tools.advance(item, "start")) == names
        assert await tools.role(item) == ("work" if not names else "queue")
        assert (await tools("get_next_status", itemId=item))["nextRole"] == (next_role if not names else "work")
        await tools.move(item, "cancel", "reopen")


async def test_a_reload_changes_the_lifecycle_of_the_items_above(store: Store, project: str) -> None:
    tools = client_of(store, project, declared(lifecycle="manual"))
    parent = await tools.add(type="bug")
    item = await tools.add(parentId=parent)
    for lifecycle, notes, applied in (("manual", [], []), ("auto", [PLAN], [False]), ("auto", [], [True])):
        tools.configure(msgspec.convert(declared(*notes, lifecycle=lifecycle), Settings))
        events = (await tools.advance(item, "complete"))["cascadeEvents"]
        assert [event["applied"] for event in events] == applied
        await tools.move(item, "reopen")
