"""What the audit checks at a time: a subject, with what is to be read of it and who judges that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from coordinator.store import keys
from coordinator.toolsets.items.rules.records import state_of

ITEM = keys.item.suffix

Read = tuple[str, ...]
"""A command, the key without the project's prefix, further arguments."""


def nothing(first: list[Any]) -> list[Read]:
    """No further reads."""
    return []


class Subject(NamedTuple):
    key: str
    first: list[Read]
    judge: Callable[[list[Any], list[Any]], Iterable[str]]
    """The problems, given the replies to the first and to the further reads."""
    extra_reads: Callable[[list[Any]], list[Read]] = nothing
    """Further reads, given the replies to ``first``."""


def member(name: str, kept: Read, item: str, agent: str = "") -> Subject:
    """An index entry, for which there must be an item. (The rest is checked with the item.)"""

    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        if first[0] is not False and (first[1] is False or (agent and state_of(first[1]).holder != agent)):
            yield f"lists {item} ({kept[2]}), which is not there or does not belong there"

    return Subject(name, [kept, ("HGET", f"{ITEM}:{item}", "w")], judge)


def without(entry: str, problem: str) -> Callable[[list[Any], list[Any]], Iterator[str]]:
    """The judge of an entry (first reply) that is one too many if there is nothing for it (second reply)."""

    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        if first[0] not in (False, 0) and first[1] is False:
            yield f"lists {entry}, {problem}"

    return judge


def pairs(flat: list[str]) -> dict[str, str]:
    """Fields and values of a reply that has them in turn."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
