"""Repeated calls beside a plain model: two agents, three items, any interleaving of calls (also of ends that take the
next item), repetitions and time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import keys
from tests.items.client import Json
from tests.items.moments import lapse
from tests.worker.client import Tools

pytestmark = pytest.mark.anyio

AGENTS = ("ann", "bob")
PRIORITIES = ("high", "medium", "low")
STEPS = 250
KINDS = {"done": "terminal", "failed": "", "handed_back": "", "ask": "blocked"}
"""How work ends, and the role that it leads to ('': the item keeps its own)."""


@dataclass
class Item:
    id: str
    role: str = "queue"
    holder: str = ""
    live: bool = False
    attempts: int = 0
    questions: int = 0
    changes: int = 0
    """Transitions on record."""


@dataclass
class Model:
    items: list[Item]
    ended: dict[tuple[str, str], str] = field(default_factory=dict)
    """How an agent has ended its work on an item."""
    last: dict[str, str] = field(default_factory=dict)
    """The item whose work an agent has ended last, until it asks for the next one."""

    def of(self, agent: str) -> Item | None:
        return next((item for item in self.items if item.holder == agent), None)

    def by_id(self, item: str) -> Item:
        return next(one for one in self.items if one.id == item)

    def claim(self, agent: str, item: Item) -> None:
        earlier = self.of(agent)
        if earlier is not None:
            earlier.holder, earlier.live = "", False
        item.holder, item.live = agent, True
        if item.role == "queue":
            item.role = "work"
        item.changes += 1  # the start

    def next(self, agent: str, other_than: str = "") -> Json:
        held = self.of(agent)
        if held is not None and held.live:
            return {"outcome": "item", "item": held.id, "held": True}
        self.last.pop(agent, None)
        ready = [item for item in self.items if item.role in ("queue", "work") and not item.live]
        offered = [item for item in ready if item.id != other_than]
        if not offered:
            return {"outcome": "none"}
        self.ended.pop((agent, offered[0].id), None)
        self.claim(agent, offered[0])
        return {"outcome": "item", "item": offered[0].id}

    def report(self, agent: str, kind: str, named: str, then: bool) -> Json:
        held = self.of(agent)
        target = named or (held.id if held else self.last.get(agent, ""))
        if not target:
            return {"refused": "not_claim_holder"}
        item = self.by_id(target)
        found: Json = {"item": target}
        if item.holder == agent:
            self.take(agent, kind, item)
            if kind != "note" and not then:
                self.last[agent] = target
        elif self.ended.get((agent, target)) == kind:
            found["repeated"] = True
        else:
            return {"refused": "not_claim_holder"}
        if then:
            found["next"] = self.next(agent, target)
        return found

    def take(self, agent: str, kind: str, item: Item) -> None:
        if kind == "note" or (not item.live and KINDS[kind]):
            item.live = True
        if kind == "note":
            return
        if kind == "failed" and item.live:
            item.attempts += 1
        if KINDS[kind]:
            item.role = KINDS[kind]
            item.changes += 1
        item.questions += kind == "ask"
        item.holder, item.live = "", False
        self.ended[agent, item.id] = kind

    def lapse(self, item: Item) -> None:
        item.live = False
        item.attempts += 1


CALLS: dict[str, tuple[str, Json]] = {
    "note": ("work_note", {"key": "progress", "body": "b"}),
    "done": ("work_done", {"result": "r"}),
    "failed": ("work_failed", {"reason": "f"}),
    "handed_back": ("work_failed", {"reason": "h", "handBack": True}),
    "ask": ("work_ask", {"question": "q"}),
}


class Walk:
    """The calls of a test, and what must come of them."""

    def __init__(self, fronts: tuple[Tools, Tools], model: Model, chance: random.Random) -> None:
        self.fronts, self.model, self.chance = fronts, model, chance
        self.seen: set[str] = set()

    async def call(self, agent: str, tool: str, **given: Any) -> Json:
        """The call by any front-end, and perhaps again: a repetition has the same meaning and no further effect."""
        found = await self.once(agent, tool, **given)
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            before = await self.effects()
            again = await self.once(agent, tool, **given)
            assert again.get("item") == found.get("item")
            assert again.get("refused") == found.get("refused")
            assert again.get("next", {}).get("item") == found.get("next", {}).get("item")
            assert await self.effects() == before or tool == "work_note"
            ends = tool not in ("work_next", "work_note") and "refused" not in found
            assert again.get("repeated", False) == (ends or found.get("repeated", False))
            self.seen.add(f"{tool} again")
        return found

    async def once(self, agent: str, tool: str, **given: Any) -> Json:
        front = self.chance.choice(self.fronts)
        try:
            got = await front.worker(agent)(tool, **given)
        except ToolFailure as failure:
            return {"refused": failure.code}
        return self.seen_of(got)

    def seen_of(self, got: Json) -> Json:
        """What an answer says that is compared."""
        found = {name: got[name] for name in ("outcome", "held", "repeated") if name in got}
        item = got.get("itemId") or got.get("item", {}).get("id")
        return found | ({"item": item} if item else {}) | ({"next": self.seen_of(got["next"])} if "next" in got else {})

    async def effects(self) -> list[Any]:
        return [[item.role, item.attempts, item.questions, item.changes] for item in await self.stored()]

    async def stored(self) -> list[Item]:
        """The items as the store has them; what is not compared is that of the model."""
        tools, found = self.fronts[0], []
        history = await tools.store.command("XLEN", keys.transitions.key(tools.project))
        for known in self.model.items:
            item = await tools.get(known.id)
            notes = await tools.notes(known.id)
            found.append(
                Item(
                    known.id,
                    item["role"],
                    await tools.holder(known.id) or (known.holder if not known.live else ""),
                    bool(await tools.holder(known.id)),
                    item.get("attempts", {}).get("count", 0) + (len(item.get("attempts", {}).get("last", ())) > 100),
                    sum(key.startswith("question-") for key in notes),
                    history,
                )
            )
        return found

    async def step(self) -> None:
        agent = self.chance.choice(AGENTS)
        kind = self.chance.choices(("next", "report", "lapse", "wake"), (6, 8, 2, 2))[0]
        await getattr(self, kind)(agent)
        await self.compare()

    async def next(self, agent: str) -> None:
        expected = self.model.next(agent)
        found = await self.call(agent, "work_next", waitMs=0)
        assert found == expected
        self.seen.add("held" if "held" in found else found["outcome"])

    async def report(self, agent: str) -> None:
        kind = self.chance.choice(("note", "done", "failed", "handed_back", "ask"))
        named = self.chance.choice(["", "", *(item.id for item in self.model.items)])
        tool, given = CALLS[kind]
        then = kind != "note" and self.chance.random() < 0.5
        if then and not named:  # with the next item, it has to be
            named = (self.model.of(agent) or self.chance.choice(self.model.items)).id
        if named:
            given = {**given, "itemId": named}
        if then:
            given = {**given, "next": {"waitMs": 0}}
        expected = self.model.report(agent, kind, named, then)
        assert await self.call(agent, tool, **given) == expected, (agent, kind, named, then)
        self.seen.add(f"{kind} {'refused' if 'refused' in expected else 'taken'}")
        if "next" in expected:
            self.seen.add(f"then {expected['next']['outcome']}{' again' if 'repeated' in expected else ''}")

    async def lapse(self, _agent: str) -> None:
        live = [item for item in self.model.items if item.live]
        if live:
            item = self.chance.choice(live)
            self.model.lapse(item)
            await lapse(self.fronts[0], item.id, whole=True)
            await self.fronts[0].next()  # somebody notices

    async def wake(self, _agent: str) -> None:
        """A person answers, or opens an item again."""
        for item in self.model.items:
            trigger = {"blocked": "resume", "terminal": "reopen"}.get(item.role)
            if trigger:
                assert (await self.fronts[1].advance(item.id, trigger))["applied"]
                item.attempts = 0 if trigger == "reopen" else item.attempts
                item.role = "work" if trigger == "resume" else "queue"
                item.changes += 1

    async def compare(self) -> None:
        changes = sum(item.changes for item in self.model.items)
        for known, stored in zip(self.model.items, await self.stored(), strict=True):
            assert (stored.role, stored.live, stored.attempts, stored.questions) == (
                known.role, known.live, known.attempts, known.questions
            ), known  # fmt: skip
            assert stored.changes == changes
            if known.live:
                assert stored.holder == known.holder


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 6))])
async def test_repetitions_change_nothing(pair: tuple[Tools, Tools], seed: int) -> None:
    ids = [await pair[0].add(priority=priority, title=priority) for priority in PRIORITIES]
    walk = Walk(pair, Model([Item(one) for one in ids]), random.Random(seed))
    for _ in range(STEPS):
        await walk.step()
    assert {"held", "item", "none", "done taken", "done refused", "ask taken", "work_failed again"} <= walk.seen
    assert {"then item", "then none", "then item again"} <= walk.seen
