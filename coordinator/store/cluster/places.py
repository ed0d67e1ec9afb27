"""Where the calls of each project go, and, in a cluster, whether its keys there are those that the fleet had.

A shard can be emptied or replaced while the others go on, and slots move between shards. So in a cluster each project
has a key that names the store (``checks/identity.py``), its marker, in the project's own slot, and the projects that
have one are listed among the keys of the fleet. The marker is read before the first call for a project on a connection,
and again after slots have moved; not before each call, because the place of the project is kept until then. If it is
missing and the project is not listed, the project is new: before its first write it gets a marker. If it is missing
although the project is listed, or names another store, the calls of this project, and no others, are rejected with
``store_changed``, until an operator accepts what is there (``fleet store accept``).

In any store, the calls of projects that are known to be fenced are refused (``fences/known.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import structlog

from coordinator.errors import ToolFailure
from coordinator.service import end_tasks
from coordinator.store import keys
from coordinator.store.checks.identity import StoreIdentity
from coordinator.store.errors import ServerError
from coordinator.store.fences.known import Fenced
from coordinator.store.link.replies import RETRY_MS, changed
from coordinator.store.link.shared import Link
from coordinator.store.metrics import STORE_CHANGED
from coordinator.store.scripts import Script, pack_key

MAX_CACHED_PLACES = 10_000
"""Of how many projects it is kept where their calls go."""
_AGAIN_SECONDS = 1.0
_AT_ONCE = 500
_LIST = keys.marked_projects.key(keys.FLEET)
_log = structlog.get_logger(__name__)

Send = Callable[..., Awaitable[Any]]
"""Sends a command to the shard of a project, or of ``keys.FLEET``: the project, then the words."""


class Undecided(ToolFailure):
    """Whether a project is new cannot be told; its own shard is not at fault."""


class Place:
    """Where the calls of a project go."""

    __slots__ = ("key", "link")

    def __init__(self, key: bytes, link: Link) -> None:
        self.key = key
        """The packed prefix of its keys."""
        self.link = link


class Places:
    """The places of one process.

    Args:
        sharded: whether the store is a cluster, so that projects are checked.
        link_of: the link to the shard of a project.
        identity: the identity that the store must have.
    """

    def __init__(
        self, sharded: bool, link_of: Callable[[str], Link], send: Send, identity: Callable[[], StoreIdentity]
    ) -> None:
        self.known: dict[str, Place] = {}
        """Places of projects, to be used without any further question. Always the same dictionary."""
        self.sharded = sharded
        self.fenced: set[str] = set()
        """Projects that had a fence when this process last heard of them: it is read before their next call."""
        self._link_of = link_of
        self._send = send
        self._identity = identity
        self._forgotten = 0
        self._looks: dict[tuple[str, bool], asyncio.Task[bool]] = {}
        self._refused: set[str] = set()
        self._to_list: set[str] = set()
        self._tending: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Ends what goes on in the background."""
        await end_tasks(*self._looks.values(), *filter(None, [self._tending]))

    def forget(self, link: Link | None = None) -> None:
        """The connection of a link was lost; None: slots have moved, or the store has another identity."""
        self._forgotten += 1
        self._looks.clear()
        for project in [name for name, place in self.known.items() if link in (None, place.link)]:
            del self.known[project]

    def of(self, script: Script[Any], project: str) -> Place | None:
        """The place of calls of a script that are not checked; None: they are (``checked``).

        Raises:
            ToolFailure: store_unavailable: no shard has it; VALIDATION_ERROR for a bad project name.
        """
        if keys.scope_of(project) != script.scope:
            raise ValueError(f"script {script.name} belongs to the scope {script.scope}")
        if script.scope != "project":
            return Place(pack_key(project), self._link_of(project))
        return None if self.sharded or project in self.fenced else self._keep(project)

    async def checked(self, project: str, writes: bool) -> Place:
        """The place of a project whose keys are those that the fleet had.

        Args:
            writes: whether the call may write, so that the project has to be marked.

        Raises:
            ToolFailure: store_changed: they are not; project_away: the project is fenced; and as ``Store.run`` says.
        """
        if project in self.fenced:
            self.refuse(project, await self._send(project, "GET", keys.fence.key(project)))
            self.fenced.discard(project)
        if not self.sharded or not self._identity().known:
            return self.known.get(project) or self._keep(project)
        while (place := self.known.get(project)) is None:
            forgotten = self._forgotten
            if not await self._looked(keys.check_project(project), writes):
                return Place(pack_key(project), self._link_of(project))
            if forgotten == self._forgotten:
                self._keep(project)
        return place

    def refuse(self, project: str, fence: bytes | None) -> None:
        """Remembers that a project is fenced. Raises Fenced; does nothing if there is no fence."""
        if fence is not None:
            self.known.pop(project, None)
            self.fenced.add(project)
            raise Fenced(project, fence[keys.FENCE_ID + 1 :].decode(errors="replace"))

    def now_fenced(self, projects: set[str]) -> None:
        """These projects may be fenced, no others are."""
        for project in projects - self.fenced:
            self.known.pop(project, None)
        self._forgotten += 1  # looks under way may have found them without
        self.fenced = projects

    def _keep(self, project: str) -> Place:
        place = Place(pack_key(project), self._link_of(project))
        if len(self.known) >= MAX_CACHED_PLACES:
            self.known.clear()
        self.known[project] = place
        return place

    async def _looked(self, project: str, writes: bool) -> bool:
        """``_look``, which concurrent callers share."""
        look = self._looks.get((project, writes))
        if look is None:
            look = asyncio.get_running_loop().create_task(self._look(project, writes), name="store-places look")
            self._looks[project, writes] = look

            def forget(done: asyncio.Task[bool]) -> None:
                if not done.cancelled():
                    done.exception()  # marks it as retrieved, where all callers are gone
                if self._looks.get((project, writes)) is done:
                    del self._looks[project, writes]

            look.add_done_callback(forget)
        return await asyncio.shield(look)

    async def _look(self, project: str, writes: bool) -> bool:
        """Whether the project is marked as one of this store, after a write always.

        Raises:
            ToolFailure: as ``checked``.
        """
        identity, marker = self._identity(), keys.marker.key(project)
        found, fence = await self._send(project, "MGET", marker, keys.fence.key(project))
        self.refuse(project, fence)
        if found is None and not await self._listed(project):
            if not writes:
                return False
            await self._send(project, "SET", marker, identity.known, "NX")
            await self._send(keys.FLEET, "SADD", _LIST, project)
        elif not identity.owns(found):
            if not identity.accepts:
                raise self._refuse(project, found)
            await mark(self._send, project, identity)
        if project in self._refused:
            self._refused.discard(project)
            STORE_CHANGED.set(identity.refused or bool(self._refused))
            _log.info("a project is served again", project=project)
        self._to_list.add(project)  # a failover may have lost it from the list
        self._tend()
        return True

    async def _listed(self, project: str) -> bool:
        try:
            return bool(await self._send(keys.FLEET, "SISMEMBER", _LIST, project))
        except ToolFailure as failure:
            if failure.code != "store_unavailable":
                raise
            why = "the store cannot tell whether this project is new: the shard with the fleet's keys is away"
            raise Undecided(failure.code, f"{why}; nothing was sent", retry_after_ms=RETRY_MS) from None

    def _refuse(self, project: str, found: bytes | None) -> ToolFailure:
        what = f"its keys are of the store {found.decode(errors='replace')}" if found else "its shard was emptied"
        why = (
            f"the project {project} is not the one that the fleet had: {what}; bring that one back, or accept this one "
            "in its place: fleet store accept"
        )
        if project not in self._refused:
            self._refused.add(project)
            STORE_CHANGED.set(True)
            _log.error("a project is not the one that the fleet had: its calls are rejected", reason=why)
            self._tend()
        return changed(why)

    def _tend(self) -> None:
        if self._tending is None or self._tending.done():
            self._tending = asyncio.get_running_loop().create_task(self._tend_until_done(), name="store-places")

    async def _tend_until_done(self) -> None:
        """Lists projects, and looks whether refused ones were accepted: nobody may call for them again."""
        while self._refused or self._to_list:
            await asyncio.sleep(_AGAIN_SECONDS)
            listing = tuple(self._to_list)[:_AT_ONCE]
            with contextlib.suppress(ToolFailure, ServerError):
                if listing:
                    await self._send(keys.FLEET, "SADD", _LIST, *listing)
                    self._to_list.difference_update(listing)
            for project in tuple(self._refused):
                with contextlib.suppress(ToolFailure, ServerError):
                    await self._looked(project, False)


