"""Starts the processes of a supervisor: forked from a template that has everything imported, or as new interpreters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import IO, Protocol

import structlog

import coordinator
from coordinator.cli.linux import ON_LINUX, adopt_orphans, ended_children

_log = structlog.get_logger(__name__)

_IMPORT_SECONDS = 30.0
"""How long the template may take to import everything."""
_FORK_SECONDS = 5.0
UNREAPED_SECONDS = 10.0
"""How long an ended process whose starter is not known is left for that one to wait for: it may be in this process."""


class Process(Protocol):
    """A process that was started."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""

    def send_signal(self, number: int, /) -> None:
        """Sends a signal, unless the process has ended."""


class ForkedProcess:
    """A process that the template has forked and that is a child of this process now."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        """Sends a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Spawner:
    """Starts the processes of one supervisor.

    Args:
        roles: what they are going to do; the template prepares for these.
    """

    def __init__(self, roles: Iterable[str]) -> None:
        self._roles = sorted(set(roles))
        self._template: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._started: dict[int, Process] = {}
        """All that were ever started, but for the template, by the process id; of several with one, the latest."""
        self._unreaped: dict[int, float] = {}
        """Processes that have ended and that were left for somebody else to wait for: process id -> since when."""
        if ON_LINUX:
            adopt_orphans()

    async def prepare(self) -> None:
        """Starts the template and waits until it can be copied. Without one, processes start all the same."""
        if not ON_LINUX:
            return
        ours: socket.socket | None = None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            with theirs:
                self._template = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own would want to wait for it
                    [sys.executable, "-P", "-m", "coordinator.cli.template", str(theirs.fileno()), *self._roles],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    pass_fds=(theirs.fileno(),),
                    env=package_environment(),
                    start_new_session=True,
                )
            async with asyncio.timeout(_IMPORT_SECONDS):
                if not await asyncio.get_running_loop().sock_recv(ours, 64):
                    raise ConnectionError("it has ended")
            self._requests = ours
        except (TimeoutError, OSError) as error:
            _log.warning("no template: processes take longer to start", reason=str(error))
        finally:
            if ours is not None and self._requests is not ours:
                ours.close()

    def start(self, slot: str, brief: IO[bytes], status: int, control: int) -> Process:
        """Starts a process. To be called in the main thread: the kernel takes the thread for the parent.

        Args:
            brief: a file with what the process is to do, at its beginning.
            status: descriptor that the process writes reports to.
            control: descriptor that the process reads the outcomes of reloads from.
        """
        process = self._process(slot, brief, status, control)
        self._started[process.pid] = process
        return process

    def _process(self, slot: str, brief: IO[bytes], status: int, control: int) -> Process:
        """A copy of the template, or a new interpreter where there is none."""
        if self._requests is not None:
            try:
                return self._fork(self._requests, slot, brief, status, control)
            except OSError as error:
                _log.warning("the template is gone", reason=str(error))
                self.close()
                self._preparing = asyncio.ensure_future(self.prepare())
        brief.seek(0)
        return subprocess.Popen(
            # -P: what lies in the working directory must not be imported.
            [sys.executable, "-P", "-m", "coordinator.cli.child", slot, str(status), str(control)],
            stdin=brief,
            # Only the supervisor speaks on stdout.
            stdout=2,
            pass_fds=(status, control),
            env=package_environment(),
            start_new_session=True,  # Ctrl-C is for the supervisor, which ends its children in order
        )

    def reap_orphans(self) -> bool:
        """Waits for ended orphans, so that no zombies stay: what these processes had started and did not wait for.

        Most are known by their session, which is that of the process that started them. Others lead one of their
        own, like servers that speak MCP on stdin: they are reaped when nobody else has for ``UNREAPED_SECONDS``.

        Returns whether any were left, to be looked at again after that time.
        """
        now, unreaped = monotonic(), dict[int, float]()
        for pid in ended_children():
            # Its own ``poll`` waits for it; where that has happened already, another process has the id now.
            if pid in self._started and self._started[pid].returncode is None:
                continue
            unreaped[pid] = self._unreaped.get(pid, now)
            with contextlib.suppress(ChildProcessError, ProcessLookupError):
                session = os.getsid(pid)
                orphan_of_ours = session != pid and session in self._started
                if orphan_of_ours or now - unreaped[pid] >= UNREAPED_SECONDS:
                    os.waitpid(pid, 0)
                    del unreaped[pid]
        self._unreaped = unreaped
        return bool(unreaped)

    def close(self) -> None:
        """Ends the template; what was copied from it lives on."""
        if self._preparing is not None:
            self._preparing.cancel()
        if self._requests is not None:
            self._requests.close()
        if self._template is not None:
            self._template.kill()
            self._template.wait()
        self._preparing = self._requests = self._template = None

    def _fork(self, requests: socket.socket, slot: str, brief: IO[bytes], status: int, control: int) -> ForkedProcess:
        """Raises OSError: the template is gone or does not answer."""
        socket.send_fds(requests, [slot.encode()], [brief.fileno(), status, control])
        if not select.select([requests], [], [], _FORK_SECONDS)[0]:
            raise TimeoutError("it does not answer")
        said = requests.recv(64)
        if not said:
            raise ConnectionError("it has ended")
        return ForkedProcess(int(said))


def package_environment() -> dict[str, str]:
    """Of new interpreters: ours, with this very package first: it may not be installed where Python looks."""
    root = str(Path(coordinator.__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root}
