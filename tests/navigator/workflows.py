"""Definitions of workflows with the activities, questions and triggers that tests need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.definitions import toon
from tests.navigator.client import Client, Json
from tests.support.workflows import Tree

Make = Callable[[], Client]


def step(identity: str, **more: Any) -> Json:
    return {"id": identity, "name": identity.title(), **more}


def question(identity: str, *options: Json, **more: Any) -> Json:
    given = options or ({"id": "yes", "label": "Yes"},)
    return {"id": identity, "name": identity.title(), "message": f"{identity}?", "options": list(given), **more}


def when(variable: str, value: Any = True, operator: str = "==") -> Json:
    return {"type": "simple", "variable": variable, "operator": operator, "value": value}


def loop(identity: str, *steps: str, kind: str = "forEach", **more: Any) -> Json:
    return {"id": identity, "name": identity.title(), "type": kind, "steps": [step(one) for one in steps], **more}


def write(tree: Tree, *activities: Json, **more: Any) -> None:
    """The workflow ``w``; the first activity begins it."""
    tree.write(
        "w.toon",
        toon.write(
            {
                "id": "w",
                "version": "1.0.0",
                "title": "W",
                "initialActivity": activities[0]["id"],
                "activities": [{"version": "1.0.0", "name": one["id"].title(), **one} for one in activities],
                **more,
            }
        ),
    )


def other(tree: Tree, name: str, *activities: Json, **more: Any) -> None:
    """Another workflow; by default with a single step."""
    given = activities or ({"id": "run", "steps": [step("do")]},)
    document = {
        "id": name,
        "version": "1.0.0",
        "title": name.upper(),
        "initialActivity": given[0]["id"],
        "activities": [{"version": "1.0.0", "name": one["id"].title(), **one} for one in given],
        **more,
    }
    tree.write(f"{name}.toon", toon.write(document))


def trigger(workflow: str, *passed: str, **more: Any) -> Json:
    return {"workflow": workflow, **({"passContext": list(passed)} if passed else {}), **more}


async def run(nav: Client, situation: Json, workflow: str, **variables: Any) -> Json:
    """nav_start within a walk."""
    more = {"initial_variables": variables} if variables else {}
    answer: Json = await nav("nav_start", workflow_id=workflow, state=situation["state"], **more)
    return answer
