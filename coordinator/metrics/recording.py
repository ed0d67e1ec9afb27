"""What a process records: for each metric its cells, by label values, within the limits of the labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from coordinator.metrics.cells import Buckets, Cell, Cells, MemoryCells
from coordinator.metrics.hot import HotItems
from coordinator.metrics.labels import OTHER, SLOT

if TYPE_CHECKING:
    from coordinator.metrics.metric import Metric

Role = Literal["frontend", "worker", "runner"]
Bound = TypeVar("Bound", Cell, Buckets)


class Family(dict[tuple[str, ...], Bound]):
    """``family["claim_item", "ok"]`` is the cell for these label values; made once, then looked up.

    Args:
        metric: the metric's declaration.
        make: makes a cell.
        slot: the process's stable name on its host.
    """

    __slots__ = ("_closed", "_make", "_metric", "allowed", "groups", "own")

    def __init__(self, metric: Metric[Bound], make: Callable[[Mapping[str, str]], Bound], slot: str) -> None:
        self._metric: Metric[Bound] = metric
        self._make: Callable[[Mapping[str, str]], Bound] = make
        self.allowed = [{slot} if label == SLOT else set(label.values) for label in metric.dimensions]
        """The values that each label may have, or has had so far."""
        self._closed = [bool(label.values) for label in metric.dimensions]
        self.own = (slot,) if SLOT in metric.dimensions else ()
        """The values of what has no labels but the process."""
        self.groups: dict[tuple[str, ...], Any] = {}
        """Cells of this process that change together, kept by who changes them: one look-up instead of one each."""

    def only_allow(self, at: int, values: Iterable[str]) -> None:
        """Closes an open label, by its place."""
        self.allowed[at].update(values)
        self._closed[at] = True

    def start_at_zero(self) -> None:
        """Makes every allowed combination, so that rates exist before the first event."""
        for values in product(*map(sorted, self.allowed)):
            self[values]

    def admitted(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """The values that these count under: ``other`` in place of those that are not allowed."""
        return tuple(self._admit(at, value) for at, value in enumerate(values))

    def __missing__(self, values: tuple[str, ...]) -> Bound:
        named = self.admitted(values)
        if named != values:
            # Not stored under the wrong values: a stream of these must not grow the dictionary.
            return self[named]
        labels = {label.name: value for label, value in zip(self._metric.dimensions, named, strict=True)}
        self[named] = bound = self._make(labels)
        return bound

    def _admit(self, at: int, value: str) -> str:
        allowed = self.allowed[at]
        if value in allowed or value == OTHER:
            return value
        if self._closed[at] or len(allowed) >= self._metric.dimensions[at].limit:
            return OTHER
        allowed.add(value)
        return value


class Recording:
    """What one process records.

    Args:
        cells: where the numbers are kept.
        slot: the process's stable name on its host.
    """

    def __init__(self, cells: Cells, slot: str = "local") -> None:
        self.slot = slot
        self.hot = HotItems(time.monotonic)
        self.worst_lag = self.cpu_seen = 0.0
        self.config_version = ""
        self._cells = cells
        self._families: dict[Metric[Any], Family[Any]] = {}

    def of(self, metric: Metric[Bound]) -> Family[Bound]:
        if metric not in self._families:
            self._families[metric] = Family(metric, lambda labels: metric.make(self._cells, labels), self.slot)
        return self._families[metric]

    def close(self) -> None:
        self._cells.close()


_declared: list[Metric[Any]] = []
_current = Recording(MemoryCells())


def declare(metric: Metric[Any]) -> None:
    """Adds a metric to those that this process can record."""
    _declared.append(metric)
    metric.cells = _current.of(metric)


def declared() -> list[Metric[Any]]:
    """All metrics of the modules that are imported."""
    return _declared


def recording() -> Recording:
    """The recording of this process: in memory until a command installs a shared one."""
    return _current


def install(new: Recording) -> Recording:
    """Makes ``new`` the recording of this process; returns the one before."""
    global _current
    before, _current = _current, new
    for metric in _declared:
        metric.cells = new.of(metric)
    return before


def start(role: Role) -> None:
    """Starts at 0 what stands at 0 in such a process before anything is recorded."""
    for metric in _declared:
        if metric.starts_in == role:
            metric.cells.start_at_zero()
