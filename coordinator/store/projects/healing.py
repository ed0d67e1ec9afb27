"""Finds projects that are missing from the lists (``lists.py``), although their keys show that they belong on
them.

A project is listed by the process that starts something there, on the shard of the fleet's keys. A failover of that
shard may lose the note, or it may be away just then and the process end before it can try again. So one process walks
all servers now and then, and lists what their keys show. It is only needed where a failover may lose writes. Should two
processes do it at once, nothing is noted that the keys do not show.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import get_args

import structlog

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import ServerError
from coordinator.store.fleet.leader_task import LeaderTask
from coordinator.store.link.shared import Link
from coordinator.store.projects.lists import KNOWN_MOST, List, ProjectList
from coordinator.store.store import Store

_log = structlog.get_logger(__name__)

HEAL_SECONDS = 600.0
"""How often the servers are walked."""
_SLICE = 1_000
_SHOWN_BY: dict[List, tuple[keys.Family, ...]] = {
    "items": (keys.events,),
    "steps": (
        keys.step_leases, keys.step_timers, keys.step_queue, keys.step_backlog, keys.outbox, keys.ended,
        keys.gate_expiry,
    ),
    "known": (keys.events, keys.gate_audit, keys.step_ids),
}  # fmt: skip
"""Keys by which a project belongs on each list. All have two letters, so that one walk finds them."""
_MATCH = "fc:{*}:??"
_KEY = re.compile(rb"fc:\{([^{}]+)\}:([a-z]{2})")


class ProjectHealing(LeaderTask):
    """Heals the lists, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, process: str) -> None:
        super().__init__(store, "heal project lists", process)
        self._next = 0.0

    async def _look(self) -> None:
        if not self._store.fails_over or monotonic() < self._next:
            return
        self._next = monotonic() + HEAL_SECONDS
        await heal(self._store, self._goes_on)

    def _clear(self) -> None:
        pass


async def heal(store: Store, goes_on: Callable[[], Awaitable[bool]]) -> None:
    """Lists the projects that the keys of all servers show. Those on a shard that is away are left to the next time.

    Args:
        goes_on: whether to go on; it is asked often.

    Raises:
        ToolFailure: the lists cannot be read.
    """
    listed = {what: (await ProjectList(store, what).ages()).keys() for what in get_args(List)}
    walks = await asyncio.gather(*(_walk(link, goes_on) for link in store.links.values()), return_exceptions=True)
    shown: dict[str, set[str]] = {}
    for walked in walks:
        if isinstance(walked, BaseException) and not isinstance(walked, ToolFailure | ServerError):
            raise walked
        if isinstance(walked, dict):
            for suffix, projects in walked.items():
                shown.setdefault(suffix, set()).update(projects)
    for what, families in _SHOWN_BY.items():
        if what == "known" and len(listed[what]) >= KNOWN_MOST:
            continue  # others would leave the list for it
        missing = set().union(*(shown.get(family.suffix, ()) for family in families)) - listed[what]
        for project in sorted(missing):
            if not await goes_on():
                return
            await ProjectList(store, what).note(project)
        if missing:
            _log.info("projects were missing from a list", list=what, projects=len(missing))


async def _walk(link: Link, goes_on: Callable[[], Awaitable[bool]]) -> dict[str, set[str]]:
    """The projects on a server by the suffix of a key that shows them. Raises ToolFailure, ServerError."""
    found: dict[str, set[str]] = {}
    cursor = b"0"
    while await goes_on():
        cursor, names = await link.execute("SCAN", cursor, "MATCH", _MATCH, "COUNT", _SLICE)
        for match in filter(None, map(_KEY.fullmatch, names)):
            project = match[1].decode(errors="replace")
            if keys.PROJECT.fullmatch(project):
                found.setdefault(match[2].decode(), set()).add(project)
        if cursor == b"0":
            break
    return found
