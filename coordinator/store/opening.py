"""Opens a store that may not answer yet."""

from __future__ import annotations

import asyncio
import time

import structlog

from coordinator.backoff import Backoff
from coordinator.store.checks.identity import StoreIdentity
from coordinator.store.errors import AccessRefused, StoreUnreachable
from coordinator.store.store import Store

TIMEOUT_SECONDS = 10.0
"""How long a starting process waits for a store that does not answer."""
_log = structlog.get_logger(__name__)


async def open_patiently(
    url: str,
    timeout_ms: int,
    timeout: float = TIMEOUT_SECONDS,
    identity: StoreIdentity | None = None,
    partly: bool = False,
    setting: str = AccessRefused.setting,
) -> Store:
    """Opens the store; if it does not answer, tries again for ``timeout`` seconds.

    Args:
        partly: of a cluster, it is enough that some shard answers.
        setting: where user and password come from, for the message if they are wrong.

    Raises:
        StoreError: it cannot be used.
    """
    deadline = time.monotonic() + timeout
    backoff, told = Backoff(0.1, 1.0), ""
    while True:
        try:
            store = Store(url, timeout_ms, identity=identity)
            await store.open(partly)
        except AccessRefused as error:
            error.setting = setting
            raise
        except StoreUnreachable as error:
            pause = backoff.next()
            if time.monotonic() + pause > deadline:
                raise
            if str(error) != told:
                told = str(error)
                _log.info("waiting for the store", reason=told, seconds=timeout)
        else:
            return store
        await asyncio.sleep(pause)
