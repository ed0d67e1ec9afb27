"""Pauses the claims of a project."""

from __future__ import annotations

from typing import Literal

from coordinator.store import Script, Store
from coordinator.toolsets.items.store.base import LIBRARY

Pause = tuple[int, str, str]
"""Since when (ms), by whom, and why."""
_PAUSE = Script(LIBRARY, "pause_claims", tuple[bool, Pause | Literal[False], list[str]])
_WAKE = Script(LIBRARY, "wake_parked")
_WOKEN = 100
"""Queues that are woken in one step, at most."""


async def pause_claims(store: Store, project: str, events_max: int, who: str, why: str) -> tuple[bool, Pause]:
    """No claim of the project begins from now on, until they are resumed; renewals go on, and calls that wait stay.

    Returns:
        Whether they were not paused before, and the pause.

    Raises ToolFailure as ``Store.run`` says.
    """
    changed, pause, _ = await store.run(_PAUSE, project, events_max, 1, who, why)
    assert pause  # noqa: S101
    return changed, pause


async def resume_claims(store: Store, project: str, events_max: int) -> Pause | None:
    """Claims begin again, those that wait first, in their order; returns the pause that has ended; None: there was
    none.

    Raises ToolFailure as ``Store.run`` says.
    """
    _, pause, queues = await store.run(_PAUSE, project, events_max, 0, "", "")
    for first in range(0, len(queues), _WOKEN):
        await store.run(_WAKE, project, *queues[first : first + _WOKEN])
    return pause or None
