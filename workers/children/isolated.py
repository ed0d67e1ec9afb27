"""Runs Python callables in child processes, where they may compute, block or crash without affecting other steps.

A child executes one call at a time, and up to ``CALLS`` calls in its life. When a call is cancelled or times out, its
child is killed, because blocking code cannot be stopped otherwise. A child ends with its worker, even if the worker is
killed, and so does what it has started. What a child writes to stdout goes to the worker's stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.service import Service
from coordinator.steps.run_kind import CallFailed, timeout
from workers.children.guard import guard
from workers.children.isolated_child import HEAD, TOO_DEEP

CALLS = 100
"""How many calls a child serves before a new one replaces it, so that leaks stay bounded."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
_LAST_WORDS_SECONDS = 1.0
"""How long to wait for the answer of a child that has ended already."""
_encode = msgspec.json.Encoder().encode
decode_reply = msgspec.json.Decoder().decode


class _Child:
    def __init__(self) -> None:
        self.calls = 0
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                # -P: files in the working directory must not hide installed modules.
                *(
                    sys.executable,
                    "-P",
                    "-m",
                    "workers.children.isolated_child",
                    str(theirs.fileno()),
                    str(os.getpid()),
                ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=[theirs.fileno()],
            )
            guard.watch(self._process.pid)
        except BaseException:
            ours.close()
            self.kill()
            raise
        finally:
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=MAX_REPLY_BYTES)

    async def call(self, target: str, arguments: Mapping[str, Any], key: str) -> Any:
        """Calls ``module:function`` in the child and returns its result.

        Raises:
            CallFailed: the callable raised, or its result cannot be used.
            ConnectionError, IncompleteReadError: the process ended.
        """
        if self._reader is None or self._writer is None:
            raise ConnectionError("the child was not started")
        self.calls += 1
        request = _encode({"target": target, "arguments": arguments, "key": key})
        self._writer.write(HEAD.pack(len(request)) + request)
        await self._writer.drain()
        answer = await self._answer(self._reader)
        try:
            reply = decode_reply(answer)
        except RecursionError:
            raise CallFailed(TOO_DEEP, "invalid_result") from None
        if "error" in reply:
            raise CallFailed(reply["error"], reply["type"])
        return reply["value"]

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        """Reads the next answer.

        Raises:
            ConnectionError: the process ended. It may have left copies of itself that hold the connection open, so
                the end of the stream does not always tell.
        """
        reading = asyncio.ensure_future(_framed(reader))
        ending = asyncio.ensure_future(self.ended())
        try:
            await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait([reading], timeout=_LAST_WORDS_SECONDS)
            if not reading.done():
                raise ConnectionError("the child ended without an answer")
            return reading.result()
        finally:
            reading.cancel()
            ending.cancel()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def hang_up(self) -> None:
        """Closes the connection to the process, whose group is not guarded any more."""
        if self._process is not None:
            guard.forget(self._process.pid)
        if self._writer is not None:
            self._writer.transport.abort()

    def kill(self) -> None:
        """Kills the process and everything that it has started."""
        self.hang_up()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # If it was just started, it does not lead a group of its own yet.
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def ended(self) -> str:
        """Waits until the process has ended, and describes how."""
        code = -signal.SIGKILL if self._process is None else await self._process.wait()
        return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


async def _framed(reader: asyncio.StreamReader) -> bytes:
    (size,) = HEAD.unpack(await reader.readexactly(HEAD.size))
    if size > MAX_REPLY_BYTES:
        raise CallFailed(f"the callable returned more than {MAX_REPLY_BYTES} bytes", "too_large")
    return await reader.readexactly(size)


class IsolatedCalls(Service):
    """The children of one worker, started when they are needed.

    Args:
        most: the most children at once; 0: as many as there are processors. Further calls wait. The time that they
            wait does not count towards the timeout of their attempts.
    """

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most or os.cpu_count() or 1)
        self._idle: list[_Child] = []
        self.children: set[_Child] = set()
        """Those that may still run, busy or not."""
        self._ending: set[asyncio.Task[str]] = set()

    async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        """Calls ``module:function`` in a child; see ``coordinator.steps.run_kind.Isolated``."""
        limit = timeout.get()
        if limit is not None:
            limit.suspend()
        async with self._places:
            if limit is not None:
                limit.restart()
            return await self._call(target, arguments, idempotency_key)

    async def _call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        child = await self._child()
        healthy = False
        try:
            value = await child.call(target, arguments, idempotency_key)
            healthy = True
            return value
        except CallFailed as error:
            healthy = error.type != "too_large"
            raise
        except (ConnectionError, asyncio.IncompleteReadError):
            raise CallFailed(f"the process of the callable {await child.ended()}", "crashed") from None
        finally:
            if healthy and child.calls < CALLS:
                self._idle.append(child)
            else:
                self._end(child)

    async def stop(self, deadline: float = 0.0) -> None:
        for child in list(self.children):
            self._end(child)
        self._idle.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _child(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            # It ended by itself, some time ago. Killing it is not safe: another process may have its id by now.
            child.hang_up()
            self.children.discard(child)
        child = _Child()
        await child.start()
        self.children.add(child)
        return child

    def _end(self, child: _Child) -> None:
        child.kill()
        self.children.discard(child)
        ending = asyncio.get_running_loop().create_task(child.ended(), name="child-ends")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
