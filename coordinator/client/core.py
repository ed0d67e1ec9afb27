"""What the parts of a fleet share: its calls, the thread that renews claims, and work in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar

from coordinator.client.calls import Calls
from coordinator.client.renewals import Keeper

T = TypeVar("T")
LEAVE_SECONDS = 10.0
"""How long the end of a fleet may take to give back what its jobs hold."""
_log = logging.getLogger(__name__)


class Core(Calls):
    """Of one ``Fleet``; the arguments are those of ``Calls``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tasks: set[asyncio.Task[Any]] = set()

    @cached_property
    def keeper(self) -> Keeper:
        return Keeper.hired()

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs it until the block of the fleet is left at the latest."""
        self._tasks.add(task := asyncio.create_task(work))
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self, work: Coroutine[Any, Any, T]) -> T:
        """Does what must be done although the task that asks for it may be cancelled."""
        return await asyncio.shield(self.background(work))

    async def settled(self) -> None:
        """Waits for all that runs in the background."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def leave(self, giving_back: Coroutine[Any, Any, None]) -> None:
        """Ends all of it, after what is held was given back."""
        leaving = asyncio.create_task(giving_back)
        try:
            try:
                await asyncio.wait((leaving,), timeout=LEAVE_SECONDS)
            except asyncio.CancelledError:
                # Once more: what is held is given back even so. A second time it is not waited for.
                await asyncio.wait((leaving,), timeout=LEAVE_SECONDS)
                raise
        finally:
            if not leaving.done():
                _log.warning("not everything could be given back in time: the ends of the claims will do it")
            for task in (leaving, *self._tasks):
                task.cancel()
            await asyncio.gather(leaving, *self._tasks, return_exceptions=True)
            if "keeper" in vars(self):  # it was needed
                await self.keeper.leave()
            self._wire.close()
            # The transports close in the next turn of the loop.
            await asyncio.sleep(0)
