"""Supervises the embedded store, also if it is a cluster: each of its servers as an embedded store of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.processes.supervision.store_supervisor import StoreSupervisor
from coordinator.service import Service, in_thread
from coordinator.settings import Settings
from coordinator.store.checks.kept_moment import MomentKeeper
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import EmbeddedServer


class ClusterSupervisor(Service):
    """Starts, restarts and stops the servers of a cluster.

    Args:
        on_change: called when a server has started or exited.
        watchdog_seconds: as for ``StoreSupervisor``.
    """

    def __init__(self, cluster: EmbeddedCluster, on_change: Callable[[], None], watchdog_seconds: float) -> None:
        self._cluster = cluster
        self._keeper = MomentKeeper(cluster.data_dir, lambda: cluster.url)
        # Servers keep their ports, so none of them moves.
        self._parts = [StoreSupervisor(node, lambda: None, on_change, watchdog_seconds) for node in cluster.nodes]

    @property
    def url(self) -> str:
        """The cluster's URL, password included."""
        return self._cluster.url

    @property
    def pid(self) -> int | None:
        """The process id of its first server."""
        return self._parts[0].pid

    async def start(self) -> None:
        """Starts and supervises the servers.

        Raises:
            StoreError: one cannot be started, or they do not become a cluster.
        """
        await in_thread(self._cluster.start)
        for part in self._parts:
            await part.start()
        await self._keeper.start()

    async def stop(self, deadline: float = 0.0) -> None:
        """Stops the servers. Everything acknowledged is on disk."""
        await self._keeper.stop()
        await asyncio.gather(*(part.stop() for part in self._parts))


def embedded_store(
    settings: Settings, on_moved: Callable[[], None], on_change: Callable[[], None] = lambda: None
) -> StoreSupervisor | ClusterSupervisor:
    """The supervisor of the embedded store that the settings ask for.

    Args:
        on_moved, on_change: as for ``StoreSupervisor``.
    """
    if settings.shards > 1:
        cluster = EmbeddedCluster(settings.data_dir, settings.shards, fsync=settings.embedded_fsync)
        return ClusterSupervisor(cluster, on_change, settings.watchdog_seconds)
    server = EmbeddedServer(settings.data_dir, settings.embedded_fsync)
    keeper = MomentKeeper(settings.data_dir, lambda: server.url)
    return StoreSupervisor(server, on_moved, on_change, settings.watchdog_seconds, keeper)
