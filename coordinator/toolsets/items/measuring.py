"""The figures about items that no call can know: one front-end of the fleet has the store count them now and then.

How many items there are in each role, how old the oldest ready one is, how long claims were held and how
many lost the race for each: the scripts that refuse and end claims count in the project, whichever front-ends
they run for, and whoever measures takes these counts away, so that each claim is in one process's histogram.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics import Recorder
from coordinator.store import Store
from coordinator.store.errors import StoreError
from coordinator.store.turns import Turns
from coordinator.toolsets.items.store.measures import EMPTY_SECONDS, MeasureStore

_log = structlog.get_logger(__name__)

MEASURE_SECONDS = 5.0
"""Between two rounds."""
_TURN_MS = 20_000
"""How long the turn is kept: another process takes it when its holder has died."""
_TURN = "measure items"


class Measuring:
    """Measures, as long as it is this process's turn.

    Args:
        process: its name, which no other process of the fleet has.
    """

    def __init__(self, store: Store, recorder: Recorder, process: str) -> None:
        self._turns = Turns(store)
        self._measures = MeasureStore(store)
        self._recorder = recorder
        self._process = process
        self._shown = False
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Goes on until ``stop`` is called; then it gives the turn away."""
        while not self._stopping.is_set():
            try:
                await self.round()
            except (ToolFailure, StoreError) as failure:
                _log.debug("items cannot be measured, trying again", reason=str(failure))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), MEASURE_SECONDS)
        await self._turns.leave(_TURN, self._process)

    def stop(self) -> None:
        """Has ``run`` end. Cancelled instead, it could lose what it has just taken from the store."""
        self._stopping.set()

    async def round(self) -> bool:
        """Looks at all projects if it is this process's turn; whether it was.

        Raises:
            ToolFailure: the store does not answer.
        """
        if not await self._turns.turn(_TURN, self._process, _TURN_MS):
            if self._shown:
                # Whoever has the turn knows better.
                self._show(Counter(), 0.0)
                self._shown = False
            return False
        roles: Counter[str] = Counter()
        oldest, kept = 0.0, time.monotonic()
        for project, noted in await self._measures.projects():
            if self._stopping.is_set():
                break
            found = await self._measures.measure(project)
            roles.update(found.roles)
            oldest = max(oldest, found.oldest_seconds)
            for held in found.held:
                self._recorder.claims_held(held.end, held.counts, held.seconds)
            self._recorder.claim_losers(found.lost.counts, found.lost.losers)
            if not any(found.roles.values()) and noted < time.time() - EMPTY_SECONDS:
                await self._measures.forget(project)
            if time.monotonic() - kept > _TURN_MS / 4000:
                kept = time.monotonic()
                await self._turns.turn(_TURN, self._process, _TURN_MS)
        self._show(roles, oldest)
        self._shown = True
        return True

    def _show(self, roles: Counter[str], oldest: float) -> None:
        self._recorder.items(roles, oldest)
