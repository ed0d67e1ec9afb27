"""Servers that are processes of ours: their messages are lines, which the client library would read whole."""

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
"""What a server has to end when its stdin is closed, and again when it is told to."""
_FLUSH_SECONDS = 0.5
_CHUNK = 65_536
_UNKNOWN = "the server answered with what the protocol does not know"

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _Garbled(Exception):
    """A message that does not say whose it is."""


@contextlib.asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    env: dict[str, str],
    directory: str | None,
    stderr: TextIO,
    on_print: Callable[[bytes], None],
    on_loss: Callable[[str], None],
) -> AsyncIterator[Streams]:
    """Starts a server; ends it with the group of processes that it began.

    Args:
        env: besides the little that it inherits.
        on_print: called with lines that are no messages.
        on_loss: called with the reason where its answers cannot be read any further.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    transport, pipes = await asyncio.get_running_loop().subprocess_exec(
        _Pipes,
        *command,
        env=get_default_environment() | env,
        cwd=directory,
        stderr=stderr,
        start_new_session=True,
    )
    # Nothing is awaited from here to the group: a cancellation would leave the process behind.
    heard, to_hear = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_say, said = anyio.create_memory_object_stream[SessionMessage](0)
    written = asyncio.Event()

    async def read() -> None:
        async with heard:
            try:
                while True:
                    line = await pipes.lines.readuntil()
                    message = _message(line)
                    if message is None:
                        on_print(line)
                        await asyncio.sleep(0)  # a reader that has lines does not let others work
                    else:
                        await heard.send(SessionMessage(message))
            except asyncio.LimitOverrunError:
                on_loss(f"the server answered with more than {MAX_ANSWER} bytes")
            except _Garbled:
                on_loss(_UNKNOWN)
            except (asyncio.IncompleteReadError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # it ended, or nobody listens any more
        while await pipes.lines.read(_CHUNK):
            pass  # what it still writes must not keep it from ending

    async def write() -> None:
        try:
            async for one in said:
                line = one.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                if not await pipes.write(line.encode()):
                    await heard.aclose()  # it may live, but nobody can ask it any more
                    break
        finally:
            said.close()
            written.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield to_hear, to_say
        finally:
            with anyio.CancelScope(shield=True):
                to_hear.close()
                to_say.close()
                await _within(_FLUSH_SECONDS, written)
                await _end(transport, pipes.ended)
            group.cancel_scope.cancel()


class _Pipes(asyncio.SubprocessProtocol):
    """Stdin and stdout of a server, and its end."""

    def __init__(self) -> None:
        self.lines = asyncio.StreamReader(MAX_ANSWER, asyncio.get_running_loop())
        self.ended = asyncio.Event()
        self._transport: Any = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._deaf = False

    async def write(self, data: bytes) -> bool:
        """Writes to its stdin; returns whether that is still open."""
        if not self._deaf:
            self._transport.get_pipe_transport(0).write(data)
            await self._writable.wait()
        return not self._deaf

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
            self._deaf = True
            self._writable.set()

    def process_exited(self) -> None:
        self.ended.set()


async def _end(transport: asyncio.SubprocessTransport, ended: asyncio.Event) -> None:
    """Closes a server's stdin; if it does not end by that, its whole group is told to, and killed."""
    stdin: Any = transport.get_pipe_transport(0)
    stdin.close()
    if not await _within(GRACE_SECONDS, ended):
        _signal(transport, signal.SIGTERM)
        await _within(GRACE_SECONDS, ended)
        _signal(transport, signal.SIGKILL)
        await _within(GRACE_SECONDS, ended)
    with contextlib.suppress(PermissionError):
        transport.close()


def _signal(transport: asyncio.SubprocessTransport, number: int) -> None:
    # The group's number stays taken for as long as any of its processes lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), number)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """The message that a line is; None: it is none, such as what a server prints by mistake.

    An answer that the protocol does not know becomes an error, for whoever waits for it.

    Raises:
        _Garbled: it is a message, and nobody can tell whose.
    """
    text = line.decode(errors="replace")
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        if '"jsonrpc"' not in text:
            return None
    try:
        found = json.loads(text)  # more forgiving than the library: of half a character, and of depth
        if "method" in found:
            return None
        problem = types.ErrorData(code=types.INTERNAL_ERROR, message=_UNKNOWN)
        return types.JSONRPCError(jsonrpc="2.0", id=found["id"], error=problem)
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _Garbled from None
