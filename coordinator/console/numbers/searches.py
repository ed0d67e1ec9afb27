"""Items that a person searches for, where no index counts them.

Such a search scans the project's items in slices. It stops when it has enough hits, or after a few seconds; one runs at
a time in each process. What it has found is kept for some seconds: until then changes of the hits are read, not
searched for.
"""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

from coordinator.console.view import Visit
from coordinator.errors import ToolFailure
from coordinator.toolsets.items import MAX_ROWS, BoardPage, ItemRow, Wanted, board_page, rows_by_ids

MOST = 200
"""Hits."""
SECONDS = 3.0
"""How long a search looks at most."""
KEPT_SECONDS = 10
MOST_SCANS = 8
"""Searches that run or wait in a process, whoever still wants their answers; further ones are refused."""


class Hits(NamedTuple):
    rows: list[ItemRow]
    roles: tuple[int, ...]
    """All items of the project by role code, when it was searched."""
    more: bool
    """Whether there may be more."""


async def search(visit: Visit, wanted: Wanted, most: int = MOST) -> Hits:
    """The first items that meet all that is wanted, best first, as they are now: ``most`` of them."""
    reads, project = visit.reads, visit.project

    async def find() -> tuple[list[str], BoardPage]:
        if reads.scans >= MOST_SCANS:
            raise ToolFailure("over_capacity", "too many searches wait for each other", retry_after_ms=3_000)
        reads.scans += 1
        try:
            return await scan()
        finally:
            reads.scans -= 1

    async def scan() -> tuple[list[str], BoardPage]:
        async with reads.scanning:
            ids, after, until = list[str](), "", time.monotonic() + SECONDS
            while True:
                part = partial(board_page, reads.store, project, wanted, after=after, limit=most - len(ids))
                page = await reads.admitted(project, part)
                ids += (row.id for row in page.rows)
                after = page.next
                if not after or len(ids) >= most or time.monotonic() > until:
                    return ids, page

    async def read() -> Hits:
        ids, page = await reads.shared(("search", project, wanted, most), find, KEPT_SECONDS)
        rows: list[ItemRow] = []
        for start in range(0, len(ids), MAX_ROWS):
            part = partial(rows_by_ids, reads.store, project, ids[start : start + MAX_ROWS])
            rows += (await reads.admitted(project, part))[1]
        return Hits(rows, page.roles, bool(page.next))

    return await visit.reads.shared(("hits", visit.project, wanted, most, visit.at), read)
