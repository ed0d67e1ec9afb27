"""Waiting for something to be the case, with a deadline: the only waiting that tests do."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import anyio

T = TypeVar("T")
_PAUSE = 0.005
PATIENCE = 60.0
"""Seconds after which nothing more will come, also on a machine that has much else to do."""


class NotReached(AssertionError):
    """What was waited for did not come about."""


@overload
async def wait_until(predicate: Callable[[], Awaitable[T]], timeout: float = PATIENCE, what: str = "") -> T: ...


@overload
async def wait_until(predicate: Callable[[], T], timeout: float = PATIENCE, what: str = "") -> T: ...


async def wait_until(predicate: Callable[[], Any], timeout: float = PATIENCE, what: str = "") -> Any:
    """Returns the predicate's first true value; it may be a plain or an async function.

    Args:
        timeout: seconds.
        what: what is waited for, for the failure's message.

    Raises:
        NotReached: not within the timeout.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotReached(f"not within {timeout} s: {what or predicate}")
        await anyio.sleep(_PAUSE)


def wait_until_sync(predicate: Callable[[], T], timeout: float = PATIENCE, what: str = "") -> T:
    """``wait_until`` outside an event loop."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotReached(f"not within {timeout} s: {what or predicate}")
        time.sleep(_PAUSE)


def process_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected by its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may end while its file is open
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")
