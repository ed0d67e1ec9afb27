"""Attempts on items: what counts as one, quarantine after too many, back-off between them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.schema import SchemaConfig, SchemaSource
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.measures.items import MeasureStore
from tests.items.attempts import attempts, begun, client, counted, must_be_sound, reviewed
from tests.items.client import Client, Json, counts, fresh_id
from tests.items.moments import lapse, ms, server_time
from tests.items.selectors import take

pytestmark = pytest.mark.anyio


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return client(store, project)


async def expire(tools: Client, item: str) -> None:
    """Ends the item's claim by time, and has that noticed."""
    await lapse(tools, item)
    await tools.next()


@pytest.mark.every_store
async def test_a_claim_that_expires_in_work_is_an_attempt(tools: Client) -> None:
    item = await begun(tools)
    claimed = (await tools("get_context", itemId=item))["claimDetail"]
    assert await counted(tools, item) == 0
    await expire(tools, item)
    found = await attempts(tools, item)
    (one,) = found["last"]
    assert (found["count"], found["max"], one["ended"], one["claimedBy"]) == (1, 3, "expired", "lost")
    assert ms(one["from"]) <= ms(one["until"]) <= ms(claimed["claimExpiresAt"])
    assert not {"reason", "detail"} & set(one)
    await must_be_sound(tools)


@pytest.mark.parametrize("reason", ["failed", "gave_up", "GAVE_UP", "hopeless"])
async def test_a_release_with_a_reason_is_an_attempt(tools: Client, reason: str) -> None:
    item = await begun(tools)
    assert (await tools.release("lost", item, reason=reason, detail="x" * 500))["outcome"] == "success"
    (one,) = (await attempts(tools, item))["last"]
    assert (one["ended"], one["reason"], one["detail"]) == ("released", reason.lower(), "x" * 500)
    await must_be_sound(tools)


@pytest.mark.parametrize("reason", [None, "handed_back"])
async def test_a_release_without_such_a_reason_is_none(tools: Client, reason: str | None) -> None:
    item = await begun(tools)
    await tools.release("lost", item, **({"reason": reason} if reason else {}))
    assert await counted(tools, item) == 0


async def test_a_claim_that_is_let_go_for_another_one_is_none(tools: Client) -> None:
    item = await begun(tools)
    await tools.claim("lost", await tools.add())
    assert await counted(tools, item) == 0


async def test_nothing_counts_in_queue(tools: Client) -> None:
    """An agent that takes items and never starts them is only slow."""
    item = await tools.add()
    for agent in "abcdef":
        await tools.claim(agent, item)
        if agent < "d":
            await expire(tools, item)
        else:
            await tools.release(agent, item, reason="failed")
    full = await tools.get(item)
    assert (full["role"], "attempts" in full) == ("queue", False)
    assert (await take(tools, "next"))["itemId"] == item


@pytest.mark.parametrize("end", ["complete", "cancel", "block", "start"])
async def test_a_claim_under_which_the_item_has_left_its_role_is_none(tools: Client, end: str) -> None:
    item = await begun(tools, type="reviewed")
    assert (await tools.advance(item, end, "lost"))["applied"]
    await expire(tools, item)
    assert await counted(tools, item) == 0
    await must_be_sound(tools)


async def test_in_review_only_claims_of_reviewers_count(tools: Client) -> None:
    item = await reviewed(tools)
    await expire(tools, item)
    assert await counted(tools, item) == 0
    await tools.claim("reviewer", item)
    await expire(tools, item)
    await tools.claim("second", item)
    await tools.release("second", item, reason="gave_up")
    found = await attempts(tools, item)
    assert [one["claimedBy"] for one in found["last"]] == ["second", "reviewer"]
    await must_be_sound(tools)


async def test_one_claim_counts_once(tools: Client) -> None:
    """Whoever notices first that it has expired, and however often it is looked at."""
    item = await begun(tools)
    await lapse(tools, item)
    assert (await tools.release("lost", item, reason="failed"))["outcome"] == "success"
    (one,) = (await attempts(tools, item))["last"]
    assert (one["ended"], "reason" in one) == ("expired", False)
    await tools.next()
    await tools.claim("other", item)
    assert await counted(tools, item) == 1
    await must_be_sound(tools)


