"""Recomputes what items demand of resources and what claims hold of them."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.settings.sections.resources import paths
from coordinator.toolsets.items.rules.resources import shown, stored


def lacking(held: str, demanded: str) -> str:
    """Which demands (as stored) a claim does not hold, in the same form; '' for none. What it holds exclusively, it may
    share."""
    units: dict[str, int] = {}
    for demand in shown(held):
        units[demand.key] = units.get(demand.key, 0) + (demand.units if demand.mode == "exclusive" else 0)
    return stored(
        demand
        for demand in shown(demanded)
        if demand.key not in units or (demand.mode == "exclusive" and units[demand.key] < demand.units)
    )


Numbers = tuple[int, int, int, int]
"""What is demanded or held at a node: exclusive units at it, shared at it, exclusive below it, shared below it."""


def at_nodes(text: str) -> dict[str, Numbers]:
    """What demands (as stored) are at each node, that is each key and each of its ancestors."""
    found: dict[str, list[int]] = {}
    for demand in shown(text):
        for path in paths(demand.key):
            place = (demand.mode == "shared") + 2 * (path != demand.key)
            found.setdefault(path, [0, 0, 0, 0])[place] += demand.units
    return {path: (numbers[0], numbers[1], numbers[2], numbers[3]) for path, numbers in found.items()}


def held_by(texts: Iterable[str]) -> dict[str, str]:
    """What is held at each node, as ``held_text`` shows it."""
    total: dict[str, list[int]] = {}
    for text in texts:
        for path, numbers in at_nodes(text).items():
            held = total.setdefault(path, [0, 0, 0, 0])
            total[path] = [one + other for one, other in zip(held, numbers, strict=True)]
    return {path: ".".join(map(str, numbers)) for path, numbers in total.items()}


def held_text(stored: bytes) -> str:
    """What is held at a node, four numbers separated by dots, from what ``lua/resources/resources.lua`` stores."""
    return ".".join(str(int.from_bytes(stored[at : at + 6])) for at in range(0, 24, 6))


def demanded_text(stored: bytes) -> str:
    """How many items demand a node, from what ``lua/resources/demands.lua`` stores."""
    return str(int.from_bytes(stored))


def demanded_by(texts: Iterable[str]) -> dict[str, int]:
    """How many items with these demands there are per node, as ``lua/resources/demands.lua`` counts them."""
    total: dict[str, int] = {}
    for text in texts:
        for path, numbers in at_nodes(text).items():
            total[path] = total.get(path, 0) + 1 + (2**24 if numbers[0] + numbers[1] else 0)
    return total
