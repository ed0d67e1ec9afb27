"""Dependencies as subjects of the audit: edges at both ends, levels, and counts of blockers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from coordinator.store import keys
from coordinator.toolsets.items.audit.notes import owned
from coordinator.toolsets.items.audit.reader import Reader
from coordinator.toolsets.items.audit.subject import ITEM, Read, Subject, pairs
from coordinator.toolsets.items.audit.tally import Tally
from coordinator.toolsets.items.rules.classes import BLOCKED, TERMINAL
from coordinator.toolsets.items.rules.records import Fields, parsed

_EDGES = keys.edges.suffix


class HeldEdge(NamedTuple):
    """One edge as stored with the item at one end, its holder."""

    code: str
    """BLOCKS: B, b. IS_BLOCKED_BY: I, i. RELATES_TO: R, r. A capital at the end that the edge was created from."""
    other: str
    dependency: str
    threshold: int

    @property
    def waits(self) -> bool:
        """Whether the holder waits for the other item."""
        return self.code in "bI"

    @property
    def mirrored(self) -> str:
        """The code at the other end."""
        return self.code.swapcase()


def _edge(field: str, value: str) -> HeldEdge:
    """The edge in one field of an item's edge hash."""
    mark = value[32:]
    return HeldEdge(field[:1], field[1:], value[:32], TERMINAL if mark == "-" else int(mark))


def edges_of(flat: list[str]) -> list[HeldEdge]:
    """The edges of an item, from the fields and values of its edge hash."""
    return [_edge(field, value) for field, value in pairs(flat).items()]


def _satisfied(role: int, threshold: int) -> bool:
    """Whether a blocker in this role no longer blocks; one in role blocked always does."""
    return role != BLOCKED and role >= threshold


async def edges(tally: Tally, reader: Reader, name: str, item: str) -> AsyncIterator[Subject]:
    """The edges of an item. Adds those that were created from it to the tally."""
    yield owned(name, item)
    async for field, _ in reader.members("HSCAN", name):
        yield _edge_subject(tally, name, item, field)


def _edge_subject(tally: Tally, name: str, item: str, field: str) -> Subject:
    def extra_reads(first: list[Any]) -> list[Read]:
        if first[0] is False:
            return []
        edge = _edge(field, first[0])
        return [
            ("HMGET", f"{ITEM}:{item}", "w", "lv"),
            ("HMGET", f"{ITEM}:{edge.other}", "w", "lv"),
            ("HGET", f"{_EDGES}:{edge.other}", edge.mirrored + item),
            ("GET", f"{keys.dependency.suffix}:{edge.dependency}"),
        ]

    def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
        if first[0] is False:
            return
        tally.edges += field[0].isupper()
        yield from _edge_problems(item, _edge(field, first[0]), first[0], *extra)

    return Subject(name, [("HGET", name, field)], judge, extra_reads)


def subject(name: str, dependency: str) -> Subject:
    """A dependency by its id."""

    def extra_reads(first: list[Any]) -> list[Read]:
        ends = first[0] or ""
        return [("HGET", f"{_EDGES}:{ends[1:33]}", ends[:1] + ends[33:])] if ends else []

    def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
        if first[0] and not (extra[0] or "").startswith(dependency):
            yield f"names an edge {first[0]} that is not there"

    return Subject(name, [("GET", name)], judge, extra_reads)


def blocker_problems(fields: Fields, waits_for: Iterable[tuple[HeldEdge, str | bool]]) -> Iterator[str]:
    """Compares ``nb`` with the number of unsatisfied blockers: (edge, the blocker's record; False: missing)."""
    unsatisfied = sum(
        isinstance(record, str) and not _satisfied(parsed(record).role, found.threshold) for found, record in waits_for
    )
    if int(fields.get("nb", "0")) != unsatisfied:
        yield f"counts {fields.get('nb', '0')} unsatisfied blockers, but has {unsatisfied}"


def _edge_problems(
    item: str, found: HeldEdge, value: str, here: Sequence[str | bool], there: Sequence[str | bool],
    mirrored: str | bool, dependency: str | bool,
) -> Iterator[str]:  # fmt: skip
    """Compares an edge with its other end.

    Args:
        value: the stored value of the edge.
        here, there: record and level of the holder and of the other item.
        mirrored: the value of the edge as stored with the other item; False: missing.
        dependency: the ends that the dependency's id leads to; False: missing.
    """
    field = found.code + found.other
    if here[0] is False or there[0] is False:
        yield f"has an edge {field} from or to an item that does not exist"
        return
    if mirrored != value:
        yield f"has an edge {field} that is {mirrored or 'missing'} at its other end, should be {value}"
    near, far = (item, found.other) if found.code.isupper() else (found.other, item)
    ends = f"{found.code.upper()}{near}{far}"
    if dependency != ends:
        yield f"has an edge {field} whose id leads to {dependency or 'nothing'}, should lead to {ends}"
    if found.waits and int(here[1] or 0) <= int(there[1] or 0):
        yield f"has level {int(here[1] or 0)}, not above {int(there[1] or 0)} of {found.other}, which blocks it"
