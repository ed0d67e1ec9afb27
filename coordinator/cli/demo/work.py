"""The tree of work that is made of a dependency graph.

    all distributions                     the root, done when every distribution is
      anyio 4.16.0                        a distribution, done when its steps are
        anyio 4.16.0: fetch               waits for nothing
        anyio 4.16.0: build               waits for its fetch and the builds of what anyio requires
        anyio 4.16.0: test                waits for its build

Agents work on steps only. An edge makes each distribution wait for its last step, which also keeps
distributions out of the answers of ``get_next_item``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from coordinator.cli.demo.graph import Graph

STEPS = ("fetch", "build", "test")
PRIORITIES = ("high", "medium", "low")
_MAX_NAMED = 20


class Item(msgspec.Struct, frozen=True):
    """One item of the tree."""

    key: str
    """Its name within the plan."""
    title: str
    summary: str
    tags: str
    priority: str
    complexity: int
    parent: str | None
    """Key of the item above."""
    blockers: tuple[str, ...]
    """Keys of the items that must be done first."""
    step: bool
    """Whether agents work on it; the others follow from their children."""


class Planned(msgspec.Struct, frozen=True):
    """What the plan says of an item that is in the fleet; other items by their ids (32 hex digits)."""

    title: str
    step: bool
    """Whether agents work on it; the others follow from their children."""
    parent: str | None
    blockers: frozenset[str]


def planned(items: Iterable[Item], ids: Mapping[str, str]) -> dict[str, Planned]:
    """The plan by the ids of its items.

    Args:
        ids: key -> id.
    """
    return {
        ids[item.key]: Planned(
            item.title,
            item.step,
            ids[item.parent] if item.parent is not None else None,
            frozenset(ids[blocker] for blocker in item.blockers),
        )
        for item in items
    }


def plan(graph: Graph, trees: int = 1) -> list[Item]:
    """The items, parents before children; ``trees`` copies of the tree, which know nothing of each other."""
    urgency = _urgency(graph)
    items: list[Item] = []
    for number in range(1, trees + 1):
        items += _tree(graph, urgency, f"t{number}", f" ({number} of {trees})" if trees > 1 else "")
    return items


def _tree(graph: Graph, urgency: dict[str, str], root: str, suffix: str) -> list[Item]:
    above = [
        Item(
            key=root,
            title=f"All of {graph.source}{suffix}"[:500],
            summary=f"{len(graph.packages)} distributions, {graph.edges} requirements among them.",
            tags="demo",
            priority="low",
            complexity=10,
            parent=None,
            blockers=tuple(f"{root}/{name}" for name in graph.packages),
            step=False,
        )
    ]
    steps: list[Item] = []
    for name, package in graph.packages.items():
        key, title = f"{root}/{name}", f"{package.name} {package.version}".strip()
        required = graph.requires[name]
        complexity = min(10, 1 + len(required))
        named = ", ".join(required[:_MAX_NAMED]) + (" ..." if len(required) > _MAX_NAMED else "")
        above.append(
            Item(
                key=key,
                title=title[:500],
                summary=f"Requires {named}." if required else "Requires nothing.",
                tags="demo,distribution",
                priority=urgency[name],
                complexity=complexity,
                parent=root,
                blockers=(f"{key}/{STEPS[-1]}",),
                step=False,
            )
        )
        waits = {
            "fetch": (),
            "build": (f"{key}/fetch", *(f"{root}/{one}/build" for one in required)),
            "test": (f"{key}/build",),
        }
        steps += (
            Item(
                key=f"{key}/{step}",
                title=f"{title}: {step}"[:500],
                summary="",
                tags=f"demo,{step}",
                priority=urgency[name],
                complexity=complexity,
                parent=key,
                blockers=waits[step],
                step=True,
            )
            for step in STEPS
        )
    return above + steps


def _urgency(graph: Graph) -> dict[str, str]:
    """Priorities: what long chains of distributions wait for comes first."""
    height = dict.fromkeys(graph.packages, 0)
    for name in reversed(_in_order(graph)):
        for required in graph.requires[name]:
            height[required] = max(height[required], height[name] + 1)
    tallest = max(height.values(), default=0) + 1
    return {name: PRIORITIES[2 - 3 * own // tallest] for name, own in height.items()}


def _in_order(graph: Graph) -> list[str]:
    """The distributions, each after all that it requires."""
    waiting = {name: len(required) for name, required in graph.requires.items()}
    dependents: dict[str, list[str]] = {name: [] for name in graph.packages}
    for name, required in graph.requires.items():
        for one in required:
            dependents[one].append(name)
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:  # grows while it is walked
        for dependent in dependents[name]:
            waiting[dependent] -= 1
            if not waiting[dependent]:
                ready.append(dependent)
    return ready
