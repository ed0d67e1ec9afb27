"""Numbers that a process changes and others read, in files that they share.

A slot has one file per kind of metric, in the format of prometheus-client's multi-process mode: a header with the
number of bytes used, then entries, each with a JSON key padded to 8 bytes, the value, and a timestamp (both doubles).
The unused part of the header holds a random identity, which tells a file from a later one of the same name.

For each change, prometheus-client itself checks the process, takes a lock and packs bytes. Here a cell is a double in
the mapped file itself, which is several times cheaper. A change is one statement without a call in it, and the
interpreter switches threads only at calls and at the ends of loops, so no lock is needed. If the process is killed, the
kernel keeps the page, and an aligned double is never half written.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.mmap_dict import mmap_key

from coordinator.metrics.slots import forget_gauges, own

if TYPE_CHECKING:
    from coordinator.metrics.metric import Metric

HEADER = 8
"""Bytes before the first entry; the first four say how many bytes are used, the others which file this is."""

_CHUNK = 1 << 16

Numbers = ctypes.Array[ctypes.c_double]


class Cell(ctypes.c_double):
    """One number. On hot paths, ``cell.value += 1.0`` saves the call of a method."""

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount

    def set(self, value: float) -> None:
        self.value = value


class Buckets:
    """One histogram: a sum, and a count per bucket. The last bucket is unbounded."""

    __slots__ = ("_at", "_bounds", "_numbers", "_sum")

    def __init__(self, bounds: tuple[float, ...], numbers: Numbers, at: list[int]) -> None:
        self._bounds = bounds
        self._numbers = numbers
        self._sum, *self._at = at

    def observe(self, value: float) -> None:
        bucket = self._at[bisect_left(self._bounds, value)]
        self._numbers[bucket] += 1.0
        self._numbers[self._sum] += value

    def add(self, counts: Mapping[int, int], total: float) -> None:
        """Adds observations that were counted elsewhere.

        Args:
            counts: how many observations, by bucket from 0.
            total: their sum.
        """
        for bucket, count in counts.items():
            self._numbers[self._at[bucket]] += count
        self._numbers[self._sum] += total

    def counts(self) -> list[float]:
        """Observations per bucket, not cumulated."""
        return [self._numbers[at] for at in self._at]


class Cells(ABC):
    """The numbers of one process, and where they are kept."""

    @abstractmethod
    def _place(self, metric: Metric[Any], keys: list[str]) -> tuple[Numbers, list[int]]:
        """The array that holds the values of these keys, and their indices in it; new values begin at 0."""

    def number(self, metric: Metric[Any], labels: Mapping[str, str]) -> Cell:
        """The cell of a counter or gauge; equal labels give the same cell."""
        numbers, (at,) = self._place(metric, [_key(metric, metric.name, labels)])
        return Cell.from_buffer(numbers, at * ctypes.sizeof(Cell))

    def histogram(self, metric: Metric[Any], labels: Mapping[str, str]) -> Buckets:
        bounds = [*map(repr, metric.buckets), "+Inf"]
        buckets = [_key(metric, metric.name + "_bucket", {**labels, "le": bound}) for bound in bounds]
        return Buckets(metric.buckets, *self._place(metric, [_key(metric, metric.name + "_sum", labels), *buckets]))

    @abstractmethod
    def close(self) -> None:
        """Gives up the slot; its numbers stay for the next process that takes it."""


class MemoryCells(Cells):
    """Numbers of this process alone, which nobody renders: for ``fleet stdio`` and tests."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Numbers, list[int]]] = {}

    def _place(self, metric: Metric[Any], keys: list[str]) -> tuple[Numbers, list[int]]:
        if keys[0] not in self._places:
            self._places[keys[0]] = _private(len(keys))
        return self._places[keys[0]]

    def close(self) -> None:
        self._places.clear()


