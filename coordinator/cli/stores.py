"""The store as commands meet it: which one, opened with patience, failures as sentences."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

import structlog

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.settings import Settings
from coordinator.store import AddressError, Store, StoreError, StoreTooOld, StoreUnreachable
from coordinator.store.embedded import EmbeddedError, ServerFailed, find_running
from coordinator.store.server_binary import ServerMissing

_log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 10.0
"""How long a starting process waits for a store that does not answer."""


def given_url(settings: Settings, env: Mapping[str, str]) -> str:
    """``redis_url`` with the password from FLEET_REDIS_PASSWORD in it; empty if no URL is given."""
    password = env.get("FLEET_REDIS_PASSWORD")
    if not settings.redis_url or not password:
        return settings.redis_url
    parts = urlsplit(settings.redis_url)
    if parts.password:
        return settings.redis_url
    endpoint = parts.netloc.rpartition("@")[2]
    netloc = f"{parts.username or ''}:{quote(password, safe='')}@{endpoint}"
    return urlunsplit(parts._replace(netloc=netloc))


def running_url(settings: Settings, env: Mapping[str, str]) -> str:
    """The given URL, or that of the embedded server which a running fleet has in the data directory.

    Raises:
        CommandFailed: there is neither.
    """
    url = given_url(settings, env) or find_running(settings.data_dir)
    if url is None:
        raise CommandFailed(
            f"no Redis to work with: give --redis-url (or FLEET_REDIS_URL), or start `fleet up` on the data "
            f"directory {settings.data_dir}",
            Exit.STORE_UNREACHABLE,
        )
    return url


async def open_store(url: str, timeout_ms: int, patience: float = PATIENCE_SECONDS) -> Store:
    """Opens the store; while nobody answers it tries again, for ``patience`` seconds.

    Raises:
        CommandFailed: with the reason and its exit code.
    """
    deadline = time.monotonic() + patience
    pause = 0.05
    while True:
        try:
            store = Store(url, timeout_ms)
            await store.open()
        except StoreUnreachable as error:
            if time.monotonic() + pause > deadline:
                raise store_failed(error) from None
            _log.info("waiting for the store", reason=str(error))
        except StoreError as error:
            raise store_failed(error) from None
        else:
            return store
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


def store_failed(error: StoreError) -> CommandFailed:
    """The failure of a command that could not use its store."""
    code = Exit.FAILED
    if isinstance(error, AddressError):
        code = Exit.USAGE
    elif isinstance(error, StoreTooOld):
        code = Exit.STORE_TOO_OLD
    elif isinstance(error, StoreUnreachable):
        code = Exit.STORE_UNREACHABLE
    elif isinstance(error, (ServerMissing, ServerFailed)):
        code = Exit.NO_EMBEDDED_STORE
    elif isinstance(error, EmbeddedError):
        code = Exit.DATA_DIR
    return CommandFailed(str(error), code)
