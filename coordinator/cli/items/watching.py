"""``fleet items watch``."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.connection import HERE, Connection
from coordinator.cli.exits import Exit
from coordinator.cli.items.arguments import Id, item
from coordinator.cli.items.tables import paint, short
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet
from coordinator.wording import printable

_WAIT_MS = 45_000
_MOST_SECONDS = 30 * 86_400

Until = Literal["terminal", "tree", "unblocked", "changed"]


def watch(
    id: Id = ".",
    *,
    until: Annotated[
        Until | None,
        Parameter(
            help="End when it is terminal, all below it is (tree), it waits for nothing, or it has changed. Default: "
            "print each change until it is terminal."
        ),
    ] = None,
    note: Annotated[str | None, Parameter(help="End when this note is filled.")] = None,
    timeout: Annotated[float, Parameter(help="End after so many seconds, with code 1; 0: never. [0 to 2592000]")] = 0,
    json: Annotated[bool, Parameter(help="Print each answer as JSON, one a line.")] = False,
    at: Connection = HERE,
) -> int:
    check_range("--timeout", timeout, 0, _MOST_SECONDS)
    condition = f"note:{note}" if note is not None else "tree_terminal" if until == "tree" else until

    async def follow(fleet: Fleet) -> int:
        try:
            async with asyncio.timeout(timeout or None):
                await _follow(fleet, item(id), condition, json)
        except TimeoutError:
            print(f"fleet: not yet, after {timeout:g} s", file=sys.stderr)
            return Exit.FAILED
        return Exit.OK

    return at.run(follow)


async def _follow(fleet: Fleet, id: str, condition: str | None, json: bool) -> None:
    """Prints what the item is until the condition is met; without one, whenever it changes, until it is terminal."""
    wait: dict[str, Any] = {"itemId": id, "waitFor": condition or "changed"}
    if condition is None:
        first = await fleet.call("get_context", {**wait, "waitMs": 0})
        wait["after"] = first["waited"]["after"]
        _print(first, json)
        if first["item"]["role"] == "terminal":
            return
    while True:
        answer = await fleet.call("get_context", {**wait, "waitMs": _WAIT_MS})
        waited = answer["waited"]
        if waited["met"]:
            _print(answer, json)
        if condition is None:
            if answer["item"]["role"] == "terminal":
                return
            wait["after"] = waited["after"]
        elif waited["met"]:
            return


def _print(context: dict[str, Any], json: bool) -> None:
    if json:
        print_json(context, indent=-1)
    else:
        item = context["item"]
        words = [short(item["id"]), paint(f"{item['role']:<8}", item["role"])]
        claim = context.get("claimDetail")
        if claim and not claim["isExpired"]:
            words.append(f"held by {printable(claim['claimedBy'])}")
        if counts := context["waited"].get("counts"):
            words.append(", ".join(f"{count} {role}" for role, count in counts.items() if count))
        print("  ".join([*words, printable(item["title"])]))
    sys.stdout.flush()
