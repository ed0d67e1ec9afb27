"""The child's side of ``isolated``: ``python -m workers.children.isolated_child DESCRIPTOR PARENT``."""

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
from collections.abc import Callable, Mapping
from functools import cache
from io import TextIOWrapper
from typing import Any, cast

import msgspec

HEAD = struct.Struct("!I")
"""The header of each message, in either direction: its length in bytes."""
_PR_SET_PDEATHSIG = 1
TOO_DEEP = "the callable returned a value that is nested too deep"
BAD_ARGUMENTS = "VALIDATION_ERROR"
"""The type of a failure of a call with wrong arguments; the callable was not called."""
_KEY = "idempotency_key"
_encode = msgspec.json.Encoder().encode
_resolve = cache(pkgutil.resolve_name)


def _serve(call: dict[str, Any]) -> bytes:
    os.environ["IDEMPOTENCY_KEY"] = call["key"]
    try:
        function = _resolve(call["target"])
        arguments = prepared(function, call["arguments"], call["key"])
    except BadArguments as problem:
        return _encode({"error": str(problem), "type": BAD_ARGUMENTS})
    except Exception as error:
        return _encode({"error": message_of(error), "type": type(error).__name__})
    try:
        value = function(**arguments)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return _encoded(value)
    except Exception as error:
        # The exception's message is for the tool's caller. The traceback is not.
        return _encode({"error": message_of(error), "type": type(error).__name__})


class BadArguments(Exception):
    """A callable does not accept the arguments. The text says what it accepts."""


def prepared(function: Callable[..., Any], passed: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The arguments of a call: those given, and ``idempotency_key`` where the callable has a parameter of that name.

    Raises:
        BadArguments: some are unknown, or some are missing.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return dict(passed)  # callables written in C may have no signature
    named = {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    arguments = {_KEY: key, **passed} if _KEY in named else dict(passed)
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [] if takes_all else [name for name in arguments if name not in named]
    if unknown:
        allowed = ", ".join(name for name in named if name != _KEY) or "none"
        raise BadArguments(f"args: no such argument: {', '.join(unknown)[:200]}; allowed: {allowed}")
    if missing := [name for name, required in named.items() if required and name not in arguments]:
        raise BadArguments(f"args: required: {', '.join(missing)}")
    return arguments


def _encoded(value: Any) -> bytes:
    try:
        return _encode({"value": value})
    except RecursionError:
        return _encode({"error": TOO_DEEP, "type": "invalid_result"})


def message_of(error: BaseException) -> str:
    """The message of an exception, or its type if it has none. The text is bounded and can be encoded as UTF-8."""
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
    """Serves calls until the worker closes the connection."""
    # A group of its own, so that what a callable starts can be killed with it. It stays in the worker's session, which
    # is ended with the worker.
    os.setpgid(0, 0)
    # Ctrl-C in a terminal is for the worker to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[2]):
        raise SystemExit("the worker has ended already")
    # Line by line, so that what a callable printed is not lost when it hangs and is killed.
    cast(TextIOWrapper, sys.stdout).reconfigure(line_buffering=True)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    pid = os.getpid()
    while True:
        (size,) = HEAD.unpack(_read(connection, HEAD.size))
        answer = _serve(msgspec.json.decode(_read(connection, size)))
        if os.getpid() != pid:
            # The callable forked, and this is the copy. Only the original process answers.
            os._exit(0)
        connection.sendall(HEAD.pack(len(answer)) + answer)


if __name__ == "__main__":
    main()
