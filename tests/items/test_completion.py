"""complete_tree: the items, their order, refusals and skips, and continuation over runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import islice, pairwise
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Script, Store
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.trees import completion_order
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio

EPOCH = "1970-01-01T00:00:00Z"
RUN = 25
"""Items that one run of the script completes."""
DEPENDENCY = "dependency gate failed"
SCHEMAS: Json = {
    "work_item_schemas": {
        "bug": {
            "notes": [
                {"key": "plan", "role": "queue", "required": True},
                {"key": "hint", "role": "work"},
                {"key": "done", "role": "work", "required": True},
            ]
        },
        "free": {},
    },
    "traits": {"careful": {"notes": [{"key": "check", "role": "review", "required": True}]}},
}


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(SCHEMAS, Settings))


async def completed(tools: Client, *items: str, **options: Any) -> Json:
    """The answer for these items, whose counts must be those of its results."""
    answer = await tools("complete_tree", **({"itemIds": list(items)} if items else {}), **options)
    results = answer["results"]
    counts = {
        "completed": sum(result["applied"] for result in results),
        "skipped": sum(result.get("skipped", False) for result in results),
        "gateFailures": sum("gateErrors" in result for result in results),
    }
    assert answer["summary"] == {"total": len(results), **counts}
    assert sum(counts.values()) == len(results)
    return answer


def outcomes(answer: Json) -> dict[str, str]:
    """By title: ``done``, or why not."""
    return {
        result["title"]: "done"
        if result["applied"]
        else "; ".join(result["gateErrors"])
        if "gateErrors" in result
        else result["skippedReason"]
        for result in answer["results"]
    }


def order(answer: Json) -> list[str]:
    return [result["title"] for result in answer["results"]]


async def chained(tools: Client, ids: list[str]) -> None:
    """Makes each item wait for the previous one."""
    await tools.link_all(pairwise(ids))


async def in_order(tools: Client) -> None:
    """The audit finds nothing."""
    assert not (await audit(tools.store, tools.project)).differences


# --- which items ------------------------------------------------------------------------------


@pytest.mark.every_store
async def test_descendants_are_completed_without_the_root(tools: Client) -> None:
    ids = await tools.chain(3)
    side = await tools.add("side", parentId=ids[1])
    other = await tools.add("other")
    answer = await completed(tools, rootId=ids[0])
    below = [*ids[1:], side]
    assert {result["itemId"] for result in answer["results"]} == set(below)
    for result in answer["results"]:
        assert result == {
            "itemId": result["itemId"],
            "title": result["title"],
            "applied": True,
            "trigger": "complete",
            "statusLabel": "done",
        }
    assert [await tools.role(item) for item in below] == ["terminal"] * 4
    assert [await tools.role(item) for item in (ids[0], other)] == ["queue", "queue"]
    assert (await tools.get(side))["statusLabel"] == "done"
    await in_order(tools)


@pytest.mark.parametrize("blocks", [True, False])
async def test_an_included_root_comes_last(tools: Client, blocks: bool) -> None:
    ids = await tools.chain(2)
    if blocks:
        await tools.link(ids[0], ids[2])
    answer = await completed(tools, rootId=ids[0], includeRoot=True)
    assert sorted(order(answer)[:2]) == ["depth 1", "depth 2"]
    assert order(answer)[2] == "depth 0"
    waits = "1 blocking dependencies are not satisfied" if blocks else "done"
    assert outcomes(answer) == {"depth 0": "done", "depth 1": "done", "depth 2": waits}


async def test_a_root_without_descendants_has_nothing_to_complete(tools: Client) -> None:
    item = await tools.add("alone")
    assert (await completed(tools, rootId=item))["results"] == []
    assert await tools.role(item) == "queue"
    assert outcomes(await completed(tools, rootId=item, includeRoot=True)) == {"alone": "done"}


async def test_listed_items_are_completed_without_their_descendants(tools: Client) -> None:
    ids = await tools.chain(2)
    answer = await completed(tools, ids[1], ids[1].upper(), ids[1].replace("-", ""), includeRoot=True)
    assert outcomes(answer) == {"depth 1": "done"}
    assert [await tools.role(item) for item in ids] == ["queue", "terminal", "queue"]


async def test_an_empty_list_completes_nothing(tools: Client) -> None:
    """As sent by an agent with nothing to complete."""
    request: Json = {"itemIds": [], "actor": {"id": "ann", "kind": "user"}, "requestId": fresh_id()}
    await tools.add("a")
    nothing = {"results": [], "summary": {"total": 0, "completed": 0, "skipped": 0, "gateFailures": 0}}
    assert [await tools("complete_tree", **request) for _ in range(2)] == [nothing] * 2


@pytest.mark.parametrize("include_root", [True, False])
async def test_an_unknown_root_is_not_found(tools: Client, include_root: bool) -> None:
    for root in (fresh_id(), "abcd"):
        failure = await tools.refusal("complete_tree", rootId=root, includeRoot=include_root)
        assert failure.code == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "rootId: give exactly one"),
        ({"rootId": "abcd", "itemIds": ["abcd"]}, "rootId: give exactly one"),
        ({"itemIds": [], "rootId": "abcd"}, "rootId: give exactly one"),
        ({"itemIds": ["abcd"] * 2001}, "itemIds: must hold at most 2000"),
        ({"itemIds": ["abcd", "no id"]}, "itemIds[1]: must be a UUID"),
        ({"rootId": ""}, "rootId: give exactly one"),
        ({"rootId": "no id"}, "rootId: must be a UUID"),
        ({"itemIds": ["abcd"], "trigger": "reopen"}, "trigger: 'reopen' is not one of complete, cancel"),
        ({"itemIds": ["abcd"], "actor": {"id": "", "kind": "user"}}, "actor.id: "),
        ({"itemIds": ["abcd"], "actor": {"id": "ann", "kind": "x"}}, "actor.kind: "),
    ],
)
async def test_invalid_arguments_complete_nothing(
    tools: Client, monkeypatch: pytest.MonkeyPatch, wrong: Json, message: str
) -> None:
    name_ids(monkeypatch, "abcd")
    item = await tools.add()
    failure = await tools.refusal("complete_tree", **wrong)
    assert (failure.code, failure.message[: len(message)]) == ("VALIDATION_ERROR", message)
    assert await tools.role(item) == "queue"


def name_ids(monkeypatch: pytest.MonkeyPatch, *prefixes: str) -> None:
    """Sets the prefixes of the next ids."""
    upcoming = iter([prefix.ljust(32, "0") for prefix in prefixes])
    monkeypatch.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(upcoming, count)))


async def test_prefixes_name_items_and_roots(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    name_ids(monkeypatch, "aaaa1", "aaaa2", "bbbb")
    root, below, other = await tools.add("r"), await tools.add("x"), await tools.add("o")
    await tools.update(below, parentId=root)
    assert outcomes(await completed(tools, rootId="AAAA1")) == {"x": "done"}
    assert outcomes(await completed(tools, "bbbb", other, "aaaa1")) == {"o": "done", "r": "done"}


@pytest.mark.parametrize("field", ["rootId", "itemIds"])
async def test_an_ambiguous_prefix_and_an_unknown_root_complete_nothing(
    tools: Client, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    name_ids(monkeypatch, "aaaa1", "aaaa2", "bbbb")
    ids = [await tools.add(title) for title in ("x", "y", "o")]

    async def refused(prefix: str) -> ToolFailure:
        return await tools.refusal("complete_tree", **{field: prefix if field == "rootId" else ["bbbb", prefix]})

    ambiguous = await refused("AAAA")
    matches = [{"id": item, "title": title} for item, title in zip(ids[:2], ("x", "y"), strict=True)]
    assert (ambiguous.code, ambiguous.data) == ("VALIDATION_ERROR", {"prefix": "aaaa", "matches": matches})
    if field == "rootId":
        unknown = await refused("cccc")
        assert (unknown.code, "cccc" in unknown.message) == ("RESOURCE_NOT_FOUND", True)
    assert [await tools.role(item) for item in ids] == ["queue"] * 3


@pytest.mark.parametrize("trigger", ["complete", "cancel"])
async def test_unknown_items_are_reported_and_block_nothing(tools: Client, trigger: str) -> None:
    item, unknown = await tools.add("x"), fresh_id()
    call: Json = {"itemIds": [unknown, "CCCC", item, "cccc"], "trigger": trigger, "actor": actor("ann"),
                  "requestId": fresh_id()}  # fmt: skip
    first = await tools("complete_tree", **call)
    missing = {"applied": False, "skipped": True, "skippedReason": "no such item", "errorCode": "not_found"}
    done, *others = first["results"]
    assert (done["itemId"], done["applied"]) == (item, True)
    assert others == [{"itemId": unknown, **missing}, {"itemId": "cccc", **missing}]
    assert first["summary"] == {"total": 3, "completed": 1, "skipped": 2, "gateFailures": 0}
    await tools.delete(item)
    assert await tools("complete_tree", **call) == first
    assert [entry["errorCode"] for entry in (await completed(tools, item, unknown))["results"]] == ["not_found"] * 2


# --- in which order -----------------------------------------------------------------------------


@pytest.mark.every_store
async def test_blockers_come_before_their_dependents_for_any_type(tools: Client) -> None:
    root = await tools.add("root")
    a, b, c, d = [await tools.add(title, parentId=root) for title in "abcd"]
    await tools.link(d, c)
    await tools.link(b, c, type="IS_BLOCKED_BY")
    await tools.link(b, a, unblockAt="queue")
    await tools.link(a, d, type="RELATES_TO")
    answer = await completed(tools, rootId=root)
    assert order(answer) == ["d", "c", "b", "a"]
    assert set(outcomes(answer).values()) == {"done"}


async def test_the_order_of_the_list_does_not_matter(tools: Client) -> None:
    ids = await tools.add_many(60)
    await chained(tools, ids)
    answer = await completed(tools, *reversed(ids))
    assert order(answer) == [str(n) for n in range(60)]
    assert set(outcomes(answer).values()) == {"done"}


class Turns(Store):
    """A store where an edge is reversed after the first read of dependents."""

    turn: Callable[[], Awaitable[None]] | None = None

    async def run(self, script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        reply = await super().run(script, project, *args, **more)
        if script.name == "read_dependents" and self.turn:
            turn, self.turn = self.turn, None
            await turn()
        return reply


async def test_an_edge_reversed_meanwhile_does_no_harm(tools: Client, redis_url: str) -> None:
    """The sliced reads then have a cycle that the store never had."""
    ids = await tools.add_many(60)
    first, last = ids[0], ids[-1]
    await tools.link(first, last)
    store = Turns(redis_url, timeout_ms=5000)

    async def turn() -> None:
        await tools.unlink(fromItemId=first, toItemId=last)
        await tools.link(last, first)

    store.turn = turn
    await store.open()
    try:
        answer = await completed(Client(store, tools.project), *ids)
    finally:
        await store.close()
    assert store.turn is None
    assert order(answer)[58:] == ["0", "59"]
    assert outcomes(answer)["0"] == "1 blocking dependencies are not satisfied"
    assert answer["summary"] == {"total": 60, "completed": 59, "skipped": 1, "gateFailures": 0}
    assert outcomes(await completed(tools, first)) == {"0": "done"}


def test_items_of_a_cycle_come_last_and_each_once() -> None:
    assert completion_order({"a": ["b"], "b": ["a", "d"], "c": ["e"], "e": [], "d": []}, None) == list("ceabd")
    assert completion_order({"a": ["b"], "b": ["a"], "c": []}, "a") == list("cba")


# --- gates and skips ------------------------------------------------------------------------------


async def test_every_required_note_of_every_phase_must_be_filled(with_schemas: Client) -> None:
    tools = with_schemas
    root = {"title": "r"}
    children = [
        {"ref": "none", "title": "none", "type": "bug"},
        {"ref": "blank", "title": "blank", "tags": "x,bug", "traits": "careful"},
        {"ref": "all", "title": "all", "type": "bug"},
        {"ref": "free", "title": "free", "type": "free"},
        {"ref": "plain", "title": "plain"},
    ]
    notes = [
        {"itemRef": ref, "key": key, "role": role, "body": body}
        for ref, key, role, body in (
            ("blank", "plan", "queue", " "),
            ("blank", "done", "work", "d"),
            ("all", "plan", "queue", "p"),
            ("all", "done", "work", "d"),
        )
    ]
    made = await tools("create_work_tree", root=root, children=children, notes=notes)
    answer = await completed(tools, rootId=made["root"]["id"])
    assert outcomes(answer) == {
        "none": "missing: plan; missing: done",
        "blank": "missing: plan; missing: check",
        "all": "done",
        "free": "done",
        "plain": "done",
    }
    for result in answer["results"]:
        if "gateErrors" in result:
            assert result.keys() == {"itemId", "title", "applied", "gateErrors", "error"}
            assert await tools.role(result["itemId"]) == "queue"


@pytest.mark.every_store
async def test_a_refusal_skips_all_dependents_in_the_set(with_schemas: Client) -> None:
    """Over edges of any threshold, but not over relations, and not outside of the set."""
    tools = with_schemas
    refused = await tools.add("refused", type="bug")
    a, b, c, related, outside, beyond, free = [
        await tools.add(title) for title in ("a", "b", "c", "related", "outside", "beyond", "free")
    ]
    await tools.link(refused, a)
    await tools.link(b, a, type="IS_BLOCKED_BY")
    await tools.link(refused, c, unblockAt="queue")
    await tools.link(refused, related, type="RELATES_TO")
    await tools.link(refused, outside)
    await tools.link(outside, beyond)
    answer = await completed(tools, refused, a, b, c, related, beyond, free)
    assert outcomes(answer) == {
        "refused": "missing: plan; missing: done",
        "a": DEPENDENCY,
        "b": DEPENDENCY,
        "c": DEPENDENCY,
        "related": "done",
        "beyond": "1 blocking dependencies are not satisfied",
        "free": "done",
    }
    skipped = next(result for result in answer["results"] if result["title"] == "a")
    assert skipped == {"itemId": a, "title": "a", "applied": False, "skipped": True, "skippedReason": DEPENDENCY}
    assert [await tools.role(item) for item in (a, b, c, outside, beyond)] == ["queue"] * 5
    await in_order(tools)


@pytest.mark.parametrize("gate", [0, 1, RUN - 1, RUN, 2 * RUN, 59])
async def test_a_refusal_skips_dependents_over_many_runs(with_schemas: Client, gate: int) -> None:
    tools = with_schemas
    ids = await tools.add_many(60)
    await tools.update(ids[gate], type="bug")
    await chained(tools, ids)
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    answer = await completed(tools, *ids)
    assert list(outcomes(answer).values()) == [
        *["done"] * gate,
        "missing: plan; missing: done",
        *[DEPENDENCY] * (59 - gate),
    ]
    assert answer["summary"] == {"total": 60, "completed": gate, "skipped": 59 - gate, "gateFailures": 1}
    assert runs.count("complete_items") == 3
    await in_order(tools)


async def test_a_cancellation_checks_neither_notes_nor_dependencies(with_schemas: Client) -> None:
    tools = with_schemas
    outside = await tools.add("outside")
    items = {role: await tools.add(role, type="bug", role=role) for role in ("queue", "work", "review", "blocked")}
    for item in items.values():
        await tools.link(outside, item)
    answer = await completed(tools, *items.values(), trigger="CANCEL")
    for result in answer["results"]:
        assert result == {
            "itemId": items[result["title"]],
            "title": result["title"],
            "applied": True,
            "trigger": "cancel",
            "statusLabel": "cancelled",
        }
    assert [await tools.role(item) for item in items.values()] == ["terminal"] * 4
    assert await tools.role(outside) == "queue"


async def test_items_are_completed_from_any_role_but_blocked(tools: Client) -> None:
    ids = [await tools.add(role, role=role) for role in ("queue", "work", "review", "blocked", "terminal")]
    after, free = await tools.add("after"), await tools.add("free")
    await tools.link(ids[3], after)
    await tools.link(ids[4], free)
    assert outcomes(await completed(tools, *ids, after, free)) == {
        "queue": "done",
        "work": "done",
        "review": "done",
        "blocked": "Cannot transition: use 'resume' first",
        "terminal": "already terminal",
        "after": "1 blocking dependencies are not satisfied",
        "free": "done",
    }
    assert [await tools.role(item) for item in (ids[3], after)] == ["blocked", "queue"]


@pytest.mark.parametrize("trigger", ["complete", "cancel"])
async def test_terminal_items_are_skipped_and_block_nothing(with_schemas: Client, trigger: str) -> None:
    """Their notes are not checked."""
    tools = with_schemas
    ended = await tools.add("ended", role="terminal", type="bug", statusLabel="mine")
    waits = await tools.add("waits")
    await tools.link(ended, waits)
    before = await tools.get(ended)
    answer = await completed(tools, ended, waits, trigger=trigger)
    assert outcomes(answer) == {"ended": "already terminal", "waits": "done"}
    assert await tools.get(ended) == before


@pytest.mark.parametrize(("threshold", "role"), [("terminal", "review"), ("review", "work"), ("work", "queue")])
async def test_waiting_items_are_refused_with_the_number_of_blockers(tools: Client, threshold: str, role: str) -> None:
    one, two, satisfied = await tools.add(role=role), await tools.add(role=role), await tools.add(role="terminal")
    item, after = await tools.add("item"), await tools.add("after")
    for blocker in (one, two, satisfied):
        await tools.link(blocker, item, unblockAt=threshold)
    await tools.link(item, after)
    answer = await completed(tools, item, after)
    assert outcomes(answer) == {"item": "2 blocking dependencies are not satisfied", "after": DEPENDENCY}
    await tools.move(one, *{"review": ["start"], "work": ["complete"], "queue": ["start"]}[role])
    await tools.move(two, "complete")
    assert outcomes(await completed(tools, item, after)) == {"item": "done", "after": "done"}


@pytest.mark.parametrize(
    ("labels", "shown"),
    [({"complete": '☑ "ok"/\\'}, '☑ "ok"/\\'), ({"start": "x"}, None), ({"complete": None}, None)],
)
async def test_labels_come_from_the_configuration(store: Store, project: str, labels: Json, shown: str | None) -> None:
    tools = Client(store, project, msgspec.convert({"status_labels": labels}, Settings))
    item, other = await tools.add(statusLabel="old"), await tools.add(statusLabel="old")
    (result,) = (await completed(tools, item))["results"]
    assert result.get("statusLabel") == shown == (await tools.get(item)).get("statusLabel")
    assert (await completed(tools, other, trigger="cancel"))["results"][0]["statusLabel"] == "cancelled"


# --- claims and actors ----------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["complete", "cancel"])
@pytest.mark.parametrize("agent", ["", "ann"])
async def test_only_the_holder_completes_a_claimed_item(tools: Client, trigger: str, agent: str) -> None:
    held, lapsed, after, mine, free = [await tools.add(title) for title in ("held", "lapsed", "after", "mine", "free")]
    detail = await tools.claim("bob", held)
    await tools.claim("cy", lapsed)
    await lapse(tools, lapsed)
    if agent:
        await tools.claim("ann", mine)
    await tools.link(held, after)
    answer = await completed(
        tools, held, lapsed, after, mine, free, trigger=trigger, actor=actor(agent) if agent else None
    )
    reason = f"claimed by a different agent; the claim expires at {detail['claimExpiresAt']}"
    assert outcomes(answer) == {"held": reason, "lapsed": "done", "after": DEPENDENCY, "mine": "done", "free": "done"}
    refused = next(result for result in answer["results"] if result["title"] == "held")
    assert refused == {"itemId": held, "title": "held", "applied": False, "skipped": True, "skippedReason": reason,
                       "errorCode": "not_claim_holder"}  # fmt: skip
    assert "bob" not in str(answer)
    assert await tools.role(held) == "queue"
    await in_order(tools)


async def test_a_claim_outlives_the_completion_of_its_item(tools: Client) -> None:
    item = await tools.add()
    claim = await tools.claim("ann", item)
    await completed(tools, item, actor=actor("ann"))
    detail = (await tools("get_context", itemId=item))["claimDetail"]
    assert (detail["claimedBy"], detail["claimExpiresAt"]) == ("ann", claim["claimExpiresAt"])
    assert (await tools("get_context"))["claimSummary"] == {"active": 1, "expired": 0}
    assert (await tools.release("ann", item))["outcome"] == "success"
    assert (await tools.claim("ann", item))["outcome"] == "terminal_item"
    await in_order(tools)


@pytest.mark.parametrize("signed", [True, False])
async def test_every_transition_records_its_actor(tools: Client, signed: bool) -> None:
    root = await tools.add()
    items = await tools.add_many(30, parentId=root)
    who = {**actor("ann", parent="boss", proof="secret"), "kind": "Orchestrator"} if signed else None
    await completed(tools, rootId=root, actor=who)
    rows = (await tools("get_context", since=EPOCH, limit=100))["recentTransitions"]
    assert {row["itemId"] for row in rows} == set(items)
    for row in rows:
        assert (row["fromRole"], row["toRole"], row["trigger"]) == ("queue", "terminal", "complete")
        shown = {"id": "ann", "kind": "orchestrator", "parent": "boss"} if signed else None
        assert row.get("actor") == shown
        assert ("verification" in row) == signed


# --- consequences --------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["complete", "cancel"])
async def test_no_parent_cascades(tools: Client, trigger: str) -> None:
    ids = await tools.chain(2)
    await tools.move(ids[2], "start")
    await completed(tools, ids[2], trigger=trigger)
    assert [await tools.role(item) for item in ids] == ["work", "work", "terminal"]
    await completed(tools, rootId=ids[0], trigger=trigger)
    assert [await tools.role(item) for item in ids] == ["work", "terminal", "terminal"]


@pytest.mark.parametrize("trigger", ["complete", "cancel"])
async def test_outside_dependents_become_ready_with_their_last_blocker(tools: Client, trigger: str) -> None:
    root, kept = await tools.add("root"), await tools.add("kept")
    one, two = await tools.add_many(2, parentId=root)
    freed, half = await tools.add("freed"), await tools.add("half")
    for blocker, waits in ((one, freed), (two, freed), (one, half), (kept, half)):
        await tools.link(blocker, waits)
    await completed(tools, rootId=root, trigger=trigger)
    assert set(await tools.next(limit=9)) == {root, kept, freed}
    assert (await tools("get_next_status", itemId=half))["recommendation"] == "Blocked"
    await in_order(tools)
