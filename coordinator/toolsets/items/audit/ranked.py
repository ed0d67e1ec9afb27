"""The ranked index and what is derived from it, as subjects of the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from coordinator.store import keys
from coordinator.store.record_layout import CLASS_SIZE, PRIORITY_SIZE
from coordinator.toolsets.items.audit import bounds, scopes
from coordinator.toolsets.items.audit.reader import Reader
from coordinator.toolsets.items.audit.subject import ITEM, Read, Subject

_RANKED, _BENEATH = keys.ranked.suffix, keys.beneath.suffix


async def scope(reader: Reader, name: str, scope: str) -> AsyncIterator[Subject]:
    """The items of a scope; of the children of an item also the bounds."""

    def entry(item: str) -> Subject:
        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            score, values = first
            fields = {key: value for key, value in zip(scopes.PLACED, values, strict=True) if value is not False}
            if score is not False and not (fields and scope in scopes.scopes(fields)):
                yield f"lists {item}, which is not there or does not belong there"

        return Subject(name, [("ZSCORE", name, item), ("HMGET", f"{ITEM}:{item}", *scopes.PLACED)], judge)

    if scope.startswith("p") and scope != "p":
        for role in bounds.OPEN_ROLES:
            yield _bounds(scope[1:], role)
    async for item, _ in reader.members("ZSCAN", name):
        yield entry(item)


def _bounds(item: str, role: int) -> Subject:
    """The bounds of an item with children: the best ready item below it. An item put aside gets them later."""

    def first_of(family: str, band: int) -> Read:
        low, high = band * PRIORITY_SIZE, (band + 1) * PRIORITY_SIZE - 1
        return ("ZRANGEBYSCORE", family, str(low), str(high), "WITHSCORES", "LIMIT", "0", "1")

    def extra_reads(first: list[Any]) -> list[Read]:
        parent = first[0][1] or ""
        return [("ZMSCORE", f"{_BENEATH}:{parent}", *(bounds.bound_of(item, band) for band in bounds.bands(role)))]

    def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
        (score, _, aside), *firsts = first
        if score is not False and not aside:
            yield from bounds.bound_problems(role, firsts, extra[0])

    sets = (f"{_RANKED}:p{item}", f"{_BENEATH}:{item}")
    reads = [first_of(family, band) for family in sets for band in bounds.bands(role)]
    return Subject(f"{ITEM}:{item}", [("HMGET", f"{ITEM}:{item}", "w", "pa", "k"), *reads], judge, extra_reads)


async def beneath(reader: Reader, name: str, parent: str) -> AsyncIterator[Subject]:
    """The bounds of the children of an item."""

    def entry(member: str) -> Subject:
        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            score, (there, above, aside) = first
            if score is False or (there and bounds.bound_belongs(member, score, parent, above, aside)):
                return
            yield f"lists {member} at {float(score):.0f}, which is not there or does not belong there"

        return Subject(name, [("ZSCORE", name, member), ("HMGET", f"{ITEM}:{member[:32]}", "w", "pa", "k")], judge)

    async for member, _ in reader.members("ZSCAN", name):
        yield entry(member)


async def apart(reader: Reader, name: str, _: str) -> AsyncIterator[Subject]:
    """The sets of items that are not for everybody, by their best items."""

    def entry(member: str) -> Subject:
        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            score, best = first
            if score is not False and (not best or scopes.place_of(float(best[1]), best[0]) != float(score)):
                yield f"lists {member} at {score}, whose best item is {best}"

        low = (ord(member[0]) - 48) * CLASS_SIZE
        limits = (str(low), str(low + CLASS_SIZE - 1), "WITHSCORES", "LIMIT", "0", "1")
        reads: list[Read] = [("ZSCORE", name, member), ("ZRANGEBYSCORE", f"{_RANKED}:R{member[1:]} *", *limits)]
        return Subject(name, reads, judge)

    async for member, _score in reader.members("ZSCAN", name):
        yield entry(member)
