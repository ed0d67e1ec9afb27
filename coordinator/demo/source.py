"""Real work: the dependency graph of the Python distributions that are installed here, or a plan in a file.

the distributions installed here      the root, done when every distribution is
  anyio 4.16.0                        a distribution, done when its steps are
    anyio 4.16.0: fetch               waits for nothing
    anyio 4.16.0: build               waits for its fetch and the builds of what anyio requires
    anyio 4.16.0: test                waits for its build
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from coordinator.client import Invalid
from coordinator.client.plans.plan import Text, read
from coordinator.processes.errors import ProcessProblem

_UNLIMITED = {"maxAttempts": 0, "retryBackoffSeconds": 0}
"""Its agents crash on purpose."""
_HOLDS_BACK = ("done", "blocked", "statusLabel", "notBefore", "recurs", "requires", "assignee", "budget")
"""What keeps agents from doing an item of a plan."""


class DemoSource(NamedTuple):
    name: str
    plan: dict[str, Any]
    notes: tuple[str, ...] = ()
    """What it leaves out, and why."""

    def trees(self, count: int) -> list[dict[str, Any]]:
        """Copies of the plan, which know nothing of each other."""
        suffixes = [f" ({number} of {count})" if count > 1 else "" for number in range(1, count + 1)]
        return [_unlimited({**self.plan, "title": f"{self.plan['title']}{suffix}"}) for suffix in suffixes]


def from_file(path: str) -> DemoSource:
    """A plan in YAML or Markdown. Raises ProcessProblem: it cannot be read, or is wrong."""
    try:
        text = Text.of(Path(path))
        read(text)
    except OSError as error:
        raise ProcessProblem(f"--from {path}: {error.strerror or error}", "usage") from None
    except Invalid as error:
        raise ProcessProblem(f"--from {error.message}", "usage") from None
    plan = dict(text.mapping())
    held = [*_held_back(plan)]
    notes = (f"done all the same, whatever the plan says of {', '.join(_HOLDS_BACK)}: {', '.join(held)}",)
    return DemoSource(path, plan, notes if held else ())


def installed() -> DemoSource:
    """Everything that is installed in this environment."""
    names: dict[str, str] = {}
    declared: dict[str, list[str]] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name and (key := canonicalize_name(name)) not in names:  # the first on the path is the one that imports
            names[key], declared[key] = f"{name} {distribution.version}", distribution.requires or []
    requires, dropped = acyclic({key: _needed(key, lines, names) for key, lines in declared.items()})
    notes = [
        f"{name} and {other} require each other: left out that {name} needs the other first" for name, other in dropped
    ]
    return DemoSource("the distributions installed here", planned(names, requires), tuple(notes))


def _needed(name: str, lines: Iterable[str], known: Container[str]) -> list[str]:
    """What a distribution requires here, without its extras, as far as it is known."""
    needed = set()
    for line in lines:
        with contextlib.suppress(InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed.add(canonicalize_name(requirement.name))
    return sorted(one for one in needed if one in known and one != name)


def planned(names: Mapping[str, str], requires: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The plan: canonical names -> titles, and canonical names of what must be built before."""
    children = []
    for key, title in sorted(names.items()):
        builds = [f"{name}/build" for name in requires[key]]
        after = {"fetch": [], "build": [f"{key}/fetch", *builds], "test": [f"{key}/build"]}
        steps = [
            {"ref": f"{key}/{step}", "title": f"{title}: {step}"[:500], "tags": f"demo,{step}", "after": waits}
            for step, waits in after.items()
        ]
        children.append({"ref": key, "title": title[:500], "children": steps})
    return {"title": "The distributions installed here", "children": children}


def acyclic(requires: Mapping[str, list[str]]) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """The graph without the edges that close a cycle, and those edges."""
    kept: dict[str, list[str]] = {}
    dropped: list[tuple[str, str]] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        kept[name] = []
        for target in requires[name]:
            if target in path:
                dropped.append((name, target))
                continue
            if target not in kept:
                visit(target, (*path, target))
            kept[name].append(target)

    for name in sorted(requires):
        if name not in kept:
            visit(name, (name,))
    return kept, dropped


def _held_back(item: Mapping[str, Any] | str) -> Iterator[str]:
    """The titles of items that agents would not do, if they are as the plan says."""
    if isinstance(item, Mapping):
        if any(item.get(name) for name in _HOLDS_BACK):
            yield str(item.get("title"))
        for child in item.get("children") or ():
            yield from _held_back(child)


def _unlimited(item: Mapping[str, Any] | str) -> dict[str, Any]:
    node = {"title": item} if isinstance(item, str) else item
    free = {name: value for name, value in node.items() if name not in _HOLDS_BACK}
    return {**free, **_UNLIMITED, "children": [_unlimited(child) for child in node.get("children") or ()]}
