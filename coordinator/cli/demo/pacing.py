"""What keeps many clients in one process from standing in each other's way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

_LOOK_SECONDS = 0.05
_CONNECT_SECONDS = 5.0
_GATE_SECONDS = 60.0


class Gate:
    """Closed while nobody listens at the fleet's address: one look for a whole process of agents.

    Args:
        host, port: where to look.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._looking: asyncio.Task[None] | None = None

    @property
    def closed(self) -> bool:
        """Whether somebody looks just now."""
        return self._looking is not None

    async def wait(self) -> None:
        """Returns at once while the gate is open; a minute later at the latest otherwise."""
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=_GATE_SECONDS)

    def close(self) -> None:
        """Somebody lost the connection or was turned away: look before all others find out for themselves."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(_CONNECT_SECONDS):
                        _, writer = await asyncio.open_connection(*self._address)
                    writer.close()
                    return
        finally:
            self._looking = None


class Lanes:
    """Limits the calls under way; those where an item is at stake overtake those that look for one.

    Agents of one process share its CPU. Without this, many that look for work would keep those
    that have some from finishing it before their claims are over.

    Args:
        limit: calls at a time.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = deque(), deque()

    @contextlib.asynccontextmanager
    async def lane(self, urgent: bool) -> AsyncIterator[None]:
        """Waits for a place and keeps it."""
        if self._free:
            self._free -= 1
        else:
            place = asyncio.get_running_loop().create_future()
            self._waiting[not urgent].append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        for queue in self._waiting:
            while queue:
                place = queue.popleft()
                if not place.done():
                    place.set_result(None)
                    return
        self._free += 1
