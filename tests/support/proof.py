"""Proves from a recorded history that a fleet kept its guarantees. Pure: events in, verdict out.

The history is replayed event by event against these rules:

    complete        every item and dependency of the plan is recorded, nothing else, and nothing is deleted
    order           stream ids rise, and every role change begins where the one before it ended
    done once       every item is completed exactly once and stays so
    one claim       no two live claims on one item at any time, and no agent holds two
    fences          each claim's fence is above every earlier one of its item; renewals,
                    releases and expiries show the fence of the claim they belong to
    expiry          a claim that its agent has not released ends only by its expiry
    steps           a step begins with 'start' and ends with 'start' or 'complete', each once; those of a plan in stages
                    are created blocked, and let go before they are claimed
    holder          steps are moved only by the last agent that claimed them and has not released them;
                    their parents only by cascades, once their children are done
    dependencies    no step begins or ends before everything it waits for is done
    crashes         the claim of a crashed agent ended by expiry, another agent finished its
                    item, and the dead agent never acts again

After its expiry, the last holder can still complete the item until another agent claims it
(expiry is passive). That is safe, and is counted as ``late``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec

from coordinator.demo.work import Crash, Planned
from coordinator.toolsets.items.rules.roles import ROLE_CODES
from tests.support.history import Event

QUEUE, WORK, TERMINAL, BLOCKED = (ROLE_CODES[role] for role in ("queue", "work", "terminal", "blocked"))
SLACK_MS = 250
"""A script reads the clock once, at its start; its entries carry the time of their writing, a little later."""

_STEP = {("start", QUEUE, WORK), ("start", WORK, WORK), ("start", WORK, TERMINAL), ("complete", WORK, TERMINAL)}
"""The allowed transitions of a step. An abandoned one is started again in work."""
_LET_GO = ("resume", BLOCKED, QUEUE)
"""That of an item of a plan that was created in stages: it is blocked until all of it is there."""

Rule = Literal[
    "complete", "order", "done once", "one claim", "fences", "expiry", "steps", "holder", "dependencies", "crashes"
]


class Violation(msgspec.Struct, frozen=True):
    """A broken guarantee."""

    rule: Rule
    item: str
    """The item's title, or its id if unknown."""
    problem: str
    event: str = ""
    """Stream id."""


class Facts(msgspec.Struct):
    """Statistics from the history."""

    events: int = 0
    steps_done: int = 0
    items_done: int = 0
    claims: int = 0
    renewals: int = 0
    releases: int = 0
    expiries: int = 0
    takeovers: int = 0
    """Claims on items whose last claim had expired and was not swept yet."""
    late: int = 0
    """Role changes by the last holder after its claim had expired and before another claim."""
    most_live_claims: int = 0
    began_ms: int = 0
    """Server time of the first claim."""
    ended_ms: int = 0
    """Server time of the last completion."""

    @property
    def seconds(self) -> float:
        """From the first claim to the last completion."""
        return max(0, self.ended_ms - self.began_ms) / 1000


class Verdict(msgspec.Struct, frozen=True):
    """What the history proves."""

    violations: tuple[Violation, ...]
    facts: Facts


def prove(plan: Mapping[str, Planned], events: Iterable[Event], crashes: Collection[Crash] = ()) -> Verdict:
    """Replays a project's whole history.

    Args:
        plan: item id (32 hex digits) -> what was planned.
        events: oldest first, from the project's beginning.
        crashes: agents that are known to have stopped while they held a claim.
    """
    replay = _Replay(plan, crashes)
    for event in events:
        replay.apply(event)
    replay.finish()
    return Verdict(tuple(replay.violations), replay.facts)


class _Claim:
    """The last claim of an item, until it is released."""

    __slots__ = ("agent", "expires", "fence", "live")

    def __init__(self, agent: str, fence: int, expires: int) -> None:
        self.agent = agent
        self.fence = fence
        self.expires = expires
        self.live = True


class _State:
    """The state of one item during the replay."""

    __slots__ = ("children_left", "claim", "ends", "fence", "finisher", "linked", "role")

    def __init__(self, role: int) -> None:
        self.role = role
        self.claim: _Claim | None = None
        self.fence = 0
        self.ends = 0
        self.finisher = ""
        self.linked: set[str] = set()
        self.children_left = 0


