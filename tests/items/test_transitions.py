"""advance_item: every trigger from every role, labels, batches, dependencies, results."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.store import keys
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import ms, server_time

pytestmark = pytest.mark.anyio

TERMINAL = "item is already terminal; use 'reopen' to move it back to queue"
BLOCKED = "item is blocked; use 'resume' first"
ALREADY = "item is already blocked"
NOT_BLOCKED = "only a blocked item can be resumed"
NOT_TERMINAL = "only a terminal item can be reopened"
OWN = "own label"

# Trigger -> role -> (new role, new label) or the refusal. A blocked item comes from work; without a
# schema there is no review phase. None stands for a cleared label.
TABLE: dict[str, dict[str, tuple[str, str | None] | str]] = {
    "start": {
        "queue": ("work", "in-progress"),
        "work": ("terminal", "done"),
        "review": ("terminal", "done"),
        "blocked": BLOCKED,
        "terminal": TERMINAL,
    },
    "complete": {
        "queue": ("terminal", "done"),
        "work": ("terminal", "done"),
        "review": ("terminal", "done"),
        "blocked": BLOCKED,
        "terminal": TERMINAL,
    },
    "block": {
        "queue": ("blocked", "blocked"),
        "work": ("blocked", "blocked"),
        "review": ("blocked", "blocked"),
        "blocked": ALREADY,
        "terminal": TERMINAL,
    },
    "hold": {
        "queue": ("blocked", OWN),
        "work": ("blocked", OWN),
        "review": ("blocked", OWN),
        "blocked": ALREADY,
        "terminal": TERMINAL,
    },
    "resume": {
        "queue": NOT_BLOCKED,
        "work": NOT_BLOCKED,
        "review": NOT_BLOCKED,
        "blocked": ("work", None),
        "terminal": TERMINAL,
    },
    "cancel": {
        "queue": ("terminal", "cancelled"),
        "work": ("terminal", "cancelled"),
        "review": ("terminal", "cancelled"),
        "blocked": ("terminal", "cancelled"),
        "terminal": TERMINAL,
    },
    "reopen": {
        "queue": NOT_TERMINAL,
        "work": NOT_TERMINAL,
        "review": NOT_TERMINAL,
        "blocked": NOT_TERMINAL,
        "terminal": ("queue", None),
    },
}


async def item_in(tools: Client, role: str) -> str:
    """An item with a label of its own; a blocked one has come from work."""
    item = await tools.add(role="work" if role == "blocked" else role)
    if role == "blocked":
        await tools.move(item, "hold")
    await tools.update(item, statusLabel=OWN)
    return item


@pytest.mark.parametrize(("trigger", "role"), [(trigger, role) for trigger, row in TABLE.items() for role in row])
async def test_each_trigger_from_each_role(tools: Client, trigger: str, role: str) -> None:
    item = await item_in(tools, role)
    before = await tools.get(item)
    result = await tools.advance(item, trigger)
    after = await tools.get(item)
    expected = TABLE[trigger][role]
    if isinstance(expected, str):
        error = f"Cannot apply '{trigger}': {expected}"
        assert result == {"itemId": item, "trigger": trigger, "applied": False, "error": error}
        assert after == before
        return
    target, label = expected
    assert result == {
        "itemId": item,
        "previousRole": role,
        "newRole": target,
        "trigger": trigger,
        "applied": True,
        "cascadeEvents": [],
        "unblockedItems": [],
        "expectedNotes": [],
        **({"statusLabel": label} if label else {}),
    }
    assert (after["role"], after.get("statusLabel")) == (target, label)
    assert after.get("previousRole") == (role if target == "blocked" else None)
    assert after["roleChangedAt"] >= before["roleChangedAt"]
    assert after["modifiedAt"] > before["modifiedAt"]


async def test_the_result_for_an_unknown_item_names_the_trigger(tools: Client) -> None:
    unknown = fresh_id()
    error = "Cannot apply 'start': no such item"
    assert await tools.advance(unknown, "start") == {
        "itemId": unknown, "trigger": "start", "applied": False, "error": error
    }  # fmt: skip


async def test_resume_returns_to_each_role(tools: Client) -> None:
    for role in ("queue", "work", "review"):
        item = await tools.add(role=role)
        await tools.move(item, "block")
        assert (await tools.advance(item, "resume"))["newRole"] == role


async def test_an_item_created_as_blocked_is_resumed_to_queue(tools: Client) -> None:
    item = await tools.add(role="blocked")
    result = await tools.move(item, "resume")
    assert (result["previousRole"], result["newRole"]) == ("blocked", "queue")
    assert await tools.next() == [item]


async def test_triggers_are_case_insensitive(tools: Client) -> None:
    item = await tools.add()
    result = await tools.advance(item, "START")
    assert (result["applied"], result["trigger"]) == (True, "start")


@pytest.mark.parametrize("trigger", ["cascade", "finish", "", "start "])
async def test_other_triggers_fail_the_whole_call(tools: Client, trigger: str) -> None:
    item = await tools.add()
    transitions = [{"itemId": item, "trigger": "start"}, {"itemId": item, "trigger": trigger}]
    failure = await tools.refusal("advance_item", transitions=transitions)
    assert (failure.code, failure.message.partition(":")[0]) == ("VALIDATION_ERROR", "transitions[1].trigger")
    assert await tools.role(item) == "queue"


@pytest.mark.parametrize(
    "transitions",
    [
        [],
        [{"itemId": "0000", "trigger": "start"}] * 101,
        [{"itemId": "nope", "trigger": "start"}],
        [{"trigger": "start"}],
        [{"itemId": "0000"}],
        [{"itemId": "0000", "trigger": "start", "fenceToken": 0}],
        [{"itemId": "0000", "trigger": "start", "actor": actor("a")}, {"itemId": "0000", "trigger": "start"}],
        [{"itemId": "0000", "trigger": "start", "actor": actor(agent)} for agent in "ab"],
    ],
)
async def test_a_malformed_call_is_rejected_as_a_whole(tools: Client, transitions: list[dict[str, Any]]) -> None:
    assert (await tools.refusal("advance_item", transitions=transitions)).code == "VALIDATION_ERROR"


@pytest.mark.every_store
async def test_elements_are_applied_in_order_and_independently(tools: Client) -> None:
    a, b = await tools.add(), await tools.add()
    triggers = [(a, "start"), (a, "reopen"), (a, "complete"), (b, "complete"), (b, "reopen"), (a, "start")]
    transitions = [{"itemId": item, "trigger": trigger} for item, trigger in triggers]
    answer = await tools("advance_item", transitions=transitions)
    assert [result["applied"] for result in answer["results"]] == [True, False, True, True, True, False]
    assert answer["summary"] == {"total": 6, "succeeded": 4, "failed": 2}
    assert answer["allUnblockedItems"] == []
    assert (await tools.role(a), await tools.role(b)) == ("terminal", "queue")


async def test_the_actor_and_the_summary_are_shown_but_never_the_proof(tools: Client) -> None:
    item = await tools.add()
    who = {"id": "sub-1", "kind": "SUBAGENT", "parent": "orch-1", "proof": "secret"}
    transition = {"itemId": item, "trigger": "start", "actor": who, "summary": "why"}
    (result,) = (await tools("advance_item", transitions=[transition]))["results"]
    assert result["actor"] == {"id": "sub-1", "kind": "subagent", "parent": "orch-1"}
    assert result["verification"] == {"status": "unchecked", "verifier": "noop", "reason": None}
    assert result["summary"] == "why"


async def test_a_malformed_actor_fails_its_element(tools: Client) -> None:
    a, b = await tools.add(), await tools.add()
    transitions = [
        {"itemId": a, "trigger": "start", "actor": {"id": "x", "kind": "robot"}},
        {"itemId": b, "trigger": "start", "actor": {"id": "x", "kind": "user"}},
    ]
    answer = await tools("advance_item", transitions=transitions)
    bad, good = answer["results"]
    assert bad.keys() == {"itemId", "trigger", "applied", "error"}
    assert "transitions[0].actor.kind" in bad["error"]
    assert good["applied"]
    assert answer["summary"] == {"total": 2, "succeeded": 1, "failed": 1}
    assert await tools.role(a) == "queue"


# --- dependencies


@pytest.mark.parametrize("trigger", ["start", "complete"])
@pytest.mark.parametrize("role", ["queue", "work", "review"])
async def test_forward_moves_need_satisfied_dependencies(tools: Client, role: str, trigger: str) -> None:
    item, done = await tools.add(role=role), await tools.add(role="terminal")
    blocker, other = await tools.add(role="work"), await tools.add(role="review")
    await tools.link(blocker, item, unblockAt="review")
    await tools.link(item, other, type="IS_BLOCKED_BY")
    await tools.link(done, item)
    result = await tools.advance(item, trigger)
    blockers = result.pop("blockers")
    assert result == {
        "itemId": item,
        "trigger": trigger,
        "applied": False,
        "error": f"Cannot apply '{trigger}': 2 blocking dependencies are not satisfied",
    }
    assert sorted(blockers, key=lambda entry: str(entry["fromItemId"] != blocker)) == [
        {"fromItemId": blocker, "currentRole": "work", "requiredRole": "review"},
        {"fromItemId": other, "currentRole": "review", "requiredRole": "terminal"},
    ]
    assert await tools.role(item) == role


async def test_other_moves_need_none(tools: Client) -> None:
    blocker, item, done = await tools.add(), await tools.add(), await tools.add(role="terminal")
    await tools.link(blocker, item)
    await tools.link(blocker, done)
    await tools.move(item, "block", "resume", "hold", "cancel", "reopen")
    await tools.move(done, "reopen")
    assert "blockers" in await tools.advance(done, "start")


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_any_item_that_is_not_terminal_can_be_cancelled(tools: Client, role: str) -> None:
    blocker, item = await tools.add(), await tools.add(role=role)
    await tools.link(blocker, item)
    result = await tools.move(item, "cancel")
    assert (result["newRole"], result["statusLabel"]) == ("terminal", "cancelled")
    assert (await tools("get_blocked_items"))["total"] == 0


async def test_satisfied_within_the_call_is_satisfied(tools: Client) -> None:
    blocker, item = await tools.add(), await tools.add()
    await tools.link(blocker, item)
    transitions = [{"itemId": blocker, "trigger": "complete"}, {"itemId": item, "trigger": "complete"}]
    assert (await tools("advance_item", transitions=transitions))["summary"]["succeeded"] == 2


# --- consequences for dependents


async def unblocked(tools: Client, item: str, trigger: str) -> list[str]:
    answer = await tools("advance_item", transitions=[{"itemId": item, "trigger": trigger}])
    (result,) = answer["results"]
    assert result["applied"]
    assert answer["allUnblockedItems"] == result["unblockedItems"]
    return [entry["itemId"] for entry in result["unblockedItems"]]


async def test_unblocked_items_are_listed(tools: Client) -> None:
    first, second, both, one, related = await tools.add_many(5)
    await tools.link(first, both)
    await tools.link(both, second, type="IS_BLOCKED_BY")
    await tools.link(one, first, type="IS_BLOCKED_BY")
    await tools.link(first, related, type="RELATES_TO")
    assert await unblocked(tools, first, "complete") == [one]
    answer = await tools("advance_item", transitions=[{"itemId": second, "trigger": "complete"}])
    assert answer["allUnblockedItems"] == [{"itemId": both, "title": "2"}]


async def test_the_threshold_decides_when(tools: Client) -> None:
    blocker, item = await tools.add(), await tools.add()
    await tools.link(blocker, item, unblockAt="work")
    assert await unblocked(tools, blocker, "start") == [item]
    assert await unblocked(tools, blocker, "block") == []
    assert item not in await tools.next(limit=9)
    assert await unblocked(tools, blocker, "resume") == [item]
    assert await unblocked(tools, blocker, "complete") == [item]


async def test_unblocked_items_are_listed_in_any_role_but_terminal(tools: Client) -> None:
    blocker, working, done = await tools.add(), await tools.add(role="work"), await tools.add(role="terminal")
    await tools.link(blocker, working)
    await tools.link(blocker, done)
    assert set(await unblocked(tools, blocker, "cancel")) == {working}


def titles(entries: list[Json]) -> list[str]:
    return [entry["title"] for entry in entries]


@pytest.mark.parametrize("fillers", [0, 70], ids=["one-run", "several-runs"])
async def test_items_blocked_again_by_a_later_transition_are_not_unblocked_by_the_call(
    tools: Client, fillers: int
) -> None:
    """Rows describe the moment after them, the call its end. A retry gets the same."""
    blocker, other = await tools.add(), await tools.add()
    waits, both, free = [await tools.add(title) for title in ("waits", "both", "free")]
    for item in (waits, both):
        await tools.link(blocker, item)
    await tools.link(other, both)
    await tools.link(other, free)
    between = [{"itemId": item, "trigger": "start"} for item in (await tools.add_many(fillers) if fillers else [])]
    steps = [(blocker, "complete"), (other, "complete"), (blocker, "reopen")]
    first, *rest = [{"itemId": item, "trigger": trigger} for item, trigger in steps]
    call: Json = {"transitions": [{**one, "actor": actor("a")} for one in (first, *between, *rest)]}
    call["requestId"] = fresh_id()
    answer = await tools("advance_item", **call)
    assert answer["summary"]["succeeded"] == 3 + fillers
    rows = [titles(row["unblockedItems"]) for row in answer["results"] if row["trigger"] != "start"]
    assert [sorted(row) for row in rows] == [["waits"], ["both", "free"], []]
    assert titles(answer["allUnblockedItems"]) == ["free"]
    assert await tools("advance_item", **call) == answer


async def test_a_parent_that_ends_by_the_same_transition_is_not_listed_as_unblocked(tools: Client) -> None:
    parent, waits = await tools.add("parent"), await tools.add("waits")
    item = await tools.add("item", parentId=parent)
    await tools.link(item, parent)
    await tools.link(item, waits)
    assert await unblocked(tools, item, "complete") == [waits]
    assert await tools.role(parent) == "terminal"


@pytest.mark.parametrize("more", [0, 60], ids=["few", "many"])
async def test_what_has_ended_is_not_listed_as_unblocked(tools: Client, more: int) -> None:
    blocker, ended = await tools.add(), await tools.add("ended")
    others = await tools.add_many(more + 1)
    await tools.link_all((blocker, item) for item in (ended, *others))
    await tools.move(ended, "cancel")
    assert sorted(await unblocked(tools, blocker, "complete")) == sorted(others)


async def test_what_a_call_unblocks_and_ends_is_not_listed_for_the_call(tools: Client) -> None:
    blocker, root = await tools.add(), await tools.add("root")
    waits, again = await tools.add("waits", parentId=root), await tools.add("again")
    await tools.link_all((blocker, item) for item in (waits, again, root))
    steps = [(blocker, "complete"), (waits, "complete"), (again, "complete"), (again, "reopen")]
    answer = await tools("advance_item", transitions=[{"itemId": item, "trigger": trigger} for item, trigger in steps])
    assert sorted(titles(answer["results"][0]["unblockedItems"])) == ["again", "root", "waits"]
    assert await tools.role(root) == "terminal"
    assert titles(answer["allUnblockedItems"]) == ["again"]


async def test_an_item_unblocked_twice_is_listed_once_for_the_call(tools: Client) -> None:
    blocker = await tools.add()
    await tools.link(blocker, await tools.add("waits"))
    steps = [{"itemId": blocker, "trigger": trigger} for trigger in ("complete", "reopen", "complete")]
    answer = await tools("advance_item", transitions=steps)
    assert [titles(row["unblockedItems"]) for row in answer["results"]] == [["waits"], [], ["waits"]]
    assert titles(answer["allUnblockedItems"]) == ["waits"]


@pytest.mark.parametrize("dependents", [1, 60], ids=["few", "many"])
async def test_items_blocked_again_by_a_cascade_are_not_unblocked(tools: Client, dependents: int) -> None:
    """The child's change removes its blocker, and the parent's adds one."""
    parent = await tools.add()
    child = await tools.add(parentId=parent)
    await tools.move(child, "complete")
    items = await tools.add_many(dependents)
    for item in items:
        await tools.link(child, item, unblockAt="queue")
    await tools.link(parent, items[0])
    result = await tools.move(child, "reopen")
    assert [event["applied"] for event in result["cascadeEvents"]] == [True]
    assert sorted(entry["itemId"] for entry in result["unblockedItems"]) == sorted(items[1:])


async def test_lists_of_a_batch_are_merged(tools: Client) -> None:
    one, two, first, second = await tools.add_many(4)
    await tools.link(one, first)
    await tools.link(two, second)
    transitions = [{"itemId": item, "trigger": "complete"} for item in (one, two)]
    answer = await tools("advance_item", transitions=transitions)
    assert [entry["itemId"] for entry in answer["allUnblockedItems"]] == [first, second]


# --- the record


async def test_each_transition_is_recorded(tools: Client) -> None:
    parent = await tools.add()
    item = await tools.add(parentId=parent, statusLabel="new")
    await tools.advance(item, "start", "agent", summary="why")
    inner = {name: value.replace("-", "") for name, value in (("parent", parent), ("item", item))}
    rows: Any = await tools.store.client.xrange(keys.transitions.key(tools.project))
    first, second = (msgspec.msgpack.decode(row[b"r"])[:9] for _, row in rows)
    assert first[:7] == [inner["item"], 0, 1, "start", "new", "in-progress", "why"]
    assert first[7:] == ['{"id":"agent","kind":"subagent"}', '{"status":"unchecked","verifier":"noop","reason":null}']
    assert (second[0], second[3], second[7:]) == (inner["parent"], "cascade", ["", ""])
    assert second[6]
    events: Any = await tools.store.client.xrevrange(keys.events.key(tools.project), count=2)
    assert [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in reversed(events)] == [
        {"k": "transition", "i": inner["item"], "R": inner["parent"], "g": "start", "f": "0", "t": "1", "a": "agent"},
        {"k": "transition", "i": inner["parent"], "g": "cascade", "f": "0", "t": "1", "a": ""},
    ]


async def test_an_item_read_in_full_shows_its_last_transitions(tools: Client) -> None:
    """Newest first, up to the limit and as far as recorded."""
    parent = await tools.add()
    item = await tools.add(parentId=parent, requiresVerification=True)
    assert "transitions" not in await tools.get(item)
    await tools.advance(item, "start", "ann", summary="begun")
    await tools("complete_tree", itemIds=[item])
    shown = await tools.get(item)
    assert shown["requiresVerification"] is True
    done, begun = shown["transitions"]
    unchecked = {"status": "unchecked", "verifier": "noop", "reason": None}
    assert begun.pop("at") <= done.pop("at") == shown["roleChangedAt"]
    assert begun == {"fromRole": "queue", "toRole": "work", "trigger": "start", "summary": "begun",
                     "actor": actor("ann"), "verification": unchecked}  # fmt: skip
    assert done == {"fromRole": "work", "toRole": "terminal", "trigger": "complete", "summary": "complete_tree"}
    (followed,) = (await tools("query_items", operation="overview", itemId=parent))["item"]["transitions"]
    assert (followed["trigger"], followed["summary"]) == ("cascade", "cascade from a child item")
    for number in range(6):
        await tools.advance(item, "reopen", summary=f"again {number}")
        await tools.advance(item, "cancel", summary="x" * 2000)
    texts = [each["summary"] for each in (await tools.get(item))["transitions"]]
    assert texts == ["x" * 2000, "again 5", "x" * 2000, "again 4", "x" * 2000, "again 3", "x" * 2000, "again 2",
                     "x" * 2000, "again 1"]  # fmt: skip
    await tools.store.client.xtrim(keys.transitions.key(tools.project), maxlen=3, approximate=False)
    kept = (await tools.get(item))["transitions"]
    assert 1 <= len(kept) <= 3
    assert kept[0]["summary"] == "x" * 2000


async def test_an_item_shows_when_its_role_changed(tools: Client) -> None:
    """Also a cascaded parent."""
    ids = await tools.chain(1)
    created = [(await tools.get(item))["createdAt"] for item in ids]
    began = await server_time(tools.store)
    await tools.move(ids[1], "start")
    ended = await server_time(tools.store)
    for item in ids:
        shown = await tools.get(item)
        assert began <= ms(shown["roleChangedAt"]) <= ended
        assert shown["modifiedAt"] >= shown["roleChangedAt"]
        await tools.update(item, title="new")
        renamed = await tools.get(item)
        assert renamed["roleChangedAt"] == shown["roleChangedAt"]
        assert renamed["modifiedAt"] > shown["modifiedAt"]
    assert [(await tools.get(item))["createdAt"] for item in ids] == created
