"""What a process that serves looks for, again and again: what others have done to the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from coordinator.errors import ToolFailure
from coordinator.store.errors import ServerError

LOOK_SECONDS = 1.0
_log = structlog.get_logger(__name__)


async def follow(*looks: Callable[[], Awaitable[None]]) -> None:
    """Looks every ``LOOK_SECONDS``, until it is cancelled; what fails is done the next time, and hinders no other."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for look in looks:
            try:
                with contextlib.suppress(ToolFailure, ServerError):
                    await look()
            except Exception:
                _log.exception("a look at the store has failed")
