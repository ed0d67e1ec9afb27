"""What is planned, by the ids that the fleet has given to its items."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.client.plans.plan import Plan


class Planned(msgspec.Struct, frozen=True):
    """What the plan says of an item that is in the fleet; other items by their ids (32 hex digits)."""

    title: str
    step: bool
    """Whether agents work on it; the others follow from their children."""
    parent: str | None
    blockers: frozenset[str]


class Crash(msgspec.Struct, frozen=True):
    """An agent that stopped while it held a claim."""

    agent: str
    item: str
    """32 hex digits."""
    fence: int


def planned(plan: Plan, ids: Mapping[str, str]) -> dict[str, Planned]:
    """The plan by the ids of its items; ``ids`` are those by ref, dashed or not."""
    plain = {ref: item.replace("-", "") for ref, item in ids.items()}
    above = {child.ref: node.ref for node in plan.root.all() for child in node.children}
    blockers: dict[str, set[str]] = {ref: set() for ref in plain}
    for before, ref in plan.edges:
        blockers[ref].add(plain[before])
    return {
        plain[node.ref]: Planned(
            str(node.fields["title"]),
            not node.children,
            plain[above[node.ref]] if node.ref in above else None,
            frozenset(blockers[node.ref]),
        )
        for node in plan.root.all()
    }
