"""Metrics of the fleet as a whole: what its store uses, and its drains. One front-end measures them periodically."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.metrics import Recorder
from coordinator.store.drains import Drains
from coordinator.store.facts import number, read_fields
from coordinator.store.leader_task import LeaderTask
from coordinator.store.link import Link
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

    def __init__(self, store: Store, recorder: Recorder, process: str) -> None:
        super().__init__(store, "measure the store", process)
        self._drains = Drains(store)
        self._recorder = recorder.fleet

    async def _look(self) -> None:
        self._recorder.drains(len(await self._drains.read()))
        found: list[Used] = []
        for link in self._store.links.values():
            with self._store.others_go_on():
                found.append(await ask(link))
        if found:
            fullest = max(found, key=lambda one: one.nearness)
            largest, most = max(one.append_file for one in found), max(one.clients for one in found)
            self._recorder.store(fullest.memory, fullest.limit, largest, most)

    def _clear(self) -> None:
        self._recorder.drains(0)
        self._recorder.store(0, 0, 0, 0)


async def ask(link: Link) -> Used:
    """Asks one server; a few of its figures cost it some microseconds."""
    info = read_fields(await link.execute("INFO", "memory", "persistence", "clients"))
    names = "used_memory", "maxmemory", "aof_current_size", "connected_clients"
    return Used(*(number(info, name) for name in names))
