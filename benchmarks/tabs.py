"""Tabs of the console without a browser: each has a stream and reads, as its scripts do, what may have changed."""

from __future__ import annotations

import asyncio
import contextlib
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
        page = await self._read(f"{self._path}/board")
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
        looking: asyncio.Task[None] | None = None
        due = 0.0
        try:
            writer.write(self._request(f"{self._path}/live?after={self._after}"))
            while True:
                line = await reader.readline()
                if not line:
                    return
                if not line.startswith(b"data: {"):
                    continue
                ready.set()
                self.frames += 1
                frame = msgspec.json.decode(line[6:], type=_Frame)
                if self._regions and frame.changed and (looking is None or looking.done()):
                    looking = asyncio.create_task(self._look(max(0.0, due - time.monotonic())))
                    due = max(due, time.monotonic()) + frame.look
        finally:
            if looking is not None:
                looking.cancel()
            writer.close()

    async def _look(self, after: float) -> None:
        await asyncio.sleep(after)
        for region in self._regions:
            await self._read(f"{self._path}/board/~{region}")
            self.reads += 1

    async def _read(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(self._request(path))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise Failed(f"{path}: {head.splitlines()[0].decode()}")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            return await reader.readexactly(int(length[15:]))
        finally:
            writer.close()

    def _request(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