NOTICES = {
    "another agent claims it": ("taken_over", lambda tools, item: tools.claim("other", item)),
    "its agent claims it": ("expired", lambda tools, item: tools.claim("lost", item)),
    "its agent claims another one": ("expired", lambda tools, item: _claim_another(tools)),
    "its agent moves it": ("expired", lambda tools, item: tools.advance(item, "block", "lost")),
    "somebody moves it": ("expired", lambda tools, item: tools.advance(item, "complete")),
    "it is completed with others": ("expired", lambda tools, item: tools("complete_tree", itemIds=[item])),
    "a search passes": ("expired", lambda tools, item: take(tools, "other", {"tags": "none"})),
}


async def _claim_another(tools: Client) -> None:
    await tools.claim("lost", await tools.add())


@pytest.mark.parametrize("notice", NOTICES)
async def test_an_expiry_counts_whoever_notices_it(tools: Client, notice: str) -> None:
    item = await begun(tools)
    await lapse(tools, item)
    ended, look = NOTICES[notice]
    await look(tools, item)
    (one,) = (await attempts(tools, item))["last"]
    assert one["ended"] == ended
    await must_be_sound(tools)


async def fail(tools: Client, item: str, times: int = 1) -> None:
    """Lets so many agents die with the item."""
    for n in range(times):
        assert (await tools.claim(f"agent {n}", item))["outcome"] == "success"
        await expire(tools, item)


@pytest.mark.every_store
async def test_after_as_many_attempts_as_allowed_the_item_is_quarantined(tools: Client) -> None:
    item, dependent = await begun(tools), await tools.add()
    await tools.link(item, dependent, unblockAt="work")
    await expire(tools, item)
    await fail(tools, item)
    assert await tools.role(item) == "work"
    await fail(tools, item)
    full = await tools.get(item)
    assert (full["role"], full["previousRole"], full["statusLabel"]) == ("blocked", "work", "quarantined")
    assert full["attempts"]["count"] == full["attempts"]["max"] == 3
    moved = full["transitions"][0]
    assert (moved["trigger"], moved["fromRole"], moved["toRole"]) == ("quarantine", "work", "blocked")
    assert "actor" not in moved
    waiting = [entry["itemId"] for entry in (await tools("get_blocked_items"))["blockedItems"]]
    assert sorted(waiting) == sorted([item, dependent])
    for selector in ({}, {"role": "work"}, {"role": "blocked"}):
        assert (await take(tools, "next", selector))["outcome"] == "no_match"
    await must_be_sound(tools)


async def test_of_claims_that_race_each_counts_once(clients: list[Client]) -> None:
    """Nine agents on three front-ends take the item from each other as their claims expire."""
    most = 12
    item = await clients[0].add(role="work")
    source = SchemaSource(SchemaConfig(attempts=Attempts(max=most, backoff_seconds=0)))
    ended = 0

    async def work(name: str, front: Client) -> None:
        nonlocal ended
        claims, times = ClaimStore(front.store, Settings(), source), 0
        while await front.role(item) == "work":
            wanted = [(item.replace("-", ""), 4, 0)]
            times += 1
            reply = await claims.claim(front.project, NO_KEY, Claimant(f"{name}-{times}"), wanted, [])
            ended += reply.claims[0].outcome == "success" and reply.claims[0].further.waiting is None

    await asyncio.gather(*(work(f"agent-{n}", clients[n % 3]) for n in range(9)))
    found = await attempts(clients[0], item)
    assert (found["count"], ended, len({one["claimedBy"] for one in found["last"]})) == (most, most, most)
    moved = [one["trigger"] for one in (await clients[0].get(item))["transitions"]]
    assert moved == ["quarantine"]


