"""The ways out of an activity, and which of them are open (seed 002, Actions).

If an option with a ``transitionTo`` was chosen, only its target is open; if several were, the last one decides.
Otherwise the list of transitions, and the list of branches of each decision, are evaluated, each by itself. An entry
is open if its condition holds, or if it has none. A default is open if no condition in its list holds. If the target
is an activity that was skipped, its own ways out take the place of the entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from coordinator.definitions import END, TERMINALS, Activity, Condition, holds, text
from coordinator.toolsets.navigator.rules.state import State, answer_key

Activities = Mapping[str, Activity]
"""The activities of a workflow, by id."""


class Route(NamedTuple):
    """A way out of an activity."""

    target: str
    decision: str | None = None
    """The decision of this way; None for a transition, and for the option that was chosen."""
    branch: str | None = None
    """The branch of the decision."""
    rank: int = 0
    """The order in which ways are offered. 0: its condition holds. 1: it has no condition. 2: it is a default."""


class Routes(NamedTuple):
    """All ways out, best first."""

    open: tuple[Route, ...]
    closed: Mapping[str, str]
    """Target -> why it cannot be taken now."""

    def to(self, target: str) -> Route | None:
        """The open way to a target, if there is one."""
        return next((route for route in self.open if route.target == target), None)


class _Entry(NamedTuple):
    target: str
    condition: Condition | UnsetType
    is_default: bool
    decision: str | None
    branch: str | None


def routes(activity: Activity, state: State, activities: Activities) -> Routes:
    """The ways out of an activity, with the present variables."""
    chosen = chosen_target(activity, state, activities)
    if chosen is not None:
        reason = f"the option chosen leads to '{chosen}'"
        others = {target: reason for target in activity.targets() if target != chosen and _known(target, activities)}
        return Routes((Route(chosen),), others)
    found: dict[str, Route] = {}
    closed: dict[str, str] = {}
    for route, reason in _ways(activity, state, activities, 0, {activity.id: 0}):
        if reason:
            closed.setdefault(route.target, reason)
        elif route.target not in found or route.rank < found[route.target].rank:
            found[route.target] = route
    ordered = sorted(found.values(), key=lambda route: route.rank)
    return Routes(tuple(ordered), {target: why for target, why in closed.items() if target not in found})


def chosen_target(activity: Activity, state: State, activities: Activities) -> str | None:
    """The target of the options chosen in this visit; None if they have none that exists."""
    keys = {answer_key(activity.id, checkpoint.id) for checkpoint in activity.checkpoints}
    for key, response in reversed(state.checkpoint_responses.items()):
        if key in keys and response.effects is not UNSET:
            target = response.effects.transitioned_to
            if target is not UNSET and _known(target, activities):
                return target
    return None


def targets(activity: Activity, activities: Activities) -> list[str]:
    """Where the definition leads from an activity, whatever variables and answers say; each once."""
    declared = (entry.target for entries in _lists(activity) for entry in entries)
    return [target for target in dict.fromkeys((*declared, *activity.targets())) if _known(target, activities)]


def ends(target: str, activities: Activities) -> bool:
    """Whether going there ends the workflow."""
    return target in TERMINALS and target not in activities


def _known(target: str, activities: Activities) -> bool:
    return target in activities or target in TERMINALS


def _ways(
    activity: Activity, state: State, activities: Activities, rank: int, passed: dict[str, int]
) -> Iterator[tuple[Route, str]]:
    """Each way out, with the reason why it is closed; empty if it is open.

    Args:
        rank: the rank of the way to this activity. The ways that continue from here get no better rank.
        passed: the skipped activities whose ways out were followed, with the rank of the way to them. They are followed
            again only for a better rank. Otherwise there could be too many paths among skipped activities.
    """
    for entries in _lists(activity):
        for found, reason in _judged(entries, state):
            target = found.target
            if not _known(target, activities):
                continue
            route = found._replace(rank=max(found.rank, rank))
            if target not in state.skipped_activities or target not in activities or reason:
                yield route, reason
            elif target not in passed or route.rank < passed[target]:
                passed[target] = route.rank
                yield route, "it was skipped"
                yield from _ways(activities[target], state, activities, route.rank, passed)


def _lists(activity: Activity) -> Iterator[Sequence[_Entry]]:
    yield [_Entry(one.to, one.condition, one.is_default, None, None) for one in activity.transitions]
    for decision in activity.decisions:
        yield [
            # A branch without a target ends the workflow.
            _Entry(one.transition_to or END, one.condition, one.is_default, decision.id, one.id)
            for one in decision.branches
        ]


def _judged(entries: Sequence[_Entry], state: State) -> Iterator[tuple[Route, str]]:
    true = [entry for entry in entries if entry.condition is not UNSET and holds(entry.condition, state.variables)]
    for entry in entries:
        route = Route(entry.target, entry.decision, entry.branch)
        if entry in true:
            yield route, ""
        elif entry.is_default:
            condition = true[0].condition if true else UNSET
            yield (
                route._replace(rank=2),
                "" if condition is UNSET else f"it is the default, and {text(condition)} holds",
            )
        elif entry.condition is UNSET:
            yield route._replace(rank=1), ""
        else:
            yield route, f"needs {text(entry.condition)}"
