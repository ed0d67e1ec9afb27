"""What one process of a fleet measures of its store and drains, and what the others report."""

from __future__ import annotations

import pytest

from coordinator.metrics import Gauge, MemoryCells, Recording
from coordinator.store import Store
from coordinator.store.facts import read_facts
from coordinator.store.fleet import metrics
from coordinator.store.fleet.drains import FLEET_SCOPE, Drains, host_scope
from coordinator.store.fleet.metrics import FleetMetrics
from coordinator.store.link.shared import Link
from coordinator.store.metrics import APPEND_FILE, CLIENTS, DRAINS, MEMORY, MEMORY_LIMIT, MEMORY_RATIO
from tests.support.counts import counted, recorded_in

pytestmark = pytest.mark.anyio

MEASURED = (MEMORY, MEMORY_LIMIT, APPEND_FILE, CLIENTS, DRAINS)


class Process:
    """The measuring part of a front-end."""

    def __init__(self, store: Store, name: str) -> None:
        self.recording = Recording(MemoryCells(), name)
        self.metrics = FleetMetrics(store, name)

    async def round(self) -> dict[Gauge, int]:
        """Its metrics after a round."""
        with recorded_in(self.recording):
            await self.metrics.round()
            return {metric: round(counted(metric)) for metric in MEASURED}

    async def end(self) -> None:
        """As when the front-end ends."""
        await self.metrics.stop()
        with recorded_in(self.recording):
            await self.metrics.run()


async def test_one_process_says_what_the_store_uses_and_what_is_drained(alone: Store) -> None:
    first, second = Process(alone, "h/fe-0"), Process(alone, "h/fe-1")
    await alone.command("CONFIG", "SET", "maxmemory", 10**9)
    try:
        for scope in (FLEET_SCOPE, host_scope("far")):
            await Drains(alone).begin(scope)
        found, facts = await first.round(), await read_facts(alone)
    finally:
        await alone.command("CONFIG", "SET", "maxmemory", 0)
    assert found[MEMORY] == pytest.approx(facts.memory_bytes, rel=0.1)
    assert (found[MEMORY_LIMIT], found[CLIENTS], found[DRAINS]) == (10**9, facts.clients, 2)
    assert found[APPEND_FILE] > 0
    assert await second.round() == dict.fromkeys(MEASURED, 0)
    for scope in (FLEET_SCOPE, host_scope("far")):
        await Drains(alone).end(scope)
    await first.end()
    found = await second.round()
    assert (found[MEMORY] > 0, found[MEMORY_LIMIT], found[DRAINS]) == (True, 0, 0)
    assert await first.round() == dict.fromkeys(MEASURED, 0)


@pytest.mark.parametrize(
    ("servers", "memory"),
    [
        ([(50, 100, 9, 3), (70, 1_000, 8, 4)], (50, 100)),  # the one nearest to its limit
        ([(50, 0, 9, 3), (70, 0, 8, 4)], (70, 0)),
        ([(50, 100, 9, 3), (70, 0, 8, 4)], (50, 100)),
    ],
)
async def test_of_a_cluster_the_fullest_primary_counts(
    alone: Store, servers: list[tuple[int, int, int, int]], memory: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(servers)

    async def ask(link: Link) -> metrics.Used:
        return metrics.Used(*left.pop(0))

    (link,) = alone.links.values()
    monkeypatch.setattr(metrics, "ask", ask)
    monkeypatch.setattr(type(alone), "links", {0: link, 1: link})
    process = Process(alone, "h/fe-0")
    found = await process.round()
    assert (found[MEMORY], found[MEMORY_LIMIT]) == memory
    assert counted(MEMORY_RATIO, of=process.recording) == (memory[0] / memory[1] if memory[1] else 0)
    assert (found[APPEND_FILE], found[CLIENTS]) == (9, 4)
