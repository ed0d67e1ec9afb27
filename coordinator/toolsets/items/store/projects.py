"""Which projects have items: noted seldom by those who change some."""

from __future__ import annotations

import time

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys

NOTED_SECONDS = 300.0
"""How often a process says that there are items in a project in which it changes some."""
PROJECTS = 1_000
"""Projects that are looked at: those changed last."""


class ProjectList:
    """The list of projects that have items; a process notes each of them seldom, not with every change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._until: dict[str, float] = {}

    async def note(self, project: str) -> None:
        """Something was changed in a project. Raises nothing: the next change says it as well."""
        now = time.monotonic()
        if now < self._until.get(project, 0.0):
            return
        if len(self._until) >= PROJECTS:
            self._until.clear()
        self._until[project] = now + NOTED_SECONDS
        try:
            await self._store.command("ZADD", keys.item_projects.key(keys.FLEET), int(time.time()), project)
        except ToolFailure:
            self._until.pop(project, None)
