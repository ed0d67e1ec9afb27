"""Who looks at the console, and what they may see and change."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from coordinator.identity.callers.permissions import EVERYTHING, OPERATE, READ, sufficient
from coordinator.settings.model import TOOLSETS
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.caller import HOLDERS, Caller

PERSON = "user"
"""The kind of actor that may change something here: agents have other kinds."""
ANONYMOUS = "anonymous"


class Viewer(msgspec.Struct, frozen=True):
    caller: Caller | None = None
    """None: nobody in particular; they may read everything and change nothing."""
    projects: frozenset[str] | None = None
    """The projects that they may open; None: all."""
    ends: float = 0
    """When their session ends, in Unix seconds; 0: they are not signed in."""

    def first_project(self, listed: frozenset[str]) -> str:
        """The project that they see first, of those that the settings list; empty: any."""
        seen = listed if self.projects is None else self.projects & listed if listed else self.projects
        return DEFAULT_PROJECT if not seen or DEFAULT_PROJECT in seen else min(seen)

    @property
    def name(self) -> str:
        """Their name, as records show it."""
        return ANONYMOUS if self.caller is None else self.caller.id

    @property
    def is_person(self) -> bool:
        """Whether they may change anything at all."""
        return self.caller is not None and self.caller.kind == PERSON

    @property
    def operates(self) -> bool:
        """Whether they may end claims, and drain processes and agents."""
        return self.is_person and self.caller is not None and OPERATE in self.caller.permissions

    def reads(self, toolset: str) -> bool:
        """Whether they may see what a toolset holds."""
        return self.caller is None or not sufficient(toolset, True).isdisjoint(self.caller.permissions)

    def changes(self, toolset: str) -> bool:
        """Whether they may call the tools of a toolset that change something."""
        if self.caller is None or not self.is_person:
            return False
        return not sufficient(toolset, False).isdisjoint(self.caller.permissions)

    @property
    def sees_holders(self) -> bool:
        """Whether lists may tell them which agent holds which item, as ``get_context`` of agents does."""
        return self.caller is None or not self.caller.permissions.isdisjoint((HOLDERS, OPERATE))

    @property
    def sees_fleet(self) -> bool:
        """Whether they may see what is of no project: processes, the store, what operators did."""
        return self.caller is None or not self.caller.permissions.isdisjoint((EVERYTHING, EVERYTHING + READ, OPERATE))

    def sees(self, project: str) -> bool:
        return self.projects is None or project in self.projects

    def readable(self, toolsets: Collection[str] = TOOLSETS) -> frozenset[str]:
        return frozenset(toolset for toolset in toolsets if self.reads(toolset))
