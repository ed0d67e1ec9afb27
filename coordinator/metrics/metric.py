"""Metrics: each is declared once, as an object, in the package that records it.

CLAIMS = Counter("coordinator_claims_total", "claims", "Claims by outcome.", (Label("outcome", ("won", "lost")),))

CLAIMS.labels("won").inc()  # as prometheus-client's
CLAIMS.cells["won",].value += 1.0  # the same without calls, for what happens with each request
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Generic, Literal, TypeVar

from coordinator.metrics.cells import Buckets, Cell, Cells
from coordinator.metrics.labels import Label
from coordinator.metrics.recording import Bound, Family, Role, declare

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "max"]
Values = TypeVar("Values", bound=tuple[str, ...])


class Metric(Generic[Bound]):
    """What all kinds of metrics have.

    Args:
        name: the full name, with its unit and, for counters, ``_total``.
        labels: its dimensions.
        starts_in: the processes in which its series stand at 0 before anything is recorded.
    """

    kind: ClassVar[Kind]
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram, in the metric's unit."""
    merge: Merge = "sum"
    """How the values of a gauge in several processes are combined."""
    together: Merge = "sum"
    """How the values of a gauge that count as ``other`` are combined."""
    cells: Family[Bound]
    """Its cells in this process, by the values of its labels."""

    def __init__(
        self, name: str, unit: str, meaning: str, labels: tuple[Label, ...] = (), *, starts_in: Role | None = None
    ) -> None:
        self.name, self.unit, self.meaning, self.dimensions, self.starts_in = name, unit, meaning, labels, starts_in
        declare(self)

    def __repr__(self) -> str:
        return self.name

    def labels(self, *values: str) -> Bound:
        """The cell for these values, in the order of the labels; made once, then looked up."""
        return self.cells[values]

    def only_allow(self, label: str, values: Iterable[str]) -> None:
        """Closes an open label: from now on other values than these count as ``other``."""
        self.cells.only_allow([one.name for one in self.dimensions].index(label), values)

    def make(self, cells: Cells, labels: Mapping[str, str]) -> Bound:
        raise NotImplementedError


class _Number(Metric[Cell]):
    def make(self, cells: Cells, labels: Mapping[str, str]) -> Cell:
        return cells.number(self, labels)


class Counter(_Number):
    """Counts what happens."""

    kind = "counter"

    def inc(self, amount: float = 1.0) -> None:
        """Counts, if there are no labels but the process."""
        self.cells[self.cells.own].value += amount


class Gauge(_Number):
    """A level, which rises and falls. For the arguments see ``Metric``."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        unit: str,
        meaning: str,
        labels: tuple[Label, ...] = (),
        *,
        merge: Merge = "sum",
        together: Merge = "sum",
        starts_in: Role | None = None,
    ) -> None:
        super().__init__(name, unit, meaning, labels, starts_in=starts_in)
        self.merge, self.together = merge, together

    def set(self, value: float) -> None:
        """Sets it, if there are no labels but the process."""
        self.cells[self.cells.own].value = value

    def set_all(self, numbers: Mapping[Values, float]) -> None:
        """Sets it for all values of its labels: to 0 where there is no number. Of numbers that count under the same
        values (``other``), it is the sum or the largest, as ``together`` says.
        """
        found = dict.fromkeys(self.cells, 0.0)
        for values, number in numbers.items():
            named = self.cells.admitted(values)
            before = found.get(named, 0.0)
            found[named] = before + number if self.together == "sum" else max(before, number)
        for named, number in found.items():
            self.cells[named].set(number)

    def set_one(self, value: str) -> None:
        """Sets it to 1 for one of the values of its only label, and to 0 for the others."""
        for one in self.dimensions[0].values:
            self.labels(one).set(one == value)


class Histogram(Metric[Buckets]):
    """Measures how long or how much, in buckets. For the arguments see ``Metric``."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        unit: str,
        meaning: str,
        labels: tuple[Label, ...],
        buckets: tuple[float, ...],
        *,
        starts_in: Role | None = None,
    ) -> None:
        super().__init__(name, unit, meaning, labels, starts_in=starts_in)
        self.buckets = buckets

    def make(self, cells: Cells, labels: Mapping[str, str]) -> Buckets:
        return cells.histogram(self, labels)

    def observe(self, value: float) -> None:
        """Measures, if there are no labels."""
        self.cells[()].observe(value)