class Marks(NamedTuple):
    """What is found of the projects that a cluster had."""

    kept: int
    """How many are as they were."""
    lost: list[str]
    """Those that are not the ones that the fleet had."""
    unseen: list[str]
    """Those whose shard does not answer."""


async def listed(send: Send) -> set[str]:
    """The projects that a cluster had. Raises ToolFailure, ServerError."""
    return {one.decode() for one in await send(keys.FLEET, "SMEMBERS", _LIST)}


async def look_at_all(send: Send, identity: StoreIdentity) -> Marks:
    """Looks at all projects of a cluster.

    Raises:
        ToolFailure, ServerError: the list of projects cannot be read.
    """
    kept, lost, unseen = 0, list[str](), list[str]()
    projects = sorted(await listed(send))
    for start in range(0, len(projects), _AT_ONCE):
        some = projects[start : start + _AT_ONCE]
        reads = (send(project, "MGET", keys.marker.key(project), keys.fence.key(project)) for project in some)
        for project, found in zip(some, await asyncio.gather(*reads, return_exceptions=True), strict=True):
            if isinstance(found, ToolFailure | ServerError):
                unseen.append(project)
            elif isinstance(found, BaseException):
                raise found
            elif identity.owns(found[0]) or found[1] is not None:
                kept += 1
            else:
                lost.append(project)
    return Marks(kept, lost, unseen)


async def unlist(send: Send, project: str) -> None:
    """Forgets that a cluster had a project. Raises ToolFailure, ServerError."""
    await send(keys.FLEET, "SREM", _LIST, project)
    await send(project, "DEL", keys.marker.key(project))


async def mark(send: Send, project: str, identity: StoreIdentity) -> None:
    """Accepts the keys of a project as they are. Raises ToolFailure, ServerError."""
    await send(project, "SET", keys.marker.key(project), identity.known)
    await send(keys.FLEET, "SADD", _LIST, project)
    _log.warning("a project was accepted in place of the one that the fleet had", project=project)