class _Replay:
    """The state of all items, event by event."""

    def __init__(self, plan: Mapping[str, Planned], crashes: Collection[Crash]) -> None:
        self.violations: list[Violation] = []
        self.facts = Facts()
        self._plan = plan
        self._crashes = crashes
        self._items: dict[str, _State] = {}
        self._held: dict[str, str] = {}
        """Agent -> the item that it holds a live claim on."""
        self._endings: dict[tuple[str, int], str] = {}
        """Item and fence -> what ended that claim."""
        self._dead = {crash.agent: crash for crash in crashes}
        self._last = (-1, -1, 0)
        self._children: dict[str, int] = defaultdict(int)
        for planned in plan.values():
            if planned.parent is not None:
                self._children[planned.parent] += 1

    def apply(self, event: Event) -> None:
        """One event."""
        self.facts.events += 1
        position = _position(event)
        if position is None or position <= self._last:
            self._broken("order", event, "its stream id does not follow the one before it")
        self._last = position or self._last
        if event.item not in self._plan:
            self._broken("complete", event, f"a {event.kind} of an item that is not in the plan")
            return
        if event.kind == "create":
            self._create(event)
            return
        state = self._items.get(event.item)
        if state is None:
            self._broken(
                "complete", event, f"a {event.kind} before the item's creation: the history's beginning is lost"
            )
            state = self._items[event.item] = _State(event.before if event.before >= 0 else QUEUE)
            state.children_left = self._children[event.item]
        match event.kind:
            case "claim":
                self._claim(event, state)
            case "renew":
                self._renew(event, state)
            case "release" | "expire":
                self._end_of_claim(event, state)
            case "transition":
                self._transition(event, state)
            case "link":
                self._link(event)
            case "update" | "attempt":
                pass
            case _:
                self._broken("complete", event, f"a {event.kind}, which nobody was to do")

    def finish(self) -> None:
        """Checks that need the whole history."""
        for item, planned in self._plan.items():
            state = self._items.get(item)
            if state is None:
                self._missing("complete", item, "is not in the history")
                continue
            missing = planned.blockers - state.linked
            if missing:
                names = ", ".join(sorted(self._title(one) for one in missing))
                self._missing("complete", item, f"its dependency on {names} is not in the history")
            if state.ends == 0:
                self._missing("done once", item, "was never done")
            elif state.role == TERMINAL:
                self.facts.items_done += 1
                self.facts.steps_done += planned.step
        for crash in self._crashes:
            self._check_crash(crash)

    def _create(self, event: Event) -> None:
        if event.item in self._items:
            self._broken("complete", event, "created a second time")
            return
        planned = self._plan[event.item]
        if event.other != (planned.parent or ""):
            self._broken("complete", event, "created under another parent than planned")
        if event.after not in (QUEUE, BLOCKED):
            self._broken("order", event, "not created in the queue")
        state = self._items[event.item] = _State(event.after)
        state.children_left = self._children[event.item]

    def _link(self, event: Event) -> None:
        blocker, blocked = (event.other, event.item) if event.code == "I" else (event.item, event.other)
        planned = self._plan.get(blocked)
        if event.code not in ("B", "I") or planned is None or blocker not in planned.blockers:
            self._broken("complete", event, f"a dependency of {self._title(blocked)} that was not planned")
        elif blocked in self._items:
            self._items[blocked].linked.add(blocker)

    def _claim(self, event: Event, state: _State) -> None:
        self.facts.claims += 1
        self.facts.began_ms = self.facts.began_ms or event.at
        self._check_alive(event)
        claim = state.claim
        if claim is not None and claim.live:
            if claim.expires > event.at:
                self._broken("one claim", event, f"{event.agent} claimed it while {claim.agent} held it")
            else:
                self.facts.takeovers += 1
            self._ended(event.item, claim, "expiry")
        if event.fence <= state.fence:
            self._broken("fences", event, f"the claim's fence {event.fence} is not above {state.fence}")
        holds = self._held.get(event.agent)
        if holds is not None and holds != event.item:
            other = self._items[holds].claim
            if other is not None and other.expires > event.at:
                self._broken("one claim", event, f"{event.agent} still holds {self._title(holds)}")
        if event.expires <= event.at - SLACK_MS:
            self._broken("expiry", event, "the claim was over before it began")
        if state.role == TERMINAL:
            self._broken("done once", event, f"{event.agent} claimed it after it was done")
        state.fence = max(state.fence, event.fence)
        state.claim = _Claim(event.agent, event.fence, event.expires)
        self._held[event.agent] = event.item
        self.facts.most_live_claims = max(self.facts.most_live_claims, len(self._held))

    def _renew(self, event: Event, state: _State) -> None:
        self.facts.renewals += 1
        self._check_alive(event)
        claim = state.claim
        if claim is None or not claim.live or claim.agent != event.agent:
            self._broken("one claim", event, f"{event.agent} renewed a claim that it does not have")
            return
        if claim.fence != event.fence:
            self._broken("fences", event, f"the renewal shows fence {event.fence}, the claim has {claim.fence}")
        if claim.expires < event.at - SLACK_MS:
            self._broken("expiry", event, f"{event.agent} renewed a claim that was over")
        claim.expires = event.expires

    def _end_of_claim(self, event: Event, state: _State) -> None:
        claim = state.claim
        if event.kind == "release":
            self.facts.releases += 1
            self._check_alive(event)
        else:
            self.facts.expiries += 1
        if claim is None or claim.agent != event.agent or (event.kind == "expire" and not claim.live):
            self._broken("one claim", event, f"{event.kind} of a claim that {event.agent} does not have")
            return
        if claim.fence != event.fence:
            self._broken("fences", event, f"the {event.kind} shows fence {event.fence}, the claim has {claim.fence}")
        if event.kind == "expire":
            if claim.expires > event.at:
                self._broken("expiry", event, f"the claim of {claim.agent} was taken away before its time was over")
            self._ended(event.item, claim, "expiry")
        else:
            if claim.live:
                self._ended(event.item, claim, "release")
            state.claim = None

    def _transition(self, event: Event, state: _State) -> None:
        planned = self._plan[event.item]
        if event.before != state.role:
            self._broken("order", event, f"it goes on from role {event.before}, the history left it in {state.role}")
        if state.role == TERMINAL:
            self._broken("done once", event, f"changed by '{event.trigger}' after it was done")
        if (event.trigger, event.before, event.after) == _LET_GO:
            if state.fence:
                self._broken("steps", event, "resumed after it had been claimed")
        elif planned.step:
            if (event.trigger, event.before, event.after) not in _STEP:
                self._broken("steps", event, f"'{event.trigger}' took it from role {event.before} to {event.after}")
            self._check_holder(event, state)
            self._check_blockers(event, planned)
        elif event.trigger != "cascade" or event.agent:
            self._broken(
                "holder", event, f"moved by '{event.trigger}' of {event.agent or 'nobody'}, not by its children"
            )
        elif event.after == TERMINAL and state.children_left:
            self._broken("dependencies", event, f"done while {state.children_left} of its children are not")
        if event.after == TERMINAL and state.role != TERMINAL:
            state.ends += 1
            state.finisher = event.agent
            if state.ends > 1:
                self._broken("done once", event, f"done {state.ends} times")
            self.facts.ended_ms = event.at
            parent = self._items.get(planned.parent or "")
            if parent is not None and state.ends == 1:
                parent.children_left -= 1
        state.role = event.after

    def _check_holder(self, event: Event, state: _State) -> None:
        self._check_alive(event)
        claim = state.claim
        if claim is None:
            self._broken("holder", event, f"'{event.trigger}' by {event.agent or 'nobody'} without a claim")
        elif claim.agent != event.agent:
            self._broken("holder", event, f"'{event.trigger}' by {event.agent or 'nobody'}, but {claim.agent} holds it")
        elif not claim.live or claim.expires <= event.at:
            self.facts.late += 1

    def _check_blockers(self, event: Event, planned: Planned) -> None:
        for blocker in planned.blockers:
            state = self._items.get(blocker)
            if state is None or state.role != TERMINAL:
                self._broken("dependencies", event, f"'{event.trigger}' before {self._title(blocker)} is done")

    def _check_alive(self, event: Event) -> None:
        crash = self._dead.get(event.agent)
        if crash is None:
            return
        if (event.item, event.fence) == (crash.item, crash.fence) and event.kind == "release":
            self._broken("crashes", event, f"the claim of {crash.agent} was released, though it crashed")
        elif (crash.item, crash.fence) in self._endings and event.kind != "transition":
            # A role change before the crash may arrive late; that it finished nothing is checked below.
            self._broken("crashes", event, f"{crash.agent} acts ('{event.kind}') after it crashed")

    def _check_crash(self, crash: Crash) -> None:
        ending = self._endings.get((crash.item, crash.fence))
        if ending != "expiry":
            how = "never ended" if ending is None else f"ended by {ending}"
            self._missing("crashes", crash.item, f"the claim of {crash.agent}, which crashed, {how}")
        state = self._items.get(crash.item)
        if state is not None and state.finisher == crash.agent:
            self._missing("crashes", crash.item, f"it was finished by {crash.agent}, which had crashed")

    def _ended(self, item: str, claim: _Claim, how: str) -> None:
        claim.live = False
        self._endings[item, claim.fence] = how
        if self._held.get(claim.agent) == item:
            del self._held[claim.agent]

    def _title(self, item: str) -> str:
        planned = self._plan.get(item)
        return planned.title if planned else item

    def _broken(self, rule: Rule, event: Event, problem: str) -> None:
        self.violations.append(Violation(rule, self._title(event.item), problem, event.id))

    def _missing(self, rule: Rule, item: str, problem: str) -> None:
        self.violations.append(Violation(rule, self._title(item), problem))


def _position(event: Event) -> tuple[int, int, int] | None:
    milliseconds, _, counter = event.id.partition("-")
    return (int(milliseconds), int(counter), event.part) if milliseconds.isdigit() and counter.isdigit() else None