async def test_a_quarantined_item_can_be_claimed_by_id_and_is_not_ready(tools: Client) -> None:
    item = await begun(tools, maxAttempts=1)
    await expire(tools, item)
    claim = await tools.claim("next", item)
    assert (claim["outcome"], claim["ready"]) == ("success", False)
    assert "quarantined" in claim["reason"]
    refused = await tools.advance(item, "start", "next")
    assert not refused["applied"]
    await expire(tools, item)
    assert (await tools.get(item))["attempts"]["count"] == 1
    await must_be_sound(tools)


@pytest.mark.parametrize("how", ["expired", "released"])
@pytest.mark.parametrize("role", ["work", "review"])
async def test_resume_brings_it_back_with_a_fresh_count(tools: Client, role: str, how: str) -> None:
    item = await (begun(tools) if role == "work" else reviewed(tools))
    await tools.release("lost" if role == "work" else "worker", item)
    for n in range(3):
        await tools.claim(f"agent {n}", item)
        await (expire(tools, item) if how == "expired" else tools.release(f"agent {n}", item, reason="failed"))
    assert await tools.role(item) == "blocked"
    resumed = await tools.advance(item, "resume")
    assert (resumed["newRole"], "statusLabel" in resumed) == (role, False)
    found = await attempts(tools, item)
    assert (found["count"], len(found["last"])) == (0, 3)
    await must_be_sound(tools)
    claim = await take(tools, "next")
    assert (claim["itemId"], claim["role"], claim["takeover"]) == (item, role, True)
    assert (await tools.advance(item, "start", "next"))["newRole"] == role
    await expire(tools, item)
    assert await counted(tools, item) == 1
    await must_be_sound(tools)


@pytest.mark.parametrize("trigger", ["cancel", "complete"])
async def test_quarantine_ends_with_the_item(tools: Client, trigger: str) -> None:
    parent = await tools.add()
    item = await begun(tools, parentId=parent, maxAttempts=1)
    await expire(tools, item)
    if trigger == "complete":
        assert not (await tools.advance(item, "complete"))["applied"]
        await tools.delete(item)
    else:
        assert (await tools.advance(item, "cancel"))["applied"]
        assert (await tools.advance(item, "reopen"))["applied"]
        assert await counted(tools, item) == 0
    await must_be_sound(tools)


async def test_a_reopened_item_counts_anew(tools: Client) -> None:
    item = await begun(tools)
    await expire(tools, item)
    await tools.move(item, "complete", "reopen")
    found = await attempts(tools, item)
    assert (found["count"], len(found["last"])) == (0, 1)


async def test_a_block_by_a_caller_changes_no_count(tools: Client) -> None:
    item = await begun(tools)
    await expire(tools, item)
    await tools.move(item, "block", "resume")
    assert await counted(tools, item) == 1


@pytest.mark.parametrize(
    ("fields", "most"),
    [({}, 3), ({"maxAttempts": 2}, 2), ({"maxAttempts": 0}, 0), ({"type": "fragile"}, 1), ({"type": "sturdy"}, 0),
     ({"tags": "other, fragile"}, 1), ({"type": "reviewed", "tags": "fragile"}, 3),
     ({"type": "fragile", "maxAttempts": 2}, 2), ({"type": "unknown"}, 3)],
)  # fmt: skip
async def test_the_limit_is_that_of_the_item_or_of_its_schema_or_of_all(tools: Client, fields: Json, most: int) -> None:
    item = await begun(tools, **fields)
    await tools.release("lost", item)
    await fail(tools, item, (most or 6) - 1)
    found = await tools.get(item)
    assert (found["role"], found["attempts"]["max"] if "attempts" in found else most) == ("work", most)
    await fail(tools, item)
    assert await tools.role(item) == ("blocked" if most else "work")
    await must_be_sound(tools)


