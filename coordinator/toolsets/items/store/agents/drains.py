"""Begins and ends drains of agents, in one project."""

from __future__ import annotations

from coordinator.errors import invalid
from coordinator.store import Script, ScriptFailure, Store
from coordinator.toolsets.actor import MAX_ID
from coordinator.toolsets.items.store.base import LIBRARY

_DRAIN = Script(LIBRARY, "drain_agents", tuple[list[tuple[str, int]], bool, list[str]])
_WAITERS = Script(LIBRARY, "drain_waiters", tuple[int, int])


def drain_name(given: str) -> str:
    """The name of a drain, from that of an agent, or what precedes a '/' in those of several.

    Raises:
        ToolFailure: VALIDATION_ERROR: no agent can have it.
    """
    name = given.removesuffix("/")
    if not name.strip() or len(name) > MAX_ID:
        raise invalid("NAME", f"must be 1 to {MAX_ID} characters, not blank")
    return name


async def begin_drain(store: Store, project: str, events_max: int, name: str) -> tuple[bool, int]:
    """Drains the agents of a name, and answers the claims that they have parked.

    Returns:
        Whether they were not drained before, and how many parked claims were answered.

    Raises:
        ToolFailure: VALIDATION_ERROR: there are too many drains; and as ``Store.run`` says.
    """
    try:
        _, begun, queues = await store.run(_DRAIN, project, events_max, name, 1)
    except ScriptFailure as failure:
        if failure.code != "TOO_MANY":
            raise
        raise invalid("NAME", f"a project can have {failure.detail} drains of agents; end some first") from None
    answered = 0
    for queue in queues:
        after = 0
        while True:
            after, some = await store.run(_WAITERS, project, queue, after)
            answered += some
            if not after:
                break
    return begun, answered


async def end_drain(store: Store, project: str, events_max: int, name: str) -> tuple[bool, list[str]]:
    """Ends a drain; returns whether there was one, and the names of those in force.

    Raises ToolFailure as ``Store.run`` says.
    """
    rows, ended, _ = await store.run(_DRAIN, project, events_max, name, 0)
    return ended, sorted(row[0] for row in rows)
