"""Lists of projects: those with steps and those with items, which need background work, and all that are known.

A process that starts something in a project adds the project to the list, but not on every call. The process that does
the background work removes projects in which nothing is left. A process that sees that a project was written to adds
it to the known ones, from which misspelt names are explained. Times are those of the store's clock.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Literal, get_args

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

List = Literal["steps", "items", "known"]

NOTED_SECONDS: dict[List, float] = {"steps": 30.0, "items": 300.0, "known": 300.0}
"""The shortest time between two notes of the same project by one process."""
_AGAIN_SECONDS = 1.0
_REMEMBERED = 1_000
"""How many noted projects a process remembers. With more, it notes some of them more often."""

KNOWN_MOST = 10_000
"""How many known projects are listed."""

_SIGNS = (keys.events, keys.gate_audit, keys.step_ids)
"""Every write to a project leaves one of these keys, and none of them is ever deleted."""

_NOTE: Script[Any] = Script(STORE, "note_project", scope="fleet")
_FORGET: Script[Any] = Script(STORE, "forget_project", scope="fleet")
_FIND = Script(STORE, "find_projects", tuple[list[str], bool], scope="fleet")
_NOTED = Script(STORE, "noted_projects", list[tuple[str, int]], scope="fleet")


class ProjectList:
    """One of the lists. Every method raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store, what: List) -> None:
        self._store = store
        self._what = what
        self._until: dict[str, float] = {}
        self._later: dict[str, asyncio.Task[None]] = {}

    async def note(self, project: str) -> None:
        """Puts the project on the list, unless this process did so a short while ago."""
        now = monotonic()
        if now < self._until.get(project, 0.0):
            return
        await self._store.run(_NOTE, keys.FLEET, self._what, project)
        if len(self._until) >= _REMEMBERED:
            self._until.clear()
        self._until[project] = now + NOTED_SECONDS[self._what]

    def note_later(self, project: str) -> None:
        """The same in the background, until it succeeds; this process must go on until then."""
        if project not in self._later:
            self._later[project] = asyncio.create_task(self._note_later(project), name="project list")

    async def _note_later(self, project: str) -> None:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self.note(project)
            except ToolFailure:
                continue
            del self._later[project]
            return

    async def ages(self, within_seconds: int = 0, most: int = -1) -> dict[str, int]:
        """The projects, those added last first, and how many seconds ago they were added.

        Args:
            within_seconds: only projects added within this time; 0: all.
            most: how many at most; -1: all.
        """
        noted = await self._store.run(_NOTED, keys.FLEET, self._what, within_seconds, most)
        return dict(noted)

    async def forget(self, project: str, seconds: int) -> None:
        """Removes the project, unless it was added within the last ``seconds``."""
        await self._store.run(_FORGET, keys.FLEET, self._what, project, seconds)


async def written(store: Store, project: str) -> bool:
    """Whether the project has ever been written to. Raises ToolFailure as ``Store.run`` says."""
    return bool(await store.command("EXISTS", *(sign.key(project) for sign in _SIGNS)))


async def noted(store: Store, most: int = -1) -> set[str]:
    """Projects that are on any of the lists, at most so many of each. Raises ToolFailure as ``Store.run`` says."""
    return {name for what in get_args(List) for name in await ProjectList(store, what).ages(most=most)}


async def find(store: Store, prefix: str, most: int) -> tuple[list[str], bool]:
    """Projects on the lists whose names begin with a text, those noted last first, and whether there may be more.

    Raises ToolFailure as ``Store.run`` says.
    """
    return await store.run(_FIND, keys.FLEET, prefix, most)
