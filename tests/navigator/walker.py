"""An agent that knows only the last answer: it performs required actions and reports wanted variables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coordinator.definitions import Definitions
from tests.support.workflows import roots

Json = dict[str, Any]
Ask = Callable[..., Awaitable[Any]]
"""Calls a tool by name with its arguments."""
Choose = Callable[[Sequence[Json]], Json]
"""Chooses an option of a checkpoint."""

ITEMS = ("first", "second")
"""The items of every loop."""
MOST = 5_000
"""Actions after which a walk counts as endless."""
OTHERS: Json = {"<": -1, "<=": 0, ">": 1, ">=": 0}
"""Comparison -> the difference to a number that satisfies it."""


class Walked(NamedTuple):
    """The record of a walk."""

    places: list[tuple[str, str]]
    """Workflow and activity at each change."""
    calls: int
    last: Json
    largest: int
    """Characters of the largest state."""
    answers: int
    """Characters of all answers, as JSON without spaces."""


def first(options: Sequence[Json]) -> Json:
    """The first option."""
    return options[0]


@cache
def of_root(root: Path) -> Definitions:
    """The definitions of a set. Read once: that takes longer than a walk."""
    return Definitions([root], poll_seconds=0, quiet=True)


def starts() -> list[tuple[Path, str]]:
    """Each workflow of each set that begins by itself."""
    return [
        (root, name)
        for root in roots()
        for name, workflow in of_root(root).current.workflows.items()
        if workflow.initial_activity
    ]


async def walk(ask: Ask, workflow: str, choose: Choose = first) -> Walked:
    """Walks until an answer says that the workflow is completed."""
    now = await ask("nav_start", workflow_id=workflow)
    places: list[tuple[str, str]] = []
    largest = total = 0
    for number in range(1, MOST):
        place = (now["position"]["workflow"], now["position"]["activity"]["id"])
        if places[-1:] != [place]:
            places.append(place)
        largest = max(largest, len(now["state"]))
        total += len(msgspec.json.encode(now))
        if now.get("completed"):
            assert f"Workflow '{workflow}' is completed" in now["message"]
            return Walked(places, number, now, largest, total)
        tool, arguments = next_call(now, choose)
        now = await ask(tool, **arguments)
        assert now["success"], now["message"]
    raise AssertionError(f"the walk does not end: {places[-20:]}")


def next_call(now: Json, choose: Choose = first) -> tuple[str, Json]:
    """The tool to call after an answer, with its arguments."""
    offers = now["availableActions"]
    waiting = [one for one in offers["blocked"] if "variables" in one]
    assert offers["required"] or waiting, f"nothing to do: {now['message']} {offers}"
    offer = [*offers["required"], *waiting][0]
    arguments: Json = {"state": now["state"]}
    reported = {one["name"]: wanted_value(one) for one in offer.get("variables", ())}
    if not offers["required"]:
        return "nav_action", arguments | {"action": "report", "variables": reported}
    if offer["action"] == "nav_start":
        return "nav_start", arguments | {"workflow_id": offer["workflow"]}
    if reported:
        arguments["variables"] = reported
    names = {"step": "step_id", "checkpoint": "checkpoint_id", "activity": "activity_id", "loop": "loop_id"}
    arguments |= {names[key]: offer[key] for key in names if key in offer}
    if offer["action"] == "respond_to_checkpoint":
        assert now["checkpoint"]["id"] == offer["checkpoint"]
        arguments["option_id"] = choose(now["checkpoint"]["options"])["id"]
    if "loopItems" in offer:
        arguments["loop_items"] = list(ITEMS)
    return "nav_action", arguments | {"action": offer["action"]}


def wanted_value(variable: Json) -> Any:
    """A value that satisfies a wanted one."""
    operator, wanted = variable.get("operator", "=="), variable.get("wanted", "something")
    if operator == "==":
        return wanted
    if operator == "!=":
        return f"not {wanted}" if isinstance(wanted, str) else None
    return wanted + OTHERS[operator]
