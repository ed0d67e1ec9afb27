"""get_context over everything: session-resume and health-check."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Script, Store
from tests.items.client import Client, Json, actor, counts
from tests.items.moments import lapse, server_time
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

EPOCH = "1970-01-01T00:00:00Z"
DECLARED = {
    "work_item_schemas": {
        "bug": {
            "notes": [
                {"key": "cause", "role": "work", "required": True, "guidance": "Say why.", "skill": "root-cause"},
                {"key": "fix", "role": "work", "required": True},
                {"key": "hint", "role": "work"},
                {"key": "check", "role": "review", "required": True},
            ]
        }
    }
}


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(DECLARED, Settings))


async def transitions(tools: Client, since: str = EPOCH, **options: Any) -> list[Json]:
    answer = await tools("get_context", since=since, **options)
    found: list[Json] = answer["recentTransitions"]
    return found


def ids(entries: list[Json]) -> list[str]:
    return [entry["id"] for entry in entries]


async def test_an_empty_project_is_healthy(tools: Client) -> None:
    lists: Json = {"activeItems": [], "stalledItems": []}
    summary = {"claimSummary": {"active": 0, "expired": 0}}
    assert await tools("get_context") == {"mode": "health-check", "blockedItems": [], **lists, **summary}
    since = "2026-01-01T10:00:00+01:00"
    resumed = {"mode": "session-resume", "since": since, "recentTransitions": [], **lists}
    assert await tools("get_context", since=since) == resumed


@pytest.mark.every_store
async def test_lists_are_by_role_and_best_first_including_held_and_waiting_items(tools: Client) -> None:
    fields: dict[str, Json] = {
        "low": {"priority": "low"},
        "waiting": {"complexity": 3},
        "high": {"priority": "high"},
        "held": {"complexity": 2},
    }
    found: dict[str, list[str]] = {}
    blocker = await tools.add("blocker")
    for role in ("work", "review", "blocked", "queue", "terminal"):
        made = {name: await tools.add(name, role=role, **fields[name]) for name in fields}
        await tools.link(blocker, made["waiting"])
        if role != "terminal":
            await tools.claim(f"agent of {role}", made["held"])
        found[role] = [made[name] for name in ("high", "held", "waiting", "low")]
    answer = await tools("get_context")
    assert ids(answer["activeItems"]) == found["work"] + found["review"]
    assert ids(answer["blockedItems"]) == found["blocked"]
    assert answer["stalledItems"] == []
    assert answer["claimSummary"] == {"active": 4, "expired": 0}
    resumed = await tools("get_context", since=EPOCH)
    assert resumed["activeItems"] == answer["activeItems"]
    assert "blockedItems" not in resumed
    assert "claimSummary" not in resumed


async def test_a_listed_item_shows_its_tags_and_on_request_its_ancestors(with_schemas: Client) -> None:
    tools = with_schemas
    parent = await tools.add("parent")
    plain = await tools.add("plain", role="work", priority="high")
    child = await tools.add("child", role="work", type="bug", tags="a,b", parentId=parent)
    stuck = await tools.add("stuck", role="blocked", parentId=parent)
    first = {"id": plain, "title": "plain", "role": "work", "tags": None}
    second = {"id": child, "title": "child", "role": "work", "tags": "a,b"}
    third = {"id": stuck, "title": "stuck", "role": "blocked", "tags": None}
    answer = await tools("get_context")
    assert answer["activeItems"] == [first, second]
    assert answer["blockedItems"] == [third]
    above = {"ancestors": [{"id": parent, "title": "parent", "depth": 0}]}
    answer = await tools("get_context", includeAncestors=True)
    assert answer["activeItems"] == [first | {"ancestors": []}, second | above]
    assert answer["blockedItems"] == [third | above]
    assert [entry["ancestors"] for entry in answer["stalledItems"]] == [above["ancestors"]]


async def test_active_items_without_required_notes_of_their_phase_are_stalled(with_schemas: Client) -> None:
    tools = with_schemas
    work = await tools.add("in work", role="work", type="bug")
    review = await tools.add("in review", role="review", type="bug")
    for role in ("queue", "blocked", "terminal"):
        await tools.add(role=role, type="bug")
    await tools.add("no schema", role="work")
    expected = [
        {
            "id": work,
            "title": "in work",
            "role": "work",
            "missingNotes": ["cause", "fix"],
            "guidancePointer": "Say why.",
            "skillPointer": "root-cause",
        },
        {"id": review, "title": "in review", "role": "review", "missingNotes": ["check"], "guidancePointer": None},
    ]
    assert (await tools("get_context"))["stalledItems"] == expected
    assert (await tools("get_context", since=EPOCH))["stalledItems"] == expected
    notes = [
        {"itemId": work, "key": "cause", "role": "work", "body": "because"},
        {"itemId": work, "key": "fix", "role": "work", "body": " "},
        {"itemId": review, "key": "check", "role": "review", "body": "ok"},
    ]
    await tools("manage_notes", operation="upsert", notes=notes)
    (left,) = (await tools("get_context"))["stalledItems"]
    assert (left["id"], left["missingNotes"], left["guidancePointer"]) == (work, ["fix"], None)
    assert "skillPointer" not in left


async def test_a_role_with_too_many_items_for_a_list_is_cut_after_the_best(with_schemas: Client) -> None:
    tools = with_schemas
    best = await tools.add(role="work", priority="high")
    await tools.add_many(199, role="work", type="bug")
    assert "truncated" not in await tools("get_context", limit=200)
    worst = await tools.add(role="work", priority="low", type="bug")
    for since in ({}, {"since": EPOCH}):
        answer = await tools("get_context", **since)
        assert len(answer["activeItems"]) == answer["nextOffset"] == 50
        assert answer["activeItems"][0]["id"] == best
        assert ids(answer["stalledItems"]) == ids(answer["activeItems"])[1:]
        assert answer["totals"]["activeItems"] == 201
        assert answer["truncated"] is True
        active = await tools.pages("get_context", "activeItems", **since)
        assert (len(active), active[-1]["id"]) == (201, worst)
        assert len({entry["id"] for entry in await tools.pages("get_context", "stalledItems", **since)}) == 200


async def test_too_many_blocked_items_for_a_list_are_cut_after_the_best(tools: Client) -> None:
    await tools.add_many(199, role="blocked")
    held = await tools.add(role="blocked", priority="high")
    await tools.claim("holder", held)
    assert "truncated" not in await tools("get_context", limit=200)
    worst = await tools.add(role="blocked", priority="low")
    answer = await tools("get_context", limit=200)
    assert len(answer["blockedItems"]) == 200
    assert answer["blockedItems"][0]["id"] == held
    assert worst not in ids(answer["blockedItems"])
    assert answer["truncated"] is True
    assert answer["totals"] == {"activeItems": 0, "blockedItems": 201}
    rest = await tools("get_context", offset=200)
    assert ids(rest["blockedItems"]) == [worst]
    assert "nextOffset" not in rest


# --- claims


@pytest.mark.every_store
async def test_live_and_expired_claims_are_counted_also_before_a_sweep(tools: Client) -> None:
    items = await tools.add_many(5)
    for number, item in enumerate(items):
        await tools.claim(f"agent {number}", item)

    async def summary() -> Json:
        counts: Json = (await tools("get_context"))["claimSummary"]
        return counts

    assert await summary() == {"active": 5, "expired": 0}
    for item in items[:2]:
        await lapse(tools, item)
    assert await summary() == {"active": 3, "expired": 2}
    await tools.next()  # puts expired claims back
    assert await summary() == {"active": 3, "expired": 2}
    await lapse(tools, items[2])
    await tools.release("agent 0", items[0])
    await tools.move(items[1], "complete")
    assert await summary() == {"active": 2, "expired": 2}
    await tools.claim("agent 9", items[2])
    assert await summary() == {"active": 3, "expired": 1}
    assert "agent" not in (await tools.answer("get_context")).decode()


async def test_a_health_check_without_claim_counts_is_still_given(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = await tools.add(role="work")
    run = tools.store.run

    async def failing(script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        if script.name == "claim_counts":
            raise ToolFailure("store_unavailable", "the store does not answer")
        return await run(script, project, *args, **more)

    monkeypatch.setattr(tools.store, "run", failing)
    answer = await tools("get_context")
    assert ids(answer["activeItems"]) == [item]
    assert "claimSummary" not in answer


# --- transitions


@pytest.mark.every_store
async def test_transitions_are_newest_first_with_actor_and_verification(tools: Client) -> None:
    parent = await tools.add()
    item = await tools.add(parentId=parent)
    await tools.advance(item, "start", agent="worker-1", summary="begun")
    boss = actor("boss", parent="root")
    await tools("advance_item", transitions=[{"itemId": item, "trigger": "hold", "actor": {**boss, "proof": "secret"}}])
    await tools.move(item, "cancel")
    rows = await transitions(tools)
    times = [row.pop("at") for row in rows]
    assert times == sorted(times, reverse=True)
    unchecked = {"status": "unchecked", "verifier": "noop", "reason": None}
    expected: list[Json] = [
        {"itemId": parent, "fromRole": "work", "toRole": "terminal", "trigger": "cascade"},
        {"itemId": item, "fromRole": "blocked", "toRole": "terminal", "trigger": "cancel"},
        {"itemId": item, "fromRole": "work", "toRole": "blocked", "trigger": "hold", "actor": boss},
        {"itemId": parent, "fromRole": "queue", "toRole": "work", "trigger": "cascade"},
        {"itemId": item, "fromRole": "queue", "toRole": "work", "trigger": "start", "actor": actor("worker-1")},
    ]
    for row in expected:
        if "actor" in row:
            row["verification"] = unchecked
    assert [row.pop("summary", None) for row in rows] == [
        "cascade from a child item", None, None, "cascade from a child item", "begun"
    ]  # fmt: skip
    assert rows == expected
    assert b"secret" not in await tools.answer("get_context", since=EPOCH)


async def test_since_is_inclusive_and_accepts_any_zone(tools: Client) -> None:
    first, second = await tools.add_many(2)
    await tools.move(first, "start")
    at = (await transitions(tools))[0]["at"]
    before = await server_time(tools.store)

    async def a_later_moment() -> bool:
        return await server_time(tools.store) > before

    await wait_until(a_later_moment, what="the next millisecond")
    await tools.move(second, "start")
    later = (await transitions(tools))[0]["at"]
    assert later > at
    assert [row["itemId"] for row in await transitions(tools, at)] == [second, first]
    assert [row["itemId"] for row in await transitions(tools, later)] == [second]
    shifted = later.replace("Z", "+00:00")
    assert [row["itemId"] for row in await transitions(tools, shifted)] == [second]
    assert [row["itemId"] for row in await transitions(tools, later.replace("Z", "999Z"))] == [second]
    assert [row["itemId"] for row in await transitions(tools, later.replace("Z", "-01:00"))] == []
    assert [row["itemId"] for row in await transitions(tools, later.replace("Z", "+01:00"))] == [second, first]


@pytest.mark.parametrize(
    "since",
    [
        "yesterday", "2026-01-01", "2026-01-01T09:00:00", "2026-13-01T09:00:00Z", "2026-01-01T25:00:00Z",
        "2026-01-01T09:00:60Z", "1767225600", "Z", "2026-01-01T09:00:00Z; DROP", "\x00", "٢٠٢٦-01-01T00:00:00Z",
        "99999-01-01T00:00:00Z", "2026-01-01T09:00:00+99:00",
    ],
)  # fmt: skip
async def test_an_invalid_since_is_rejected_with_the_allowed_form(tools: Client, since: str) -> None:
    failure = await tools.refusal("get_context", since=since)
    assert failure.code == "VALIDATION_ERROR"
    assert failure.message == "since: must be an ISO-8601 time with a zone, for example 2026-01-01T12:00:00Z"


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00"])
async def test_extreme_times_are_valid(tools: Client, since: str) -> None:
    await tools.move(await tools.add(), "start")
    assert len(await transitions(tools, since)) == (1 if since.startswith("0") else 0)


@pytest.mark.parametrize(("limit", "count"), [(None, 50), (1, 1), (3, 3), (200, 200)])
async def test_the_limit_is_50_by_default(tools: Client, limit: int | None, count: int) -> None:
    items = await tools.add_many(70)
    for triggers in ("start", "hold", "resume"):
        await tools("advance_item", transitions=[{"itemId": item, "trigger": triggers} for item in items])
    options: Json = {} if limit is None else {"limit": limit}
    rows = await transitions(tools, **options)
    assert len(rows) == count
    newest = [*((item, "resume") for item in reversed(items)), *((item, "hold") for item in reversed(items))]
    assert [(row["itemId"], row["trigger"]) for row in rows][:140] == newest[:count]


@pytest.mark.parametrize("limit", ["many", 0, -7, 201, 10**9])
async def test_a_limit_outside_1_to_200_is_rejected(tools: Client, limit: Any) -> None:
    assert "limit" in (await tools.refusal("get_context", since=EPOCH, limit=limit)).message


@pytest.mark.every_store
async def test_any_number_of_rows_of_deleted_items_is_left_out(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = await tools.add()
    await tools.move(kept, "start")
    gone = await tools.add_many(100)
    for trigger in ("start", "hold", "resume", "complete", "reopen"):
        await tools("advance_item", transitions=[{"itemId": item, "trigger": trigger} for item in gone])
    await tools.delete(*gone)
    answer = await tools("get_context", since=EPOCH)
    assert [row["itemId"] for row in answer["recentTransitions"]] == [kept]
    assert "truncated" not in answer
    monkeypatch.setattr("coordinator.toolsets.items.store.context.MAX_ROWS", 400)
    answer = await tools("get_context", since=EPOCH)
    assert answer["recentTransitions"] == []
    assert answer["truncated"] is True


@pytest.mark.parametrize("seed", range(3))
async def test_it_counts_what_is_held_back_and_overdue(store: Store, project: str, seed: int) -> None:
    rng = random.Random(seed)
    tools = Client(store, project, msgspec.convert({"attempts": {"backoff_seconds": 600}}, Settings))
    spent = await tools.add(budget={"tokens": 1})
    expected = counts()
    kinds = ("free", "resources", "budget", "capabilities", "notBefore", "backoff", "dependencies")
    overdue = 0
    for kind in rng.choices(kinds, k=40):
        fields: Json = {"dueAt": rng.choice((None, "2020-01-01T00:00:00Z", "+1h"))}
        if kind == "resources":
            fields["resources"] = [{"key": "gpu"}]
        elif kind == "capabilities":
            fields["requires"] = ["cad"]
        elif kind == "notBefore":
            fields["notBefore"] = "+1d"
        elif kind == "budget":
            fields["parentId"] = spent
        item = await tools.add(**fields)
        if kind == "backoff":
            await tools.claim("a", item)
            await tools.advance(item, "start", "a")
            await tools.claims("a", [], [{"itemId": item, "reason": "failed"}])
        elif kind == "dependencies":
            await tools.link(spent, item)
        if kind in expected:
            expected[kind] += 1
        overdue += fields["dueAt"] == "2020-01-01T00:00:00Z"
    holder = await tools.add(resources=[{"key": "gpu"}])
    assert (await tools.claim("holder", holder))["outcome"] == "success"
    done = await tools.add(dueAt="2020-01-01T00:00:00Z")
    await tools.advance(done, "cancel")
    expected["openChildren"] = int(expected["budget"] > 0)
    for answer in (await tools("get_context"), await tools("get_context", since=EPOCH)):
        before = {**expected, "budget": 0}
        assert answer.get("heldBack") == (before if any(before.values()) else None)
        assert answer.get("overdue") == (overdue or None)
    used = {"itemId": spent, "key": "k", "role": "queue", "usage": {"inputTokens": 1}}
    await tools("manage_notes", operation="upsert", notes=[used])
    found = (await tools("get_context"))["heldBack"]
    assert found == {**expected, "budget": expected["budget"] or 1}, "itself waits for its children first"
