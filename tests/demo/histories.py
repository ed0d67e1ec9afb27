"""Histories of a correct fleet: a model of it, run at random."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from coordinator.client.plans.plan import Plan, read
from coordinator.demo.source import planned as plan_of
from coordinator.demo.work import Crash, Planned
from coordinator.demo.work import planned as by_id
from tests.support.history import Event
from tests.support.proof import QUEUE, TERMINAL, WORK

TTL_MS = 2000


def random_plan(rng: random.Random, most: int = 4) -> Plan:
    """A few distributions that may require earlier ones."""
    names = [f"p{number}" for number in range(rng.randint(1, most))]
    requires = {name: [one for one in names[:number] if rng.random() < 0.5] for number, name in enumerate(names)}
    return read(plan_of({name: name for name in names}, requires))


@dataclass
class Run:
    """The result of a run."""

    plan: dict[str, Planned]
    events: list[Event]
    crashes: list[Crash]


@dataclass
class _Item:
    planned: Planned
    role: int = QUEUE
    fence: int = 0
    holder: str = ""
    live: bool = False
    expires: int = 0
    begun: bool = False


@dataclass
class Model:
    """The fleet: items, claims and the stream. Agents act on it one step at a time."""

    plan: dict[str, Planned]
    now: int = 1_700_000_000_000
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.items = {item: _Item(planned) for item, planned in self.plan.items()}
        for item, planned in self.plan.items():
            self.emit("create", item, after=QUEUE, other=planned.parent or "")
        for item, planned in self.plan.items():
            for blocker in sorted(planned.blockers):
                self.emit("link", blocker, other=item, code="B")

    def emit(self, kind: str, item: str, **fields: int | str) -> None:
        self.events.append(Event(f"{self.now}-{len(self.events)}", kind, item, **fields))  # type: ignore[arg-type]

    def ready(self) -> list[str]:
        """Steps that can be claimed."""
        return [
            item
            for item, one in self.items.items()
            if one.planned.step and one.role != TERMINAL and not self._held(one) and self._free(one)
        ]

    def sweep(self) -> None:
        for item, one in self.items.items():
            if one.live and one.expires <= self.now:
                one.live = False
                self.emit("expire", item, agent=one.holder, fence=one.fence)

    def claim(self, agent: str, item: str) -> int:
        one = self.items[item]
        one.fence += 1
        one.holder, one.live, one.expires = agent, True, self.now + TTL_MS
        self.emit("claim", item, agent=agent, fence=one.fence, expires=one.expires)
        return one.fence

    def renew(self, agent: str, item: str) -> bool:
        one = self.items[item]
        if one.holder != agent or not self._held(one):
            return False
        one.expires = self.now + TTL_MS
        self.emit("renew", item, agent=agent, fence=one.fence, expires=one.expires)
        return True

    def release(self, agent: str, item: str) -> None:
        one = self.items[item]
        if one.holder == agent:
            self.emit("release", item, agent=agent, fence=one.fence)
            one.holder, one.live = "", False

    def advance(self, agent: str, item: str, trigger: str, fence: int) -> bool:
        """As the tool: refused to others while the claim lives, and to those whose fence is stale."""
        one = self.items[item]
        to = {"start": WORK, "complete": TERMINAL}[trigger]
        if (self._held(one) and one.holder != agent) or fence != one.fence or one.role >= to:
            return False
        self.emit("transition", item, agent=agent, trigger=trigger, before=one.role, after=to)
        one.role = to
        self._cascade(one)
        return True

    @property
    def done(self) -> bool:
        return all(one.role == TERMINAL for one in self.items.values())

    def _held(self, one: _Item) -> bool:
        return one.live and one.expires > self.now

    def _free(self, one: _Item) -> bool:
        return all(self.items[blocker].role == TERMINAL for blocker in one.planned.blockers)

    def _cascade(self, child: _Item) -> None:
        while child.planned.parent is not None:
            item = child.planned.parent
            parent = self.items[item]
            siblings = [one for one in self.items.values() if one.planned.parent == item]
            to = TERMINAL if all(one.role == TERMINAL for one in siblings) else WORK
            if parent.role >= to:
                return
            self.emit("transition", item, trigger="cascade", before=parent.role, after=to)
            parent.role = to
            child = parent


@dataclass
class _Agent:
    name: str
    item: str = ""
    fence: int = 0


def play(rng: random.Random, agents: int = 4, crash_rate: float = 0.2, most: int = 4) -> Run:
    """Agents drain a random tree; some crash, some are slow, some lose their claims."""
    made = random_plan(rng, most)
    ids = {node.ref: f"{number:032x}" for number, node in enumerate(made.root.all())}
    model = Model(by_id(made, ids))
    crashes: list[Crash] = []
    working = [_Agent(f"a{number}") for number in range(agents)]
    born = agents
    while not model.done:
        # Mostly short steps; sometimes one longer than a claim.
        model.now += rng.choice((0, 1, 5, 40, 400)) if rng.random() < 0.97 else TTL_MS + rng.randint(0, 50)
        agent = rng.choice(working)
        if rng.random() < 0.5:
            model.sweep()
        if not agent.item:
            ready = model.ready()
            if ready:
                agent.item = rng.choice(ready)
                agent.fence = model.claim(agent.name, agent.item)
                if rng.random() < crash_rate:
                    if rng.random() < 0.5:
                        model.advance(agent.name, agent.item, "start", agent.fence)
                    crashes.append(Crash(agent.name, agent.item, agent.fence))
                    working.remove(agent)
                    working.append(_Agent(f"a{born}"))
                    born += 1
            continue
        _act(rng, model, agent)
    for agent in working:
        if agent.item:
            model.release(agent.name, agent.item)
    return Run(model.plan, model.events, crashes)


def _act(rng: random.Random, model: Model, agent: _Agent) -> None:
    """One step of an agent that holds something, or believes so."""
    one = model.items[agent.item]
    if rng.random() < 0.2:
        model.renew(agent.name, agent.item)
    elif one.role == QUEUE and model.advance(agent.name, agent.item, "start", agent.fence):
        pass
    else:
        if one.role == WORK:
            model.advance(agent.name, agent.item, "complete", agent.fence)
        model.release(agent.name, agent.item)
        agent.item = ""
