"""Tabs of the console without a browser: each has a stream and reads, as its scripts do, what may have changed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncIterator, Sequence

import msgspec

from benchmarks.support import Failed

_AT_ONCE = 50
_OPEN_SECONDS = 60
BOARD = ("queue", "work", "review", "blocked", "terminal")
"""The regions of a board."""


class _Frame(msgspec.Struct):
    look: float
    changed: dict[str, list[str]]


class _Region(msgspec.Struct):
    rows: list[list[str]]


class Tabs:
    """Open tabs of one project's board."""

    def __init__(self, port: int, project: str = "default", regions: Sequence[str] = BOARD) -> None:
        self._port = port
        self._path = f"/console/p/{project}"
        self._regions = regions
        self._after = ""
        self.frames = 0
        self.reads = 0

    @contextlib.asynccontextmanager
    async def open(self, count: int) -> AsyncIterator[None]:
        """Opens so many; they stay until the block ends."""
        tasks = list[asyncio.Task[None]]()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        page = await self._read(reader, writer, f"{self._path}/board")
        writer.close()
        self._after = page.partition(b'data-position="')[2].partition(b'"')[0].decode()
        try:
            for start in range(0, count, _AT_ONCE):
                ready = [asyncio.Event() for _ in range(start, min(start + _AT_ONCE, count))]
                tasks += [asyncio.create_task(self._tab(one)) for one in ready]
                async with asyncio.timeout(_OPEN_SECONDS):
                    await asyncio.gather(*(one.wait() for one in ready))
            yield
        finally:
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if ended:
            raise Failed(f"{len(ended)} tabs were cut off")

    async def _tab(self, ready: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        other = await asyncio.open_connection("127.0.0.1", self._port)
        have: dict[str, str] = {}
        await self._look(*other, have, self._after, 0.0)  # a page comes with its rows
        looking: asyncio.Task[None] | None = None
        due, at = math.inf, self._after
        try:
            writer.write(self._request(f"{self._path}/live?after={self._after}"))
            while True:
                line = await reader.readline()
                if not line:
                    return
                if line.startswith(b"id: "):
                    at = line[4:].strip().decode()
                if not line.startswith(b"data: {"):
                    continue
                ready.set()
                self.frames += 1
                frame = msgspec.json.decode(line[6:], type=_Frame)
                if due == math.inf:  # it has been open for a while
                    due = time.monotonic() + random.random() * frame.look
                if self._regions and frame.changed and (looking is None or looking.done()):
                    looking = asyncio.create_task(self._look(*other, have, at, max(0.0, due - time.monotonic())))
                    due = max(due, time.monotonic()) + frame.look
        finally:
            if looking is not None:
                looking.cancel()
            writer.close()
            other[1].close()

    async def _look(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, have: dict[str, str], at: str, after: float
    ) -> None:
        """Reads the regions, as a page does that has some rows already."""
        await asyncio.sleep(after)
        for region in self._regions:
            known = f"fleet-have: {have.get(region, '')}\r\nfleet-at: {at}\r\n"
            found = await self._read(reader, writer, f"{self._path}/board/~{region}", known)
            have[region] = ",".join(row[1] for row in msgspec.json.decode(found, type=_Region).rows)
            self.reads += 1

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, more: str = ""
    ) -> bytes:
        writer.write(self._request(path, more))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise Failed(f"{path}: {head.splitlines()[0].decode()}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return await reader.readexactly(int(length[15:]))

    def _request(self, path: str, more: str = "") -> bytes:
        return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{more}\r\n".encode()
