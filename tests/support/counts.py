"""What one process has counted, without the other processes of its host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from coordinator.metrics import Metric, Recording, install, recording
from coordinator.metrics.cells import Buckets


@contextlib.contextmanager
def recorded_in(own: Recording) -> Iterator[Recording]:
    """Records in ``own`` what happens in the block, as a process of its own would."""
    before = install(own)
    try:
        yield own
    finally:
        install(before)


def _cell(metric: Metric[Any], labels: tuple[str, ...], of: Recording | None) -> Any:
    family = (of or recording()).of(metric)
    return family[labels or family.own]


def counted(metric: Metric[Any], *labels: str, of: Recording | None = None) -> float:
    """The value of a counter or a gauge.

    Args:
        labels: their values; none are needed if the process is the only one.
        of: None: the recording of this process.
    """
    return float(_cell(metric, labels, of).value)


def by_bucket(metric: Metric[Any], *labels: str, of: Recording | None = None) -> list[float]:
    """How many values of a histogram are in each bucket. Arguments as for ``counted``."""
    return list(_cell(metric, labels, of).counts())


def all_counted(metric: Metric[Any]) -> dict[Any, int]:
    """What a counter has counted, or how often a histogram has measured, by label values; those that are not 0."""
    totals = {
        labels: round(sum(cell.counts()) if isinstance(cell, Buckets) else cell.value)
        for labels, cell in metric.cells.items()
    }
    return {labels[0] if len(labels) == 1 else labels: total for labels, total in totals.items() if total}
