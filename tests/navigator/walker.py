"""An agent that does all that it is offered: every step, every checkpoint, every activity once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from coordinator.definitions import TERMINALS

Json = dict[str, Any]
Ask = Callable[..., Awaitable[Any]]
"""Calls a tool by name with its arguments."""

WALKS: dict[tuple[str, str], tuple[int, int, Json]] = {
    ("change", "1.0.0"): (6, 26, {"checks_passed": True, "findings": 9}),
    ("hotfix", "1.0.0"): (4, 13, {"checks_passed": True}),
    ("work-package", "2.1.0"): (12, 90, {"validation_passed": True}),
    ("work-packages", "2.1.0"): (7, 44, {}),
}
"""Workflow and version -> activities and actions of a full walk, and the variables that let it reach all of them."""


class Walked(NamedTuple):
    """What a walk came to."""

    activities: list[str]
    actions: int
    last: Json


async def walk(ask: Ask, workflow: str, variables: Json, choose: Callable[[Json], str]) -> Walked:
    """Walks until nothing new is offered.

    Args:
        choose: the option of a checkpoint's definition to take.
    """
    now = await ask("nav_start", workflow_id=workflow, initial_variables=variables)
    visited = [now["position"]["activity"]["id"]]
    for number in range(1000):
        offers = [*now["availableActions"]["required"], *now["availableActions"]["optional"]]
        todo = [one for one in offers if one["action"] in ("complete_step", "respond_to_checkpoint")]
        ways = [one for one in offers if one["action"] == "transition" and one["activity"] not in visited]
        ways.sort(key=lambda one: one["activity"] in TERMINALS)
        if not todo and not ways:
            return Walked(visited, number, now)
        offer = (todo or ways)[0]
        arguments: Json = {"state": now["state"], "action": offer["action"]}
        if offer["action"] == "complete_step":
            arguments["step_id"] = offer["step"]
        elif offer["action"] == "transition":
            arguments["activity_id"] = offer["activity"]
            if offer["activity"] not in TERMINALS:
                visited.append(offer["activity"])
        else:
            checkpoint = await ask(
                "get_checkpoint",
                workflow_id=workflow,
                activity_id=now["position"]["activity"]["id"],
                checkpoint_id=offer["checkpoint"],
            )
            arguments |= {"checkpoint_id": offer["checkpoint"], "option_id": choose(checkpoint)}
        now = await ask("nav_action", **arguments)
        assert now["success"], now["message"]
        assert now["position"]["activity"]["id"] == visited[-1]
    raise AssertionError("the walk does not end")


def first(checkpoint: Json) -> str:
    """The first option."""
    return str(checkpoint["options"][0]["id"])


def onward(checkpoint: Json) -> str:
    """The first option that leads nowhere by itself and skips nothing, else the first."""
    for option in checkpoint["options"]:
        effect = option.get("effect", {})
        if "transitionTo" not in effect and "skipActivities" not in effect:
            return str(option["id"])
    return first(checkpoint)
