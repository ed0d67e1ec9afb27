"""Statistics of a store: time per command, memory, slow scripts; and the tools of the items on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import redis

from benchmarks.loader import PATIENT, TIMEOUT_MS
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.store import Script, Store
from coordinator.store.link.address import parse
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services, Tool

_MOST_SLOW = 1_000


class Cost(NamedTuple):
    """The cost of some calls in the server."""

    calls: int
    script_us: float
    """Per call, of the script alone (commandstats)."""
    cpu_us: float
    """CPU time of the server's process per call: script, protocol, sockets, append-only file."""


class Slow(NamedTuple):
    """The longest run of a script."""

    script: str
    ms: float


class Server:
    """The server at a URL, over a separate connection."""

    def __init__(self, url: str) -> None:
        self.client: Any = redis.Redis(**parse(url).client_options(), protocol=2)
        self.pid = int(self.client.info("server")["process_id"])

    def close(self) -> None:
        """Closes the connection."""
        self.client.close()

    def begin(self) -> None:
        """Resets the counters."""
        self.client.config_resetstat()
        self._cpu = self._cpu_ns()

    def cost(self) -> Cost:
        """The cost of script calls since ``begin``."""
        cpu = self._cpu_ns() - self._cpu
        stats = self.client.info("commandstats").get("cmdstat_fcall", {"calls": 0, "usec": 0})
        calls = max(int(stats["calls"]), 1)
        return Cost(int(stats["calls"]), int(stats["usec"]) / calls, cpu / 1000 / calls)

    def commands(self) -> int:
        """The commands since ``begin``, those that scripts call included."""
        stats = self.client.info("commandstats")
        own = ("cmdstat_config|resetstat", "cmdstat_info")
        return sum(int(one["calls"]) for name, one in stats.items() if name not in own)

    def used_memory(self) -> int:
        """Bytes in use for data, without what clients and the append-only file buffer."""
        memory = self.client.info("memory")
        passing = ("mem_clients_normal", "mem_clients_slaves", "mem_aof_buffer", "mem_replication_backlog")
        return int(memory["used_memory"]) - sum(int(memory.get(name, 0)) for name in passing)

    def watch_slow(self, over_us: int) -> None:
        """Clears the slow log; from now on it holds the latest commands that take longer than ``over_us``.

        Clearing many thousand entries costs the server tens of milliseconds, which delay the next script.
        """
        self.client.config_set("slowlog-max-len", _MOST_SLOW)
        self.client.config_set("slowlog-log-slower-than", over_us)
        self.client.slowlog_reset()

    def slowest(self) -> Slow | None:
        """The longest script run in the slow log; None if there is none."""
        names = {script.function: script.name for script in Script.registered()}
        found = None
        for entry in self.client.slowlog_get(_MOST_SLOW):
            words = entry["command"].decode(errors="replace").split(" ")
            if words[0].upper() == "FCALL" and (found is None or entry["duration"] / 1000 > found.ms):
                found = Slow(names.get(words[1], words[1]), entry["duration"] / 1000)
        return found

    def _cpu_ns(self) -> int:
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0])


@contextlib.asynccontextmanager
async def items_on(url: str) -> AsyncIterator[tuple[dict[str, Tool], Server]]:
    """The tools of the items, by name, over a separate link to a server, and that server."""
    store, server = Store(url, TIMEOUT_MS), Server(url)
    await store.open()
    items = load_toolsets(Services(PATIENT, store, trust_self_reported))["items"]
    try:
        yield {tool.name: tool for tool in items.tools}, server
    finally:
        await items.service.stop()
        await store.close()
        server.close()
