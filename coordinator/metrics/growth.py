"""How fast a counter grows."""

from __future__ import annotations

import time

from coordinator.metrics.metric import Counter


class Growth:
    """By how much a counter of this process grows, by the values of one of its labels."""

    def __init__(self, counter: Counter, label: str) -> None:
        self._counter = counter
        self._label = [one.name for one in counter.dimensions].index(label)
        self._counted, self._at = self._totals(), time.monotonic()

    def per_second(self) -> dict[str, float]:
        """The rates since the last call."""
        before, begun = self._counted, self._at
        self._counted, self._at = self._totals(), time.monotonic()
        seconds = max(self._at - begun, 1e-3)
        return {value: (count - before.get(value, 0.0)) / seconds for value, count in self._counted.items()}

    def _totals(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for values, cell in self._counter.cells.items():
            found[values[self._label]] = found.get(values[self._label], 0.0) + cell.value
        return found
