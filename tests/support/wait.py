"""Polls for a condition with a timeout: the only way in which tests wait."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import anyio

T = TypeVar("T")
_SHORTEST, _LONGEST = 0.005, 0.05
"""Seconds between two looks: fewer and fewer, because many look by calls, for which the processes awaited need time."""
PATIENCE = 60.0
"""The default timeout in seconds, long enough for a busy machine."""


class NotReached(AssertionError):
    """The condition did not become true."""


@overload
async def wait_until(predicate: Callable[[], Awaitable[T]], timeout: float = PATIENCE, what: str = "") -> T: ...


@overload
async def wait_until(predicate: Callable[[], T], timeout: float = PATIENCE, what: str = "") -> T: ...


async def wait_until(predicate: Callable[[], Any], timeout: float = PATIENCE, what: str = "") -> Any:
    """Returns the predicate's first true value; it may be a plain or an async function.

    Args:
        timeout: seconds.
        what: describes the condition in the failure's message.

    Raises:
        NotReached: not within the timeout.
    """
    deadline, pause = time.monotonic() + timeout, _SHORTEST
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotReached(f"not within {timeout} s: {what or predicate}")
        await anyio.sleep(pause)
        pause = min(1.2 * pause, _LONGEST)


def wait_until_sync(predicate: Callable[[], T], timeout: float = PATIENCE, what: str = "") -> T:
    """``wait_until`` outside an event loop."""
    deadline, pause = time.monotonic() + timeout, _SHORTEST
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotReached(f"not within {timeout} s: {what or predicate}")
        time.sleep(pause)
        pause = min(1.2 * pause, _LONGEST)


def process_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may exit while its file is open
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")
