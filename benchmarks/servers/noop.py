"""No-op steps and jobs."""

from __future__ import annotations

import asyncio


async def step() -> None:
    """A tool of a flow, called on the worker's event loop."""


async def wait() -> None:
    """A tool that never returns."""
    await asyncio.sleep(600)


def job() -> None:
    """A job of RQ."""
