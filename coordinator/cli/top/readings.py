"""Reads the fleet's metrics, and computes rates between two readings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.metrics.samples import Labels, Samples, parse


@dataclass(frozen=True, slots=True)
class Reading:
    """All samples of one scrape, by name and labels."""

    at: float
    """Seconds, monotonic."""
    samples: Samples


def read(text: str, at: float) -> Reading:
    """Parses an exposition. Raises ValueError: it is malformed."""
    return Reading(at, parse(text))


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two readings. If a counter is lower than before, it has restarted from 0."""

    before: Reading
    after: Reading
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", max(self.after.at - self.before.at, 1e-9))

    def gauge(self, name: str, **labels: str) -> float:
        """The current sum of a gauge over all series with these labels."""
        return sum(self.series(name, **labels).values())

    def series(self, name: str, **labels: str) -> dict[Labels, float]:
        """The current values of a gauge with these labels, by all of its labels."""
        return {series: value for series, value in self._now(name).items() if series >= frozenset(labels.items())}

    def rate(self, name: str, **labels: str) -> float:
        """Events of a counter with these labels per second."""
        return sum(self._growth(name, labels).values()) / self.seconds

    def rates(self, name: str, by: str, **labels: str) -> dict[str, float]:
        """The same, by the values of one label."""
        rates: dict[str, float] = defaultdict(float)
        for series, grown in self._growth(name, labels).items():
            rates[dict(series).get(by, "")] += grown / self.seconds
        return dict(rates)

    def quantile(self, name: str, share: float, **labels: str) -> float:
        """An upper bound of a histogram's quantile between the readings, in its unit; NaN if nothing happened."""
        buckets: dict[float, float] = defaultdict(float)
        for series, grown in self._growth(f"{name}_bucket", labels).items():
            buckets[float(dict(series)["le"])] += grown
        total = buckets.get(math.inf, 0.0)
        if not total:
            return math.nan
        return min((bound for bound, count in buckets.items() if count >= share * total), default=math.inf)

    def _growth(self, name: str, labels: Mapping[str, str]) -> dict[Labels, float]:
        wanted, before = frozenset(labels.items()), self.before.samples.get(name, {})
        growth = {}
        for series, value in self._now(name).items():
            if series >= wanted:
                earlier = before.get(series, 0.0)
                growth[series] = value - earlier if value >= earlier else value
        return growth

    def _now(self, name: str) -> Mapping[Labels, float]:
        return self.after.samples.get(name, {})
