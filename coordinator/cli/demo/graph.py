"""Real dependency graphs of Python distributions, as something to work on.

Two sources: what is installed in this environment, and a file (a lock or requirements file,
or ``pyproject.toml``). Edges come from what distributions declare, with markers evaluated for
this interpreter and extras as their dependents ask for them. Nothing is made up: where the
requirements of a distribution cannot be known it has none, and ``notes`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata

import msgspec
from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


class Package(msgspec.Struct, frozen=True):
    """One distribution."""

    name: str
    """As its authors write it."""
    version: str
    """Empty where it is not known."""


class Graph(msgspec.Struct, frozen=True):
    """Distributions and what each requires; free of cycles."""

    source: str
    """Where it comes from, for people."""
    packages: dict[str, Package]
    """By canonical name, in that order."""
    requires: dict[str, tuple[str, ...]]
    """Canonical name -> canonical names that must come first, in order."""
    notes: tuple[str, ...] = ()
    """What the graph leaves out, and why."""

    @property
    def edges(self) -> int:
        """How many requirements there are."""
        return sum(map(len, self.requires.values()))


class Declared(msgspec.Struct):
    """A distribution and what it declares, markers and extras unresolved."""

    package: Package
    requirements: list[Requirement]


def installed_distributions() -> tuple[dict[str, Declared], list[str]]:
    """What is installed here, by canonical name, and complaints about what cannot be read."""
    found: dict[str, Declared] = {}
    notes: list[str] = []
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if not name:
            continue
        key = canonicalize_name(name)
        if key in found:  # the first on the path is the one that imports
            continue
        requirements = []
        for line in distribution.requires or ():
            try:
                requirements.append(Requirement(line))
            except InvalidRequirement:
                notes.append(f"{name} declares a requirement that cannot be read: {line}")
        found[key] = Declared(Package(name, distribution.version), requirements)
    return found, notes


def installed() -> Graph:
    """The graph of everything installed in this environment."""
    declared, notes = installed_distributions()
    return assemble("the distributions installed here", declared, resolve(declared), notes)


def assemble(
    source: str, declared: Mapping[str, Declared], requires: Mapping[str, Iterable[str]], notes: Iterable[str]
) -> Graph:
    """A graph of all of ``declared`` in a fixed order, with cycles broken and told of."""
    ordered = {name: tuple(sorted(requires.get(name, ()))) for name in sorted(declared)}
    acyclic, dropped = break_cycles(ordered)
    told = [f"{one} and {other} require each other: left out that {one} needs {other} first" for one, other in dropped]
    return Graph(source, {name: declared[name].package for name in ordered}, acyclic, (*notes, *told))


def resolve(declared: Mapping[str, Declared], extras: Mapping[str, Iterable[str]] | None = None) -> dict[str, set[str]]:
    """Which of ``declared`` each one requires.

    An extra of a distribution counts once somebody who counts asks for it, so this goes on
    until nothing new is asked for.

    Args:
        extras: canonical name -> extras that are asked for from outside.
    """
    asked = {name: {"", *(extras or {}).get(name, ())} for name in declared}
    requires: dict[str, set[str]] = {name: set() for name in declared}
    todo = list(declared)
    while todo:
        name = todo.pop()
        for requirement in active(declared[name].requirements, asked[name]):
            target = canonicalize_name(requirement.name)
            if target not in declared:
                continue
            if target != name:
                requires[name].add(target)
            if not requirement.extras <= asked[target]:
                asked[target] |= requirement.extras
                todo.append(target)
    return requires


def active(requirements: Iterable[Requirement], extras: Iterable[str]) -> Iterator[Requirement]:
    """The requirements that apply to this interpreter with any of ``extras`` ('' means no extra)."""
    wanted = list(extras)
    for requirement in requirements:
        if requirement.marker is None or any(holds(requirement.marker, extra) for extra in wanted):
            yield requirement


def holds(marker: Marker, extra: str = "") -> bool:
    """Whether a marker is true here. A marker that cannot be evaluated is not."""
    try:
        return marker.evaluate({"extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName):
        return False


def break_cycles(
    requires: Mapping[str, tuple[str, ...]],
) -> tuple[dict[str, tuple[str, ...]], list[tuple[str, str]]]:
    """The graph without the edges that close a cycle, and those edges.

    They are the back edges of a depth-first walk in the mapping's order, so the same graph
    always loses the same ones.
    """
    dropped: list[tuple[str, str]] = []
    finished: set[str] = set()
    for start in requires:
        if start in finished:
            continue
        path = {start}
        stack = [(start, iter(requires[start]))]
        while stack:
            name, rest = stack[-1]
            for target in rest:
                if target in path:
                    dropped.append((name, target))
                elif target not in finished:
                    path.add(target)
                    stack.append((target, iter(requires[target])))
                    break
            else:
                stack.pop()
                path.discard(name)
                finished.add(name)
    gone = set(dropped)
    kept = {name: tuple(one for one in targets if (name, one) not in gone) for name, targets in requires.items()}
    return kept, dropped
