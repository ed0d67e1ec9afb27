"""Notices that an embedded store lost its last writes while the fleet was down, as by a restored copy.

Who starts the server keeps the latest time that the store knows (``identity.py``) in the data directory, beside the
folder with the store's data, and compares both at the next start. A time is kept only when it is on disk in the store.
So the crash of a host is not taken for a loss, whatever ``embedded_fsync`` says, and what is kept may be some seconds
old; after a stop, it is exact. Whoever puts the whole directory back, puts this file back, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.settings.paths import replace_file
from coordinator.store.checks.identity import read_moment, report_loss
from coordinator.store.link import clients
from coordinator.store.link.address import parse

LOOK_SECONDS = 2.0
"""How often the store is asked, and how long a time waits until it is kept: twice what the server takes to write to
disk (everysec)."""
_FILE = "store.moment"
_SECONDS = 1.0
"""How long the store may take to answer."""


_STORES = 8
"""Of how many stores the file has the time."""


class Kept(NamedTuple):
    """What is known of a store. The file has that of the last stores that were in the data directory, because another
    one may be put there by mistake, before the right one comes back."""

    identity: str = ""
    moment: int = 0
    """The latest time (ms) that it has acknowledged."""


class MomentKeeper:
    """Keeps that of the embedded store of a data directory while it runs.

    Args:
        url: gives the present URL of the store.
    """

    def __init__(self, data_dir: Path | str, url: Callable[[], str]) -> None:
        self._path = Path(data_dir) / _FILE
        self._url = url
        self._task: asyncio.Task[None] | None = None
        self._compared = False

    async def start(self) -> None:
        """Compares the store with what was kept, reports a loss, and goes on keeping."""
        with contextlib.suppress(redis.RedisError, OSError):  # ``_run`` compares as soon as the store answers
            await self._compare()
        self._task = asyncio.create_task(self._run(), name="store-moment")

    async def stop(self) -> None:
        """Keeps the last time; to be called when nobody writes any more, and before the server ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            with contextlib.suppress(redis.RedisError, OSError):
                if self._compared:
                    self._keep(await self._look())

    async def _run(self) -> None:
        before = Kept()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(redis.RedisError, OSError):
                found = await self._look()
                if not self._compared:  # the store did not answer when it had started
                    await self._compare()
                else:
                    self._keep(before)
                before = found

    async def _compare(self) -> None:
        found, kept = await self._look(), self._read()
        if (lost := kept.get(found.identity, 0) - found.moment) > 0:
            await report_loss(self._ask, found.identity, lost)
        self._compared = True  # also if the disk is full: a loss is reported once
        self._keep(found)

    async def _look(self) -> Kept:
        return Kept(*await read_moment(self._ask))

    async def _ask(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        def ask() -> list[Any]:
            client: Any = clients.client(
                parse(self._url()),
                socket_timeout=_SECONDS,
                socket_connect_timeout=_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
            with contextlib.closing(client), client.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                replies: list[Any] = pipeline.execute(raise_on_error=False)
                return replies

        return await asyncio.to_thread(ask)

    def _read(self) -> dict[str, int]:
        """The times by identity, that of the present store last."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.DecodeError):
            return {}

    def _keep(self, found: Kept) -> None:
        kept = self._read()
        if found.identity and kept.pop(found.identity, None) != found.moment:
            fresh = (*kept.items(), (found.identity, found.moment))
            replace_file(self._path, msgspec.json.encode(dict(fresh[-_STORES:])))
