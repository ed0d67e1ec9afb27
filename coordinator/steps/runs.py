"""The base of the stores of toolsets with runs."""

from __future__ import annotations

import contextlib
from typing import TypeVar

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.steps.handoff import Handoff
from coordinator.steps.store import StepStore
from coordinator.store import Script, Store
from coordinator.store.idempotency import IdempotencyKey, recorded_reply, run_once

R = TypeVar("R")


class RunStore:
    """The runs of one kind, of any project, for front-ends.

    Every method of this class and its subclasses raises ToolFailure as ``Store.run`` says, and ``request_id_reused`` if
    it takes a request.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self.keep_ms = settings.idempotency_seconds * 1000
        """How long the answer to a request id is kept."""
        self.retention_ms = settings.steps.retention_days * 86_400_000
        """How long a run is kept after its end."""
        self._pools = settings.steps.project_pools or {}
        self._handoff = Handoff.of(settings, store)
        self._steps = StepStore(store, self._handoff)

    async def _note(self, project: str, request: IdempotencyKey) -> None:
        """Registers the project for sweeps, before the request creates steps that need them."""
        try:
            await self._steps.projects.note(project)
        except ToolFailure as failure:
            # A full store refuses that. But a repeated request creates nothing, and gets its recorded answer.
            if failure.code == "store_full" and await recorded_reply(self._store, project, request) is not None:
                return
            # In a cluster it may be the shard of the list alone that does not answer.
            if failure.code != "store_unavailable" or self._store.link(project) is self._store.link():
                raise
            self._steps.projects.note_later(project)

    async def _wake_relay(self, project: str, to_relay: bool) -> None:
        """Wakes a relay if a script has written jobs to the project's outbox; else the next sweep finds them."""
        if to_relay:
            with contextlib.suppress(ToolFailure):
                await self._steps.wake_relay(project)

    async def _change(self, script: Script[R], project: str, request: IdempotencyKey, *args: str | bytes | int) -> R:
        """Runs a script whose first arguments are an idempotency key and ``engine`` (see ``Handoff``)."""
        return await run_once(self._store, script, project, request, self.keep_ms, self._handoff.packed(project), *args)
