"""Looks for abandoned items (``coordinator.toolsets.items``)."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator

from coordinator.doctor.findings import Finding, page_of, some
from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.store.fences.known import Fenced
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.items import PROJECTS, read_abandoned
from coordinator.wording import counted

_WHAT, _ALERT = "items.abandoned", "ItemsAbandoned"


async def check(store: Store) -> AsyncIterator[Finding]:
    """Names the projects with abandoned items. Raises ToolFailure as ``Store.run`` says."""
    any_found, unseen = False, list[str]()
    for project in sorted(await ProjectList(store, "items").ages(most=PROJECTS)):
        try:
            left = await read_abandoned(store, project, 0)
        except Fenced as fence:
            if not fence.for_good:
                unseen.append(project)
            continue
        except ToolFailure:
            if not store.sharded:
                raise
            unseen.append(project)
            continue
        if left.ready:
            any_found = True
            longest = dt.timedelta(seconds=round(left.oldest_seconds))
            said = f"{counted(left.ready, 'abandoned item')} in project {project}, the first for {longest}"
            advice = "start agents whose selectors name no role; get_context lists them"
            yield Finding("warns", _WHAT, said, advice, _ALERT, page_of(_ALERT))
    if unseen:
        said = f"not looked for in projects whose keys cannot be read now: {some(unseen)}"
        yield Finding("fails", _WHAT, said)
    elif not any_found:
        yield Finding("ok", _WHAT, "no item is abandoned")
