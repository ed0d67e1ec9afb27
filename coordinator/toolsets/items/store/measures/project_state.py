"""What a project has now, in numbers, for people who watch it."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.store.base import LIBRARY


class ProjectState(NamedTuple):
    """A project at one moment. Times in ms, 0: there is none."""

    now: int
    roles: tuple[int, int, int, int, int]
    """Items by role code."""
    ready: int
    """Items that are ready in the queue."""
    oldest: str
    """The first created item in the queue that agents are offered (``lua/measures/oldest_ready.lua``), in the inner
    form; '': there is none."""
    oldest_created: int
    waiting: int
    """Items in queue, work and review that wait for a dependency, or until a time, and templates."""
    claims: int
    """Live claims."""
    expiring: int
    """Those of them that end within a minute."""
    abandoned: int
    """Abandoned items that can be taken over."""
    quarantined: int
    in_backoff: int
    agents: int
    """Agents of the last day."""
    parked: int
    """Claims that wait for an item."""
    agent_seen: int
    """When an agent last claimed, renewed or waited."""
    drains: int
    """Names under which agents are drained."""
    changed: int
    """When an item, a flow or a session last changed."""
    postponed: int = 0
    """Items that are not ready before a time."""
    overdue: int = 0
    """Open items whose time to be done has passed."""

    @property
    def total(self) -> int:
        return sum(self.roles)


_NOTHING = SchemaConfig()
_READ = Script(LIBRARY, "project_state", ProjectState)


async def read_project_state(store: Store, project: str, config: SchemaConfig = _NOTHING) -> ProjectState:
    """A project now, in one read that costs the same at any size. Raises ToolFailure as ``Store.run`` says.

    Args:
        config: the settings in force, which name resources and budgets.
    """
    return await store.run(_READ, project, config.terms(project))
