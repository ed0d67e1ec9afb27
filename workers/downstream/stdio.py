"""Talks to servers that are child processes. Each message is a line.

The transport of the client library would read lines of any length.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TextIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from workers.downstream.answers import MAX_ANSWER

GRACE_SECONDS = 2.0
"""How long a server may take to end after its stdin was closed, and again after SIGTERM."""
_FLUSH_SECONDS = 0.5
_CHUNK = 65_536
UNREADABLE = "the server gave an answer that violates the protocol"
"""The error in the place of such an answer."""

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _Garbled(Exception):
    """A message that cannot be read, and that does not say to which request it belongs."""


@contextlib.asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    env: dict[str, str],
    directory: str | None,
    stderr: TextIO,
    on_print: Callable[[bytes], None],
    on_loss: Callable[[str], None],
    on_exit: Callable[[int], None],
) -> AsyncIterator[Streams]:
    """Starts a server, and in the end ends it with its whole process group.

    Args:
        env: its environment, besides the few variables that it inherits.
        on_print: called with lines that are not messages.
        on_loss: called with the reason when its answers cannot be read any further.
        on_exit: called with its exit code if it ends by itself; negative: by that signal.

    Raises:
        OSError, ValueError: the server cannot be started.
    """
    transport, pipes = await asyncio.get_running_loop().subprocess_exec(
        _Pipes,
        *command,
        env=get_default_environment() | env,
        cwd=directory,
        stderr=stderr,
        start_new_session=True,
    )
    # Nothing is awaited from here to the task group: a cancellation would leave the process behind.
    read_stream_writer, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, write_stream_reader = anyio.create_memory_object_stream[SessionMessage](0)
    written = asyncio.Event()

    async def read() -> None:
        async with read_stream_writer:
            try:
                while True:
                    line = await pipes.lines.readuntil()
                    message = _message(line)
                    if message is None:
                        on_print(line)
                        await asyncio.sleep(0)  # readuntil does not yield to other tasks while it has lines
                    else:
                        await read_stream_writer.send(SessionMessage(message))
            except asyncio.LimitOverrunError:
                on_loss(f"the server answered with more than {MAX_ANSWER} bytes")
            except _Garbled:
                on_loss(UNREADABLE)
            except (asyncio.IncompleteReadError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # the server ended, or the reader is gone
        while await pipes.lines.read(_CHUNK):
            pass  # a full pipe must not block the end of the server

    async def write() -> None:
        try:
            async for one in write_stream_reader:
                line = one.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                if not await pipes.write(line.encode()):
                    await read_stream_writer.aclose()  # the server may be alive, but cannot be called any more
                    break
        finally:
            write_stream_reader.close()
            written.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield read_stream, write_stream
        finally:
            with anyio.CancelScope(shield=True):
                read_stream.close()
                write_stream.close()
                await _within(_FLUSH_SECONDS, written)
                if await _end(transport, pipes.ended) and (code := transport.get_returncode()) is not None:
                    on_exit(code)
            group.cancel_scope.cancel()


class _Pipes(asyncio.SubprocessProtocol):
    """Stdin and stdout of a server; also notices when the server ends."""

    def __init__(self) -> None:
        self.lines = asyncio.StreamReader(MAX_ANSWER, asyncio.get_running_loop())
        self.ended = asyncio.Event()
        self._transport: Any = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._stdin_closed = False

    async def write(self, data: bytes) -> bool:
        """Writes to the server's stdin. Returns whether that is still open."""
        if not self._stdin_closed:
            self._transport.get_pipe_transport(0).write(data)
            await self._writable.wait()
        return not self._stdin_closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.lines.set_transport(self._transport.get_pipe_transport(1))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.lines.feed_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.lines.feed_eof()
        else:
            self._stdin_closed = True
            self._writable.set()

    def process_exited(self) -> None:
        self.ended.set()


async def _end(transport: asyncio.SubprocessTransport, ended: asyncio.Event) -> bool:
    """Closes a server's stdin. If the server does not end then, sends SIGTERM to its process group, then SIGKILL.

    Returns:
        Whether it ended without a signal from here.
    """
    stdin: Any = transport.get_pipe_transport(0)
    stdin.close()
    by_itself = await _within(GRACE_SECONDS, ended)
    if not by_itself:
        _signal(transport, signal.SIGTERM)
        await _within(GRACE_SECONDS, ended)
        _signal(transport, signal.SIGKILL)
        await _within(GRACE_SECONDS, ended)
    with contextlib.suppress(PermissionError):
        transport.close()
    return by_itself


def _signal(transport: asyncio.SubprocessTransport, number: int) -> None:
    # Safe although the server may have ended: the group's id is not reused while any of its processes lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), number)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    # Not asyncio.timeout: in the first releases of Python 3.11 its end is no TimeoutError in a task that was cancelled.
    with anyio.move_on_after(seconds):
        await event.wait()
    return event.is_set()


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """Reads a line as a message. Returns None if it is not one, such as text that a server prints by mistake.

    An answer that does not follow the protocol becomes an error for the request that waits for it.

    Raises:
        _Garbled: the line is a faulty message, and does not say to which request it belongs.
    """
    text = line.decode(errors="replace")
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        if '"jsonrpc"' not in text:
            return None
    try:
        found = json.loads(text)  # accepts more than the library does: lone surrogates and deeper nesting
        if "method" in found:
            return None
        problem = types.ErrorData(code=types.INTERNAL_ERROR, message=UNREADABLE)
        return types.JSONRPCError(jsonrpc="2.0", id=found["id"], error=problem)
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _Garbled from None
