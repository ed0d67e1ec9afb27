"""One supervised process, on the supervisor's side. (``child`` is the process's side.)"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from coordinator.backoff import Backoff
from coordinator.processes.errors import Kind
from coordinator.processes.supervision.brief import Brief, ReloadOutcome, Role
from coordinator.processes.supervision.lifecycle import BEAT_SECONDS, RESTART_FIRST, RESTART_MOST, Report
from coordinator.processes.supervision.spawner import Process, Spawner
from coordinator.settings import Settings

_ROLE_NAMES: dict[Role, str] = {"frontend": "front-end", "worker": "worker"}


@dataclass(frozen=True, slots=True)
class Spec:
    """A process to be kept running."""

    role: Role
    slot: str
    """Its name, which a restarted process inherits."""
    settings: Callable[[], Settings]
    """Called at each start."""
    metrics_dir: Path

    def __str__(self) -> str:
        return f"{_ROLE_NAMES[self.role]} {self.slot}"


State = Literal["down", "starting", "ready"]


class Child:
    """The process in one slot, if there is one, and how the last one exited.

    Args:
        spawner: starts the process.
        on_report: called on each report of the process.
    """

    def __init__(self, spec: Spec, spawner: Spawner, on_report: Callable[[Child], None]) -> None:
        self.spec = spec
        self.state: State = "down"
        self.failures = 0
        """Consecutive starts that failed before the process was ready."""
        self.kind: Kind = "failed"
        self.reason = ""
        """Why the last process exited; the reason that it reported, if any."""
        self.by_signal = False
        """Whether a signal killed it."""
        self.hung = False
        """Whether it was killed because it hung."""
        self.session = 0
        """The session that the last process leads."""
        self._spawner = spawner
        self._on_report = on_report
        self._backoff = Backoff(RESTART_FIRST, RESTART_MOST)
        self._process: Process | None = None
        self._status = self._control = -1
        self._said = self._unsent = b""
        self._ready_at = self._ready_seconds = 0.0
        self._silent_looks = 0

    @property
    def pid(self) -> int | None:
        """The process id; None while no process runs."""
        return self._process.pid if self._process is not None else None

    def start(self, refused_reload: ReloadOutcome | None = None) -> bool:
        """Starts a process. Call it in the main thread, because the kernel treats the calling thread as the parent.

        Args:
            refused_reload: the outcome of the last reload, if it was rejected.

        Returns:
            Whether a process was started: the machine may be out of processes or memory.
        """
        self.state, self.kind, self.reason, self.hung, self.by_signal = "starting", "failed", "", False, False
        brief = Brief(
            role=self.spec.role,
            slot=self.spec.slot,
            refused_reload=refused_reload,
            metrics_dir=str(self.spec.metrics_dir),
            settings=self.spec.settings(),
        )
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            read, write, their_control, control = pipes
            with tempfile.TemporaryFile() as told:
                told.write(msgspec.json.encode(brief))
                told.flush()
                told.seek(0)
                self._process = self._spawner.start(self.spec.slot, told, write, their_control)
        except OSError as error:
            for end in pipes:
                os.close(end)
            self._down()
            self.reason = f"no process can be created for it: {error.strerror or error}"
            return False
        self.session = self._process.pid
        os.close(write)
        os.close(their_control)
        os.set_blocking(read, False)
        os.set_blocking(control, False)
        self._status, self._said = read, b""
        self._control, self._unsent = control, b""
        self._silent_looks = 0
        asyncio.get_running_loop().add_reader(read, self.listen)
        return True

    def ended(self) -> bool:
        """Whether the process has exited; True once for each process."""
        if self._process is None or self._process.poll() is None:
            return False
        self.listen()
        self._hang_up()
        status = self._process.returncode or 0
        self._process = None
        self._down()
        if not self.reason:
            self.reason = f"it was killed by signal {-status}" if status < 0 else f"it ended with exit code {status}"
        self.by_signal = status < 0
        return True

    @property
    def cause(self) -> Literal["exit", "hung", "signal"]:
        return "hung" if self.hung else "signal" if self.by_signal else "exit"

    def restart_delay(self) -> float:
        return self._backoff.next(self._ready_seconds)

    def signal(self, number: int) -> None:
        """Sends a signal to the process, if there is one."""
        if self._process is not None:
            self._process.send_signal(number)

    def overdue(self) -> float:
        """For at least how many seconds a heartbeat is overdue; call it once per ``BEAT_SECONDS``.

        Counts calls, not seconds: if the supervisor itself was stopped for a while, it has missed all heartbeats.
        """
        if self._process is None:
            return 0.0
        self._silent_looks += 1
        self.listen()
        # The first call may come right after a heartbeat, and the next one is due a beat later.
        return max(self._silent_looks - 2, 0) * BEAT_SECONDS

    def kill_hung(self, seconds: float) -> None:
        """Kills the process, because it has reported nothing for ``seconds``."""
        self.hung, self.reason = True, f"it hung: no heartbeat for {seconds:.0f} seconds"
        self.signal(signal.SIGKILL)

    def tell(self, outcome: ReloadOutcome) -> None:
        """Passes the outcome of a reload on to the process, if there is one."""
        if self._control >= 0:
            self._unsent += msgspec.json.encode(outcome) + b"\n"
            asyncio.get_running_loop().add_writer(self._control, self._send)
            self._send()

    def _send(self) -> None:
        """Writes as much as the pipe accepts, and the rest when it is writable again."""
        try:
            self._unsent = self._unsent[os.write(self._control, self._unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent = b""
        if not self._unsent:
            asyncio.get_running_loop().remove_writer(self._control)

    def listen(self) -> None:
        """Reads the reports of the process, without waiting. The event loop calls it when there are some."""
        if self._status < 0:
            return
        try:
            while said := os.read(self._status, 65536):
                self._said += said
        except BlockingIOError:
            pass
        else:
            self._hang_up()
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            report = msgspec.json.decode(line, type=Report)
            self._silent_looks = 0
            if report.reason:
                self.kind, self.reason = report.kind, report.reason
            elif not report.ready or self.state == "ready":
                continue
            else:
                self.state = "ready"
                self._ready_at = asyncio.get_running_loop().time()
            self._on_report(self)

    def _down(self) -> None:
        """Records that no process runs any more, and for how long the last one was ready."""
        if self.state == "ready":
            self.failures, self._ready_seconds = 0, asyncio.get_running_loop().time() - self._ready_at
        else:
            self.failures, self._ready_seconds = self.failures + 1, 0.0
        self.state = "down"

    def _hang_up(self) -> None:
        if self._status >= 0:
            asyncio.get_running_loop().remove_reader(self._status)
            asyncio.get_running_loop().remove_writer(self._control)
            os.close(self._status)
            os.close(self._control)
            self._status = self._control = -1
