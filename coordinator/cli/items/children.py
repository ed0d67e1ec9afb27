"""The open children of items that are to be completed: ``fleet items done`` names them and asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.items.calls import complain
from coordinator.cli.items.tables import item_line, short
from coordinator.client import Fleet, NotFound
from coordinator.wording import counted, printable

_NAMED = 10
_LOOKED = 200
_ENDED = "already terminal"


@dataclass
class Parent:
    id: str
    title: str
    children: list[dict[str, Any]]
    """The newest of the open ones."""
    count: int
    """How many are open."""


async def parents_among(fleet: Fleet, named: Sequence[str]) -> list[Parent]:
    """Those of some items that have open children which are not among these items themselves."""
    parents = []
    for name in named:
        try:
            seen = await fleet.call("query_items", {"operation": "overview", "itemId": name, "limit": _LOOKED})
        except NotFound:  # whoever completes it says so
            continue
        known = [child for child in seen["children"] if child["role"] != "terminal"]
        children = [child for child in known if not is_named(child["id"], named)]
        roles = seen["childCounts"]
        count = sum(roles.values()) - roles["terminal"] - len(known) + len(children)
        if count and seen["item"]["role"] != "terminal":
            parents.append(Parent(seen["item"]["id"], seen["item"]["title"], children, count))
    return parents


def is_named(id: str, named: Sequence[str]) -> bool:
    """Whether an item is one of those that are named, by UUIDs or digits of their beginnings."""
    return any(id.replace("-", "").startswith(name.replace("-", "").lower()) for name in named)


def asked(parents: Sequence[Parent]) -> bool:
    """Names open children, and asks whether they are completed, too; False: they are left as they are."""
    for parent in parents:
        print(f"{short(parent.id)}  {printable(parent.title)}: {_counted(parent)}", file=sys.stderr)
        for child in parent.children[:_NAMED]:
            print(f"  {item_line(child)}", file=sys.stderr)
        if parent.count > _NAMED:
            print(f"  and {parent.count - _NAMED} more", file=sys.stderr)
    if not sys.stdin.isatty():
        raise CommandFailed("complete the children, too (--with-children), or not (--alone)?", Exit.USAGE)
    print("Complete the children, too? [y]es, [a]lone, [N]othing: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip().lower()
    if answer in ("y", "yes", "a", "alone"):
        return answer.startswith("y")
    raise CommandFailed("nothing is completed", Exit.FAILED)


def _counted(parent: Parent) -> str:
    return counted(parent.count, "open child", "open children")


async def complete_below(fleet: Fleet, parent: Parent) -> tuple[list[dict[str, Any]], bool]:
    """Completes everything below an item, in the order of the dependencies, and says what was refused.

    Returns:
        the results of ``complete_tree``, and whether all that is below has ended.
    """
    results: list[dict[str, Any]] = (await fleet.call("complete_tree", {"rootId": parent.id}))["results"]
    left = [result for result in results if not result["applied"] and result.get("skippedReason") != _ENDED]
    for result in left:
        complain(result["itemId"], result.get("error") or result.get("skippedReason", "is open"))
    if left:
        complain(parent.id, f"is not completed: {counted(len(left), 'item')} below it could not be")
    return results, not left
