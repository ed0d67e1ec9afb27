"""The metrics of a store that is a cluster; part of the catalogue. On one server there are none of them."""

from __future__ import annotations

from coordinator.metrics.cells import Cells
from coordinator.metrics.families import Family, set_all
from coordinator.metrics.metric import Label, Metric

SHARD = Label("shard", limit=32)
"""Shards are numbered from 0 in the order of their first slots (``fleet cluster status``)."""
AWAY = Metric(
    "coordinator_store_shard_away",
    "gauge",
    "processes",
    "Front-ends that have no connection to each shard of a cluster.",
    (SHARD,),
)
UNCOVERED = Metric(
    "coordinator_store_slots_uncovered",
    "gauge",
    "slots",
    "Slots of a cluster that no node has, by the map of the front-end that sees most of them.",
    merge="max",
)
REDIRECTS = Metric(
    "coordinator_store_redirects_total",
    "counter",
    "calls",
    "Calls that a node of a cluster did not run because it does not have the slot. moved: another node has it, and was "
    "asked; moving: the slot is on its way, and the call was refused.",
    (Label("kind", ("moved", "moving")),),
)
MAPS = Metric(
    "coordinator_store_maps_total", "counter", "maps", "How often processes have read which node has which slots."
)
TORN = Metric(
    "coordinator_store_torn_scripts_total",
    "counter",
    "calls",
    "Scripts that a cluster ended half-way, because they touched keys that are elsewhere: a defect.",
)
ALL = (AWAY, UNCOVERED, REDIRECTS, MAPS, TORN)


class ShardRecorder:
    """Records them."""

    def __init__(self, cells: Cells) -> None:
        self._away = Family(AWAY, cells.number)
        self._uncovered = Family(UNCOVERED, cells.number)
        self._redirects = Family(REDIRECTS, cells.number)
        self._maps = Family(MAPS, cells.number)
        self._torn = Family(TORN, cells.number)

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
