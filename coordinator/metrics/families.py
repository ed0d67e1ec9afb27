"""The cells of one metric by label values, within the limits that the catalogue sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import TypeVar

from coordinator.metrics.cells import Buckets, Cell
from coordinator.metrics.metric import OTHER, Metric

Bound = TypeVar("Bound", Cell, Buckets)
Values = TypeVar("Values", bound=tuple[str, ...])


class Family(dict[tuple[str, ...], Bound]):
    """``family("claim_item", "ok")`` is the cell for these label values; made once, then looked up.

    ``family["claim_item", "ok"]`` is the same without a function call, for what happens with each request.

    Args:
        metric: the metric's declaration.
        make: makes a cell: ``Cells.number`` or ``Cells.histogram``.
    """

    __slots__ = ("_closed", "_make", "allowed", "metric")

    def __init__(self, metric: Metric, make: Callable[[Metric, Mapping[str, str]], Bound]) -> None:
        self.metric = metric
        """The declaration."""
        self._make: Callable[[Metric, Mapping[str, str]], Bound] = make
        self.allowed = [set(label.values) for label in metric.labels]
        """The values that each label may have, or has had so far."""
        self._closed = [bool(label.values) for label in metric.labels]

    def __call__(self, *values: str) -> Bound:
        return self[values]

    def declare(self, label: str, values: Iterable[str]) -> None:
        """Closes an open label: from now on other values than these count as ``other``."""
        at = [one.name for one in self.metric.labels].index(label)
        self.allowed[at].update(values)
        self._closed[at] = True

    def start_at_zero(self) -> None:
        """Binds every allowed combination, so that rates exist before the first event."""
        for values in product(*map(sorted, self.allowed)):
            self(*values)

    def admitted(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """The values that these count under: ``other`` in place of those that are not allowed."""
        return tuple(self._admit(at, value) for at, value in enumerate(values))

    def __missing__(self, values: tuple[str, ...]) -> Bound:
        named = self.admitted(values)
        if named != values:
            # Not stored under the wrong values: a stream of these must not grow the dictionary.
            return self[named]
        labels = {label.name: value for label, value in zip(self.metric.labels, named, strict=True)}
        self[named] = bound = self._make(self.metric, labels)
        return bound

    def _admit(self, at: int, value: str) -> str:
        allowed = self.allowed[at]
        if value in allowed or value == OTHER:
            return value
        if self._closed[at] or len(allowed) >= self.metric.labels[at].limit:
            return OTHER
        allowed.add(value)
        return value


def set_all(family: Family[Cell], numbers: Mapping[Values, float]) -> None:
    """Sets a gauge for all values of its labels: to 0 where there is no number. Of numbers that count under the same
    values (``other``), it is the sum or the largest, as the metric says.
    """
    together = dict.fromkeys(family, 0.0)
    for values, number in numbers.items():
        named = family.admitted(values)
        before = together.get(named, 0.0)
        together[named] = before + number if family.metric.together == "sum" else max(before, number)
    for named, number in together.items():
        family[named].set(number)
