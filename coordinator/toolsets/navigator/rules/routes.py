"""The ways out of an activity, and which of them are open (README.md, 'Ways out').

If an option with a ``transitionTo`` was chosen, only its target is open; if several were, the last one decides.
Otherwise the list of transitions and the branches of each decision are evaluated, each list on its own. An entry
is open if its condition holds, or if it has none. A default is open if no condition in its list holds. If the target
is a skipped activity, its own ways out replace the entry.

Ways back are never taken on a guess. While the condition of a way forward depends on unreported variables, ways back
without a condition are closed; in an activity that is visited again, so are those whose condition depends on reports of
earlier visits. Nor is the workflow completed for lack of an open way while the condition of a way forward depends on
variables without a value. When the walk has returned to an activity, those that came after it are ahead again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from coordinator.definitions import END, TERMINALS, Activity, Condition, holds, lookup, text
from coordinator.toolsets.navigator.rules import wanted
from coordinator.toolsets.navigator.rules.state import State
from coordinator.toolsets.navigator.rules.wanted import Want

Activities = Mapping[str, Activity]
"""The activities of a workflow, by id."""


class Route(NamedTuple):
    """A way out of an activity."""

    target: str
    rank: int = 0
    """The order in which ways are offered. 0: its condition holds. 1: it has no condition. 2: it is a default."""
    condition: Condition | UnsetType = UNSET


class Closed(NamedTuple):
    """Why a way is closed."""

    reason: str
    wants: tuple[Want, ...] = ()
    """The required values of variables; empty if they do not decide."""


class Routes(NamedTuple):
    """All ways out, best first."""

    open: tuple[Route, ...]
    closed: Mapping[str, Closed]
    """By target; ways forward first."""
    over: bool = False
    """Whether the workflow is completed for lack of a way out."""

    def to(self, target: str) -> Route | None:
        """The open way to a target, if there is one."""
        return next((route for route in self.open if route.target == target), None)


class _Entry(NamedTuple):
    target: str
    condition: Condition | UnsetType
    is_default: bool


def routes(activity: Activity, state: State, activities: Activities, defaults: Mapping[str, Any]) -> Routes:
    """The ways out of an activity, for the current variables.

    Args:
        defaults: the variables with which the workflow begins, unless others are given.
    """
    chosen = chosen_target(activity, state, activities)
    if chosen is not None:
        reason = Closed(f"the option chosen leads to '{chosen}'")
        others = {target: reason for target in activity.targets() if target != chosen and _known(target, activities)}
        return Routes((Route(chosen),), others)
    open_ways: dict[str, Route] = {}
    closed: dict[str, Closed] = {}
    order: dict[str, int] = {}
    for number, (route, shut) in enumerate(_ways(activity, state, activities, 0, {activity.id: 0})):
        order.setdefault(route.target, number)
        if shut is not None:
            closed.setdefault(route.target, shut)
        elif route.target not in open_ways or route.rank < open_ways[route.target].rank:
            open_ways[route.target] = route
    closed = {target: shut for target, shut in closed.items() if target not in open_ways}
    behind = {*state.completed_activities, activity.id}
    held = _held_back(open_ways, closed, state, defaults, behind)
    for target in held:
        del open_ways[target]
    closed |= held
    questions = [] if open_ways or held else _questions(closed, behind, lambda name: not _missing(state, name))
    if questions:
        closed.setdefault(END, _undecided(questions))
    on = sorted(closed, key=lambda target: (target in behind, order.get(target, len(order))))
    ways = tuple(sorted(open_ways.values(), key=lambda route: route.rank))
    return Routes(ways, {target: closed[target] for target in on}, over=not (open_ways or held or questions))


def chosen_target(activity: Activity, state: State, activities: Activities) -> str | None:
    """The target of the options chosen in this visit; None if they have no existing one."""
    for name, chosen in reversed(state.answers.items()):
        checkpoint = activity.checkpoint(name)
        option = None if checkpoint is None else checkpoint.option(chosen)
        target = UNSET if option is None else option.effects.transition_to
        if target is not UNSET and _known(target, activities):
            return target
    return None


def targets(activity: Activity, activities: Activities) -> list[str]:
    """All targets of an activity by definition, for any variables and answers; each once."""
    declared = (entry.target for entries in entry_lists(activity) for entry in entries)
    return [target for target in dict.fromkeys((*declared, *activity.targets())) if _known(target, activities)]


def ends(target: str, activities: Activities) -> bool:
    return target in TERMINALS and target not in activities


def _known(target: str, activities: Activities) -> bool:
    return target in activities or target in TERMINALS


def _held_back(
    open_ways: Mapping[str, Route],
    closed: Mapping[str, Closed],
    state: State,
    defaults: Mapping[str, Any],
    behind: set[str],
) -> dict[str, Closed]:
    """The ways back, or to what comes again, that would be a guess, and why they are closed."""
    been = behind.union(state.ahead)

    def reported(name: str) -> bool:
        if name.split(".")[0] in state.reported:
            return True
        return not (state.again or _missing(state, name)) and lookup(state.variables, name) != lookup(defaults, name)

    held: dict[str, Closed] = {}
    for target, route in open_ways.items():
        asks = () if route.condition is UNSET else wanted.wants(route.condition, {})
        if state.again and target in been and asks and not any(reported(want.name) for want in asks):
            held[target] = Closed(f"needs {text(route.condition)}, reported in this visit", asks)  # type: ignore[arg-type]
    questions = _questions(closed, behind, reported) + [want for shut in held.values() for want in shut.wants]
    if questions:
        shut = _undecided(questions)
        held |= {target: shut for target, route in open_ways.items() if route.rank and target in been}
    return held


def _questions(closed: Mapping[str, Closed], behind: set[str], known: Callable[[str], bool]) -> list[Want]:
    """The variables to report to open ways forward of which no variable is known."""
    ways = [shut.wants for target, shut in closed.items() if target not in behind]
    return [want for wants in ways if not any(known(one.name) for one in wants) for want in wants]


def _undecided(questions: Sequence[Want]) -> Closed:
    return Closed(f"depends on {wanted.names(questions)}, not reported yet", wanted.opposites(questions))


def _missing(state: State, name: str) -> bool:
    return lookup(state.variables, name) is UNSET


def _ways(
    activity: Activity, state: State, activities: Activities, rank: int, passed: dict[str, int]
) -> Iterator[tuple[Route, Closed | None]]:
    """Each way out, with the reason why it is closed; None if it is open.

    Args:
        rank: the rank of the way to this activity; ways from here get no better rank.
        passed: the skipped activities already followed, with the rank of the way to them. They are followed
            again only for a better rank. Otherwise there could be too many paths among skipped activities.
    """
    for entries in entry_lists(activity):
        for way, shut in _judged(entries, state):
            target = way.target
            if not _known(target, activities):
                continue
            route = way._replace(rank=max(way.rank, rank))
            if target not in state.skipped_activities or target not in activities or shut is not None:
                yield route, shut
            elif target not in passed or route.rank < passed[target]:
                passed[target] = route.rank
                yield route, Closed("it was skipped")
                yield from _ways(activities[target], state, activities, route.rank, passed)


def entry_lists(activity: Activity) -> Iterator[Sequence[_Entry]]:
    """The ways out of an activity as they are declared: its transitions, then the branches of each decision."""
    yield [_Entry(one.to, one.condition, one.is_default) for one in activity.transitions]
    for decision in activity.decisions:
        # A branch without a target ends the workflow.
        yield [_Entry(one.transition_to or END, one.condition, one.is_default) for one in decision.branches]


def _judged(entries: Sequence[_Entry], state: State) -> Iterator[tuple[Route, Closed | None]]:
    known = state.variables
    true = [entry for entry in entries if entry.condition is not UNSET and holds(entry.condition, known)]
    for entry in entries:
        route = Route(entry.target)
        if entry in true:
            yield route._replace(condition=entry.condition), None
        elif entry.is_default:
            other = true[0].condition if true else UNSET
            yield (
                route._replace(rank=2),
                None
                if other is UNSET
                else Closed(f"it is the default, and {text(other)} holds", wanted.wants(other, known, truth=False)),
            )
        elif entry.condition is UNSET:
            yield route._replace(rank=1), None
        else:
            needed = wanted.wants(entry.condition, known)
            yield route, Closed(f"needs {text(entry.condition)}", needed)
