"""Agents: who is remembered, what is shown of them, and how seldom that is written."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.store import keys
from coordinator.toolsets.actor import Actor, Trusted, Verification, echo
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.audit.agents import RECORD
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse, server_time
from tests.items.parked import Fronts

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
FRESH_MS = 10_000


async def listed(tools: Client, **options: Any) -> dict[str, Json]:
    """All agents by id."""
    found = await tools.pages("get_context", "agents", agents=True, **options)
    return {agent["id"]: agent for agent in found}


async def take(tools: Client, agent: str, item: str, **fields: Any) -> Json:
    """Claims an item; the entry's result."""
    call = {"actor": actor(agent), "claims": [{"itemId": item}], "requestId": fresh_id(), **fields}
    result: Json = (await tools("claim_item", **call))["claimResults"][0]
    return result


async def record(tools: Client, agent: str) -> tuple[str, float] | None:
    """What the store keeps of an agent, and when it was seen."""
    stored = await tools.store.command("HGET", keys.agents.key(tools.project), RECORD + agent.encode())
    seen = await tools.store.command("ZSCORE", keys.agent_seen.key(tools.project), agent)
    assert (stored is None) == (seen is None)
    return None if stored is None else (stored.decode(), float(seen))


async def backdate(tools: Client, agent: str, by_ms: int) -> str:
    """As if the agent had been seen earlier; returns its record."""
    found = await record(tools, agent)
    assert found is not None
    at = int(found[0][:13]) - by_ms
    text = f"{at}{found[0][13:]}"
    await tools.store.command("HSET", keys.agents.key(tools.project), RECORD + agent.encode(), text)
    await tools.store.command("ZADD", keys.agent_seen.key(tools.project), at, agent)
    return text


async def test_a_claim_a_renewal_and_its_end(tools: Client) -> None:
    assert await tools("get_context", agents=True) == {
        "mode": "agents", "counts": {"known": 0, "holding": 0, "waiting": 0}, "agents": [],
    }  # fmt: skip
    item = await tools.add()
    claim = await take(tools, "a", item)
    found = await tools("get_context", agents=True)
    assert found["counts"] == {"known": 1, "holding": 1, "waiting": 0}
    (agent,) = found["agents"]
    seen = agent.pop("lastSeenAt")
    assert seen == claim["claimedAt"]
    assert agent == {
        "id": "a", "kind": "subagent", "verified": False,
        "state": "holding", "holdingSince": claim["originalClaimedAt"],
    }  # fmt: skip
    again = await take(tools, "a", item)
    assert (await listed(tools))["a"]["holdingSince"] == again["originalClaimedAt"] == claim["originalClaimedAt"]
    await lapse(tools, item)
    found = await tools("get_context", agents=True)
    assert found["counts"]["holding"] == 0
    assert (found["agents"][0]["state"], "holdingSince" in found["agents"][0]) == ("idle", False)
    await take(tools, "a", item)
    await tools.release("a", item)
    assert (await listed(tools))["a"]["state"] == "idle"
    await take(tools, "b", item)
    assert list(await listed(tools)) in (["b", "a"], ["a", "b"])
    assert (await audit(tools.store, tools.project)).differences == []


async def test_an_agent_was_seen_when_it_claimed_and_waited_if_not_since(tools: Client) -> None:
    """What is noted of it may be some seconds older."""
    claim = await take(tools, "a", await tools.add())
    await backdate(tools, "a", 6_000)
    agent = (await listed(tools))["a"]
    assert agent["lastSeenAt"] == agent["holdingSince"] == claim["claimedAt"]


async def test_an_agent_that_finds_nothing_is_remembered(tools: Client) -> None:
    call = {"actor": actor("poller"), "claims": [{"selector": {}}], "requestId": fresh_id()}
    assert (await tools("claim_item", **call))["claimResults"][0]["outcome"] == "no_match"
    assert (await listed(tools))["poller"]["state"] == "idle"
    # A release alone says that it is here, too.
    await tools.release("other", await tools.add())
    assert list(await listed(tools)) in (["other", "poller"], ["poller", "other"])


