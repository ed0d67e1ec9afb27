"""The metrics of the fleet as a whole: the server that keeps its state, and its drains; part of the catalogue."""

from __future__ import annotations

from coordinator.metrics.metric import Gauge
from coordinator.metrics.recording import Recording

_ASKED = "Asked every few seconds by one front-end of the fleet; others say 0."

MEMORY = Gauge(
    "coordinator_store_memory_bytes",
    "bytes",
    "Memory that the store uses; of a cluster that of the primary nearest to its limit, or without limits of the "
    f"largest. {_ASKED}",
    merge="max",
)
MEMORY_LIMIT = Gauge(
    "coordinator_store_memory_limit_bytes",
    "bytes",
    "How much memory that server may use (maxmemory): it takes no writes beyond; 0: no limit. Asked with "
    "coordinator_store_memory_bytes.",
    merge="max",
)
MEMORY_RATIO = Gauge(
    "coordinator_store_memory_ratio",
    "ratio",
    "How much of that limit is used; 0: there is none. Asked with coordinator_store_memory_bytes.",
    merge="max",
)
APPEND_FILE = Gauge(
    "coordinator_store_append_file_bytes",
    "bytes",
    "Size of the store's append-only file, which grows until it is rewritten; 0: there is none. Of a cluster the "
    "largest. Asked with coordinator_store_memory_bytes.",
    merge="max",
)
CLIENTS = Gauge(
    "coordinator_store_clients",
    "connections",
    "Connections of all its clients to the store; of a cluster to the primary with most. Asked with "
    "coordinator_store_memory_bytes.",
    merge="max",
)
DISK_FREE = Gauge(
    "coordinator_store_disk_free_bytes",
    "bytes",
    "What is left of the disk of an embedded store; other stores are none of this host's.",
    merge="max",
)
DISK_RATIO = Gauge(
    "coordinator_store_disk_free_ratio",
    "ratio",
    "The same as a share of that disk.",
    merge="max",
)
DRAINS = Gauge(
    "coordinator_process_drains",
    "drains",
    "Drains that operators have begun and not ended (`fleet drain`): of the fleet, a host or a process. Asked with "
    "coordinator_store_memory_bytes.",
    merge="max",
)


class FleetRecorder:
    """Records them; ``Recorder.fleet``."""

    def __init__(self, cells: Recording) -> None:
        self._memory = cells.of(MEMORY)
        self._memory_limit = cells.of(MEMORY_LIMIT)
        self._memory_ratio = cells.of(MEMORY_RATIO)
        self._append_file = cells.of(APPEND_FILE)
        self._clients = cells.of(CLIENTS)
        self._disk_free = cells.of(DISK_FREE)
        self._disk_ratio = cells.of(DISK_RATIO)
        self._drains = cells.of(DRAINS)

    def store(self, memory: int, limit: int, append_file: int, clients: int) -> None:
        """What the store uses, in bytes, and how many clients are connected; all 0 if another process asks it."""
        self._memory().set(memory)
        self._memory_limit().set(limit)
        self._memory_ratio().set(memory / limit if limit else 0.0)
        self._append_file().set(append_file)
        self._clients().set(clients)

    def disk(self, free: int, size: int) -> None:
        """The disk of the embedded store, in bytes."""
        self._disk_free().set(free)
        self._disk_ratio().set(free / size if size else 1.0)  # some file systems have no size

    def drains(self, count: int) -> None:
        """Drains of processes; 0 as in ``store``."""
        self._drains().set(count)
