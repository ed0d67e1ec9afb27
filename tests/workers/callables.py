"""Functions that run in child processes of tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.wait import wait_until

_calls = 0


def add(a: int, b: int) -> int:
    return a + b


async def waits(value: str) -> str:
    return value


async def until(path: str) -> None:
    """Waits for a file."""
    await wait_until(Path(path).exists)


def who() -> list[int]:
    """The process, its parent, and how often it was called."""
    global _calls
    _calls += 1
    return [os.getpid(), os.getppid(), _calls]


def key() -> str | None:
    return os.environ.get("IDEMPOTENCY_KEY")


def key_given(idempotency_key: str, *, label: str = "-") -> list[str | None]:
    return [idempotency_key, label, os.environ.get("IDEMPOTENCY_KEY")]


def takes_all(*args: int, **more: int) -> dict[str, int]:
    return more


def loud() -> str:
    print("on stdout")
    os.write(1, b"on descriptor 1\n")
    print("on stderr", file=sys.stderr)
    return "quiet"


def raises(text: str) -> None:
    raise ValueError(text)


def ends(code: int) -> None:
    os._exit(code)


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_json() -> object:
    return object()


def deep(levels: int) -> Any:
    """Lists within each other."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def huge(size: int) -> str:
    return "x" * size


def spins(started: str) -> None:
    """Computes forever, and ignores signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(started).write_text(str(os.getpid()))
    while True:
        pass


def sleeps(started: str) -> None:
    Path(started).write_text(str(os.getpid()))
    while True:  # until it is killed
        signal.pause()


class Thing:
    """Something whose method can be called."""

    @staticmethod
    def method() -> Any:
        return {"nested": [1, None]}


def doubles() -> int:
    """Forks its process; both return."""
    os.fork()
    return os.getpid()


def leaves_a_copy(started: str) -> None:
    """Ends, but leaves a fork of itself."""
    if os.fork() == 0:
        Path(started).write_text(str(os.getpid()))
        while True:
            signal.pause()
    os._exit(4)


def starts_another(started: str) -> None:
    """Starts a program and waits for it."""
    program = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(started).write_text(str(program.pid))
    program.wait()


def says(code: int) -> None:
    """Raises an exception with invalid text."""
    raise ValueError(f"bad {chr(code)} text")


def reads(path: str) -> int:
    """Reads a file, or a pipe until its writer closes it."""
    Path(path).read_bytes()
    return 1