async def test_a_lower_limit_holds_from_the_next_attempt_on(tools: Client) -> None:
    item = await begun(tools, maxAttempts=9)
    await expire(tools, item)
    await fail(tools, item, 2)
    assert (await tools.update(item, maxAttempts=1))["updated"] == 1
    assert (await tools.get(item))["role"] == "work"
    await fail(tools, item)
    assert (await tools.get(item))["role"] == "blocked"
    assert (await tools.update(item, maxAttempts=None))["updated"] == 1
    full = await tools.get(item)
    assert ("maxAttempts" in full, full["attempts"]["max"], full["role"]) == (False, 3, "blocked")


async def test_twenty_attempts_are_kept(tools: Client) -> None:
    item = await begun(tools, maxAttempts=0)
    for n in range(23):
        await tools.claim("lost", item)
        await tools.release("lost", item, reason="failed", detail=str(n))
    found = await attempts(tools, item)
    assert (found["count"], [one["detail"] for one in found["last"]]) == (23, [str(n) for n in range(22, 2, -1)])
    await must_be_sound(tools)


async def test_trees_take_both_fields(tools: Client) -> None:
    root = {"title": "root", "maxAttempts": 2}
    children = [{"ref": "a", "title": "a", "retryBackoffSeconds": 0, "maxAttempts": 0}]
    made = await tools("create_work_tree", root=root, children=children)
    first, second = await tools.get(made["root"]["id"]), await tools.get(made["children"][0]["id"])
    assert (first["maxAttempts"], first["attempts"]) == (2, {"count": 0, "max": 2, "last": []})
    assert "retryBackoffSeconds" not in first
    assert (second["maxAttempts"], second["retryBackoffSeconds"]) == (0, 0)


@pytest.mark.parametrize(
    ("field", "value"), [("maxAttempts", -1), ("maxAttempts", 1001), ("retryBackoffSeconds", 86_401)]
)
async def test_bad_fields_are_named(tools: Client, field: str, value: int) -> None:
    made = await tools.create({"title": "t", field: value})
    assert made["failures"][0]["error"].startswith(f"{field}: must be 0 to ")
    changed = await tools.update(await tools.add(), **{field: value})
    assert changed["failures"][0]["error"].startswith(f"{field}: must be 0 to ")
    refused = await tools.refusal("create_work_tree", root={"title": "t", field: value})
    assert refused.message.startswith(f"root.{field}: must be 0 to ")


@pytest.mark.parametrize(
    ("release", "told"),
    [({"reason": "tired"}, "releases[0].reason: 'tired' is not one of failed, gave_up, hopeless, handed_back, "),
     ({"detail": "why"}, "releases[0].detail: goes with a reason: failed, gave_up, hopeless, handed_back"),
     ({"reason": "failed", "detail": "x" * 501}, "releases[0].detail: must be 1 to 500 characters, not blank")],
)  # fmt: skip
async def test_bad_reasons_are_named(tools: Client, release: Json, told: str) -> None:
    item = await begun(tools)
    arguments = {"actor": {"id": "lost", "kind": "subagent"}, "requestId": fresh_id()}
    refused = await tools.refusal("claim_item", **arguments, releases=[{"itemId": item, **release}])
    assert refused.message.startswith(told)


async def test_a_quarantine_is_no_trigger(tools: Client) -> None:
    refused = await tools.refusal("advance_item", transitions=[{"itemId": fresh_id(), "trigger": "quarantine"}])
    assert refused.code == "VALIDATION_ERROR"


# --- back-off


@pytest.fixture
def slow(store: Store, project: str) -> Client:
    return client(store, project, most=50, backoff=10, cap=100)


async def due(tools: Client, item: str) -> None:
    """Ends the back-off of an item now, as if it had been shorter."""
    inner, now = item.replace("-", ""), await server_time(tools.store) - 1
    await tools.store.command("HSET", keys.item.key(tools.project, inner), "nt", now)
    await tools.store.command("ZADD", keys.retries.key(tools.project), "XX", now, inner)


async def pause(tools: Client, item: str) -> float:
    """How long the item is held back after its last attempt, in seconds."""
    found = await attempts(tools, item)
    return (ms(found["notBefore"]) - ms(found["last"][0]["until"])) / 1000


