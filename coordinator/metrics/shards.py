"""The metrics of a store that is a cluster; part of the catalogue. On one server there are none of them."""

from __future__ import annotations

from coordinator.metrics.labels import Label
from coordinator.metrics.metric import Counter, Gauge
from coordinator.metrics.recording import Recording, set_all

SHARD = Label("shard", limit=32)
"""Shards are numbered from 0 in the order of their first slots (``fleet cluster status``)."""
AWAY = Gauge(
    "coordinator_store_shard_away",
    "processes",
    "Front-ends that have no connection to each shard of a cluster.",
    (SHARD,),
)
UNCOVERED = Gauge(
    "coordinator_store_slots_uncovered",
    "slots",
    "Slots of a cluster that no node has, by the map of the front-end that sees most of them.",
    merge="max",
)
REDIRECTS = Counter(
    "coordinator_store_redirects_total",
    "calls",
    "Calls that a node of a cluster did not run because it does not have the slot. moved: another node has it, and was "
    "asked; moving: the slot is on its way, and the call was refused.",
    (Label("kind", ("moved", "moving")),),
)
MAPS = Counter("coordinator_store_maps_total", "maps", "How often processes have read which node has which slots.")
TORN = Counter(
    "coordinator_store_torn_scripts_total",
    "calls",
    "Scripts that a cluster ended half-way, because they touched keys that are elsewhere: a defect.",
)


class ShardRecorder:
    """Records them."""

    def __init__(self, cells: Recording) -> None:
        self._away = cells.of(AWAY)
        self._uncovered = cells.of(UNCOVERED)
        self._redirects = cells.of(REDIRECTS)
        self._maps = cells.of(MAPS)
        self._torn = cells.of(TORN)

    def begin(self) -> None:
        """This process uses a cluster; starts the counters at 0."""
        for kind in ("moved", "moving"):
            self._redirects(kind).inc(0)
        self._maps().inc(0)
        self._torn().inc(0)

    def state(self, away: dict[int, bool], uncovered: int) -> None:
        """Whether each shard, by its number, is away, and how many slots nobody has."""
        set_all(self._away, {(str(shard),): float(gone) for shard, gone in away.items()})
        self._uncovered().set(uncovered)

    def redirect(self, kind: str) -> None:
        """A call met a slot that is elsewhere (``moved``) or on its way (``moving``)."""
        self._redirects(kind).inc()

    def map_read(self) -> None:
        """The map was read."""
        self._maps().inc()

    def torn(self) -> None:
        """A script was ended half-way."""
        self._torn().inc()
