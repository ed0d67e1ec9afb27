"""Attempts, back-off and quarantine of an item beside a plain model: two agents, any interleaving of calls and time."""

from __future__ import annotations

import random
from dataclasses import dataclass

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import LONG_MS, Client, Json
from tests.items.moments import lapse, server_time
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

AGENTS = ("ann", "bob")
MOST = 3
STEPS = 400
SETTINGS: Json = {
    "request_deadline_ms": LONG_MS,
    "work_item_schemas": {"task": {"notes": [{"key": "verdict", "role": "review"}]}},
    "attempts": {"max": MOST, "backoff_seconds": 60},
}
START = {"queue": "work", "work": "review", "review": "terminal"}


@dataclass
class Claim:
    agent: str
    live: bool = True
    own_role: bool = False
    """Whether it was placed in the role in which the item still is."""
    takeover: bool = False
    """Until the first start."""


@dataclass
class Model:
    role: str = "queue"
    before: str = "queue"
    claim: Claim | None = None
    count: int = 0
    ended: int = 0
    """All attempts ever."""
    held: str = ""
    """backoff or quarantine."""
    begun: bool = False
    """Claimed before, and not brought to its role by a reopening since."""
    resumed: bool = False

    @property
    def live(self) -> bool:
        return self.claim is not None and self.claim.live

    @property
    def left(self) -> bool:
        """Whether it is abandoned."""
        if self.live:
            return False
        if self.role == "work":
            return self.begun
        return self.role == "review" and (self.resumed or (self.claim is not None and self.claim.own_role))

    def change(self, role: str) -> None:
        fresh = self.held == "quarantine" or self.role == "terminal"
        self.resumed = (
            (self.held == "quarantine" or (self.resumed and "blocked" in (self.role, role)))
            and not self.live
            and role != "terminal"
        )
        if self.claim is None and self.role == "terminal":
            self.begun = False
        self.before, self.role, self.held = self.role if role == "blocked" else "queue", role, ""
        self.count = 0 if fresh else self.count
        if self.claim is not None:
            self.claim.own_role = self.claim.takeover = False

    def attempt(self, hopeless: bool = False) -> None:
        assert self.claim is not None
        self.hopeless = hopeless and self.role in ("queue", "work", "review")
        if self.hopeless or self.role == "work" or (self.role == "review" and self.claim.own_role):
            self.count += 1
            self.ended += 1
            self.held = "backoff"

    def judge(self) -> None:
        if self.held == "backoff" and (self.hopeless or self.count >= MOST):
            self.held = ""
            self.change("blocked")
            self.held = "quarantine"

    def expire(self) -> None:
        assert self.claim is not None
        self.attempt()
        self.claim.live = False
        if self.role == "terminal":
            self.claim = None  # its record goes when its time is over
        self.judge()

    def release(self, agent: str, reason: str | None) -> str:
        if self.claim is None or self.claim.agent != agent:
            return "not_claimed_by_you"
        if self.claim.live and reason in ("failed", "gave_up", "hopeless"):
            self.attempt(reason == "hopeless")
        self.claim = None
        self.judge()
        return "success"

    def acquire(self, agent: str, by_id: bool) -> Json:
        if self.role == "terminal":
            return {"outcome": "terminal_item"}
        if self.claim is not None and self.claim.live and self.claim.agent != agent:
            return {"outcome": "already_claimed"}
        mine = self.claim is not None and self.claim.agent == agent
        found: Json = {"outcome": "success"}
        if not self.live:
            takeover = self.left and not (mine and by_id)
            found |= {"takeover": True} if takeover else {}
            self.claim = Claim(agent, own_role=True, takeover=takeover)
            self.begun, self.resumed = True, False
        return found | ({"ready": False} if self.held or self.role == "blocked" else {})

    def take(self, agent: str) -> Json:
        if self.live or self.held or not (self.role == "queue" or self.left):
            return {"outcome": "no_match"}
        return self.acquire(agent, by_id=False)

    def advance(self, agent: str, trigger: str) -> bool:
        if self.live and self.claim is not None and self.claim.agent != agent:
            return False
        if trigger == "start" and self.claim is not None and self.claim.agent == agent and self.claim.takeover:
            self.claim.takeover = False
            return True
        allowed = {
            "start": self.role in START,
            "complete": self.role in START,
            "block": self.role in START,
            "resume": self.role == "blocked",
            "cancel": self.role != "terminal",
            "reopen": self.role == "terminal",
        }
        if not allowed[trigger]:
            return False
        targets = {
            "complete": "terminal",
            "block": "blocked",
            "resume": self.before,
            "cancel": "terminal",
            "reopen": "queue",
        }
        self.change(targets.get(trigger) or START[self.role])
        return True


