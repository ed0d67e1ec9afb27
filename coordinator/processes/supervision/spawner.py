"""Starts the processes of a supervisor: as forks of a template that has imported everything, or as new interpreters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, Protocol

import structlog

import coordinator
from coordinator.linux import ON_LINUX, adopt_orphans, ended_children

_log = structlog.get_logger(__name__)

_TEMPLATE = "coordinator.processes.supervision.template"
_CHILD = "coordinator.processes.supervision.child"
_IMPORT_SECONDS = 30.0
"""How long the template may take to import everything."""
_FORK_SECONDS = 5.0
UNREAPED_SECONDS = 10.0
"""A zombie of unknown origin is reaped after this time. Until then, whoever started it may still wait for it."""


class Process(Protocol):
    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""

    def send_signal(self, number: int, /) -> None:
        """Sends a signal, unless the process has ended."""


class Template(Protocol):
    """The process that others are forked from."""

    def kill(self) -> None:
        """Kills it, unless it has ended."""

    def wait(self) -> int:
        """The exit code, once it has ended."""


def start_template(requests: int, roles: Sequence[str]) -> Template:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _TEMPLATE, str(requests), *roles],
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=(requests,),
        env=package_environment(),
        start_new_session=True,
    )


class ForkedProcess:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Spawner:
    """Starts the processes of one supervisor.

    Args:
        roles: the roles of the processes, which the template prepares for.
    """

    def __init__(self, roles: Iterable[str]) -> None:
        self._roles = sorted(set(roles))
        self._template: Template | None = None
        self._requests: socket.socket | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._started: dict[int, Process] = {}
        """All processes that were ever started, except the template, by process id (for a reused id, the latest)."""
        self._unreaped: dict[int, float] = {}
        """Zombies left for others to reap: process id -> since when."""
        if ON_LINUX:
            adopt_orphans()

    async def prepare(self) -> None:
        """Starts the template and waits until it can be forked. If that fails, processes start without it."""
        if not ON_LINUX:
            return
        ours: socket.socket | None = None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            with theirs:
                self._template = start_template(theirs.fileno(), self._roles)
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
        """Starts a process. Call it in the main thread, because the kernel treats the calling thread as the parent.

        Args:
            brief: a file with the brief, positioned at its beginning.
            status: descriptor that the process writes reports to.
            control: descriptor that the process reads the outcomes of reloads from.
        """
        process = self._process(slot, brief, status, control)
        self.note(process)
        return process

    def note(self, process: Process) -> None:
        """Counts a process as started here: its orphans are reaped, and it is left to its own ``poll``."""
        self._started[process.pid] = process

    def _process(self, slot: str, brief: IO[bytes], status: int, control: int) -> Process:
        """A fork of the template, or a new interpreter if there is no template."""
        if self._requests is not None:
            try:
                return self._fork(self._requests, slot, brief, status, control)
            except OSError as error:
                _log.warning("the template is gone", reason=str(error))
                self.close()
                self._preparing = asyncio.ensure_future(self.prepare())
        brief.seek(0)
        return subprocess.Popen(
            # -P: modules in the working directory must not be imported.
            [sys.executable, "-P", "-m", _CHILD, slot, str(status), str(control)],
            stdin=brief,
            # Only the supervisor writes to stdout.
            stdout=2,
            pass_fds=(status, control),
            env=package_environment(),
            start_new_session=True,  # Ctrl-C is for the supervisor, which stops its children in order
        )

    def reap_orphans(self) -> bool:
        """Reaps orphans that our processes have started.

        Most are known by their session, which is that of the process that started them. Others lead their own session,
        like MCP servers on stdin: they are reaped if nobody else has done so for ``UNREAPED_SECONDS``.

        Returns:
            Whether any are left, to be checked again after that time.
        """
        now, unreaped = monotonic(), dict[int, float]()
        for pid in ended_children():
            # Its own ``poll`` reaps it. (If that has happened already, another process has this id now.)
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
        """Stops the template. The processes forked from it keep running."""
        if self._preparing is not None:
            self._preparing.cancel()
        if self._requests is not None:
            self._requests.close()
        if self._template is not None:
            self._template.kill()
            self._template.wait()
        self._preparing = self._requests = self._template = None

    def _fork(self, requests: socket.socket, slot: str, brief: IO[bytes], status: int, control: int) -> ForkedProcess:
        """Asks the template for a fork. Raises OSError: it has ended or does not answer."""
        socket.send_fds(requests, [slot.encode()], [brief.fileno(), status, control])
        if not select.select([requests], [], [], _FORK_SECONDS)[0]:
            raise TimeoutError("it does not answer")
        said = requests.recv(64)
        if not said:
            raise ConnectionError("it has ended")
        return ForkedProcess(int(said))


def package_environment() -> dict[str, str]:
    """The environment of new interpreters. PYTHONPATH begins with this package, which may not be installed."""
    root = str(Path(coordinator.__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root}