async def test_only_administrators_see_the_item(tools: Client) -> None:
    item = await tools.add()
    claim = await take(tools, "a", item)
    for permissions in (None, {"items"}, {"*"}, {"items.read"}):
        tools.caller = None if permissions is None else Caller("x", permissions=frozenset(permissions))
        answer = await tools.answer("get_context", agents=True)
        assert item not in answer.decode()
        assert b"claimExpiresAt" not in answer
    tools.caller = Caller("root", permissions=frozenset({"items.admin"}))
    agent = (await listed(tools))["a"]
    assert (agent["itemId"], agent["claimExpiresAt"]) == (item, claim["claimExpiresAt"])


async def test_waiting(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    parent = await tools.add(role="blocked")
    wanted = {"tags": "b,a", "priority": "high", "complexityMax": 3, "orderBy": "oldest", "parentId": parent[:8]}
    call = await tools.park("a", {**wanted, "createdAfter": "2026-01-01T00:00:00Z"})
    agent = (await listed(other))["a"]
    assert agent["state"] == "waiting"
    assert agent["waitingSince"] == agent["lastSeenAt"]
    assert agent["waitingFor"] == {**wanted, "parentId": parent, "createdAfter": "2026-01-01T00:00:00.000Z"}
    assert (await other("get_context", agents=True))["counts"] == {"known": 1, "holding": 0, "waiting": 1}
    item = await other.add(tags="a", priority="high", complexity=2, parentId=parent)
    assert await call.item() == item
    agent = (await listed(other))["a"]
    assert (agent["state"], "waitingFor" in agent, "waitingSince" in agent) == ("holding", False, False)
    # It can hold one item and wait for the next.
    call = await other.park("a", {"type": "t"})
    agent = (await listed(tools))["a"]
    assert (agent["state"], agent["waitingFor"]) == ("holding", {"type": "t"})
    await call.leave()
    await other.wait_for_nobody()
    assert "waitingFor" not in (await listed(tools))["a"]


async def test_capabilities_are_kept(tools: Client) -> None:
    item = await tools.add()
    await take(tools, "a", item, capabilities=["linux", "gpu:a100", "linux"])
    assert (await listed(tools))["a"]["capabilities"] == ["gpu:a100", "linux"]
    await take(tools, "a", item)
    assert (await listed(tools))["a"]["capabilities"] == ["gpu:a100", "linux"]
    await take(tools, "a", item, capabilities=["browser"])
    assert (await listed(tools))["a"]["capabilities"] == ["browser"]
    await take(tools, "a", item, capabilities=[])
    assert "capabilities" not in (await listed(tools))["a"]


@pytest.mark.parametrize(
    ("named", "field", "allowed"),
    [
        (["a", "Gpu"], "capabilities[1]", "lower-case letters"),
        (["a,b"], "capabilities[0]", "lower-case letters"),
        ([""], "capabilities[0]", "lower-case letters"),
        (["a", "b", "a b"], "capabilities[2]", "lower-case letters"),
        (["x" * 101], "capabilities[0]", "at most 100 characters"),
        ([f"c{n}" for n in range(33)], "capabilities", "at most 32 capabilities"),
    ],
)
async def test_malformed_capabilities_are_refused(tools: Client, named: list[str], field: str, allowed: str) -> None:
    item = await tools.add()
    call = {"actor": actor("a"), "claims": [{"itemId": item}], "requestId": fresh_id(), "capabilities": named}
    refusal = await tools.refusal("claim_item", **call)
    assert refusal.code == "VALIDATION_ERROR"
    assert refusal.message.startswith(f"{field}: ")
    assert allowed in refusal.message
    assert await listed(tools) == {}


async def test_other_capabilities_are_another_request(tools: Client) -> None:
    call: Json = {"actor": actor("a"), "claims": [{"selector": {}}], "requestId": fresh_id()}
    first = await tools("claim_item", **call, capabilities=["b", "a"])
    assert await tools("claim_item", **call, capabilities=["a", "b"]) == first
    others: list[Json] = [{}, {"capabilities": []}, {"capabilities": ["a"]}]
    for other in others:
        assert (await tools.refusal("claim_item", **call, **other)).code == "request_id_reused"


async def test_who_it_is(tools: Client) -> None:
    async def resolve(actor: Actor) -> Trusted:
        status = "verified" if actor.proof else "absent"
        return Trusted(actor.id, echo(actor), Verification(status, "jwks", None))

    proving, item = Client(tools.store, tools.project, resolve_actor=resolve), await tools.add()
    call = {"claims": [{"itemId": item}], "requestId": fresh_id()}
    await proving("claim_item", actor={"id": "é/\u20ac", "kind": "orchestrator", "proof": "a.b.c"}, **call)
    agent = (await listed(tools))["é/\u20ac"]
    assert (agent["kind"], agent["verified"]) == ("orchestrator", True)
    # What it says of itself now counts at once.
    await proving("claim_item", actor={"id": "é/\u20ac", "kind": "user"}, **{**call, "requestId": fresh_id()})
    agent = (await listed(tools))["é/\u20ac"]
    assert (agent["kind"], agent["verified"]) == ("user", False)
    assert (await audit(tools.store, tools.project)).differences == []


async def test_it_is_written_every_ten_seconds_at_most(tools: Client) -> None:
    item, other = await tools.add_many(2)
    await take(tools, "a", item)
    kept = await backdate(tools, "a", FRESH_MS // 2)
    for which in (item, other, item):
        await take(tools, "a", which)
    assert (await record(tools, "a") or ("",))[0] == kept
    await backdate(tools, "a", FRESH_MS)
    before = await server_time(tools.store)
    await take(tools, "a", item)
    found = await record(tools, "a")
    assert found is not None
    assert found[1] >= before


async def test_agents_are_forgotten_after_a_day(tools: Client) -> None:
    for n in range(25):
        await take(tools, f"old-{n}", await tools.add())
        await backdate(tools, f"old-{n}", DAY_MS)
    await take(tools, "young", await tools.add())
    await backdate(tools, "young", DAY_MS - 60_000)
    # Each new one makes room for some of them.
    for n in range(3):
        await take(tools, f"new-{n}", await tools.add())
    assert set(await listed(tools)) == {"young", "new-0", "new-1", "new-2"}
    assert await record(tools, "old-0") is None
    # Their claims are not forgotten.
    held = (await tools("get_context"))["claimSummary"]
    assert held["active"] == 29
    assert (await audit(tools.store, tools.project)).differences == []


async def test_attempts_are_counted(tools: Client) -> None:
    for _ in range(2):
        item = await tools.add()
        await take(tools, "a", item)
        await tools.advance(item, "start", "a")
        await tools.release("a", item, reason="failed")
    assert {one["id"]: one.get("attempts") for one in (await listed(tools)).values()} == {"a": 2}
    await backdate(tools, "a", DAY_MS)
    await take(tools, "b", await tools.add())
    assert await tools.store.command("EXISTS", keys.agent_attempts.key(tools.project)) == 0


async def test_pages(tools: Client) -> None:
    for n in range(7):
        await take(tools, f"a-{n}", await tools.add())
        await backdate(tools, f"a-{n}", 1000 * n)
    page = await tools("get_context", agents=True, limit=3)
    assert [agent["id"] for agent in page["agents"]] == ["a-0", "a-1", "a-2"]
    assert (page["nextOffset"], page["truncated"]) == (3, True)
    assert list(await listed(tools, limit=3)) == [f"a-{n}" for n in range(7)]


@pytest.mark.parametrize("other", [{"itemId": "abcd"}, {"since": "2026-01-01T00:00:00Z"}])
async def test_it_goes_with_no_other_mode(tools: Client, other: Json) -> None:
    refusal = await tools.refusal("get_context", agents=True, **other)
    assert (refusal.code, refusal.message) == ("VALIDATION_ERROR", f"agents: goes without {next(iter(other))}")
