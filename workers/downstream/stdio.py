"""Talks to servers that are child processes. Each message is a line.

The transport of the client library would read lines of any length.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TextIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from workers.downstream.answers import MAX_ANSWER
from workers.downstream.process import server_process
from workers.downstream.unread import ENDS, Requests, looked_at

MOST_SKIPPED = 64
"""The longest line that is skipped, as a multiple of ``MAX_ANSWER``. A server that writes more may never end it."""
_FLUSH_SECONDS = 0.5
_CHUNK = 65_536

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _Endless(Exception):
    """A line is too long to be skipped."""


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

    An answer that cannot be read, because it is too long or violates the protocol, fails its request alone. If it does
    not say whose it is, its request fails when no other one can be meant, which may be after its time.

    Args:
        env: its environment, besides the few variables that it inherits.
        on_print: called with lines that are not messages.
        on_loss: called with the reason when its answers cannot be read any further.
        on_exit: called with its exit code if it ends by itself; negative: by that signal.

    Raises:
        OSError, ValueError: the server cannot be started.
    """
    whole = get_default_environment() | env
    async with server_process(command, whole, directory, stderr, MAX_ANSWER) as server:
        read_stream_writer, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, write_stream_reader = anyio.create_memory_object_stream[SessionMessage](0)
        written = asyncio.Event()
        requests = Requests()

        async def read() -> None:
            async with read_stream_writer:
                try:
                    while True:
                        messages = await _next(server.lines, requests, on_print)
                        for message in messages:
                            await read_stream_writer.send(SessionMessage(message))
                        if not messages:
                            await asyncio.sleep(0)  # reading does not yield to other tasks while there are lines
                except _Endless:
                    on_loss(f"the server wrote more than {MOST_SKIPPED * MAX_ANSWER} bytes without the end of a line")
                except (asyncio.IncompleteReadError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    pass  # the server ended, or the reader is gone
            while await server.lines.read(_CHUNK):
                pass  # a full pipe must not block the end of the server

        async def write() -> None:
            try:
                async for item in write_stream_reader:
                    if isinstance(item.message, types.JSONRPCRequest):
                        requests.asked(item.message.id)
                    line = item.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                    if not await server.write(line.encode()):
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
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await written.wait()
                    if (code := await server.end()) is not None:  # while its output is read
                        on_exit(code)
                group.cancel_scope.cancel()


async def _next(
    lines: asyncio.StreamReader, requests: Requests, on_print: Callable[[bytes], None]
) -> Sequence[types.JSONRPCMessage]:
    """The message of the next line, or errors in place of answers that cannot be read.

    Raises:
        asyncio.IncompleteReadError: the server has ended.
        _Endless: the line does not end.
    """
    line, end = await _line(lines)
    if end is None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
        except ValueError:
            problem, end = "it violates the protocol", line
        else:
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                return [message, *requests.answered(message.id)]
            return [message]
    else:
        problem = f"it has more than {MAX_ANSWER} bytes"
    unread = looked_at(line[:ENDS], end[-ENDS:])
    if unread.is_answer:
        return requests.unread(unread, problem)
    on_print(line[:ENDS])
    return ()


async def _line(lines: asyncio.StreamReader) -> tuple[bytes, bytes | None]:
    """The next line and None, or the beginning and the end of one that is too long."""
    beginning, end, size = b"", b"", 0
    while True:
        try:
            part = await lines.readuntil()
        except asyncio.LimitOverrunError as error:
            part = await lines.readexactly(error.consumed)
        else:
            if not size:
                return part, None
            return beginning, end + part
        beginning = beginning or part[:ENDS]
        end = (end + part[-ENDS:])[-ENDS:]
        size += len(part)
        if size > MOST_SKIPPED * MAX_ANSWER:
            raise _Endless