async def test_the_back_off_doubles_up_to_the_cap(slow: Client) -> None:
    item = await begun(slow)
    at_cap = []
    for nominal in (10, 20, 40, 80, 100, 100, 100):
        await slow.claim("lost", item)
        await slow.release("lost", item, reason="failed")
        held_back = await pause(slow, item)
        assert nominal <= held_back <= 1.25 * nominal
        at_cap += [held_back] if nominal == 100 else []
    assert len(set(at_cap)) > 1, "at the cap, too, items do not return together"
    await must_be_sound(slow)


async def test_items_that_fail_together_do_not_return_together(slow: Client) -> None:
    pauses = set()
    for agent in "abcdefgh":
        item = await begun(slow, agent)
        await slow.release(agent, item, reason="failed")
        pauses.add(await pause(slow, item))
    assert len(pauses) > 4


async def test_an_item_in_back_off_is_found_by_nobody_until_it_is_over(slow: Client) -> None:
    item = await begun(slow)
    await slow.release("lost", item, reason="failed")
    for selector in ({}, {"role": "work"}):
        assert (await take(slow, "next", selector))["outcome"] == "no_match"
    assert await slow.next(role="work") == []
    assert (await slow("get_blocked_items"))["blockedItems"] == []
    left = (await slow("get_context"))["abandoned"]
    assert (left["ready"], left["blocked"], left["items"][0]["blocked"]) == (0, 1, True)
    await must_be_sound(slow)
    await due(slow, item)
    claim = await take(slow, "next")
    assert (claim["itemId"], claim["takeover"]) == (item, True)
    assert "notBefore" not in (await attempts(slow, item))
    await must_be_sound(slow)


@pytest.mark.parametrize("wait_ms", [0, 50])
async def test_a_selector_that_finds_nothing_says_how_much_is_in_back_off(slow: Client, wait_ms: int) -> None:
    parent = await slow.add(role="blocked")
    for agent, tags in (("a", "x"), ("b", "x,y"), ("c", "z")):
        item = await begun(slow, agent, tags=tags, parentId=parent)
        await slow.release(agent, item, reason="failed")
    for selector, found in (
        ({}, 3),
        ({"tags": "x"}, 2),
        ({"tags": "none"}, 0),
        ({"role": "work"}, 3),
        ({"role": "review"}, 0),
    ):
        claim = await take(slow, "next", selector, wait_ms=wait_ms)
        assert claim["outcome"] == "no_match"
        assert claim.get("heldBack") == (counts(backoff=found) if found else None)
    assert (await slow.claim("holder", parent))["outcome"] == "success"
    assert "heldBack" not in await take(slow, "next")


async def test_a_selector_learns_of_its_item_in_back_off_among_many_others(slow: Client) -> None:
    for number in range(50):
        item = await begun(slow, f"a{number}", type="common")
        await slow.release(f"a{number}", item, reason="failed")
    parent = await slow.add(role="blocked")
    wanted: Json = {"type": "rare", "tags": "t", "parentId": parent, "priority": "high"}
    item = await begun(slow, "b", retryBackoffSeconds=86400, **wanted)
    await slow.release("b", item, reason="failed")
    for selector in ({"type": "rare"}, {"tags": "t"}, {"parentId": parent}, {"priority": "high"}):
        claim = await take(slow, "next", selector)
        assert claim.get("heldBack") == counts(backoff=1), selector


async def test_a_claim_by_id_comes_before_the_end_of_the_back_off(slow: Client) -> None:
    item = await begun(slow)
    await slow.release("lost", item, reason="failed")
    ends = (await attempts(slow, item))["notBefore"]
    claim = await slow.claim("next", item)
    assert (claim["outcome"], claim["ready"], claim["takeover"]) == ("success", False, True)
    assert ends in claim["reason"]
    assert (await slow.claim("next", item))["ready"] is False
    await slow.release("next", item)
    assert (await take(slow, "third"))["outcome"] == "no_match"
    await must_be_sound(slow)
    await slow.claim("next", item)
    await due(slow, item)
    assert "ready" not in await slow.claim("next", item)
    await slow.next()
    await slow.release("next", item)
    assert (await take(slow, "third"))["itemId"] == item
    await must_be_sound(slow)