class Walk:
    """One item and its model."""

    def __init__(self, tools: Client, item: str, chance: random.Random) -> None:
        self.tools, self.item, self.chance = tools, item, chance
        self.model = Model()
        self.noticed = True
        self.seen: set[str] = set()
        """How the item was held back."""

    async def step(self) -> None:
        agent = self.chance.choice(AGENTS)
        kind = self.chance.choices(
            ("claim", "take", "release", "lapse", "due", "start", "advance"), (6, 4, 4, 8, 3, 1, 3)
        )[0]
        await getattr(self, kind)(agent)
        if self.noticed:
            await self.compare()

    async def claim(self, agent: str) -> None:
        found = await self.tools.claim(agent, self.item)
        self.same(found, self.model.acquire(agent, by_id=True))

    async def take(self, agent: str) -> None:
        self.same(await take(self.tools, agent), self.model.take(agent))

    def same(self, found: Json, expected: Json) -> None:
        self.noticed = True
        assert {name: found[name] for name in ("outcome", "takeover", "ready") if name in found} == expected

    async def release(self, agent: str) -> None:
        reason = self.chance.choice([None, None, "failed", "failed", "gave_up", "handed_back", "hopeless"])
        found = await self.tools.release(agent, self.item, **({"reason": reason} if reason else {}))
        if found["outcome"] == "success":
            self.noticed = True
        assert found["outcome"] == self.model.release(agent, reason)

    async def lapse(self, agent: str) -> None:
        if self.model.live:
            await lapse(self.tools, self.item)
            self.model.expire()
            self.noticed = self.chance.random() < 0.5
            if self.noticed:
                await self.tools.next()

    async def due(self, agent: str) -> None:
        if self.model.held == "backoff" and self.noticed:
            inner, now = self.item.replace("-", ""), await server_time(self.tools.store) - 1
            await self.tools.store.command("HSET", keys.item.key(self.tools.project, inner), "nt", now)
            await self.tools.store.command("ZADD", keys.retries.key(self.tools.project), "XX", now, inner)
            await self.tools.next()
            self.model.held = ""

    async def start(self, agent: str) -> None:
        await self._move(agent, "start")

    async def advance(self, agent: str) -> None:
        sensible = {"terminal": ("reopen",), "blocked": ("resume",)}.get(self.model.role, ("block", "start"))
        triggers = ("complete", "block", "resume", "cancel", "reopen")
        await self._move(agent, self.chance.choice(sensible if self.chance.random() < 0.8 else triggers))

    async def _move(self, agent: str, trigger: str) -> None:
        self.noticed = True
        found = await self.tools.advance(self.item, trigger, agent)
        assert found["applied"] == self.model.advance(agent, trigger), (trigger, found)

    async def compare(self) -> None:
        full, model = await self.tools.get(self.item), self.model
        found = full.get("attempts", {"count": 0, "last": []})
        self.seen.add(model.held)
        assert (full["role"], found["count"], len(found["last"])) == (model.role, model.count, min(model.ended, 20))
        assert ("notBefore" in found) == (model.held == "backoff")
        assert (full.get("statusLabel") == "quarantined") == (model.held == "quarantine")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(2, 12))])
async def test_any_sequence_of_calls_follows_the_model(store: Store, project: str, seed: int) -> None:
    tools = Client(store, project, msgspec.convert(SETTINGS, Settings))
    walk = Walk(tools, await tools.add(type="task"), random.Random(seed))
    for _ in range(STEPS):
        await walk.step()
    await tools.next()
    assert {"backoff", "quarantine"} <= walk.seen
    assert (await audit(store, project)).differences == []
    await tools.delete(walk.item)
    assert (await audit(store, project)).differences == []
    assert not await store.command("EXISTS", keys.retries.key(project), keys.quarantined.key(project))
