"""Claims that wait as tasks: an item is handed to such a claim only while its client asks for the result.

A claim is parked as in ``waiting.py``, but under a name of its own in place of the process, so that it belongs to none.
Each request for the result registers that name as alive, for three intervals between such requests. If they stop, the
claim is skipped, then forgotten; it is not parked again, because its client may have got an item long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from hashlib import blake2b
from typing import Protocol

from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets import deferral
from coordinator.toolsets.items.live.waiting import Parking
from coordinator.toolsets.items.store.claims import ClaimReply, ClaimStore
from coordinator.toolsets.tool import Call

PARKED = "parked"
"""The outcome of a claim that still waits."""
_ALIVE_INTERVALS = 3


class Find(Protocol):
    """Claims, or parks a call for so many milliseconds."""

    def __call__(self, wait_ms: int = 0, only: bool = True, *, process: str = "") -> Awaitable[ClaimReply]: ...


class PolledWaits:
    """The waits of claims that become tasks."""

    def __init__(self, claims: ClaimStore, parking: Parking) -> None:
        self._claims = claims
        self._parking = parking

    async def begin(self, call: Call, request: IdempotencyKey, find: Find, grace_ms: int) -> ClaimReply:
        """A claim that waits here at first; then its outcome is ``parked``, and it waits for ``go_on``.

        Raises:
            ToolFailure: as ``Parking.claim``; then it waits no longer.
        """
        name = _name(call.project, request)
        alive_ms = grace_ms + _ALIVE_INTERVALS * deferral.POLL_MS
        await self._claims.sweep(call.project, name, alive_ms)
        reply = await find(alive_ms, process=name)
        if reply.claims[0].outcome != PARKED:
            return reply
        try:
            here = partial(find, process=self._parking.process)
            reply = await self._parking.claim(call, request, here, grace_ms, keep=True)
        except BaseException:
            await asyncio.shield(self.leave(call.project, request))
            raise
        if reply.claims[0].outcome == "success":
            # It is the answer of this call, which gives the item back if it cannot be delivered.
            await asyncio.shield(self.leave(call.project, request))
        return reply

    async def go_on(self, call: Call, request: IdempotencyKey, find: Find, wait_ms: int) -> ClaimReply:
        """The outcome so far, because the client asks for it; ``parked``: there is none yet.

        Args:
            wait_ms: how long the call asked to wait.
        """
        elapsed_ms = call.elapsed_ms or 0
        name = _name(call.project, request)
        if elapsed_ms >= deferral.lasts_ms(wait_ms) or not await self._claims.waits(call.project, request):
            return await self._claims.end_wait(call.project, request, name, keep=True)
        alive_ms = _ALIVE_INTERVALS * deferral.poll_ms(elapsed_ms)
        await self._claims.sweep(call.project, name, alive_ms)
        return await find(alive_ms, process=name)

    async def leave(self, project: str, request: IdempotencyKey) -> None:
        """The client no longer asks. An item that it was handed, but has not got, is given back."""
        await self._claims.leave_wait(project, request, _name(project, request))


def _name(project: str, request: IdempotencyKey) -> str:
    """What a claim is parked under in place of a process: as long as the id of one."""
    return blake2b(f"{project} {request.key}".encode(), digest_size=16).hexdigest()
