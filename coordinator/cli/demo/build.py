"""Puts a plan into a fleet: items and dependencies through the tools that every orchestrator has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from coordinator.cli.demo.calls import Caller, Refused
from coordinator.cli.demo.work import Item, Planned, planned
from coordinator.toolsets.items.rules.dependencies import MAX_EDGES

_ITEMS = 200
_ACTOR = {"id": "fleet-demo", "kind": "orchestrator"}

T = TypeVar("T")


async def build(caller: Caller, items: Sequence[Item]) -> dict[str, Planned]:
    """Creates the items and what they wait for.

    Returns:
        Item id (32 hex digits) -> what was planned.

    Raises:
        Refused: the fleet refuses some of it.
        Retryable: the fleet does not answer.
    """
    ids: dict[str, str] = {}
    for batch in _levels(items):
        for some in _slices(batch, _ITEMS):
            answer = await caller.call(
                "manage_items", _signed(operation="create", items=[_spec(item, ids) for item in some])
            )
            if answer["failed"]:
                raise Refused(f"manage_items refused {answer['failed']} items: {answer['failures'][0]['error']}")
            ids |= {item.key: made["id"] for item, made in zip(some, answer["items"], strict=True)}
    # By what is blocked, blockers first in each: the order in which the plan lists them.
    edges = [
        {"fromItemId": ids[blocker], "toItemId": ids[item.key], "type": "BLOCKS"}
        for item in items
        for blocker in item.blockers
    ]
    for part in _slices(edges, MAX_EDGES):
        answer = await caller.call("manage_dependencies", _signed(operation="create", dependencies=part))
        if answer["created"] != len(part):
            raise Refused(f"manage_dependencies refused: {answer['failures'][0]['error']}")
    return planned(items, {key: item_id.replace("-", "") for key, item_id in ids.items()})


def _spec(item: Item, ids: dict[str, str]) -> dict[str, Any]:
    spec = {
        "title": item.title,
        "maxAttempts": 0,  # its agents crash on purpose
        "retryBackoffSeconds": 0,
        "summary": item.summary,
        "tags": item.tags,
        "priority": item.priority,
        "complexity": item.complexity,
    }
    return spec if item.parent is None else {**spec, "parentId": ids[item.parent]}


def _levels(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items by depth: a parent's id is needed to create a child."""
    depth: dict[str, int] = {}
    levels: list[list[Item]] = []
    for item in items:
        own = depth[item.key] = 0 if item.parent is None else depth[item.parent] + 1
        if own == len(levels):
            levels.append([])
        levels[own].append(item)
    yield from levels


def _slices(things: Sequence[T], size: int) -> Iterator[list[T]]:
    left = iter(things)
    while part := list(islice(left, size)):
        yield part


def _signed(**arguments: Any) -> dict[str, Any]:
    return {"actor": _ACTOR, "requestId": str(uuid.uuid4()), **arguments}
