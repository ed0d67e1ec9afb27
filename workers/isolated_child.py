"""The child's side of ``isolated``: ``python -m workers.isolated_child DESCRIPTOR PARENT``."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import pkgutil
import signal
import socket
import struct
import sys
from functools import cache
from io import TextIOWrapper
from typing import Any, cast

import msgspec

HEAD = struct.Struct("!I")
"""Before each message in either direction: how many bytes it has."""
_PR_SET_PDEATHSIG = 1
TOO_DEEP = "the callable returned what is nested too deep to be kept"
_encode = msgspec.json.Encoder().encode
_resolve = cache(pkgutil.resolve_name)


def _serve(call: dict[str, Any]) -> bytes:
    os.environ["IDEMPOTENCY_KEY"] = call["key"]
    try:
        value = _resolve(call["target"])(**call["arguments"])
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return _encoded(value)
    except Exception as error:
        # A tool's own sentence about what went wrong is for its caller; where it happened is not.
        return _encode({"error": said(error), "type": type(error).__name__})


def _encoded(value: Any) -> bytes:
    try:
        return _encode({"value": value})
    except RecursionError:
        return _encode({"error": TOO_DEEP, "type": "invalid_result"})


def said(error: BaseException) -> str:
    """What an exception of somebody's says, else what it is; whatever that is, it can be passed on."""
    try:
        text = str(error)[:2000].encode(errors="replace").decode()
    except Exception:
        text = ""
    return text or type(error).__name__


def _read(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise SystemExit(0)
        parts += part
    return parts


def main() -> None:
    """Serves calls until the worker hangs up."""
    # So that what a callable starts can be ended with it; in the worker's session, which is ended with the worker.
    os.setpgid(0, 0)
    # What a terminal sends to the whole group is the worker's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[2]):
        raise SystemExit("the worker has ended already")
    # What a callable prints before it hangs is not lost when it is killed.
    cast(TextIOWrapper, sys.stdout).reconfigure(line_buffering=True)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    pid = os.getpid()
    while True:
        (size,) = HEAD.unpack(_read(connection, HEAD.size))
        answer = _serve(msgspec.json.decode(_read(connection, size)))
        if os.getpid() != pid:
            # A copy that the callable made of this process has come back from it; the answer is the original's.
            os._exit(0)
        connection.sendall(HEAD.pack(len(answer)) + answer)


if __name__ == "__main__":
    main()
