"""What one process has counted: the cells of its recorder, without the other processes of its host."""

from __future__ import annotations

from typing import Any

from coordinator.metrics import Recorder, recorder
from coordinator.metrics.metric import Metric


def _cell(metric: Metric, labels: tuple[str, ...], of: Recorder | None) -> Any:
    return (of or recorder()).families()[metric.name][labels]


def counted(metric: Metric, *labels: str, of: Recorder | None = None) -> float:
    """The value of a counter or a gauge.

    Args:
        labels: their values.
        of: None: the recorder of this process.
    """
    return float(_cell(metric, labels, of).value)


def by_bucket(metric: Metric, *labels: str, of: Recorder | None = None) -> list[float]:
    """How many values of a histogram are in each bucket. Arguments as for ``counted``."""
    return list(_cell(metric, labels, of).counts())
