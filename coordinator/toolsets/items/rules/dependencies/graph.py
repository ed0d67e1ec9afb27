"""The dependency graph as callers see it: the edges of one item, and the walk over the connected graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from coordinator.toolsets.items.contract.dependencies import Blocker, DependencyCounts, DependencyView, ItemInfo
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import PRIORITY_NAMES, ROLE_NAMES

MAX_ITEMS = 5_000
"""How many items a graph may have. Each takes 40 bytes of the answer and a hundredth of a script run."""
MAX_EDGES = 50_000

_TYPES = {"b": "BLOCKS", "i": "IS_BLOCKED_BY", "r": "RELATES_TO"}


class StoredEdge(NamedTuple):
    """One edge as stored with one of its items, its holder (``lua/dependencies/graph.lua`` explains the codes)."""

    code: str
    other: str
    value: str

    @property
    def type(self) -> str:
        """BLOCKS, IS_BLOCKED_BY or RELATES_TO."""
        return _TYPES[self.code.lower()]

    @property
    def id(self) -> str:
        """The dependency's id, inner form."""
        return self.value[:32]

    @property
    def outward(self) -> bool:
        """Whether the holder is the edge's ``from``."""
        return self.code.isupper()

    @property
    def direction(self) -> str:
        """incoming: the other item blocks the holder; outgoing: the reverse. For RELATES_TO: the holder's end."""
        return "outgoing" if self.code in "BiR" else "incoming"

    @property
    def relates(self) -> bool:
        """Whether it is a RELATES_TO, which blocks nothing."""
        return self.code in "Rr"

    @property
    def unblock_at(self) -> str | None:
        """The threshold that was given, if any."""
        return given_threshold(self.value[32:])


class Head(NamedTuple):
    """Title, role and priority of an item that another one refers to."""

    id: str
    title: str
    role: int
    priority: int


def given_threshold(mark: str) -> str | None:
    """The role in a stored threshold; None if none was given."""
    return None if mark == "-" else ROLE_NAMES[int(mark)]


def edges_of(flat: Sequence[str]) -> list[StoredEdge]:
    """The edges from stored fields and values, in turn."""
    return [StoredEdge(field[0], field[1:], value) for field, value in zip(flat[::2], flat[1::2], strict=True)]


def dependency(item: str, edge: StoredEdge, heads: Mapping[str, Head]) -> DependencyView:
    """An edge of ``item`` in results, with its ends if ``heads`` has them."""
    source, target = (item, edge.other) if edge.outward else (edge.other, item)
    given = edge.unblock_at
    return DependencyView(
        id=dashed(edge.id),
        from_item_id=dashed(source),
        to_item_id=dashed(target),
        type=edge.type,
        unblock_at=given or UNSET,
        effective_unblock_role=UNSET if edge.relates else given or "terminal",
        from_item=_info(heads[source]) if source in heads else UNSET,
        to_item=_info(heads[target]) if target in heads else UNSET,
    )


def _info(head: Head) -> ItemInfo:
    return ItemInfo(title=head.title, role=ROLE_NAMES[head.role], priority=PRIORITY_NAMES[head.priority])


def counts(edges: Sequence[StoredEdge]) -> DependencyCounts:
    """The number of edges by direction; RELATES_TO is counted separately."""
    blocking = [edge.direction for edge in edges if not edge.relates]
    return DependencyCounts(
        incoming=blocking.count("incoming"),
        outgoing=blocking.count("outgoing"),
        relates_to=len(edges) - len(blocking),
    )


def unsatisfied(found: Iterable[tuple[str, int, int]]) -> list[Blocker]:
    """The unsatisfied blockers of an item, from a script's rows (id, role, role that it must reach)."""
    return [
        Blocker(from_item_id=dashed(blocker), current_role=ROLE_NAMES[role], required_role=ROLE_NAMES[needed])
        for blocker, role, needed in found
    ]


class Graph(NamedTuple):
    """Items, blockers first, and the number of edges on the longest path between them."""

    chain: list[str]
    depth: int
    truncated: bool


class Walk:
    """A breadth-first walk from one item over blocking edges in both directions.

    The caller does the reads: as long as ``wanted`` returns items, it passes their edges to ``add``. It may also pass
    edges of items not requested yet. If the graph changes between reads, the result is a mixture of states, but has
    each reached item exactly once.
    """

    def __init__(self, start: str, max_items: int = MAX_ITEMS, max_edges: int = MAX_EDGES) -> None:
        self._found: dict[str, str] = {start: start}
        """Every item of the graph -> the item that led to it."""
        self._waiting = deque([start])
        self._read: dict[str, list[StoredEdge]] = {}
        self._blocks: dict[str, dict[str, None]] = {}
        self._most = max_items
        self._truncated = False
        self.edges_left = max_edges

    def wanted(self, most: int) -> list[str]:
        """Up to ``most`` items whose edges have to be read next; none: the walk is over."""
        wanted: list[str] = []
        while self._waiting and len(wanted) < most:
            item = self._waiting.popleft()
            if item in self._read:
                self._follow(item, self._read.pop(item))
            else:
                wanted.append(item)
        if self.edges_left <= 0 and wanted:
            self._truncated = True
            return []
        return wanted

    def before(self, wanted: Iterable[str]) -> list[str]:
        """The items that led to these; prefetches can skip them."""
        return list({self._found[item] for item in wanted})

    def add(self, wanted: Iterable[str], edges: Mapping[str, list[StoredEdge]], complete: bool) -> None:
        """Adds edges that were read.

        Args:
            wanted: what ``wanted`` returned. An item without an entry in ``edges`` no longer exists.
            edges: by item; may have further items.
            complete: False: reading ended early, after ``edges_left`` edges.
        """
        self._truncated |= not complete
        self.edges_left -= sum(map(len, edges.values()))
        self._read.update(edges)
        for item in wanted:
            held = self._read.pop(item, None)
            if held is not None:
                self._follow(item, held)
            elif complete:
                del self._found[item]

    def _follow(self, item: str, held: Iterable[StoredEdge]) -> None:
        for edge in held:
            if edge.relates:
                continue
            if edge.other not in self._found:
                if len(self._found) >= self._most:
                    self._truncated = True
                    continue
                self._found[edge.other] = item
                self._waiting.append(edge.other)
            blocker, blocked = (item, edge.other) if edge.direction == "outgoing" else (edge.other, item)
            self._blocks.setdefault(blocker, {})[blocked] = None

    def graph(self) -> Graph:
        """The result: every item comes after all items that block it; unblocked ones are in the order found."""
        level = dict.fromkeys(self._found, 0)
        open_blockers = dict.fromkeys(self._found, 0)
        for item in self._found:
            for blocked in self._blocks.get(item, ()):
                if blocked in open_blockers:
                    open_blockers[blocked] += 1
        chain = [item for item, count in open_blockers.items() if count == 0]
        for item in chain:  # grows meanwhile
            above = level[item] + 1
            for blocked in self._blocks.get(item, ()):
                if blocked in open_blockers:
                    level[blocked] = max(level[blocked], above)
                    open_blockers[blocked] -= 1
                    if open_blockers[blocked] == 0:
                        chain.append(blocked)
        # There are no stored cycles. One can only appear if edges changed between two reads.
        chain += [item for item, count in open_blockers.items() if count > 0]
        return Graph(chain, max(level.values(), default=0), self._truncated)
