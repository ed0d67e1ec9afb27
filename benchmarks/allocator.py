"""What does the server's work cost with its allocator, compared with the C library's?

Two embedded servers with the same items, every change on disk before its answer, one with the
library loaded before the C library and one without. 50 clients make claim-and-complete cycles
(benchmarks/rivals/cycles.py) on each in turn; ratios are medians of the rounds' ratios. Memory is the process's
resident memory after loading, and after all rounds. Skipped where the server is not built for the C library's
memory functions, or the library is not installed.

    python -m benchmarks allocator [ITEMS] [ROUNDS] [CYCLES]
    python -m benchmarks allocator 200000 9 10000
"""

from __future__ import annotations

import contextlib
from statistics import median

from benchmarks.loader import FAMILY, PROJECT, load_now
from benchmarks.rivals.cycles import Cycles, FullCalls
from benchmarks.server import Server
from benchmarks.support import Failed, Missing, console, embedded, ratio, table
from coordinator.store.embedded import binary as server_binary
from coordinator.store.embedded.binary import Binary

CLIENTS = 50


class _Side:
    """A server with items, and the results of its rounds."""

    def __init__(self, name: str, binary: Binary, items: int, stack: contextlib.ExitStack) -> None:
        url = stack.enter_context(embedded(binary=binary)).url
        load_now(url, items)
        self.name = name
        self.server = Server(url)
        stack.callback(self.server.close)
        self._cycles = Cycles(url, FullCalls(PROJECT), CLIENTS)
        stack.callback(self._cycles.close)
        self.loaded = self._resident()
        self.rates: list[float] = []
        self.cpu: list[float] = []

    def round(self, cycles: int, kept: bool) -> None:
        self.server.begin()
        rate = self._cycles.run(cycles)
        cost = 2 * self.server.cost().cpu_us
        if kept:
            self.rates.append(rate.per_second)
            self.cpu.append(cost)

    def row(self) -> tuple[str, ...]:
        figures = (median(self.rates), median(self.cpu), self.loaded / 1e6, self._resident() / 1e6)
        return self.name, *(f"{figure:,.0f}" for figure in figures)

    def _resident(self) -> int:
        return int(self.server.client.info("memory")["used_memory_rss"])


def main(items: str = "20000", rounds: str = "5", cycles: str = "2000") -> None:
    """Runs both and prints."""
    ready, needed = int(items) - int(items) // FAMILY, (int(rounds) + 1) * int(cycles)
    if ready < needed:
        raise Failed(f"{rounds} rounds and one to warm up take {needed} items; there are {ready}")
    binary = server_binary.find()
    if binary.allocator is None:
        raise Missing(f"{binary.path} is started with no allocator of ours")
    with contextlib.ExitStack() as stack:
        plain = _Side("the C library's", binary._replace(allocator=None), int(items), stack)
        ours = _Side(binary.allocator.name, binary, int(items), stack)
        for number in range(int(rounds) + 1):
            for side in (plain, ours):
                side.round(int(cycles), kept=number > 0)
        table(
            f"Claim and complete, {items} items, {CLIENTS} clients, median of {rounds} rounds of {cycles} cycles",
            ("allocator", "cycles/s", "server CPU us/cycle", "MB resident, loaded", "and after"),
            [plain.row(), ours.row()],
        )
    cpu, rates = ratio(ours.cpu, plain.cpu), ratio(ours.rates, plain.rates)
    console.print(f"{cpu:.2f}x the CPU time and {rates:.2f}x the cycles/s of the C library's\n")
