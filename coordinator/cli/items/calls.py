"""Calls that several commands of items make."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

from coordinator.cli.exits import Exit
from coordinator.cli.items.tables import short
from coordinator.cli.refusals import as_typed
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet
from coordinator.wording import printable

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BATCH = 100
PAGE = 200


async def full_id(fleet: Fleet, id: str) -> str:
    """The UUID of an item: notes and dependencies take no prefixes."""
    if _UUID.fullmatch(id):
        return id
    item = await fleet.call("query_items", {"operation": "get", "id": id})
    return str(item["id"])


async def advance(
    fleet: Fleet,
    ids: Sequence[str],
    transition: dict[str, Any],
    json: bool,
    done: str,
    below: Sequence[dict[str, Any]] = (),
) -> int:
    """Moves items, each on its own, and prints what became of them.

    Args:
        transition: trigger and whatever goes with it, the same for all.
        done: what a line says of an item that was moved: ``done``.
        below: what has become of items below them before, as ``complete_tree`` answers.

    Returns:
        the exit code: not 0 if one was refused.
    """
    results: list[dict[str, Any]] = []
    for begin in range(0, len(ids), _BATCH):
        moves = [{"itemId": id_, **transition} for id_ in ids[begin : begin + _BATCH]]
        results += (await fleet.call("advance_item", {"transitions": moves}))["results"]
    if json:
        print_json({"results": results, **({"below": below} if below else {})})
    for result in below if not json else ():
        if result["applied"]:
            print(f"{short(result['itemId'])}  {done}: {printable(result['title'])}")
    for result in results if not json else ():
        if result["applied"]:
            label = f" ({printable(result['statusLabel'])})" if result.get("statusLabel") else ""
            print(f"{short(result['itemId'])}  {done}: {result['previousRole']} -> {result['newRole']}{label}")
            _follow(result)
        else:
            complain(result["itemId"], result["error"])
    return Exit.OK if all(result["applied"] for result in results) else Exit.FAILED


def _follow(result: dict[str, Any]) -> None:
    """Prints what followed from a transition."""
    for parent in result.get("cascadeEvents", ()):
        if parent["applied"]:
            print(f"{short(parent['itemId'])}  followed: {parent['previousRole']} -> {parent['targetRole']}")
        else:
            complain(parent["itemId"], parent.get("error", "did not follow"))
    for item in result.get("unblockedItems", ()):
        print(f"{short(item['itemId'])}  waits for nothing now: {printable(item['title'])}")


def complain(id: str, error: str) -> None:
    """Says on stderr why an item of several was refused."""
    print(f"fleet: {printable(id)}: {printable(as_typed(error))}", file=sys.stderr)


async def pages(fleet: Fleet, search: dict[str, Any], most: int) -> AsyncIterator[dict[str, Any]]:
    """The items that a search finds, page by page, at most so many."""
    offset = 0
    while offset < most:
        page = {**search, "operation": "search", "limit": min(PAGE, most - offset), "offset": offset}
        answer = await fleet.call("query_items", page)
        yield answer
        offset += answer["returned"]
        if not answer["returned"] or offset >= answer["total"]:
            return
