"""Windows of items in order of rank, or by their last change of role, for boards and lists that people read."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.board import MAX_ROWS, Wanted, position, window
from coordinator.toolsets.items.store.base import LIBRARY, pack
from coordinator.toolsets.items.store.boards.rows import ItemRow
from coordinator.toolsets.pages import stream_entry

BUDGET = 150
"""How many items one run looks at, if no index answers."""
_RUNS = 20
_ENTRIES = 300
"""How many entries of the history one run looks at."""


class BoardPage(NamedTuple):
    """A window of a board's column or of a list."""

    now: int
    """The store's time in ms."""
    roles: tuple[int, int, int, int, int]
    """All items of the project by role code."""
    total: int | None
    """How many items are asked for; None: no index knows (-1 in the reply)."""
    rows: list[ItemRow]
    next: str
    """Where the next page begins; '' at the end."""


class RecentPage(NamedTuple):
    """A page of items by their last change of role, the last one first."""

    now: int
    """The store's time in ms."""
    rows: list[ItemRow]
    next: str
    """Where the next page begins; '' at the end."""


_RECENT = Script(LIBRARY, "recent_page", RecentPage)
_PAGE = Script(LIBRARY, "board_page", BoardPage)


async def board_page(
    store: Store, project: str, wanted: Wanted, *, offset: int = 0, after: str = "", limit: int = MAX_ROWS
) -> BoardPage:
    """A window of the items asked for, best first.

    It takes O(log n + rows) if at most one of a tag, a type and a parent is asked for, or a holder, or a tree of at
    most 1,000 items. Else it looks at some thousand items at most: then the page may have fewer rows, none even, though
    ``next`` is not ''.

    Args:
        offset: how many of the items asked for come before the window.
        after: ``next`` of an earlier page, instead of an offset; it stays good while items come and go.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field; and as ``Store.run`` says.
    """
    packed, (offset, limit) = pack(wanted.packable()), window(offset, limit)
    rows: list[ItemRow] = []
    after, runs = position(after), 0
    while True:
        page = await store.run(_PAGE, project, packed, offset, after, limit - len(rows), BUDGET)
        rows += page.rows
        after = page.next
        runs += 1
        if len(rows) >= limit or not after or runs == _RUNS:
            return page._replace(total=None if page.total == -1 else page.total, rows=rows)


async def recent_page(
    store: Store, project: str, wanted: Wanted, *, after: str = "", limit: int = MAX_ROWS
) -> RecentPage:
    """The items asked for, by the last entry of their history: of terminal ones, those first that ended last.

    It looks at some thousand entries of the project's history at most: then the page may have fewer rows, none even,
    though ``next`` is not ''. Items that never changed their role, and those whose history is not kept any more, are
    not found; ``board_page`` has all.

    Args:
        after: ``next`` of an earlier page.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field; and as ``Store.run`` says.
    """
    packed, (_, limit) = pack(wanted.packable()), window(0, limit)
    rows: list[ItemRow] = []
    after, runs = stream_entry(after, "after"), 0
    while True:
        part = await store.run(_RECENT, project, packed, after, limit - len(rows), _ENTRIES)
        rows += [row for row in part.rows if wanted.holder in ("", row.holder)]
        after = part.next
        runs += 1
        if len(rows) >= limit or not after or runs == _RUNS:
            return RecentPage(part.now, rows, after)
