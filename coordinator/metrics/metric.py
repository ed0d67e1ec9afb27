"""How a metric is declared. The values of labels are bounded: they are listed, or an open set with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OTHER = "other"
"""The label value in place of all that a label does not allow, or that is beyond its limit."""


@dataclass(frozen=True, slots=True)
class Label:
    """One dimension of a metric.

    Args:
        name: as in the exposition.
        values: the allowed values; empty for an open set.
        limit: how many distinct values an open set may have.
    """

    name: str
    values: tuple[str, ...] = ()
    limit: int = 0


SLOT = Label("slot", limit=130)
"""The process, by its place on its host."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Args:
        name: the full name, with its unit and, for counters, ``_total``.
        buckets: upper bounds of a histogram, in the metric's unit.
        merge: how the values of a gauge in several processes are combined.
        together: how the values of a gauge that count as ``other`` are combined.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    meaning: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Literal["sum", "max"] = "sum"
    together: Literal["sum", "max"] = "sum"
