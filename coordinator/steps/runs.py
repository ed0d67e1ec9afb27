"""The part common to the stores of toolsets whose runs consist of steps."""

from __future__ import annotations

from typing import TypeVar

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.steps.handoff import Handoff
from coordinator.steps.store import PACKAGE, StepStore
from coordinator.store import Script, Store
from coordinator.store.idempotency import IdempotencyKey, recorded_reply, run_once

INCLUDES = (PACKAGE,)
"""Whose includes the scripts of such a toolset take."""

R = TypeVar("R")


class RunStore:
    """Runs of one kind, of any project, as front-ends need them.

    Every method of it and of the stores built on it raises ToolFailure as ``Store.run`` says, and
    ``request_id_reused`` where it takes a request.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self.keep_ms = settings.idempotency_seconds * 1000
        """How long the answer to a request id is kept."""
        self.retention_ms = settings.steps.retention_days * 86_400_000
        """How long a run is kept after its end."""
        self._pools = settings.steps.project_pools or {}
        self._handoff = Handoff.of(settings)
        # A front-end has no business with the queue itself.
        self._steps = StepStore(store, store, self._handoff)

    async def _note(self, project: str, request: IdempotencyKey) -> None:
        """Has the project swept from now on; before the request makes anything that may need it."""
        try:
            await self._steps.projects.note(project)
        except ToolFailure as failure:
            # What is full takes no note. A repeated request makes nothing, and gets its recorded answer all the same.
            if failure.code != "store_full" or await recorded_reply(self._store, project, request) is None:
                raise

    async def _wake_relay(self, project: str, to_relay: bool) -> None:
        """Wakes a relay if a script has written jobs to the project's outbox."""
        if to_relay:
            await self._steps.wake_relay(project)

    async def _change(self, script: Script[R], project: str, request: IdempotencyKey, *args: str | bytes | int) -> R:
        """A script that begins with an idempotency key and what it takes to hand steps over."""
        return await run_once(self._store, script, project, request, self.keep_ms, self._handoff.packed(project), *args)
