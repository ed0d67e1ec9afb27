"""Resources beside a plain model: agents on three front-ends, any interleaving of calls and time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest

from coordinator.settings.sections.resources import Limit
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.audit.resources import held_by, held_text
from tests.items.client import SETTINGS, Client, Json
from tests.items.moments import lapse, server_time
from tests.items.quantities import Demand, below, related
from tests.items.selectors import take
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

LIMITS = {"gpu": 3, "a/b": 2, "pool": Limit(capacity=2)}
LIMITED = msgspec.structs.replace(SETTINGS, resources=LIMITS)
CAPACITY = {"gpu": 3, "a/b": 2, "pool": 2}
KEYS = ("gpu", "gpu/0", "gpu/1", "a", "a/b", "a/b/c", "a/d", "pool", "pool/x", "z")
AGENTS = ("ann", "bob", "cid", "dan", "eve")
ITEMS = 90
STEPS = 2000


def compatible(wanted: Iterable[Demand], others: list[Demand]) -> bool:
    """Whether demands can be met beside what others hold."""
    wanted = list(wanted)
    for key, mode, _ in wanted:
        for held, held_mode, _ in others:
            if not related(key, held) or mode == held_mode == "shared":
                continue
            upper = min(key, held, key=len)
            if "shared" in (mode, held_mode) or upper not in CAPACITY:
                return False
    for limited, most in CAPACITY.items():
        taking = [units for key, mode, units in wanted if mode == "exclusive" and below(key, limited)]
        taken = sum(units for key, mode, units in others if mode == "exclusive" and below(key, limited))
        if taking and sum(taking) + taken > most:
            return False
    return True


def beyond(held: list[Demand], wanted: Demand) -> Demand | None:
    """What of a demand is not held: of a key that is, the exclusive units beyond."""
    key, mode, units = wanted
    own = [(how, count) for name, how, count in held if name == key]
    if mode == "shared":
        return None if own else wanted
    more = units - sum(count for how, count in own if how == "exclusive")
    return (key, mode, more) if more > 0 else None


@dataclass
class Thing:
    demands: list[Demand]
    role: str = "queue"
    holder: str | None = None
    held: list[Demand] = field(default_factory=list)


class Model:
    def __init__(self) -> None:
        self.items: dict[str, Thing] = {}

    def of(self, agent: str) -> Thing | None:
        return next((item for item in self.items.values() if item.holder == agent), None)

    def fits(self, agent: str, wanted: list[Demand]) -> bool:
        others = [one for item in self.items.values() if item.holder != agent for one in item.held]
        return compatible(wanted, others)

    def end(self, item: Thing) -> None:
        item.holder, item.held = None, []

    def place(self, agent: str, item: Thing) -> None:
        if earlier := self.of(agent):
            self.end(earlier)
        item.holder, item.held = agent, list(item.demands)

    def claim(self, agent: str, name: str) -> str:
        item = self.items[name]
        if item.role == "terminal":
            return "terminal_item"
        if item.holder not in (None, agent):
            return "already_claimed"
        if item.holder == agent:
            return "success"
        if not self.fits(agent, item.demands):
            return "resource_busy"
        self.place(agent, item)
        return "success"

    def take(self, agent: str) -> str | None:
        for name, item in self.items.items():
            if item.role == "queue" and item.holder is None and self.fits(agent, item.demands):
                self.place(agent, item)
                return name
        return None

    def hold(self, item: Thing, wanted: list[Demand]) -> bool:
        """Whether the claim on an item, if there is one, holds these demands now."""
        more = [one for one in map(partial(beyond, item.held), wanted) if one] if item.holder else []
        if more and not self.fits(str(item.holder), [*item.held, *more]):
            return False
        item.held = item.held + more
        return True

    def update(self, name: str, demands: list[Demand]) -> bool:
        item = self.items[name]
        if item.role != "terminal" and not self.hold(item, demands):
            return False
        item.demands = demands
        return True

    def advance(self, agent: str, name: str, trigger: str) -> bool:
        item = self.items[name]
        if item.holder not in (None, agent):
            return False
        if trigger == "reopen":
            if item.role != "terminal" or not self.hold(item, item.demands):
                return False
            item.role = "queue"
        elif trigger == "resume":
            if item.role != "blocked":
                return False
            item.role = "queue"
        elif trigger == "block":
            if item.role != "queue":
                return False
            item.role = "blocked"
        elif item.role == "terminal" or (trigger == "complete" and item.role == "blocked"):
            return False
        else:
            item.role, item.held = "terminal", []
        return True

    def held(self) -> dict[str, str]:
        return held_by(_stored(item.held) for item in self.items.values())


def _stored(demands: list[Demand]) -> str:
    return ",".join(f"{mode[0].replace('e', 'x')}{units}:{key}" for key, mode, units in demands)


def _random_demands(dice: random.Random) -> list[Demand]:
    found: list[Demand] = []
    for key in dice.sample(KEYS, dice.choice((0, 1, 1, 1, 2, 3))):
        shared = dice.random() < 0.35
        units = 1 if shared or key not in CAPACITY else dice.randint(1, CAPACITY[key])
        found.append((key, "shared" if shared else "exclusive", units))
    return found if compatible(found, []) else found[:1]


async def _is_over(tools: Client, moment: int) -> bool:
    return await server_time(tools.store) > moment


def _given(demands: list[Demand]) -> list[Json]:
    return [{"key": key, "mode": mode, "units": units} for key, mode, units in demands]


async def _held(tools: Client) -> dict[str, str]:
    fields = await tools.store.command("HGETALL", keys.resources.key(tools.project))
    return {name.decode(): held_text(numbers) for name, numbers in fields.items()}


async def _step(dice: random.Random, tools: Client, model: Model) -> None:
    agent, name = dice.choice(AGENTS), dice.choice(list(model.items))
    item, action = model.items[name], dice.random()
    if action < 0.3:
        assert (await tools.claim(agent, name))["outcome"] == model.claim(agent, name)
    elif action < 0.6:
        assert (await take(tools, agent)).get("itemId") == model.take(agent)
    elif action < 0.7:
        mine = model.of(agent)
        if mine is not None:
            await tools.release(agent, next(one for one, other in model.items.items() if other is mine))
            model.end(mine)
    elif action < 0.85:
        mine = model.of(agent)
        named = (
            next((one for one, other in model.items.items() if other is mine), name) if dice.random() < 0.7 else name
        )
        trigger = dice.choice(("complete", "cancel", "block", "resume", "reopen", "reopen"))
        applied = (await tools.advance(named, trigger, agent))["applied"]
        assert applied == model.advance(agent, named, trigger)
    elif action < 0.9 and item.holder is not None and item.role != "terminal":
        await lapse(tools, name)
        model.end(item)
        await take(tools, "nobody", {"tags": "none"})  # notices it
    elif action < 0.96:
        if dice.random() < 0.5:
            name = next((one for one, other in model.items.items() if other.holder == agent), name)
        wanted = _random_demands(dice)
        answer = await tools("manage_items", operation="update", items=[{"id": name, "resources": _given(wanted)}])
        assert (answer["updated"] == 1) == model.update(name, wanted)
    else:
        await tools.delete(name)
        del model.items[name]
        demands = _random_demands(dice)
        created = await tools.add(resources=_given(demands))
        model.items[created] = Thing(demands)
        now = await server_time(tools.store)  # the next item has to be younger, for the order of equals is that of ids
        await wait_until(lambda: _is_over(tools, now), what="the next millisecond")


async def test_thousands_of_calls_do_what_the_model_does(clients: list[Client]) -> None:
    dice = random.Random(34)
    fronts = [Client(one.store, one.project, LIMITED) for one in clients]
    model = Model()
    wanted = [_random_demands(dice) for _ in range(ITEMS)]
    # In one call, so that they keep their order.
    made = await fronts[0].create(*({"title": "x", "resources": _given(demands)} for demands in wanted))
    for item, demands in zip(made["items"], wanted, strict=True):
        model.items[item["id"]] = Thing(demands)
    for number in range(STEPS):
        await _step(dice, dice.choice(fronts), model)
        if number % 25 == 0:
            assert await _held(fronts[0]) == model.held()
    assert (await audit(clients[0].store, clients[0].project)).differences == []


async def test_calls_at_once_never_exceed_what_there_is(clients: list[Client]) -> None:
    dice = random.Random(3)
    fronts = [Client(one.store, one.project, LIMITED) for one in clients]
    demands: dict[str, list[Demand]] = {}
    for _ in range(60):
        wanted = _random_demands(dice)
        demands[await fronts[0].add(resources=_given(wanted))] = wanted
    agents = [f"agent-{n}" for n in range(12)]
    holds: dict[str, str] = {}

    async def act(agent: str) -> None:
        tools = dice.choice(fronts)
        if agent in holds and dice.random() < 0.5:
            item = holds.pop(agent)
            if dice.random() < 0.5:
                await tools.advance(item, "complete", agent)
            await tools.release(agent, item)
            return
        claim = await take(tools, agent)
        if claim["outcome"] == "success":
            holds[agent] = claim["itemId"]

    for _ in range(40):
        await asyncio.gather(*map(act, agents))
        for agent, item in holds.items():
            others = [one for other, held in holds.items() if other != agent for one in demands[held]]
            assert compatible(demands[item], others), (agent, item)


async def test_nothing_leaks_if_the_caller_dies(dying: Client, tools: Client) -> None:
    items = [await tools.add(resources=[{"key": "a"}, {"key": f"b/{n}"}]) for n in range(3)]
    for trigger in ("release", "complete", "other"):
        await dying.attempt("claim_item", **_claim_of(items))
        assert await _held(tools) == {"a": "1.0.0.0", "b": "0.0.1.0", "b/2": "1.0.0.0"}
        if trigger == "release":
            await tools.release("x", items[2])
        elif trigger == "complete":
            await dying.attempt("advance_item", transitions=[{"itemId": items[2], "trigger": "cancel", "actor": _X}])
            await tools.advance(items[2], "reopen", "x")
            await tools.release("x", items[2])
        else:
            await tools.claim("x", await tools.add())
        assert await _held(tools) == {}


_X: Json = {"id": "x", "kind": "subagent"}


def _claim_of(items: list[str]) -> Json:
    claims = [{"itemId": item} for item in items]
    return {"actor": _X, "claims": claims, "requestId": f"8c7b3c5e-7f4e-4c35-9d51-{random.getrandbits(48):012x}"}
