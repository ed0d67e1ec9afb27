"""Messages of commands about a project that nobody has written to."""

from __future__ import annotations

from difflib import get_close_matches

from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.store.project_list import noted, written

_NAMED = 20
"""How many projects a message names."""


async def unwritten(store: Store, project: str) -> str:
    """The message for an unwritten project, with existing names; empty: it has data, or it is the default.

    Raises:
        ToolFailure: the store cannot be read.
    """
    if project == DEFAULT_PROJECT or await written(store, project):
        return ""
    names = await noted(store)
    close = get_close_matches(project, names, n=1)
    known = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(names)[:_NAMED]) or 'none yet'}"
    return f"there is no project {project}: nobody has written to it; {known}"
