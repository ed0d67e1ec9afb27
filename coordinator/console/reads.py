"""What pages read, for all tabs of the process together.

It is sheddable, and counts as one agent's share: whatever happens, the console costs no agent its claim. Only what says
how the fleet is, read once a second at most, is not: people look for it when calls are shed. What tabs ask for after
the same frame of the stream is read and rendered once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from coordinator.console.metrics import SHED
from coordinator.console.viewer import Viewer
from coordinator.errors import ToolFailure
from coordinator.metrics.samples import Samples
from coordinator.overload import Admission, ShardedAdmission
from coordinator.service import Service
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.gateway import Catalogue, Decisions, LeftOut
from coordinator.toolsets.items import schema_config
from coordinator.toolsets.tool import Call, Criticality, Tool, Toolset

T = TypeVar("T")

SHARE = "!console"
"""Whose fair share all reads count against; no agent can have this name."""
_VITAL_SHARE = "!console vital"
"""The same of vital reads, which would else take the room of pages."""
FRESH_SECONDS = 1.0
"""How long an answer is given to further tabs."""
_KEPT = 512
_DEFAULTS = Settings()
OVERLOADED = "the fleet is overloaded, and calls of agents come before pages (see System)"
_OVERLOAD = ("over_capacity", "queue_timeout", "actor_quota")
MOST_AT_ONCE = 2
"""Reads of the store at a time: as many as the smallest share has. Further ones wait, and are not shed for pages."""


class Reads(Service):
    """The reads of one process, through the tools of the toolsets, and so under their rules.

    Args:
        admission: sheds reads; None: all are admitted.
        samples: the metrics of all processes of this host; reads files, so it is called in a thread.
    """

    def __init__(
        self,
        store: Store,
        toolsets: Mapping[str, Toolset],
        decisions: Decisions,
        admission: Admission | ShardedAdmission | None,
        settings: Settings = _DEFAULTS,
        samples: Callable[[], Samples] = dict,
    ) -> None:
        self.store = store
        self.samples = samples
        self.configure(settings)
        self.decisions = decisions
        self.scanning = asyncio.Lock()
        """Held by a read that scans a project."""
        self.scans = 0
        """How many such reads run or wait."""
        self._tools: dict[tuple[str, str], Tool] = {
            (toolset.name, tool.name): tool
            for toolset in toolsets.values()
            for tool in (*toolset.tools, *toolset.people)
        }
        gateway = toolsets.get("gateway")
        self._catalogue = gateway.offers if gateway is not None else None
        self._admission = admission
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._shared: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    @property
    def left_out(self) -> Mapping[str, Sequence[LeftOut]]:
        """The tools that the gateway cannot offer, by connection, as far as this process knows."""
        return cast(Catalogue, self._catalogue()).left_out if self._catalogue is not None else {}

    def configure(self, settings: Settings) -> None:
        self.config = schema_config(settings)
        """What the settings say about items."""

    async def tool(self, viewer: Viewer, project: str, toolset: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Calls a tool that reads, and returns its result struct; not if the viewer may not read this toolset."""
        if not viewer.reads(toolset):
            raise ToolFailure("permission_denied", f"this page needs the permission '{toolset}.read'")
        tool = self._tools[toolset, name]
        if not tool.read_only:
            raise ValueError(f"{name} changes something")
        decoded = msgspec.convert(arguments, tool.arguments)
        return await self.admitted(project, lambda: tool.handler(Call(project, caller=viewer.caller), decoded))

    async def admitted(self, project: str, read: Callable[[], Awaitable[T]]) -> T:
        """Reads the store, if there is room for it. Raises ToolFailure: there is none, or what ``read`` raises."""
        async with self._room:
            return await self._admitted(project, read)

    async def vital(self, key: Hashable, read: Callable[[], Awaitable[T]], seconds: float = FRESH_SECONDS) -> T:
        """Reads what says how the fleet is, for all who ask for it: little, so it is read even in an overload.

        Args:
            seconds: how long it is given to further ones.
        """
        return await self.shared(key, lambda: self._admitted("", read, Criticality.CRITICAL), seconds)

    async def _admitted(
        self, project: str, read: Callable[[], Awaitable[T]], criticality: Criticality = Criticality.SHEDDABLE
    ) -> T:
        if self._admission is None:
            return await read()
        share = _VITAL_SHARE if criticality is Criticality.CRITICAL else SHARE
        if self._admission.draining:  # who has drained the fleet has to see it, and there is room then
            criticality = max(criticality, Criticality.READ)
        try:
            entered = self._admission.enter(criticality, share, project)
            ticket = entered or await self._admission.wait(criticality, share, project)
        except ToolFailure as failure:
            SHED.inc()
            if failure.code in _OVERLOAD:
                failure = ToolFailure(failure.code, OVERLOADED, retry_after_ms=failure.retry_after_ms)
            raise failure from None
        try:
            return await read()
        finally:
            self._admission.leave(ticket)

    async def shared(self, key: Hashable, make: Callable[[], Awaitable[T]], seconds: float = FRESH_SECONDS) -> T:
        """What ``make`` returns, made once for all who ask for the same at about the same time.

        Args:
            seconds: how long it is given to further ones.
        """
        now = time.monotonic()
        until, making = self._shared.get(key, (0.0, None))
        if making is None or (making.done() and now >= until):
            self._drop(now)
            making = asyncio.ensure_future(make())
            self._shared[key] = now + seconds, making
            making.add_done_callback(lambda done: self._ended(key, done, seconds))
        # One tab that leaves must not end the read of the others.
        return cast(T, await asyncio.shield(making))

    def _ended(self, key: Hashable, done: asyncio.Future[Any], seconds: float) -> None:
        if done.cancelled() or done.exception() is not None:
            if self._shared.get(key, (0, None))[1] is done:
                del self._shared[key]
        elif self._shared.get(key, (0, None))[1] is done:
            self._shared[key] = time.monotonic() + seconds, done

    def _drop(self, now: float) -> None:
        if len(self._shared) >= _KEPT:
            for key in [key for key, (until, made) in self._shared.items() if until <= now and made.done()]:
                del self._shared[key]
