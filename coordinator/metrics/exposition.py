"""The text that Prometheus scrapes: the metrics of all slots of a directory, as if they were one process.

prometheus-client's collector decodes every key of every file for each scrape. With eight front-ends that takes 130 ms
of CPU time, in a process that should be answering agents. But keys never move within a file. So here they are decoded
once, and a scrape only adds up doubles (7 ms).
"""

from __future__ import annotations

import json
import math
import mmap
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from coordinator.metrics.cells import HEADER, entries, identity, used_bytes
from coordinator.metrics.samples import Samples, parse
from coordinator.metrics.slots import slot_is_free

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The content type of what ``Exposition.text`` returns."""


_MERGE: dict[str, Callable[[float, float], float]] = {
    "counter": operator.add,
    "histogram": operator.add,
    "gauge_livesum": operator.add,
    "gauge_livemax": max,
}
"""How values of several slots are combined, by the kind that a file's name begins with."""


class Exposition:
    """Renders the slots of ``directory``. Keep one per process, because it remembers where the numbers are.

    Rendering takes some milliseconds if there are many processes, so call it in a thread.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._rendering = threading.Lock()
        self._indexes: dict[Path, _Index] = {}
        self._keys: dict[str, int] = {}
        self._families: dict[str, _Family] = {}

    def text(self) -> bytes:
        """Prometheus' text format, version 0.0.4."""
        with self._rendering:
            totals: dict[int, float] = {}
            free: dict[str, bool] = {}
            for path in sorted(self._directory.glob("*.db")):
                kind, _, slot = path.stem.rpartition("_")
                if kind.startswith("gauge"):
                    # Gauges of a process that has died mean nothing; without a supervisor nobody has deleted them.
                    if slot not in free:
                        free[slot] = self._is_free(slot)
                    if free[slot]:
                        continue
                self._add(path, kind, totals)
            lines: list[str] = []
            for name in sorted(self._families):
                self._families[name].write(totals, lines)
            return "".join(lines).encode()

    def samples(self) -> Samples:
        return parse(self.text().decode())

    def _is_free(self, slot: str) -> bool:
        try:
            return slot_is_free(self._directory, slot)
        except OSError:
            # Asking creates a file, and the disk may be full. Then rather show an outdated gauge than nothing at all.
            return False

    def _add(self, path: Path, kind: str, totals: dict[int, float]) -> None:
        merge = _MERGE[kind]
        try:
            with path.open("rb") as file:
                # Read before mapping: the file may grow at any time, and the mapping then covers all that is used.
                head = file.read(HEADER)
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, PermissionError, ValueError):
            # Deleted just now (the gauges of a process that died), of another user, or emptied by a power failure.
            self._indexes.pop(path, None)
            return
        index = self._indexes.get(path)
        if index is None or index.file != identity(memory):
            self._indexes[path] = index = _Index(identity(memory))
        used = used_bytes(head)
        try:
            for key, at in entries(memory, index.used, used):
                index.places.append((self._series(key, kind), at))
        except ValueError:
            # A power failure has damaged it; the next process in its slot creates it again.
            del self._indexes[path]
            return
        index.used = used
        with memory, memoryview(memory).cast("d") as numbers:
            for series, at in index.places:
                value = numbers[at]
                totals[series] = merge(totals[series], value) if series in totals else value

    def _series(self, key: str, kind: str) -> int:
        """The number of a series; a new one is added to its family."""
        if key not in self._keys:
            family, sample, labels, meaning = json.loads(key)
            self._keys[key] = len(self._keys)
            if family not in self._families:
                self._families[family] = _Family(family, kind.partition("_")[0], meaning)
            self._families[family].add(sample, labels, self._keys[key])
        return self._keys[key]


@dataclass(slots=True)
class _Index:
    """Where the series of one file are, as far as it has been decoded."""

    file: bytes
    used: int = HEADER
    places: list[tuple[int, int]] = field(default_factory=list)


class _Family:
    """The lines of one metric. The parts that never change are rendered beforehand."""

    def __init__(self, name: str, kind: str, meaning: str) -> None:
        shown = name + "_total" if kind == "counter" else name
        self._name = name
        self._head = f"# HELP {shown} {_escape(meaning)}\n# TYPE {shown} {kind}\n"
        self._plain: list[tuple[str, int]] = []
        self._histograms: dict[str, _Histogram] = {}

    def add(self, sample: str, labels: dict[str, str], series: int) -> None:
        bound = labels.pop("le", None)
        text = _labels(labels)
        if sample == self._name + "_sum" or bound is not None:
            histogram = self._histograms.setdefault(text, _Histogram(self._name, labels))
            if bound is None:
                histogram.total = series
            else:
                histogram.add_bucket(bound, series)
        else:
            self._plain.append((f"{sample}{text} ", series))
            self._plain.sort()

    def write(self, totals: dict[int, float], lines: list[str]) -> None:
        begin = len(lines)
        lines.append(self._head)
        for prefix, series in self._plain:
            if series in totals:
                lines.append(f"{prefix}{_number(totals[series])}\n")
        for _, histogram in sorted(self._histograms.items()):
            histogram.write(totals, lines)
        if len(lines) == begin + 1:
            del lines[begin]


class _Histogram:
    """The lines of one histogram: buckets as running totals, the count and the sum."""

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self._name = name
        self._labels = labels
        self._text = _labels(labels)
        self._buckets: list[tuple[float, str, int]] = []
        self.total = -1

    def add_bucket(self, bound: str, series: int) -> None:
        prefix = f"{self._name}_bucket{_labels({**self._labels, 'le': bound})} "
        self._buckets.append((float(bound), prefix, series))
        self._buckets.sort()

    def write(self, totals: dict[int, float], lines: list[str]) -> None:
        if self.total not in totals:
            return
        count = 0.0
        for _, prefix, series in self._buckets:
            count += totals.get(series, 0.0)
            lines.append(f"{prefix}{count!r}\n")
        lines.append(f"{self._name}_count{self._text} {count!r}\n")
        lines.append(f"{self._name}_sum{self._text} {_number(totals[self.total])}\n")


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value, quote=True)}"' for name, value in sorted(labels.items())) + "}"


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quote else text
