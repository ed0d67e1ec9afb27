"""The servers of the store's tests, started on first use and shared by a session."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator.store import Store
from coordinator.store.embedded import binary
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import EmbeddedServer

DEBIAN_REDIS = Path("/usr/bin/redis-server")


class Kind(NamedTuple):
    """One server and the protocol spoken with it."""

    server: str
    """``valkey``: the packaged one. ``redis7``: the distribution's. ``cluster``: the packaged one as the only shard of
    a cluster, which refuses scripts that touch keys of two projects. ``shards``: three shards with a replica each."""
    protocol: int

    def __str__(self) -> str:
        return f"{self.server}-resp{self.protocol}"


def kill(server: EmbeddedServer, how: signal.Signals = signal.SIGKILL) -> None:
    """Sends a server a signal."""
    assert server.pid is not None
    os.kill(server.pid, how)


@contextlib.asynccontextmanager
async def emptied(url: str) -> AsyncIterator[Store]:
    """A store on a server that no other test uses meanwhile; its data is deleted at the end."""
    store = Store(url, timeout_ms=5000)
    await store.open()
    try:
        yield store
        await store.command("FLUSHALL")
    finally:
        await store.close()


DEFAULT_KIND = Kind(os.environ.get("TEST_STORE", "valkey"), 3)
"""Of most tests; ``TEST_STORE=cluster`` or ``shards`` in the environment runs them on a cluster."""
KINDS = tuple(dict.fromkeys((DEFAULT_KIND, Kind("valkey", 3), Kind("valkey", 2), Kind("redis7", 3), Kind("redis7", 2))))


Server = EmbeddedServer | EmbeddedCluster
CLUSTERS = {"cluster": (1, 0), "shards": (3, 1)}
"""Shards and replicas of each, by kind of server."""


def binary_for(server: str) -> binary.Binary:
    """The binary of a kind of server; skips the test with a reason if it is not installed."""
    if server == "valkey":
        return binary.find()
    if not DEBIAN_REDIS.exists() or shutil.which(str(DEBIAN_REDIS)) is None:
        pytest.skip(f"no {DEBIAN_REDIS} here; the package redis-server brings it")
    return binary.probe(DEBIAN_REDIS)


def server_of(kind: str, directory: Path) -> Server:
    """A server of a kind, not started yet."""
    if kind in CLUSTERS:
        return EmbeddedCluster(directory, *CLUSTERS[kind], fsync="everysec")
    return EmbeddedServer(directory, fsync="everysec", binary=binary_for(kind))


class Servers:
    """At most one running server per kind."""

    def __init__(self, make_directory: Callable[[str], Path]) -> None:
        self._make_directory = make_directory
        self._running: dict[str, Server] = {}

    def url(self, server: str) -> str:
        """The URL of the kind's server; starts it if needed, or restarts it if a test has stopped it."""
        running = self._running.get(server)
        if running is None:
            running = self._running[server] = server_of(server, self._make_directory(server))
        return running.start()

    def stop(self) -> None:
        """Stops them all."""
        for running in self._running.values():
            running.stop()
        self._running.clear()
