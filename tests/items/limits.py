"""A plain model of all that limits claims: resources, times, budgets, attempts, dependencies, children, capabilities
and drains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.items.claimable import OPEN, Claimable
from tests.items.client import Json, counts
from tests.items.quantities import NONE, Demand, Sum, below, plus, related

CAPACITY = {"gpu": 3, "a/b": 2, "slow": 2}
RATED = "slow"
"""A key whose units come back so slowly that none does during a test, unless it moves the time."""
CAP = 500
"""Tokens of each agent whose name begins with cap."""
MOST = 3
"""Attempts."""


def compatible(wanted: Iterable[Demand], others: Iterable[Demand]) -> bool:
    """Whether demands can be met beside what others hold."""
    wanted, others = list(wanted), list(others)
    for key, mode, _ in wanted:
        for held, held_mode, _ in others:
            if not related(key, held) or mode == held_mode == "shared":
                continue
            if "shared" in (mode, held_mode) or min(key, held, key=len) not in CAPACITY:
                return False
    return all(
        exclusive(wanted, limited) == 0 or exclusive(wanted, limited) + exclusive(others, limited) <= most
        for limited, most in CAPACITY.items()
    )


def exclusive(demands: Iterable[Demand], limited: str) -> int:
    return sum(units for key, mode, units in demands if mode == "exclusive" and below(key, limited))


def merged(one: list[Demand], other: list[Demand]) -> list[Demand]:
    """Both; of a key of the first that is also in the other, the units that are more."""
    found = list(one)
    for key, mode, units in other:
        own = [(held_mode, held) for held_key, held_mode, held in one if held_key == key]
        more = 1 - bool(own) if mode == "shared" else units - sum(held for how, held in own if how == "exclusive")
        if more > 0:
            found.append((key, mode, more))
    return found


@dataclass
class Item(Claimable):
    """A work item, or a container, which is never offered."""

    parent: str = ""
    container: bool = False
    reviewed: bool = False
    """Review comes between its work and its end."""
    demands: list[Demand] = field(default_factory=list)
    budget: Json = field(default_factory=dict)
    own: Sum = NONE
    gone: Sum = NONE
    """Of deleted items below it."""
    later: bool = False
    """Its notBefore lies ahead."""
    waits: str = ""
    """The dependency that is not satisfied."""
    child: str = ""
    """An open child, which is blocked."""
    taken: list[Demand] = field(default_factory=list)

    def unclaim(self) -> None:
        super().unclaim()
        self.taken = []

    def change(self, role: str, *, cascade: bool = False) -> None:
        super().change(role, cascade=cascade)
        self.taken = [] if role == "terminal" else self.taken

    def end(self, reason: str, most: int = MOST) -> None:
        self.taken = []
        super().end(reason, most)


@dataclass
class Model:
    items: dict[str, Item] = field(default_factory=dict)
    """In the order of their creation."""
    able: dict[str, set[str]] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    rated: int = CAPACITY[RATED]
    """What is left of the units per minute."""
    sums: dict[tuple[str, str], Sum] = field(default_factory=dict)
    """By agent, by model."""
    total: Sum = NONE
    said: tuple[str, str] | None = None
    """What the present claim releases besides, and why."""
    released: str = ""
    """The outcome of that, once it is made."""

    def subtree(self, name: str) -> Sum:
        one = self.items[name]
        found = plus(one.own, one.gone)
        for child in self.children(name):
            found = plus(found, self.subtree(child))
        return found

    def is_spent(self, name: str) -> bool:
        inputs, outputs, _, cost, wall = self.subtree(name)
        used = {"tokens": inputs + outputs, "costMicroUsd": cost, "wallMs": wall}
        return any(used[measure] >= limit for measure, limit in self.items[name].budget.items())

    def spent_at(self, name: str) -> str:
        """The nearest item whose budget is spent."""
        return name if not name or self.is_spent(name) else self.spent_at(self.items[name].parent)

    def over(self, agent: str) -> bool:
        return agent.startswith("cap") and sum(self.sums.get(("agent", agent), NONE)[:2]) >= CAP

    def exhausted(self, agent: str, name: str) -> bool:
        return self.over(agent) or self.spent_at(name) != ""

    def add(self, agent: str, name: str, used: Sum, model: str) -> None:
        if any(used):
            self.items[name].own = plus(self.items[name].own, used)
            for whose in (("agent", agent), ("model", model)):
                self.sums[whose] = plus(self.sums.get(whose, NONE), used)
            self.total = plus(self.total, used)

    def taken(self) -> list[list[Demand]]:
        return [one.taken for one in self.items.values() if one.taken]

    def fits(self, agent: str, wanted: list[Demand], new: list[Demand]) -> bool:
        """Whether an agent can hold all of ``wanted``, of which it takes ``new``."""
        others = [
            demand for one in self.items.values() if not (one.live and one.holder == agent) for demand in one.taken
        ]
        rated = sum(units for key, _, units in new if below(key, RATED))
        return compatible(wanted, others) and rated <= self.rated

    def take_units(self, new: list[Demand]) -> None:
        self.rated -= sum(units for key, _, units in new if below(key, RATED))

    def claim(self, agent: str, name: str, further: list[Demand]) -> str:
        """The outcome of a claim by id."""
        one = self.items[name]
        renews = one.live and one.holder == agent
        if one.role == "terminal":
            return "terminal_item"
        if one.live and not renews:
            return "already_claimed"
        if not renews and agent in self.drained:
            return "agent_draining"
        if not renews and self.exhausted(agent, name):
            return "budget_exhausted"
        before = one.taken if renews else []
        wanted = merged(before, further) if renews else merged(one.demands, further)
        new = wanted[len(before) :]
        if new and not self.fits(agent, wanted, new):
            return "resource_busy"
        if renews:
            one.taken = wanted
            self.take_units(new)
        else:
            self.acquire(agent, name, wanted, by_id=True)
        return "success"

    def hold(self, name: str, demands: list[Demand]) -> bool:
        """Whether the live claim on an item, if there is one, holds these demands now."""
        one = self.items[name]
        wanted = merged(one.taken, demands) if one.live else one.taken
        new = wanted[len(one.taken) :]
        if new and not self.fits(one.holder, wanted, new):
            return False
        one.taken = wanted
        self.take_units(new)
        return True

    def demand(self, name: str, demands: list[Demand]) -> bool:
        """Whether what an item demands can be changed to this."""
        one = self.items[name]
        if one.role != "terminal" and not self.hold(name, demands):
            return False
        one.demands = demands
        return True

    def acquire(self, agent: str, name: str, wanted: list[Demand], *, by_id: bool) -> None:
        one = self.items[name]
        if self.said and self.said[0] == self.given_up(agent, name):
            self.released = self.release(agent, *self.said)
        for other in self.items.values():
            if other.holder == agent and other is not one:
                other.unclaim()
        one.acquire(agent, by_id=by_id)
        one.taken = wanted
        self.take_units(wanted)

    def take(self, agent: str, group: str) -> tuple[str, str, Json]:
        """The outcome of a claim of the best item of a group ('': of any), the item, and what is held back."""
        if agent in self.drained:
            return "agent_draining", "", {}
        if self.exhausted(agent, group):
            return "budget_exhausted", "", {}
        for name in self.offered(group):
            if not self.why_not(agent, name):
                self.acquire(agent, name, list(self.items[name].demands), by_id=False)
                return "success", name, {}
        if self.said:
            self.released = self.release(agent, *self.said)
        held_back = Counter(filter(None, (self.why_not(agent, name) for name in self.offered(group))))
        return "no_match", "", counts(**held_back) if held_back else {}

    def offered(self, group: str) -> list[str]:
        """What selectors would find if nothing held it back, best first."""
        open_ones = [
            name for name, one in self.items.items() if not (one.container or one.live) and group in ("", one.parent)
        ]
        left = [name for name in open_ones if self.items[name].left or self.items[name].held == "quarantine"]
        return left + [name for name in open_ones if self.items[name].role == "queue"]

    def why_not(self, agent: str, name: str) -> str:
        """The first that keeps an item from an agent; '': nothing does."""
        one = self.items[name]
        reasons = {
            "quarantined": one.held == "quarantine",
            "notBefore": one.later,
            "backoff": one.held == "backoff",
            "dependencies": bool(one.waits),
            "openChildren": bool(one.child),
            "budget": bool(self.spent_at(name)),
            "capabilities": bool(one.requires - self.able.get(agent, set())),
            "assigned": one.assignee not in (None, agent),
            "resources": not self.fits(agent, one.demands, one.demands),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def given_up(self, agent: str, name: str) -> str:
        """The item whose claim an agent gives up with one on another item; '': none."""
        ours = [other for other, one in self.items.items() if one.holder == agent]
        return "" if name in ours else next(iter(ours), "")

    def release(self, agent: str, name: str, reason: str) -> str:
        one = self.items[name]
        if one.holder != agent:
            return "not_claimed_by_you"
        if one.live:
            one.end(reason)
        one.unclaim()
        return "success"

    def advance(self, agent: str, name: str, trigger: str) -> bool:
        one = self.items[name]
        if (one.live and one.holder != agent) or (trigger in ("start", "complete") and one.waits):
            return False
        if trigger == "start" and one.takeover and one.holder == agent:
            one.takeover = False
            return True
        target = {
            "start": {"queue": "work", "work": "review" if one.reviewed else "terminal", "review": "terminal"},
            "complete": dict.fromkeys(OPEN, "terminal"),
            "cancel": dict.fromkeys((*OPEN, "blocked"), "terminal"),
            "block": dict.fromkeys(OPEN, "blocked"),
            "resume": {"blocked": one.previous or "queue"},
            "reopen": {"terminal": "queue"},
        }[trigger].get(one.role)
        if target is None or (trigger == "reopen" and not self.hold(name, one.demands)):
            return False
        one.change(target)
        return True

    # --- the tree

    def children(self, parent: str) -> list[str]:
        return [name for name, one in self.items.items() if one.parent == parent]

    def depth(self, name: str) -> int:
        return len(self.path(name)) - 1

    def height(self, name: str) -> int:
        return max((self.height(child) + 1 for child in self.children(name)), default=0)

    def path(self, name: str) -> list[str]:
        """The item and what is above it."""
        return [name, *self.path(self.items[name].parent)] if name else []

    def delete(self, name: str) -> None:
        """With all that is below it."""
        parent, used = self.items[name].parent, self.subtree(name)
        if parent:
            self.items[parent].gone = plus(self.items[parent].gone, used)
        for gone in [other for other in self.items if name in self.path(other)]:
            del self.items[gone]

    def restored(self) -> None:
        """What is left of it in a restored project."""
        self.able, self.drained, self.rated = {}, set(), CAPACITY[RATED]
        for one in self.items.values():
            one.unclaim()
            one.held = "" if one.held == "backoff" else one.held
