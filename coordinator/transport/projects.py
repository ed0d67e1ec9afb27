"""Detects projects that nobody has written to, and suggests similar names.

The first write creates a project, so a misspelt name looks like an empty project. A read of a project that nobody has
written to therefore carries a hint. Once a process has seen a write to a project, reads of it cost nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from time import monotonic

from coordinator.errors import ToolFailure
from coordinator.service import Service
from coordinator.settings import Settings
from coordinator.store.projects.lists import ProjectList, find, noted, written
from coordinator.store.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import COMPLETIONS_MOST, Completed

_REMEMBERED = 10_000
"""How many projects a process caches as written to."""
_COMPARED = 1_000
"""How many projects are compared with a name: the most recently changed ones."""
_FRESH_SECONDS = 5.0
"""How long the list of projects is cached."""


class Projects(Service):
    """One process's knowledge of the projects in its store.

    Args:
        listed: the allowed projects; empty: any.
    """

    def __init__(self, store: Store, listed: Sequence[str] = ()) -> None:
        self._store = store
        self._listed = frozenset(listed)
        self._known = ProjectList(store, "known")
        self._written: set[str] = set()
        self._names: set[str] = set()
        self._until = 0.0

    def configure(self, settings: Settings) -> None:
        self._listed = frozenset(settings.projects)

    def written(self, project: str) -> bool:
        """Whether this process knows that the project was written to."""
        return project in self._written

    async def misread(self) -> ToolFailure | None:
        """Why something could not be read, if the store is at fault and not this process; None: it is not."""
        return await self._store.layout.misread()

    async def hint(self, project: str, caller: Caller | None) -> str:
        """A hint for the reader of a project that nobody has written to; empty: somebody has, or that is unknown."""
        try:
            if await written(self._store, project):
                if len(self._written) >= _REMEMBERED:
                    self._written.clear()
                self._written.add(project)
                await self._known.note(project)
                return ""
            names = await self._existing()
            if caller is not None and caller.sees is not None:
                names = names & caller.sees
            matches = get_close_matches(project, names - {project})
            close = [name for name in matches if name in self._written or await written(self._store, name)]
        except ToolFailure:
            return ""  # the answer is complete without it
        return f"nobody has written to the project '{project}' yet" + (f"; did you mean '{close[0]}'?" if close else "")

    async def complete(self, typed: str, caller: Caller | None) -> Completed:
        """Names of projects that the caller may see and that begin with a text.

        Raises:
            ToolFailure: the store does not answer.
        """
        seen = None if caller is None else caller.sees
        if not self._listed and seen is None:
            return Completed(*await find(self._store, typed, COMPLETIONS_MOST))
        names = self._listed if seen is None else self._listed & seen if self._listed else seen
        names_here = sorted(name for name in names if name.startswith(typed))
        return Completed(names_here[:COMPLETIONS_MOST], len(names_here) > COMPLETIONS_MOST)

    async def _existing(self) -> set[str]:
        """Projects that have data, as far as known."""
        if monotonic() >= self._until:
            self._names = await noted(self._store, _COMPARED)
            self._until = monotonic() + _FRESH_SECONDS
        names = self._names | self._written
        return names & self._listed if self._listed else names