class SharedCells(Cells):
    """Numbers of one slot in ``directory``, rendered together with all other slots there.

    Counters and histograms go on where the slot's last owner stopped; gauges begin at 0.

    Raises:
        SlotBusy: if a living process owns the slot.
        OSError: if the directory can't be written.
    """

    def __init__(self, directory: Path, slot: str) -> None:
        if "_" in slot or "/" in slot:
            raise ValueError(f"a slot's name can't hold '_' or '/': {slot!r}")
        self._directory = directory
        self._slot = slot
        self._files: dict[str, _File] = {}
        self._making = threading.Lock()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._owner: int | None = own(directory, slot)
        forget_gauges(directory, slot)

    def _place(self, metric: Metric[Any], keys: list[str]) -> tuple[Numbers, list[int]]:
        kind = f"gauge_live{metric.merge}" if metric.kind == "gauge" else metric.kind
        with self._making:
            try:
                if kind not in self._files:
                    self._files[kind] = _File(self._directory / f"{kind}_{self._slot}.db")
                file = self._files[kind]
                at = [file.position(key) for key in keys]
                # Read last, because the file may have grown, and so been mapped anew.
                return file.numbers, at
            except OSError:
                # A full disk must not stop the service; these numbers are lost instead.
                return _private(len(keys))

    def close(self) -> None:
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None


def used_bytes(head: bytes) -> int:
    """Where the next entry of a slot's file goes, by its header."""
    return int.from_bytes(head[:4], sys.byteorder, signed=True)


def identity(memory: mmap.mmap) -> bytes:
    """Tells a slot's file from earlier ones of the same name. (Its inode would not: file systems reuse these.)"""
    return memory[4:HEADER]


def entries(memory: mmap.mmap, start: int, end: int) -> Iterator[tuple[str, int]]:
    """The keys between two offsets of a slot's file, each with the index of its double.

    Raises:
        ValueError: they are damaged. After a power failure, pages that were not written are zeros.
    """
    if not start <= end <= len(memory):
        raise ValueError("the count of used bytes")
    offset = start
    while offset < end:
        length: int = struct.unpack_from("i", memory, offset)[0]
        key = memory[offset + 4 : offset + 4 + length].decode()
        if not 0 < length < end - offset or "\0" in key:
            raise ValueError("not an entry")
        offset += 4 + length + 8 - (length + 4) % 8
        yield key, offset // 8
        offset += 16


def _private(count: int) -> tuple[Numbers, list[int]]:
    return (ctypes.c_double * count)(), list(range(count))


def _key(metric: Metric[Any], name: str, labels: Mapping[str, str]) -> str:
    family = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    return mmap_key(family, name, list(labels), list(labels.values()), metric.meaning)


def _is_written(path: Path) -> bool:
    """Whether the file exists and has a header. After a power failure a new file may be empty or all zeros."""
    try:
        with path.open("rb") as file:
            head = file.read(HEADER)
    except FileNotFoundError:
        return False
    return any(head)


class _File:
    """The entries of one kind of metric in one slot."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not _is_written(path):
            self._make()
        try:
            self._read()
        except ValueError:
            self._make()
            self._read()

    def _make(self) -> None:
        """Creates the file under another name and renames it when complete, so that nobody reads half a header."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(struct.pack("i4s", HEADER, os.urandom(4)).ljust(_CHUNK, b"\0"))
        fresh.rename(self._path)

    def _read(self) -> None:
        self._map()
        self._used = used_bytes(self._memory[:HEADER])
        self._positions = dict(entries(self._memory, HEADER, self._used))

    def _map(self) -> None:
        with self._path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.numbers: Numbers = (ctypes.c_double * (len(self._memory) // 8)).from_buffer(self._memory)

    def position(self, key: str) -> int:
        """Index of the value in ``numbers``.

        Raises:
            OSError: if the file has to grow and can't.
        """
        if key not in self._positions:
            encoded = key.encode()
            padded = encoded + b" " * (8 - (len(encoded) + 4) % 8)
            entry = struct.pack(f"i{len(padded)}sdd", len(encoded), padded, 0.0, 0.0)
            if self._used + len(entry) > len(self._memory):
                self._grow()
            self._memory[self._used : self._used + len(entry)] = entry
            self._used += len(entry)
            # The count of used bytes is written last, so that readers, and a later owner, see complete entries only.
            self._memory[0:4] = struct.pack("i", self._used)
            self._positions[key] = self._used // 8 - 2
        return self._positions[key]

    def _grow(self) -> None:
        """Enlarges the file by zeros that are really written: with a hole, a full disk would kill the process later.

        Existing cells keep their mapping, which shows the same pages.
        """
        with self._path.open("r+b") as file:
            if file.read(HEADER) != self._memory[:HEADER]:
                raise FileNotFoundError(errno.ENOENT, "the file was removed", str(self._path))
            file.seek(0, os.SEEK_END)
            file.write(bytes(_CHUNK))
        self._map()
