"""Progress notifications of calls that wait.

Hosts time out silent calls: some a minute after the request, others a minute after the last notification. Only callers
that sent a progress token get notifications.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic

import structlog

from coordinator.errors import ToolFailure
from coordinator.toolsets.tool import Notice

FIRST_SECONDS = 5.0
"""Seconds until the first notification."""
EVERY_SECONDS = 15.0

_log = structlog.get_logger(__name__)

Report = Callable[[float, float, str], Awaitable[None]]
"""Sends one notification: seconds so far, seconds at most, and a sentence."""


@contextlib.asynccontextmanager
async def reported(report: Report, tool: str, seconds: float, notice: Notice) -> AsyncIterator[None]:
    """Reports periodically while the block waits.

    Args:
        seconds: how long the wait takes at most.
        notice: what the tool says about it.
    """
    reporting = asyncio.create_task(_report(report, tool, seconds, notice), name=f"progress of {tool}")
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)


async def _report(report: Report, tool: str, seconds: float, notice: Notice) -> None:
    began = monotonic()
    pause = FIRST_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = EVERY_SECONDS
        took = round(monotonic() - began, 3)
        try:
            said = await notice.text() if notice.text is not None else ""
            await report(took, seconds, said or f"{tool[:40]} waits, at most until {seconds:g} s are over")
        except ToolFailure:
            continue  # the store does not answer: the next time, perhaps
        except Exception as error:  # the client has disconnected, which ends the call
            _log.debug("no progress can be reported", tool=tool, reason=repr(error))
            return
