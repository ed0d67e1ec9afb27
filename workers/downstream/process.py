"""A server that is a child process: its stdin and stdout, and its end together with its whole process group."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from typing import IO, TextIO

import anyio

from workers.children.guard import ProcessGroup

GRACE_SECONDS = 2.0
"""How long a server may take to end after its stdin was closed, and its process group again after SIGTERM."""
_LOOK_SECONDS = 0.02


@contextlib.asynccontextmanager
async def server_process(
    command: Sequence[str], env: dict[str, str], directory: str | None, stderr: TextIO, longest_line: int
) -> AsyncIterator[ServerProcess]:
    """Starts a server, and in the end ends it.

    Args:
        env: its whole environment.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    group = ProcessGroup(
        command,
        env=env,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )
    server = ServerProcess(group, longest_line)
    try:
        await server.connect()
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await server.end()
        group.release()


class ServerProcess(asyncio.Protocol):
    def __init__(self, group: ProcessGroup, longest_line: int) -> None:
        self.lines = asyncio.StreamReader(longest_line)
        """What it writes to stdout."""
        self._group = group
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._ending = False

    async def connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self._group.process
        self._stdin, _ = await loop.connect_write_pipe(lambda: self, process.stdin)
        reading = asyncio.StreamReaderProtocol(self.lines)
        self._stdout, _ = await loop.connect_read_pipe(lambda: reading, process.stdout)

    async def write(self, data: bytes) -> bool:
        """Writes to its stdin. Returns whether that is still open."""
        if not self._closed and self._stdin is not None:
            self._stdin.write(data)
            await self._writable.wait()
        return not self._closed

    async def end(self) -> int | None:
        """Closes its stdin. What is left of its group then gets SIGTERM, and SIGKILL if that does not help.

        Returns:
            Its exit code, negative for a signal, if it ended without a signal from here.
        """
        if self._ending:
            return None
        self._ending = True
        self._close(self._stdin, self._group.process.stdin)
        await asyncio.wait([self._group.ended], timeout=GRACE_SECONDS)
        code = self._group.ended.result() if self._group.ended.done() else None
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._group.signal(number):
                await self._gone()
        self._close(self._stdout, self._group.process.stdout)
        return code

    @staticmethod
    def _close(transport: asyncio.BaseTransport | None, pipe: IO[bytes] | None) -> None:
        if transport is not None:
            transport.close()
        elif pipe is not None:
            pipe.close()

    async def _gone(self) -> None:
        """Waits for the end of the whole group. Its other processes are no children, so nothing tells of theirs."""
        with anyio.move_on_after(GRACE_SECONDS):
            while self._group.signal(0) or not self._group.ended.done():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._writable.set()
