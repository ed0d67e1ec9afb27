"""A flow as an outline for people: one step per line, alternatives and branches indented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from coordinator.toolsets.flows.rules.spec import START, Flow, Step


@dataclass(slots=True)
class Line:
    """A step, and the lines indented below it. The step's successor is the next line."""

    key: str
    again: bool = False
    """Whether this only refers to a step that is drawn elsewhere."""
    ways: list[tuple[str, list[Line]]] = field(default_factory=list)
    """For a choice: each condition with its lines. For a fork: the lines of each branch, with an empty condition."""


def outline(flow: Flow) -> list[Line]:
    """The lines of a checked flow. Each step is drawn exactly once, not counting references."""
    return _Outline(flow).sequence(START, frozenset())


class _Outline:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        after = {key: set(_followers(flow, key, step)) for key, step in flow.items()}
        order = TopologicalSorter(after).static_order()
        self._reach: dict[str, set[str]] = {}
        self._rank: dict[str, int] = {}
        for rank, key in enumerate(order):
            # The order begins with the last steps, so ranks are negated.
            self._rank[key] = -rank
            self._reach[key] = {key}.union(*(self._reach[one] for one in after[key]))
        self._drawn: set[str] = set()

    def sequence(self, key: str, until: frozenset[str]) -> list[Line]:
        """The lines from a step on, up to the first step in ``until`` (those are drawn further out)."""
        lines: list[Line] = []
        at: str | None = key
        while at is not None and at not in until:
            if at in self._drawn:
                return [*lines, Line(at, again=True)]
            self._drawn.add(at)
            step = self._flow[at]
            line = Line(at)
            lines.append(line)
            at = step.next
            if step.parallel:
                at = _join_of(self._flow, line.key)
                line.ways = [("", self.sequence(branch, _and(until, at))) for branch in step.parallel]
            elif step.branch:
                at = self._meeting({arm.then for arm in step.branch})
                line.ways = [(arm.condition, self.sequence(arm.then, _and(until, at))) for arm in step.branch]
        return lines

    def _meeting(self, keys: set[str]) -> str | None:
        """The first step at which alternatives come together again, if they do."""
        common = set.intersection(*(self._reach[key] for key in keys))
        return min(common, key=self._rank.__getitem__, default=None)


def _followers(flow: Flow, key: str, step: Step) -> tuple[str, ...]:
    # A fork counts as leading to its join, so that steps after the join are not drawn inside a branch.
    join = _join_of(flow, key) if step.parallel else None
    return (*step.targets, join) if join is not None else step.targets


def _join_of(flow: Mapping[str, Step], fork: str) -> str | None:
    return next((step.join for step in flow.values() if step.fork == fork), None)


def _and(until: frozenset[str], key: str | None) -> frozenset[str]:
    return until if key is None else until | {key}
