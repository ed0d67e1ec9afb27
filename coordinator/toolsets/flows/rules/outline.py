"""A flow as an outline, which is how people read it: steps one below the other, alternatives and branches indented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from coordinator.toolsets.flows.rules.spec import START, Flow, Step


@dataclass(slots=True)
class Line:
    """A step, and what stands indented below it; what follows it is the next line."""

    key: str
    again: bool = False
    """Only refers to a step that stands elsewhere."""
    ways: list[tuple[str, list[Line]]] = field(default_factory=list)
    """Of a choice: its conditions and what follows each. Of a fork: its branches, with no condition."""


def outline(flow: Flow) -> list[Line]:
    """The lines of a checked flow; each step stands in it exactly once, not counting references."""
    return _Outline(flow).sequence(START, frozenset())


class _Outline:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        after = {key: set(_followers(flow, key, step)) for key, step in flow.items()}
        order = TopologicalSorter(after).static_order()
        self._reach: dict[str, set[str]] = {}
        self._rank: dict[str, int] = {}
        for rank, key in enumerate(order):
            # Those that follow come first here.
            self._rank[key] = -rank
            self._reach[key] = {key}.union(*(self._reach[one] for one in after[key]))
        self._drawn: set[str] = set()

    def sequence(self, key: str, until: frozenset[str]) -> list[Line]:
        """The lines from a step on, as far as those that stand further out."""
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
        """Where alternatives come together again, if they do."""
        common = set.intersection(*(self._reach[key] for key in keys))
        return min(common, key=self._rank.__getitem__, default=None)


def _followers(flow: Flow, key: str, step: Step) -> tuple[str, ...]:
    # A fork leads to its join too, so that nothing behind it is taken for a part of a branch.
    join = _join_of(flow, key) if step.parallel else None
    return (*step.targets, join) if join is not None else step.targets


def _join_of(flow: Mapping[str, Step], fork: str) -> str | None:
    return next((step.join for step in flow.values() if step.fork == fork), None)


def _and(until: frozenset[str], key: str | None) -> frozenset[str]:
    return until if key is None else until | {key}
