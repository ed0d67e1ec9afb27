"""Process groups that end with this process, however it ends: also if it is killed, and nobody supervises it.

A guard, which is a small process of its own (``guard_process``), holds a pipe from this one. The kernel closes the pipe
when this process ends; then the guard ends the groups that it has been told of. It is started with the first group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).with_name("guard_process.py")
_END_SECONDS = 3.0
"""How long a guard may take to end what is left."""


class Guard:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._groups: set[int] = set()
        os.register_at_fork(after_in_child=self._forget_all)

    @property
    def pid(self) -> int | None:
        """Its process id; None: it was not needed yet."""
        return self._process.pid if self._process is not None else None

    def watch(self, group: int) -> None:
        """Guards a process group.

        Raises:
            OSError: the guard cannot be started.
        """
        self._groups.add(group)
        self._tell(b"+%d\n" % group)

    def forget(self, group: int) -> None:
        if group in self._groups:
            self._groups.discard(group)
            with contextlib.suppress(OSError):  # no guard can be started: then none kills the group, either
                self._tell(b"-%d\n" % group)

    def close(self) -> None:
        """Ends the guard, and the groups that are left."""
        if self._process is not None:
            os.close(self._pipe)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)
        self._process = None
        self._groups.clear()

    def _tell(self, line: bytes) -> None:
        if self._process is not None:
            try:
                os.write(self._pipe, line)
                return
            except OSError:  # somebody has killed the guard, or stopped it
                # Killed before the pipe is closed, at whose end it would end the groups.
                self._process.kill()
                self._process.wait()
                os.close(self._pipe)
                self._process = None
        self._start()
        os.write(self._pipe, b"".join(b"+%d\n" % group for group in self._groups))

    def _start(self) -> None:
        reading, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        # Signals that may be sent to all processes of a service. The guard ends after them, so it has them blocked from
        # its first instruction on.
        blocked = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, blocked)  # in here, because a handler may raise at once
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Neither a signal to the group of this process nor the end of its session may end it.
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _forget_all(self) -> None:
        """In a copy of this process: the pipe must end with the original, whose groups are not those of the copy."""
        if self._process is not None:
            os.close(self._pipe)
            self._process.returncode = 0  # it is no child of the copy
        self._process = None
        self._groups.clear()


guard = Guard()
"""That of this process."""


class ProcessGroup:
    """A process that leads a group, whose processes end with this one at the latest.

    Args:
        command: its arguments.
        options: further arguments of ``subprocess.Popen``, which make it the leader of a group.

    Raises:
        OSError, ValueError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        # Starting is quick, and uvloop's own way knows no process groups. Nothing is awaited before it is guarded.
        self.process = subprocess.Popen(command, bufsize=0, **options)
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """Its exit code; negative: the signal that ended it."""
        threading.Thread(target=self._wait, name=f"waitpid {self.process.pid}", daemon=True).start()
        try:
            guard.watch(self.process.pid)
        except OSError:
            self.signal(signal.SIGKILL)
            raise

    def signal(self, number: int) -> bool:
        """Sends a signal to the group. Returns whether it was there."""
        # Safe although the leader may have ended: the group's id is not reused while any of its processes lives.
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def release(self) -> None:
        """Lets go of what is left of the group."""
        guard.forget(self.process.pid)

    def _wait(self) -> None:
        code = self.process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it
            self._loop.call_soon_threadsafe(self._set_ended, code)

    def _set_ended(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)