@pytest.mark.parametrize("change", ["block", "complete", "cancel", "delete", "no back-off", "moved"])
async def test_a_back_off_leaves_nothing_behind(slow: Client, change: str) -> None:
    item = await begun(slow)
    await slow.release("lost", item, reason="failed")
    if change == "delete":
        await slow.delete(item)
    elif change == "moved":
        await slow.update(item, parentId=await slow.add(), tags="a", priority="high")
    elif change == "no back-off":
        await slow.update(item, retryBackoffSeconds=0)
        assert (await take(slow, "next"))["itemId"] == item
    else:
        await slow.move(item, change)
    await must_be_sound(slow)
    assert bool(await slow.store.command("ZCARD", keys.retries.key(slow.project))) is (change == "moved")


@pytest.mark.parametrize(("seconds", "nominal"), [(None, 10), (0, 0), (3, 3), (100, 100), (200, 100)])
async def test_an_item_may_name_its_own_back_off(slow: Client, seconds: int | None, nominal: int) -> None:
    stated: dict[str, Any] = {} if seconds is None else {"retryBackoffSeconds": seconds}
    item = await begun(slow, **stated)
    await slow.release("lost", item, reason="failed")
    found = await attempts(slow, item)
    assert ("notBefore" in found) is bool(nominal)
    if nominal:
        assert nominal <= await pause(slow, item) <= 1.25 * nominal


async def test_an_item_that_waits_for_a_dependency_still_waits_after_its_back_off(slow: Client) -> None:
    item, blocker = await begun(slow), await slow.add(role="blocked")
    await slow.link(blocker, item)
    await slow.release("lost", item, reason="failed")
    await must_be_sound(slow)
    await due(slow, item)
    assert (await take(slow, "next"))["outcome"] == "no_match"
    await must_be_sound(slow)
    await slow.move(blocker, "resume", "complete")
    assert (await take(slow, "next"))["itemId"] == item


async def test_metrics_count_attempts(slow: Client) -> None:
    one, other = await begun(slow, "a", maxAttempts=1), await begun(slow, "b")
    await expire(slow, one)
    await slow.release("b", other, reason="gave_up")
    await slow.release("c", await begun(slow, "c"), reason="hopeless")
    found = await MeasureStore(slow.store).measure(slow.project)
    assert (found.attempts, found.quarantines) == ({"expired": 1, "gave_up": 1, "hopeless": 1}, 2)
    assert (found.quarantined, found.in_backoff) == (2, 1)
    assert not (await MeasureStore(slow.store).measure(slow.project)).attempts


PLANTED = {
    "HSET {item} an 9": "counts 9 attempts, but lists 1",
    "HDEL {item} nt": "is held back until 0, but listed until",
    "HSET {item} nt 0": "is quarantined without being blocked",
    "ZREM {retries} {id}": "is held back until",
    "ZADD {quarantined} 1 {id}": "is not quarantined, but listed so",
    "HDEL {text} a": "counts 1 attempts, and has no list of them",
    "ZADD {retries} 1 00112233445566778899aabbccddeeff": "lists 00112233445566778899aabbccddeeff",
}


@pytest.mark.parametrize("command", PLANTED)
async def test_an_audit_names_differences(slow: Client, command: str) -> None:
    item = await begun(slow)
    await slow.release("lost", item, reason="failed")
    inner = item.replace("-", "")
    names = {family.name: family.key(slow.project).decode() for family in (keys.retries, keys.quarantined)}
    names |= {"item": keys.item.key(slow.project, inner).decode(), "text": keys.text.key(slow.project, inner).decode()}
    await slow.store.command(*(word.format(id=inner, **names) for word in command.split()))
    found = (await audit(slow.store, slow.project)).differences
    assert any(PLANTED[command] in difference.problem for difference in found), found
