"""Reads items: one, a search, the overviews. Their only writes put back expired claims."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import Iterable
from time import perf_counter
from typing import Any, Literal, NamedTuple

from coordinator.settings import Settings
from coordinator.store import Script, ScriptFailure, Store
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.query import Search
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.attempts import AttemptRecord
from coordinator.toolsets.items.store.base import LIBRARY, BaseStore, Changed, Path, pack

OVERVIEW_BUDGET = 70
"""How many rows with counts one run of an overview reads."""
ROW_SLICE = 100
SHOWN_CHILDREN = 50
"""How many children of each root the overview of the roots shows."""


Said = dict[str, Any]
"""What an item says, by letter, as it is stored, and what follows of it now (``lua/reads/views.lua``)."""


class View(NamedTuple):
    """A whole item, as ``lua/reads/views.lua`` packs it; times in ms."""

    id: str
    role: int
    depth: int
    said: Said
    """With long texts."""
    previous_role: int | Literal[False]
    created: int
    modified: int
    role_changed: int
    transitions: list[Changed]
    attempts: AttemptRecord
    abandoned: bool
    """Whether an agent has begun it in its role, and nobody holds it."""


class ShortView(NamedTuple):
    """An item in a list, as ``lua/reads/views.lua`` packs it."""

    id: str
    role: int
    depth: int
    said: Said
    attempts: AttemptRecord | None = None
    """Without those that are listed. None: no details are asked for."""
    abandoned: bool = False


Counts = tuple[int, int, int, int, int]
"""Children by role code."""


class Root(NamedTuple):
    """A root, with what is below it."""

    row: ShortView
    counts: Counts
    claims: tuple[int, int, int]
    """Active, expired, unclaimed."""
    children: list[tuple[ShortView, Counts]]


class Page(NamedTuple):
    rows: list[ShortView]
    ancestors: list[Path]
    """Of each row; empty if not wanted."""
    claimed: list[bool]
    """Whether each row is claimed; empty if the search does not filter by claim."""
    total: int
    """How many items match."""


class Indexed(NamedTuple):
    """A page of a search that an index answers."""

    total: int
    rows: list[ShortView]
    ancestors: list[Path]
    more: list[str]
    """The ids of the page whose rows are not read yet."""
    left: list[int]
    """Where the next run continues; empty at the end."""


class ScannedItem(NamedTuple):
    """An item that a scan found."""

    id: str
    key: int | str
    """The value that the search sorts by."""
    created: int
    """In ms; decides the order of items with equal keys."""


class Scanned(NamedTuple):
    """A slice of a search. The next one goes on at ``choice``, ``score`` and ``last``."""

    choice: int
    score: int
    last: str
    done: bool
    looked: int
    """How many items were looked at."""
    matched: int
    listed: list[ScannedItem]
    """Smaller keys first, except for descending titles."""


_READ = Script(LIBRARY, "read_item", tuple[View, Path])
_PAGE = Script(LIBRARY, "search_page", Indexed)
_SCAN = Script(LIBRARY, "scan_items", Scanned)
_ROWS = Script(LIBRARY, "read_rows", tuple[list[ShortView], list[Path], list[bool]])
_ROOTS = Script(LIBRARY, "overview_roots", tuple[bool, list[Root], list[str]])
_ITEM = Script(LIBRARY, "overview_item", tuple[View, Counts, list[ShortView]])


class Pace:
    """How many items one run of a scan reads, so that a run takes a few ms at most.

    It follows the measured time of the last run: fewer items when the server is slow or busy with other calls, more
    when it is idle.
    """

    LEAST, START, MOST = 50, 150, 600
    TARGET = 0.0007
    """How long a run should take, in seconds."""

    def __init__(self) -> None:
        self.budget = self.START

    def took(self, seconds: float) -> None:
        """Adapts to the duration of a run."""
        if seconds > self.TARGET:
            self.budget = max(self.LEAST, self.budget * 2 // 3)
        else:
            self.budget = min(self.MOST, self.budget + 25)


class Best:
    """The first ``size`` of the items that a scan found, in the order of the search."""

    SLACK = 200
    """At least this many more are kept before the rest is dropped, because dropping needs a sort."""

    def __init__(self, size: int, descending_text: bool) -> None:
        self._size = size
        self._descending_text = descending_text
        self._kept: dict[str, ScannedItem] = {}
        self.bound: tuple[int | str, int] | None = None
        """Key and time of creation of the last of the first ``size``, once there are that many."""

    def add(self, listed: Iterable[ScannedItem]) -> int:
        """Adds items; returns how many were known already (an item is found again if its rank has changed)."""
        again = 0
        for item in listed:
            again += item.id in self._kept
            self._kept[item.id] = item
        if len(self._kept) >= self._size + max(self._size, self.SLACK):
            best = self._ordered()[: self._size]
            self._kept = {item.id: item for item in best}
            self.bound = best[-1].key, best[-1].created
        return again

    def page(self, offset: int) -> list[str]:
        """The ids from ``offset`` on."""
        return [item.id for item in self._ordered()[offset : self._size]]

    def _ordered(self) -> list[ScannedItem]:
        ordered = sorted(self._kept.values(), key=lambda item: (-item.created, item.id))
        ordered.sort(key=lambda item: item.key, reverse=self._descending_text)
        return ordered


class QueryStore(BaseStore):
    """Reads of any project's items."""

    def __init__(self, store: Store, settings: Settings, schemas: SchemaSource) -> None:
        super().__init__(store, settings, schemas)
        # One scan at a time per process, so that many searches do not starve other calls.
        self._scanning = Semaphore()
        self._pace = Pace()

    async def read(self, project: str, item: str, ancestors: bool) -> tuple[View, Path]:
        """One item in full, with its ancestors if these are wanted.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            return await self._store.run(_READ, project, item, int(ancestors))
        except ScriptFailure:
            raise no_such_item("id") from None

    async def search(self, project: str, search: Search) -> Page:
        """A page of the matching items, and how many match."""
        return await (self._search_index(project, search) if search.indexed else self._scan(project, search))

    async def _search_index(self, project: str, search: Search) -> Page:
        state: bytes | str = ""
        span = pack(search.span)
        while True:
            page = await self._store.run(
                _PAGE, project, search.parts[0].scopes[0], search.classes, span, search.sorting, int(search.descending),
                search.offset, search.limit, search.shown, state,
            )  # fmt: skip
            if not page.left:
                break
            state = pack(page.left)
        rows, paths, _ = await self._rows(project, search, page.more)
        return Page(page.rows + rows, page.ancestors + paths if "a" in search.shown else [], [], page.total)

    async def _scan(self, project: str, search: Search) -> Page:
        packed = pack(search.packable())
        best = Best(search.offset + search.limit, search.sorting == "t" and search.descending)
        state: bytes | str = ""
        total, done = 0, False
        while not done:
            bound = pack(best.bound) if best.bound else ""
            async with self._scanning:
                began = perf_counter()
                part = await self._store.run(_SCAN, project, packed, state, bound, self._pace.budget)
                self._pace.took(perf_counter() - began)
            total += part.matched - best.add(part.listed)
            state, done = pack((part.choice, part.score, part.last)), part.done
        rows, paths, claimed = await self._rows(project, search, best.page(search.offset))
        return Page(rows, paths if "a" in search.shown else [], claimed if "cl" in search.conditions else [], total)

    async def _rows(
        self, project: str, search: Search, ids: list[str]
    ) -> tuple[list[ShortView], list[Path], list[bool]]:
        """The rows of the items that still match, their ancestors, and whether each is claimed."""
        rows: list[ShortView] = []
        paths: list[Path] = []
        claimed: list[bool] = []
        packed = pack(search.packable())
        for start in range(0, len(ids), ROW_SLICE):
            part = await self._store.run(_ROWS, project, packed, pack(ids[start : start + ROW_SLICE]), search.shown)
            rows += part[0]
            paths += part[1]
            claimed += part[2]
        return rows, paths, claimed

    async def overview(self, project: str, limit: int, children: bool) -> list[Root]:
        """The newest roots with the counts of their children."""
        roots: list[Root] = []
        most_children = SHOWN_CHILDREN if children else 0
        left: bytes | str = ""
        while True:
            late, entries, ids = await self._store.run(_ROOTS, project, limit, left, most_children, OVERVIEW_BUDGET)
            if late:
                await self.expire(project)
                continue
            roots += entries
            if not ids:
                return roots
            left = pack(ids)

    async def overview_item(self, project: str, item: str, limit: int) -> tuple[View, Counts, list[ShortView]]:
        """One item in full, the counts of its children and the newest of them.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            return await self._store.run(_ITEM, project, item, limit)
        except ScriptFailure:
            raise no_such_item("itemId") from None
