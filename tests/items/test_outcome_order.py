"""The order of a claim's outcomes while several reasons hold at once; and that a refused claim changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import msgspec
import pytest

from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.store import Store
from coordinator.toolsets.actor import Actor, Distrusted, Trusted, Verification, echo
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.agents.drains import begin_drain, end_drain
from coordinator.toolsets.items.store.usage import read_usage
from tests.items.client import SETTINGS, Client, Json, actor, counts, fresh_id
from tests.items.parked import Fronts
from tests.items.resources import demand, held
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

ORDER = ("terminal_item", "already_claimed", "agent_draining", "budget_exhausted", "resource_busy")
USED: Json = {"outputTokens": 7, "model": "m"}
CAPPED = msgspec.structs.replace(SETTINGS, budgets=Budgets(agents={"b": Periods(total=Limits(tokens=50))}))


class Case:
    """An item that the agent ``b`` wants, while it holds another one."""

    def __init__(self, tools: Client) -> None:
        self.tools = tools
        self.parent = self.item = self.own = self.busy = ""

    async def make(self, reasons: Iterable[str]) -> None:
        """Makes the reasons for these outcomes hold."""
        tools = self.tools
        self.parent = await tools.add()
        demands = [demand("free"), demand("k/x")] if "resource_busy" in reasons else []
        self.item = await tools.add(parentId=self.parent, tags="wanted", resources=demands)
        self.own = await tools.add(resources=[demand("own")])
        # While another agent holds the item, and so what it demands, only what its claim asks for besides is busy.
        held_too = "already_claimed" in reasons
        self.busy = await tools.add(resources=[demand("more/x" if held_too else "k")])
        assert (await tools.claim("b", self.own))["outcome"] == "success"
        holder = "a" if "already_claimed" in reasons else ""
        if holder:
            assert (await tools.claim(holder, self.item))["outcome"] == "success"
        if "resource_busy" in reasons:
            assert (await tools.claim("c", self.busy))["outcome"] == "success"
        if "terminal_item" in reasons:
            assert (await tools.advance(self.item, "cancel", holder))["applied"]
        if "agent_draining" in reasons:
            await begin_drain(tools.store, tools.project, SETTINGS.events_max, "b")
        if "budget_exhausted" in reasons:
            await tools.update(self.parent, budget={"tokens": 1})
            await self.spend("d", 1)

    async def spend(self, agent: str, tokens: int) -> None:
        note = {"itemId": self.parent, "key": "k", "role": "work", "actor": actor(agent)}
        await self.tools("manage_notes", operation="upsert", notes=[{**note, "usage": {"outputTokens": tokens}}])

    async def end(self, reason: str) -> None:
        tools = self.tools
        if reason == "terminal_item":
            assert (await tools.advance(self.item, "reopen", "a"))["applied"]
        elif reason == "already_claimed":
            await tools.release("a", self.item)
        elif reason == "agent_draining":
            await end_drain(tools.store, tools.project, SETTINGS.events_max, "b")
        elif reason == "budget_exhausted":
            await tools.update(self.parent, budget={"tokens": 2})
        else:
            await tools.release("c", self.busy)

    async def state(self) -> Any:
        """All that a claim could change; but when the agent was seen."""
        found = [await self.tools("get_context", itemId=item) for item in (self.parent, self.item, self.own, self.busy)]
        usage = [msgspec.to_builtins(await read_usage(self.tools.store, self.tools.project, by, 9)) for by in GROUPS]
        return found, usage, await held(self.tools)

    async def refused(self) -> str:
        """The outcome of a claim that is refused and leaves everything as it was, also when it is repeated."""
        before = await self.state()
        entry = {"itemId": self.item, "usage": USED, "resources": [demand("more")], "ttlSeconds": 5}
        call: Json = {"actor": actor("b"), "requestId": fresh_id(), "claims": [entry]}
        (found,) = (await self.tools("claim_item", **call))["claimResults"]
        assert (await self.tools("claim_item", **call))["claimResults"][0]["outcome"] == found["outcome"]
        assert await self.state() == before
        assert ("resources" in found, "budget" in found) == (
            found["outcome"] == "resource_busy",
            found["outcome"] == "budget_exhausted",
        )
        return str(found["outcome"])


GROUPS = ("item", "agent", "model", "day")


@pytest.fixture
def case(store: Store, project: str) -> Case:
    return Case(Client(store, project, CAPPED))


async def test_each_outcome_comes_when_the_reasons_before_it_are_gone(case: Case) -> None:
    await case.make(ORDER)
    for reason in ORDER:
        assert await case.refused() == reason
        await case.end(reason)
    assert (await case.tools.claim("b", case.item, usage=USED))["outcome"] == "success"
    assert await held(case.tools) == {"free": "1.0.0.0", "k": "0.0.1.0", "k/x": "1.0.0.0"}
    assert (await case.tools.get(case.item))["usage"]["own"]["tokens"] == 7
    assert (await audit(case.tools.store, case.tools.project)).differences == []


@pytest.mark.parametrize("pair", [*combinations(ORDER, 2)], ids="-".join)
async def test_of_two_reasons_the_first_one_in_the_order_is_told(case: Case, pair: tuple[str, str]) -> None:
    await case.make(pair)
    for reason in pair:
        assert await case.refused() == reason
        await case.end(reason)
    assert (await case.tools.claim("b", case.item))["outcome"] == "success"


async def test_an_entry_that_is_refused_leaves_the_others_of_its_call(case: Case) -> None:
    await case.make(["budget_exhausted", "resource_busy"])
    entries = [{"itemId": item, "usage": USED} for item in (case.item, case.own, case.item)]
    answer = await case.tools("claim_item", actor=actor("b"), requestId=fresh_id(), claims=entries)
    outcomes = [one["outcome"] for one in answer["claimResults"]]
    assert outcomes == ["budget_exhausted", "success", "budget_exhausted"]
    assert (await case.tools.get(case.own))["usage"]["own"]["tokens"] == 7
    assert await held(case.tools) == {"k": "1.0.0.0", "own": "1.0.0.0"}


async def test_a_policy_that_rejects_comes_before_all(case: Case, store: Store, project: str) -> None:
    await case.make(ORDER)
    before = await case.state()
    strict = Client(store, project, CAPPED, resolve_actor=_rejects)
    claims: tuple[Json, ...] = ({"itemId": case.item, "usage": USED}, {"selector": {}})
    for claim in claims:
        call: Json = {"actor": actor("b"), "requestId": fresh_id(), "claims": [claim], "waitMs": 20_000}
        if "itemId" in claim:
            del call["waitMs"]
        assert (await strict.refusal("claim_item", **call)).code == "rejected_by_policy"
    assert await case.state() == before


@pytest.mark.parametrize("wait_ms", [0, 20_000])
async def test_claims_by_selector_are_refused_at_once_in_the_same_order(case: Case, wait_ms: int) -> None:
    await case.make(["agent_draining", "budget_exhausted", "resource_busy"])
    await case.spend("b", 50)  # and the budget of the agent
    below = {"parentId": case.parent}
    for selector in ({}, below):
        assert (await take(case.tools, "b", selector, wait_ms=wait_ms, usage=USED))["outcome"] == "agent_draining"
    await case.end("agent_draining")
    own = await take(case.tools, "b", {}, wait_ms=wait_ms, usage=USED)
    assert (own["outcome"], own["budget"]["scope"]) == ("budget_exhausted", "agent")
    other = await take(case.tools, "e", below, wait_ms=wait_ms, usage=USED)
    assert (other["outcome"], other["budget"]["scope"]) == ("budget_exhausted", "item")
    assert (await read_usage(case.tools.store, case.tools.project, "agent", 9)).total.tokens == 51
    assert await held(case.tools) == {"k": "1.0.0.0", "own": "1.0.0.0"}


async def test_a_claim_that_waits_is_refused_when_its_reason_comes(case: Case, fronts: Fronts) -> None:
    """It keeps the earlier claim of its agent; and gets what it waits for when the last reason is gone."""
    await case.make(["resource_busy"])
    front = await fronts.make(settings=CAPPED)
    waits, wanted = await front.park("b", {"tags": "wanted"}), await front.park("e", {"tags": "wanted"})
    await begin_drain(case.tools.store, case.tools.project, SETTINGS.events_max, "b")
    assert (await waits.claim())["outcome"] == "agent_draining"
    await case.end("agent_draining")
    waits = await front.park("b", {"tags": "wanted"})
    await case.spend("b", 50)
    await wanted.leave()
    await case.end("resource_busy")
    refused = await waits.claim()
    assert (refused["outcome"], refused["budget"]["scope"]) == ("budget_exhausted", "agent")
    assert await held(case.tools) == {"own": "1.0.0.0"}
    nothing = await take(case.tools, "e", {"tags": "none"}, wait_ms=50)
    assert (nothing["outcome"], nothing.get("heldBack", counts())) == ("no_match", counts())
    assert (await take(case.tools, "e", {"tags": "wanted"}))["itemId"] == case.item


async def _rejects(actor: Actor) -> Trusted:
    raise Distrusted("no", Trusted(actor.id, echo(actor), Verification("absent", "jwks", None)))
