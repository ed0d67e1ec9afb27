"""Metrics of the fleet as a whole: what its store uses, and its drains. One front-end measures them periodically."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store.facts import number, read_fields
from coordinator.store.fleet.drains import Drains
from coordinator.store.fleet.leader_task import LeaderTask
from coordinator.store.link.shared import Link
from coordinator.store.metrics import APPEND_FILE, CLIENTS, DRAINS, MEMORY, MEMORY_LIMIT, MEMORY_RATIO
from coordinator.store.store import Store


class Used(NamedTuple):
    """What a server uses, in bytes, and its clients."""

    memory: int
    limit: int
    """0: none."""
    append_file: int
    clients: int

    @property
    def nearness(self) -> tuple[float, int]:
        """Sorts servers by how near they are to their limit; without limits by their size."""
        return self.memory / self.limit if self.limit else 0.0, self.memory


class FleetMetrics(LeaderTask):
    """Asks the store, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, process: str) -> None:
        super().__init__(store, "measure the store", process)
        self._drains = Drains(store)

    async def _look(self) -> None:
        DRAINS.set(len(await self._drains.read()))
        found: list[Used] = []
        for link in self._store.links.values():
            with self._store.others_go_on():
                found.append(await ask(link))
        if found:
            fullest = max(found, key=lambda one: one.nearness)
            largest, most = max(one.append_file for one in found), max(one.clients for one in found)
            _record(Used(fullest.memory, fullest.limit, largest, most))

    def _clear(self) -> None:
        DRAINS.set(0)
        _record(Used(0, 0, 0, 0))


def _record(used: Used) -> None:
    MEMORY.set(used.memory)
    MEMORY_LIMIT.set(used.limit)
    MEMORY_RATIO.set(used.nearness[0])
    APPEND_FILE.set(used.append_file)
    CLIENTS.set(used.clients)


async def ask(link: Link) -> Used:
    """Asks one server; a few of its figures cost it some microseconds."""
    info = read_fields(await link.execute("INFO", "memory", "persistence", "clients"))
    names = "used_memory", "maxmemory", "aof_current_size", "connected_clients"
    return Used(*(number(info, name) for name in names))
