"""What operators want to know of the server: memory, clients, persistence, replicas, and how far away it is."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

from coordinator.store.store import Store


class StoreFacts(NamedTuple):
    """Facts about the server of the fleet's keys, as it was asked."""

    name: str
    """``Redis`` or ``Valkey``."""
    version: str
    uptime_seconds: int
    memory_bytes: int
    memory_peak_bytes: int
    memory_limit_bytes: int
    """0: no limit."""
    eviction: str
    """``maxmemory-policy``; anything but ``noeviction`` may lose keys."""
    clients: int
    blocked_clients: int
    commands_per_second: int
    keys: int
    persistence: str
    """``aof``, ``rdb`` or ``none``; ``rdb`` if snapshots have been taken, too."""
    persistence_ok: bool
    """Whether the last write of the append-only file, and the last snapshot, succeeded."""
    last_snapshot_at: int
    """In s, by the server's clock; 0: never."""
    replicas: int
    latency_ms: float
    """How long this question took: the lag of the link."""
    in_flight: int
    """Commands that this process waits for."""


def read_fields(reply: bytes) -> dict[str, str]:
    return dict(line.split(":", 1) for line in reply.decode(errors="replace").splitlines() if ":" in line)


def number(info: Mapping[str, str], field: str) -> int:
    """A field that is a number; 0: it is missing."""
    value = info.get(field, "")
    return int(value) if value.lstrip("-").isdigit() else 0


async def read_facts(store: Store) -> StoreFacts:
    """Asks the server, in one round trip. The caller keeps the answer for a few seconds: it is no cheap question.

    Raises ToolFailure as ``Store.command`` says.
    """
    began = perf_counter()
    info = read_fields(await store.command("INFO"))
    latency_ms = round((perf_counter() - began) * 1000, 2)
    databases = (field.partition("=")[2] for name, value in info.items() if name[:2] == "db" and name[2:].isdigit()
                 for field in value.split(",") if field.startswith("keys="))  # fmt: skip
    snapshot = number(info, "rdb_last_save_time") if number(info, "rdb_saves") else 0
    return StoreFacts(
        store.server.name,
        store.server.version,
        number(info, "uptime_in_seconds"),
        number(info, "used_memory"),
        number(info, "used_memory_peak"),
        number(info, "maxmemory"),
        info.get("maxmemory_policy", ""),
        number(info, "connected_clients"),
        number(info, "blocked_clients"),
        number(info, "instantaneous_ops_per_sec"),
        sum(map(int, databases)),
        "aof" if number(info, "aof_enabled") else "rdb" if snapshot else "none",
        "err" not in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")),
        snapshot,
        number(info, "connected_slaves"),
        latency_ms,
        store.in_flight,
    )
