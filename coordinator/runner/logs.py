"""What a command writes: kept in files, secrets masked, with a bound; and given to the reader, line by line."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path

from coordinator.runner.masking import Masker
from coordinator.runner.protocols import Reader, Stream

LONGEST_LINE = 10_000_000
MOST_BYTES = 64 << 20
"""Of the files of one attempt together."""
TAIL_BYTES = 1 << 20
"""How much of the end is kept beside the beginning, if there is too much."""


class AttemptLog:
    """The output of one attempt: ``stdout.log`` and ``stderr.log``, readable by the owner, ``most`` bytes of each."""

    def __init__(self, directory: Path, masker: Masker, reader: Reader, most: int = MOST_BYTES // 2) -> None:
        self._reader = reader
        self.last_output = time.monotonic()
        self._streams: dict[Stream, _File] = {
            "stdout": _File(directory / "stdout.log", masker, most),
            "stderr": _File(directory / "stderr.log", masker, most),
        }

    def take(self, stream: Stream, part: bytes) -> None:
        self.last_output = time.monotonic()
        for line in self._streams[stream].take(part):
            self._reader.line(stream, line)

    def descriptor(self, stream: Stream) -> int:
        """The open file of a stream."""
        return self._streams[stream].descriptor

    def close(self) -> str:
        """Ends the files; returns what went wrong with them, or an empty text."""
        problems = []
        for stream, file in self._streams.items():
            for line in file.rest():
                self._reader.line(stream, line)
            problems.append(file.close())
        return next(filter(None, problems), "")

    def last_words(self) -> str:
        """The last line that is not blank, of stderr rather than of stdout; at most 300 characters."""
        return self._streams["stderr"].last or self._streams["stdout"].last


class _File:
    def __init__(self, path: Path, masker: Masker, most: int) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._masker = masker
        self._room = max(most - TAIL_BYTES, 0)
        self._tail: deque[bytes] = deque()
        self._tail_size = self._dropped = 0
        self._line = bytearray()
        self._cut = False
        """The line was too long: its rest is dropped."""
        self._problem = ""
        self.last = ""

    def take(self, part: bytes) -> list[bytes]:
        lines: list[bytes] = []
        self._line += part
        end = self._line.rfind(b"\n") + 1
        if end:
            block = bytes(self._line[:end])
            del self._line[:end]
            if self._cut:
                block = block[block.index(b"\n") + 1 :]
                self._cut = False
            lines = self._whole(block)
        if self._cut:
            self._line.clear()
        elif len(self._line) > LONGEST_LINE:
            lines += self._whole(bytes(self._line[:LONGEST_LINE]) + b"\n")
            self._line.clear()
            self._cut = True
        return lines

    def rest(self) -> list[bytes]:
        """The last line, if it has no end."""
        last, self._line = bytes(self._line), bytearray()
        return self._whole(last + b"\n") if last and not self._cut else []

    def _whole(self, block: bytes) -> list[bytes]:
        if not block:
            return []
        masked = self._masker(block)
        self._write(masked)
        lines = masked.split(b"\n")[:-1]
        for line in reversed(lines):
            if line.strip():
                self.last = line.strip()[:1200].decode(errors="replace")[:300]
                break
        return [line[:LONGEST_LINE] for line in lines]

    def _write(self, block: bytes) -> None:
        now, later = block[: self._room], block[self._room :]
        self._room -= len(now)
        self._out(now)
        if later:
            later = later[-TAIL_BYTES:]
            self._dropped += len(block) - len(now)
            self._tail.append(later)
            self._tail_size += len(later)
            while self._tail_size - len(self._tail[0]) >= TAIL_BYTES:
                self._tail_size -= len(self._tail.popleft())

    def _out(self, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(self.descriptor, text) :]
        except OSError as error:  # the disk is full: the command's output is still read
            self._problem = f"output could not be kept: {error.strerror}"

    def close(self) -> str:
        if self._tail:
            left_out = self._dropped - self._tail_size
            if left_out > 0:
                self._out(b"\n[%d bytes are left out here]\n" % left_out)
            for block in self._tail:
                self._out(block)
            self._tail.clear()
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
        return self._problem
