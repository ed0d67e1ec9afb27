"""How many steps wait for a worker, as a front-end counts them: where no worker lives, none says so."""

from __future__ import annotations

import asyncio

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics import Recorder
from coordinator.steps.store import StepStore
from coordinator.store import Store
from coordinator.store.errors import StoreError
from coordinator.store.turns import Turns

_log = structlog.get_logger(__name__)

COUNT_SECONDS = 5.0
"""Between two rounds."""
_TURN_MS = 20_000
"""How long the turn is kept: another process takes it when its holder has died."""
_TURN = "count steps"


class Counting:
    """Counts, as long as it is this process's turn.

    Args:
        process: its name, which no other process of the fleet has.
    """

    def __init__(self, store: Store, steps: StepStore, recorder: Recorder, process: str) -> None:
        self._turns = Turns(store)
        self._steps = steps
        self._recorder = recorder
        self._process = process

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        while True:
            try:
                await self.round()
            except (ToolFailure, StoreError) as failure:
                _log.debug("steps cannot be counted, trying again", reason=str(failure))
            await asyncio.sleep(COUNT_SECONDS)

    async def round(self) -> None:
        """Looks at all projects if it is this process's turn; whoever else has it knows better.

        Raises:
            ToolFailure: the store does not answer.
        """
        waiting = 0
        if await self._turns.turn(_TURN, self._process, _TURN_MS):
            for project in await self._steps.projects():
                waiting += await self._steps.queued(project)
        self._recorder.steps_queued(waiting)
