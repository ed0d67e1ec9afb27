"""Leader tasks: periodic tasks that only one process of the fleet runs, the one that holds the task's lease."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from time import monotonic

import structlog

from coordinator.errors import ToolFailure
from coordinator.service import Background
from coordinator.store.errors import StoreError
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.store import Store

_log = structlog.get_logger(__name__)

ROUND_SECONDS = 5.0
"""The pause between two rounds."""
_LEASE_MS = 20_000
"""How long a lease lasts without renewal. If its holder dies, another process takes over after this time."""
_LAST_ROUND_SECONDS = 1.0
"""How long a stop waits for the round under way."""
_RENEW_SECONDS = 5.0
"""In a long round the lease is renewed when it is older than this; well below ``_LEASE_MS``."""


class LeaderTask(Background, ABC):
    """A periodic task that runs while this process leads. Subclasses define one round of it.

    Args:
        what: the name of the lease.
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, what: str, process: str) -> None:
        super().__init__(self.run, what)
        self._store = store
        self._leases = LeaderLeases(store)
        self._what = what
        self._process = process
        self._asked = 0.0
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Runs rounds until ``stop`` is called; then gives the lease back."""
        while not self._stopping.is_set():
            try:
                await self.round()
            except (ToolFailure, StoreError) as failure:
                _log.debug("a round is not finished, trying again", round=self._what, reason=str(failure))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._stopping.wait()
        await self._leave()
        await self._leases.release(self._what, self._process)

    async def stop(self, deadline: float = 0.0) -> None:
        """Lets the round under way end, and gives the lease back."""
        self._stopping.set()
        if self.task is not None:
            # A round that is cancelled could lose what it has just taken from the store.
            await asyncio.wait([self.task], timeout=_LAST_ROUND_SECONDS)
            if not self.task.done():
                await super().stop()
                self._clear()

    async def round(self) -> bool:
        """Runs one round if this process leads; returns whether it did.

        Raises:
            ToolFailure: the store does not answer.
        """
        leads = await self._lead()
        if leads:
            await self._look()
        else:
            self._clear()  # the leader publishes the current values
        return leads

    async def _lead(self) -> bool:
        self._asked = monotonic()
        return await self._leases.acquire(self._what, self._process, _LEASE_MS)

    async def _goes_on(self) -> bool:
        """Whether a long round may go on; renews the lease. To be called before each part of the round."""
        if self._stopping.is_set():
            return False
        return monotonic() - self._asked < _RENEW_SECONDS or await self._lead()

    @abstractmethod
    async def _look(self) -> None:
        """One round, in the process that leads."""

    async def _leave(self) -> None:
        """Ends, before a stop, what only the process that leads may do, before the lease is given back."""

    @abstractmethod
    def _clear(self) -> None:
        """Resets what this process may have published as the leader (gauges, for example): another one leads."""
