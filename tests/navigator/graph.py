"""The graph of all walks through a workflow, without tokens.

The agent does what is required and reports what is asked for. Wherever it has a choice, of an option or of a value,
each one leads to another state. It may also report what it is not asked for yet, but need not, so no end counts that
can only be reached that way. Variables on which no way out depends do not distinguish states.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import msgspec

from coordinator.definitions import Library
from coordinator.toolsets.navigator.contract.navigation import AvailableActions, NavAction
from coordinator.toolsets.navigator.rules import actions, variables, view
from coordinator.toolsets.navigator.rules.actions import Walk
from coordinator.toolsets.navigator.rules.perform import begin, perform, start_child
from coordinator.toolsets.navigator.rules.state import State
from tests.navigator.walker import wanted_value

Json = dict[str, Any]

SILENT = 2_000
"""Actions without a choice after which a walk counts as endless."""


class Choice(NamedTuple):
    """Something that an agent may do."""

    walk: Walk
    """The walk after it."""
    asked: bool = True
    """Whether it is asked for."""


class Graph:
    """States in which the agent has a choice, or that are the end; each is known by a key."""

    def __init__(self, library: Library, workflow: str) -> None:
        self._deciding = {name: deciding(one.activities.values()) for name, one in library.workflows.items()}
        self._choices: dict[bytes, list[Choice]] = {}
        self._next: dict[bytes, dict[bytes, bool]] = {}
        self._before: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.states: dict[bytes, State] = {}
        """What is known."""
        self.ending: set[bytes] = set()
        """The states from which a way to the end is known."""
        loaded = library.workflows[workflow]
        first = loaded.activities[str(loaded.initial_activity)].activity
        values = variables.first_values(loaded.workflow.variables or ())
        self.start = self._reached(begin(actions.begun(loaded, first, values, "t", library.workflows)).walk)

    def explore(self, most: int, dice: random.Random) -> None:
        """Follows random walks, each as far as it leads to anything new, until ``most`` states have been left."""
        at, waiting = self.start, [self.start]
        while len(self._next) < most:
            fresh = [one for one in self._after(at) if one not in self._next]
            waiting = [one for one in (*waiting, *fresh) if one not in self._next]
            if not waiting:
                return
            at = dice.choice(fresh or waiting)

    def can_end(self, state: bytes) -> bool:
        """Whether some choices lead from a state to the end."""
        pending, seen = [state], {state}
        while pending and state not in self.ending:
            fresh = [one for one, asked in self._after(pending.pop()).items() if asked and one not in seen]
            pending += reversed(fresh)  # the first choice first: it mostly leads on
            seen.update(fresh)
        return state in self.ending

    def _after(self, state: bytes) -> dict[bytes, bool]:
        """The states that come next, and whether an agent comes there by what it is asked for alone."""
        if state not in self._next:
            after: dict[bytes, bool] = {}
            for walk, asked in self._choices[state]:
                reached = self._reached(walk)
                after[reached] = asked or after.get(reached, False)
            self._next[state] = after
            found = [one for one, asked in after.items() if asked]
            for one in found:
                self._before[one].append(state)
            if not self.ending.isdisjoint(found):
                self._ends(state)
        return self._next[state]

    def _reached(self, walk: Walk) -> bytes:
        """The state in which the walk has the next choice."""
        for _ in range(SILENT):
            choices = list(_choices(walk))
            if len(choices) != 1:
                break
            ((walk, _),) = choices
        else:
            raise AssertionError(f"the walk goes on without an end or a question: {walk.state}")
        key = self._key(walk.state)
        if key not in self.states:
            self.states[key], self._choices[key] = walk.state, choices
            if not choices:
                self._ends(key)
        return key

    def _ends(self, state: bytes) -> None:
        pending = [state]
        while pending:
            one = pending.pop()
            if one not in self.ending:
                self.ending.add(one)
                pending += self._before[one]

    def _key(self, state: State) -> bytes:
        shown = [self._distinct(one) for one in (state, *state.suspended())]
        return msgspec.json.encode(shown, order="sorted")

    def _distinct(self, state: State) -> State:
        deciding = self._deciding[state.workflow_id]
        return msgspec.structs.replace(
            state,
            state_version=0,
            parent=msgspec.UNSET,
            variables={name: value for name, value in state.variables.items() if name in deciding},
            reported=sorted(deciding.intersection(state.reported)),
        )


def deciding(activities: Any) -> frozenset[str]:
    """The variables in conditions of ways out, by the first part of their names."""
    pending: list[Any] = [(one.data.get("transitions"), one.data.get("decisions")) for one in activities]
    found = set()
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if "operator" in node:
                found.add(node["variable"].split(".")[0])
            pending += node.values()
        elif isinstance(node, list | tuple):
            pending += node
    return frozenset(found)


def _choices(walk: Walk) -> Iterator[Choice]:
    """What an agent may do that does what is required; none: this is the end."""
    if walk.state.status == "completed":
        return
    offers = view.available(walk)
    if not offers.required:
        reports = _reports(walk, offers)
        assert reports, f"nothing is required, and nothing asked for: {walk.state}"
        yield from (Choice(_done(walk, action="report", variables=one)) for one in reports)
        return
    offer = offers.required[0]
    if offer.action == "nav_start":
        yield Choice(start_child(_copy(walk), str(offer.workflow), {}).walk)
    elif offer.action == "respond_to_checkpoint":
        shown = view.checkpoint(walk)
        assert shown is not None
        for option in shown.options:
            yield Choice(_done(walk, action=offer.action, checkpoint_id=shown.id, option_id=option.id))
    elif offer.action == "transition":
        yield Choice(_done(walk, action=offer.action, activity_id=offer.activity))
    elif offer.action == "complete_step":
        yield Choice(_done(walk, action=offer.action, step_id=offer.step))
        for reported in _reports(walk, offers):  # with the last step, what decides where to go
            yield Choice(_done(walk, action=offer.action, step_id=offer.step, variables=reported), asked=False)
    else:
        ends = {one.name: wanted_value(msgspec.to_builtins(one)) for one in offer.variables or ()}
        items = {"loop_items": ["one"]} if offer.loop_items else {}
        yield Choice(_done(walk, action=offer.action, loop_id=offer.loop, variables=ends, **items))


def _reports(walk: Walk, offers: AvailableActions) -> list[Json]:
    """Each combination of the values that blocked actions want; none: they want none."""
    asked: defaultdict[str, dict[bytes, Any]] = defaultdict(dict)
    for offer in offers.blocked:
        for one in offer.variables or ():
            if one.name.split(".")[0] not in walk.state.reported:
                value = wanted_value(msgspec.to_builtins(one))
                asked[one.name][msgspec.json.encode(value)] = value
    values = product(*(one.values() for one in asked.values())) if asked else ()
    return [dict(zip(asked, one, strict=True)) for one in values]


def _done(walk: Walk, **arguments: Any) -> Walk:
    return perform(_copy(walk), NavAction(state="", **arguments)).walk


def _copy(walk: Walk) -> Walk:
    return walk._replace(state=msgspec.msgpack.decode(msgspec.msgpack.encode(walk.state), type=State))
