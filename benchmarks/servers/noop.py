"""What steps and jobs do in benchmarks: nothing."""

from __future__ import annotations

import asyncio


async def step() -> None:
    """A tool of a flow, called on the worker's event loop."""


async def wait() -> None:
    """A tool that takes as long as it is let."""
    await asyncio.sleep(600)


def job() -> None:
    """A job of RQ."""
