"""A walk beside the model of what limits claims: any sequence of calls over several front-ends, and of time.

After each step what is held of resources is what the model says, and never more than there is.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from coordinator.settings import Settings
from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.settings.sections.resources import Limit
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.audit.resources import held_by
from coordinator.toolsets.items.store.agents.drains import begin_drain, end_drain
from coordinator.toolsets.items.store.usage import read_usage
from tests.items.client import LONG_MS, Client, Json, actor, fresh_id
from tests.items.limits import CAP, CAPACITY, MOST, RATED, Item, Model, compatible
from tests.items.moments import lapse, server_time
from tests.items.quantities import NAMES, NONE, Demand, Sum, shown
from tests.items.recurrence import come
from tests.items.resources import held
from tests.support.wait import wait_until

AGENTS = ("ann", "bob", "cap-1", "cap-2", "dan")
TRIGGERS = ("start", "block", "cancel", "complete", "resume", "reopen")
KEYS = ("gpu", "gpu/0", "gpu/1", "a", "a/b", "a/b/c", "a/d", "slow", "slow/x", "z")
SETTINGS: Json = {
    "request_deadline_ms": LONG_MS,
    "work_item_schemas": {
        "group": {"lifecycle": "manual", "notes": []},
        "reviewed": {"notes": [{"key": "verdict", "role": "review"}]},
    },
    "attempts": {"max": MOST, "backoff_seconds": 60},
}
LIMITED = msgspec.structs.replace(
    msgspec.convert(SETTINGS, Settings),
    resources={"gpu": 3, "a/b": 2, RATED: Limit(capacity=2, per_minute=1)},
    budgets=Budgets(agents={"cap*": Periods(total=Limits(tokens=CAP))}),
)
EVENTS = LIMITED.events_max


def given(demands: list[Demand]) -> list[Json]:
    return [{"key": key, "mode": mode, "units": units} for key, mode, units in demands]


def stored(demands: list[Demand]) -> str:
    return ",".join(f"{'s' if mode == 'shared' else 'x'}{units}:{key}" for key, mode, units in demands)


class Walk:
    """A project and its model."""

    chances = {
        "claim": 8, "take": 8, "release": 4, "advance": 8, "note": 3, "lapse": 6, "backoff": 1, "not_before": 3,
        "budget": 2, "resources": 1, "requires": 3, "assign": 2, "drain": 1, "replace": 1, "move": 1, "refill": 2,
        "link": 2, "child": 2,
    }  # fmt: skip
    """How often each kind of step comes."""
    agents: tuple[str, ...] = AGENTS
    triggers: tuple[str, ...] = ("start", "start", *TRIGGERS)
    """Those tried mostly, of what is neither blocked nor at its end."""

    def __init__(self, clients: list[Client], chance: random.Random) -> None:
        self.clients = [Client(one.store, one.project, LIMITED) for one in clients]
        self.chance, self.model = chance, Model()
        self.noticed = True
        """Whether all expired claims have been seen."""
        self.seen: set[str] = set()
        """Outcomes, and reasons for which items were held back."""
        self.blocker = ""
        """An item that is never offered."""

    @property
    def tools(self) -> Client:
        return self.chance.choice(self.clients)

    # --- what is chosen

    def item(self) -> str:
        """Rather one that somebody holds."""
        children = [name for name, one in self.model.items.items() if not one.container]
        live = [name for name in children if self.model.items[name].live]
        return self.chance.choice(live if live and self.chance.random() < 0.4 else children)

    def group(self) -> str:
        """One of the containers; '': there are none."""
        return self.chance.choice([name for name, one in self.model.items.items() if one.container] or [""])

    def demands(self) -> list[Demand]:
        found: list[Demand] = []
        for key in self.chance.sample(KEYS, self.chance.choice((0, 0, 1, 1, 2, 3))):
            shared = self.chance.random() < 0.35
            units = 1 if shared or key not in CAPACITY else self.chance.randint(1, CAPACITY[key])
            found.append((key, "shared" if shared else "exclusive", units))
        return found if compatible(found, []) else found[:1]

    def used(self) -> tuple[Json | None, Sum, str]:
        if self.chance.random() < 0.6:
            return None, NONE, ""
        parts = [self.chance.randrange(20) for _ in NAMES]
        parts[2] = min(parts[2], parts[0])
        model = self.chance.choice(("", "m1", "m2"))
        return {**dict(zip(NAMES, parts, strict=True)), **({"model": model} if model else {})}, tuple(parts), model

    # --- the steps

    async def step(self) -> None:
        (kind,) = self.chance.choices(list(self.chances), list(self.chances.values()))
        await getattr(self, kind)(self.chance.choice(self.agents))
        if self.noticed:
            expected = self.model.taken()
            kept = await held(self.clients[0])
            assert kept == held_by(map(stored, expected)), (kind, expected)
            for limited, most in CAPACITY.items():
                exclusive, _, beneath, _ = map(int, kept.get(limited, "0.0.0.0").split("."))
                assert exclusive + beneath <= most
        await self.check_units()

    async def check_units(self) -> None:
        """What is left of units per minute; and stops their time, so that none comes back but by ``refill``."""
        store, key = self.clients[0].store, keys.resources.key(self.clients[0].project)
        if text := await store.command("HGET", key, f"~{RATED}"):
            (left, since), now = map(float, text.split()), await server_time(store)
            assert int(left + (now - since) / 60_000) == self.model.rated
            await store.command("HSET", key, f"~{RATED}", f"{self.model.rated} {now}")

    async def twice(self, agent: str, **arguments: Any) -> Json:
        """A claim; some of the answers are lost, and it is repeated over another front-end."""
        call: Json = {"actor": actor(agent), "requestId": fresh_id(), **arguments}
        if self.chance.random() < 0.2:
            call["capabilities"] = self.chance.sample(("gpu", "linux"), self.chance.randrange(3))
            self.model.able[agent] = set(call["capabilities"])
        await self.tools.forget_told(agent)
        answer = await self.tools("claim_item", **call)
        if self.chance.random() < 0.25:
            again = await self.tools("claim_item", **call)
            for one in (answer, again):
                for result in one.get("claimResults", ()):
                    result.pop("retryAfterMs", None)
            assert again == answer
        return answer

    def say(self, agent: str) -> list[Json]:
        """What a claim releases besides: mostly nothing, else rather what the agent has."""
        ours = [name for name, one in self.model.items.items() if one.holder == agent]
        name = (ours or [self.item()])[0]
        self.model.said = (name, self.chance.choice(("failed", "gave_up"))) if self.chance.random() < 0.3 else None
        return [{"itemId": name, "reason": self.model.said[1]}] if self.model.said else []

    def check_said(self, agent: str, answer: Json) -> None:
        if self.model.said:
            outcome = self.model.released or self.model.release(agent, *self.model.said)
            assert answer["releaseResults"][0]["outcome"] == outcome
        self.model.said, self.model.released = None, ""

    async def claim(self, agent: str) -> None:
        name, (usage, parts, model) = self.item(), self.used()
        further = self.demands() if self.chance.random() < 0.4 else []
        entry: Json = {"itemId": name, "usage": usage} | ({"resources": given(further)} if further else {})
        answer = await self.twice(agent, claims=[entry], releases=self.say(agent))
        found, one = answer["claimResults"][0], self.model.items[name]
        renewed = one.live and one.holder == agent
        before = one.left and one.holder != agent
        outcome = self.model.claim(agent, name, further)
        self.seen.add(outcome)
        assert found["outcome"] == outcome, (found, further, one)
        if outcome == "success":
            self.model.add(agent, name, parts, model)
            self.noticed = self.noticed or not renewed
            assert found.get("takeover", False) == before
            ready = not (one.held or one.later or one.waits) and one.role != "blocked" and one.assignee in (None, agent)
            assert found.get("ready", True) == ready
            stop = renewed and (agent in self.model.drained or self.model.exhausted(agent, name))
            assert (found.get("stop", False), "stopReason" in found) == (stop, stop)
        elif outcome == "budget_exhausted":
            assert found["budget"]["used"] >= found["budget"]["limit"]
        self.check_said(agent, answer)

    async def take(self, agent: str) -> None:
        usage, parts, model = self.used()
        group = self.group() if self.chance.random() < 0.7 else ""
        selector = {"parentId": group} if group else {}
        releases = self.say(agent)
        answer = await self.twice(agent, claims=[{"selector": selector, "usage": usage}], releases=releases)
        found = answer["claimResults"][0]
        self.noticed = self.noticed or found["outcome"] in ("success", "no_match")  # else nothing was searched for
        outcome, name, held_back = self.model.take(agent, group)
        self.check_said(agent, answer)
        assert (found["outcome"], found.get("itemId", "") if name else "") == (outcome, name)
        assert found.get("heldBack", {}) == held_back, (found, held_back)
        self.seen |= {outcome, *(why for why, count in held_back.items() if count)}
        if name:
            self.model.add(agent, name, parts, model)

    async def release(self, agent: str) -> None:
        name, (usage, parts, model) = self.item(), self.used()
        agent = self.model.items[name].holder or agent
        reason = self.chance.choice(("", "failed", "gave_up", "handed_back", "hopeless"))
        entry = {"itemId": name, "usage": usage} | ({"reason": reason} if reason else {})
        answer = await self.twice(agent, releases=[entry])
        outcome = self.model.release(agent, name, reason)
        assert answer["releaseResults"][0]["outcome"] == outcome
        if outcome == "success":
            self.model.add(agent, name, parts, model)

    async def advance(self, agent: str) -> None:
        name = self.item()
        one = self.model.items[name]
        agent = one.holder if one.live and self.chance.random() < 0.9 else agent
        sensible = {"terminal": ("reopen",), "blocked": ("resume",)}.get(one.role, self.triggers)
        trigger = self.chance.choice(sensible if self.chance.random() < 0.9 else TRIGGERS)
        if one.live or trigger != "start" or "child" not in self.chances:  # else only the end of a child would offer it
            await self.change(agent, name, trigger)

    async def change(self, agent: str, name: str, trigger: str) -> None:
        usage, parts, model = self.used()
        moved = await self.tools.advance(name, trigger, agent, usage=usage)
        applied = self.model.advance(agent, name, trigger)
        assert moved["applied"] == applied, (moved, self.model.items[name])
        if applied:
            self.model.add(agent, name, parts, model)

    async def note(self, agent: str) -> None:
        name, (usage, parts, model) = self.item(), self.used()
        note = {"itemId": name, "key": "k", "role": "work", "actor": actor(agent), "usage": usage}
        await self.tools("manage_notes", operation="upsert", notes=[note])
        self.model.add(agent, name, parts, model)

    async def lapse(self, _: str) -> None:
        name = self.item()
        if self.model.items[name].live:
            await lapse(self.tools, name)
            self.model.items[name].end("time")
            self.noticed = False
            if self.chance.random() < 0.5:
                await self.notice()

    async def notice(self) -> None:
        await self.clients[0].claiming.claims.expire(self.clients[0].project)
        self.noticed = True

    async def backoff(self, _: str) -> None:
        """The back-offs that nothing else prolongs are over."""
        await self.notice()
        key, now = self.tools.project, await server_time(self.tools.store)
        for name, one in self.model.items.items():
            if one.held == "backoff" and not one.later:
                inner, one.held = name.replace("-", ""), ""
                await self.tools.store.command("HSET", keys.item.key(key, inner), "nt", now)
                for family in (keys.retries, keys.backoffs):
                    await self.tools.store.command("ZADD", family.key(key), "XX", now, inner)
        await self.notice()

    async def not_before(self, _: str) -> None:
        name = self.item()
        one = self.model.items[name]
        if one.later and not one.held and one.role != "terminal":
            await self.notice()
            await come(self.tools, name)
            await self.notice()
        else:
            await self.tools.update(name, notBefore=None if one.later else "+1h")
        one.later = not one.later

    async def budget(self, _: str) -> None:
        name = (self.group() if self.chance.random() < 0.6 else "") or self.item()
        budget: Json = {}
        if self.chance.random() < 0.6:
            budget[self.chance.choice(("tokens", "costMicroUsd", "wallMs"))] = self.chance.randrange(1, 250)
        await self.tools.update(name, budget=budget or None)
        self.model.items[name].budget = budget

    async def resources(self, _: str) -> None:
        name, demands = self.item(), self.demands()
        change = {"id": name, "resources": given(demands)}
        answer = await self.tools("manage_items", operation="update", items=[change])
        assert (answer["updated"] == 1) == self.model.demand(name, demands), (answer, demands)

    async def requires(self, _: str) -> None:
        name, requires = self.item(), self.chance.sample(("gpu", "linux"), self.chance.choice((0, 0, 1, 2)))
        await self.tools.update(name, requires=requires)
        self.model.items[name].requires = set(requires)

    async def assign(self, _: str) -> None:
        name, one = self.item(), self.chance.choice((None, *AGENTS))
        await self.tools.update(name, assignee=one)
        self.model.items[name].assignee = one

    async def link(self, _: str) -> None:
        name = self.item()
        one = self.model.items[name]
        if one.waits:
            await self.tools.unlink(id=one.waits)
        one.waits = "" if one.waits else await self.tools.link(self.blocker, name)

    async def child(self, _: str) -> None:
        name = self.item()
        one = self.model.items[name]
        if one.child:
            await self.tools.delete(one.child)
        one.child = "" if one.child else await self.tools.add(parentId=name, role="blocked")

    async def drain(self, agent: str) -> None:
        drain = end_drain if agent in self.model.drained else begin_drain
        await drain(self.tools.store, self.tools.project, EVENTS, agent)
        self.model.drained ^= {agent}

    async def replace(self, _: str) -> None:
        name = self.item()
        await self.tools.delete(name, recursive=True)
        self.model.delete(name)
        await self.create(1)
        now = await server_time(self.tools.store)

        async def over() -> bool:
            return await server_time(self.tools.store) > now

        await wait_until(over, what="the next millisecond")  # equals come in the order of their ids

    async def move(self, _: str) -> None:
        name, parent = self.item(), self.group()
        await self.tools.update(name, parentId=parent)
        self.model.items[name].parent = parent

    async def refill(self, _: str) -> None:
        """A minute passes for units per minute."""
        store, key = self.tools.store, keys.resources.key(self.tools.project)
        self.model.rated = min(self.model.rated + 1, CAPACITY[RATED])
        if await store.command("HEXISTS", key, f"~{RATED}"):
            await store.command("HSET", key, f"~{RATED}", f"{self.model.rated - 1} {await server_time(store) - 60_000}")

    # --- what must hold

    async def begin(self, count: int) -> None:
        self.blocker = await self.clients[0].add("blocker", role="blocked")
        for _ in range(3):
            group = await self.clients[0].add("group", role="work", type="group", container=True)
            self.model.items[group] = Item(role="work", container=True)
        await self.create(count)

    async def create(self, count: int) -> None:
        """Items, in one call, so that they keep their order."""
        new = [
            Item(parent=self.group(), demands=self.demands(), reviewed=self.chance.random() < 0.2) for _ in range(count)
        ]
        made = await self.tools.create(
            *(
                {"title": "x", "parentId": one.parent or None, "resources": given(one.demands)}
                | ({"type": "reviewed"} if one.reviewed else {})
                for one in new
            )
        )
        self.model.items |= {item["id"]: one for item, one in zip(made["items"], new, strict=True)}

    async def compare(self, tools: Client) -> None:
        for name in self.model.items:
            await self.compare_item(tools, name)
        for by in ("agent", "model"):
            report = await read_usage(tools.store, tools.project, by, 100)
            assert msgspec.to_builtins(report.total) == shown(self.model.total)
            sums = {name: shown(parts) for (kind, name), parts in self.model.sums.items() if kind == by}
            assert {row.name: msgspec.to_builtins(row.sum) for row in report.rows} == sums
        (day,) = (await read_usage(tools.store, tools.project, "day", 100)).rows
        assert msgspec.to_builtins(day.sum) == shown(self.model.total)
        assert (await audit(tools.store, tools.project)).differences == []

    async def compare_item(self, tools: Client, name: str) -> None:
        one, found = self.model.items[name], await tools.get(name)
        attempts = found.get("attempts", {"count": 0, "last": []})
        assert (found["role"], attempts["count"], len(attempts["last"])) == (one.role, one.count, min(one.ended, 20))
        assert ("notBefore" in attempts) == (one.held == "backoff" and not one.later)
        assert (found.get("statusLabel") == "quarantined") == (one.held == "quarantine")
        assert found.get("usage", {}).get("subtree", shown(NONE)) == shown(self.model.subtree(name))
        assert found.get("budgetSpent", False) == self.model.is_spent(name)
