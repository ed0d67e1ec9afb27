"""The agent processes as the demo sees them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter, defaultdict

import anyio
import msgspec

from coordinator.cli.demo.agent import Behaviour, Crash
from coordinator.cli.demo.messages import Orders, Progress, encoded
from coordinator.cli.supervision.spawner import package_environment

AGENTS_PER_PROCESS = 25
_MOST_PROCESSES = 16
_LINE_BYTES = 1 << 26
_END_SECONDS = 20.0


class Tally:
    """The counts of what all agents did so far."""

    def __init__(self) -> None:
        self.latencies: dict[str, list[float]] = defaultdict(list)
        self.retries: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.crashes: list[Crash] = []
        self.failures: list[str] = []

    def add(self, progress: Progress) -> None:
        """Adds the counts that a process reports."""
        for tool, latencies in progress.latencies.items():
            self.latencies[tool] += latencies
        self.retries.update(progress.retries)
        self.counts.update(progress.counts)
        self.crashes += progress.crashes
        self.failures += [failure for failure in progress.failures if failure not in self.failures]


class AgentProcesses:
    """The processes that the agents run in.

    Args:
        agents: how many in all.
    """

    def __init__(self, agents: int) -> None:
        # More processes than cores would only compete with the fleet.
        self.count = max(1, min(-(-agents // AGENTS_PER_PROCESS), os.cpu_count() or 1, _MOST_PROCESSES))
        self._agents = agents
        self._processes: list[asyncio.subprocess.Process] = []
        self._readers: list[asyncio.Task[None]] = []
        self._ordered = False
        self._stopping = False
        self.tally = Tally()

    async def start(self) -> None:
        """Starts the processes, which takes seconds. They then wait for orders."""
        for _ in range(self.count):
            process = await asyncio.create_subprocess_exec(
                # -P: what lies in the working directory must not be imported.
                sys.executable, "-P", "-m", "coordinator.cli.demo.agent_process",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES,
                env=package_environment(),
                start_new_session=True,  # Ctrl-C is for the demo, which ends them in order
            )  # fmt: skip
            self._processes.append(process)
            if process.stdout is not None:
                self._readers.append(asyncio.create_task(self._read(process.stdout)))

    def order(self, url: str, seed: str, behaviour: Behaviour) -> None:
        """Lets the agents loose.

        Args:
            url: the fleet's MCP endpoint.
            seed: what their decisions follow from.
        """
        self._ordered = True
        share, rest = divmod(self._agents, self.count)
        first = 1
        for number, process in enumerate(self._processes):
            own = share + (number < rest)
            if process.stdin is not None:
                process.stdin.write(encoded(Orders(url, first, own, seed, behaviour)))
            first += own

    async def stop(self) -> None:
        """Lets the agents finish their items, then ends the processes. Further calls do nothing."""
        self._stopping = True
        for process in self._processes:
            if not self._ordered and process.returncode is None:
                process.kill()
            if process.stdin is not None:
                process.stdin.close()
        try:
            with anyio.move_on_after(_END_SECONDS) as waiting:
                await asyncio.gather(*self._readers, *(process.wait() for process in self._processes))
            if waiting.cancelled_caught:
                self.tally.failures.append("an agent process did not end and was killed")
        finally:
            for process in self._processes:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            for reader in self._readers:
                reader.cancel()
            self._processes.clear()

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        while said := await stdout.readline():
            progress = msgspec.json.decode(said, type=Progress)
            self.tally.add(progress)
            if progress.over:
                return
        if not self._stopping:
            self.tally.failures.append("an agent process ended before it was told to")
