"""Indexes of items and of waiting calls, as subjects of the audit: what they list must be there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from coordinator.store import keys
from coordinator.toolsets.items.audit.reader import Reader
from coordinator.toolsets.items.audit.subject import ITEM, Read, Subject, member, without


async def listed(reader: Reader, name: str, _: str) -> AsyncIterator[Subject]:
    """A sorted set of items."""
    async for item, _score in reader.members("ZSCAN", name):
        yield member(name, ("ZSCORE", name, item), item)


async def bucket(reader: Reader, name: str, prefix: str) -> AsyncIterator[Subject]:
    """Items whose ids begin alike."""
    async for rest, _ in reader.members("ZSCAN", name):
        yield member(name, ("ZSCORE", name, rest), prefix + rest)


async def spent(reader: Reader, name: str, _: str) -> AsyncIterator[Subject]:
    """Open items whose budget is spent."""
    async for item in reader.members_of_set(name):
        reads: list[Read] = [("SISMEMBER", name, item), ("HGET", f"{ITEM}:{item}", "bx")]
        yield Subject(name, reads, without(item, "whose budget is not spent"))


def answered(name: str, kind: str) -> Subject:
    """The history of what people were asked, which is bounded."""

    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        if first[0] > keys.MOST_ANSWERED:
            yield f"has {first[0]} answers, of which at most {keys.MOST_ANSWERED} are to be kept"

    return Subject(name, [("XLEN", name)], judge)


def queue(name: str, selector: str) -> Subject:
    """The queue of one selector's parked claims must be listed in ``waiting``. (It may be there for longer.)"""

    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        if first[0] and first[1] is False:
            yield "is not among those that wait"

    return Subject(name, [("EXISTS", name), ("ZSCORE", keys.waiting.suffix, selector)], judge)
