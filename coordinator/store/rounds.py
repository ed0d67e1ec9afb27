"""Rounds: what one process of the fleet looks at for all of them every few seconds, as long as it has the turn."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from time import monotonic

import structlog

from coordinator.errors import ToolFailure
from coordinator.store.errors import StoreError
from coordinator.store.store import Store
from coordinator.store.turns import Turns

_log = structlog.get_logger(__name__)

ROUND_SECONDS = 5.0
"""Between two rounds."""
_TURN_MS = 20_000
"""How long the turn is kept: another process takes it when its holder has died."""
_RENEW_SECONDS = 5.0
"""How old the turn may get in a long round; well below how long it is kept."""


class Rounds(ABC):
    """Makes rounds, as long as it is this process's turn.

    Args:
        what: names the turn.
        process: its name, which no other process of the fleet has.
    """

    def __init__(self, store: Store, what: str, process: str) -> None:
        self._turns = Turns(store)
        self._what = what
        self._process = process
        self._asked = 0.0
        self._shown = False
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Goes on until ``stop`` is called; then it gives the turn away."""
        while not self._stopping.is_set():
            try:
                await self.round()
            except (ToolFailure, StoreError) as failure:
                _log.debug("a round is not finished, trying again", round=self._what, reason=str(failure))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), ROUND_SECONDS)
        await self._turns.leave(self._what, self._process)

    def stop(self) -> None:
        """Has ``run`` end. Cancelled instead, it could lose what it has just taken from the store."""
        self._stopping.set()

    async def round(self) -> bool:
        """Looks, if it is this process's turn; whether it was.

        Raises:
            ToolFailure: the store does not answer.
        """
        mine = await self._turn()
        if mine:
            await self._look()
        elif self._shown:
            self._clear()  # whoever has the turn knows better
        self._shown = mine
        return mine

    async def _turn(self) -> bool:
        self._asked = monotonic()
        return await self._turns.turn(self._what, self._process, _TURN_MS)

    async def _goes_on(self) -> bool:
        """Keeps the turn in a long round; False: the round is to end. To be asked before each part of it."""
        if self._stopping.is_set():
            return False
        return monotonic() - self._asked < _RENEW_SECONDS or await self._turn()

    @abstractmethod
    async def _look(self) -> None:
        """One round."""

    @abstractmethod
    def _clear(self) -> None:
        """Takes back what this process has shown: another one has the turn now."""
