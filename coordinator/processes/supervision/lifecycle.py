"""The lifecycle of a process: its reports to the supervisor, and its exit when the supervisor dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from coordinator.linux import end_with_parent
from coordinator.processes.errors import Kind
from coordinator.processes.supervision.brief import ReloadOutcome

ORPHAN_SECONDS = 2.0
"""How long a process without a supervisor lets requests in flight finish."""
BEAT_SECONDS = 1.0
"""How often a child reports that its event loop runs."""

RESTART_FIRST, RESTART_MOST = 0.1, 10.0
"""The pauses before what has ended is restarted, in seconds."""
_LOOK_SECONDS = 1.0
_HUNG_SECONDS = 4.0


class Report(msgspec.Struct, frozen=True):
    """One line from a child to its supervisor: ready, failed with a reason, or a heartbeat."""

    ready: bool
    reason: str = ""
    """Why it cannot start; empty: it does not fail."""
    kind: Kind = "failed"
    """Of what kind that is."""


class Lifecycle(Protocol):
    """A process's connection to its supervisor; ``running.Announcer`` stands in if there is none."""

    @property
    def orphaned(self) -> bool:
        """Whether the supervisor has died, so that this process should exit quickly."""

    @property
    def refused_reload(self) -> ReloadOutcome | None:
        """The outcome of the last reload before this process started, if it was rejected."""

    def begun(self) -> None:
        """The event loop runs."""

    def ready(self) -> None:
        """The process is ready."""

    def on_reload(self, take: Callable[[ReloadOutcome], None]) -> None:
        """Calls ``take`` in the running event loop after each reload of the settings, from now on."""


class SupervisedLifecycle:
    """The lifecycle of a child process, tied to its supervisor.

    When the supervisor dies, the kernel sends SIGTERM (on Linux), which begins a short drain. A thread also watches the
    supervisor: on other systems it sends the signal, and on all systems it kills a child that hangs.

    Args:
        parent: process id of the supervisor.
        descriptor: where reports are written; the supervisor reads the other end.
        control: where the supervisor writes the outcomes of reloads.
        refused_reload: the last reload before this child starts, if it was rejected.
    """

    def __init__(self, parent: int, descriptor: int, control: int, refused_reload: ReloadOutcome | None) -> None:
        self._parent = parent
        self._descriptor = descriptor
        self._control = control
        self._ready = False
        self.refused_reload = refused_reload
        # A supervisor that does not read must not block this process.
        os.set_blocking(descriptor, False)
        end_with_parent()
        # The supervisor may have ended before that took effect.
        if self.orphaned:
            raise SystemExit(1)
        threading.Thread(target=self._watch, name="supervisor-watch", daemon=True).start()

    @property
    def orphaned(self) -> bool:
        return os.getppid() != self._parent

    def begun(self) -> None:
        """Sends heartbeats to the supervisor, from now on and as long as the event loop runs."""
        self._write(Report(self._ready))
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self.begun)

    def ready(self) -> None:
        self._ready = True
        self._write(Report(ready=True))

    def on_reload(self, take: Callable[[ReloadOutcome], None]) -> None:
        """Calls ``take`` in the running event loop after each reload by the supervisor, from now on."""
        os.set_blocking(self._control, False)
        heard = b""

        def listen() -> None:
            nonlocal heard
            try:
                while said := os.read(self._control, 65536):
                    heard += said
                # The supervisor is gone.
                asyncio.get_running_loop().remove_reader(self._control)
            except BlockingIOError:
                pass
            *lines, heard = heard.split(b"\n")
            for line in lines:
                take(msgspec.json.decode(line, type=ReloadOutcome))

        asyncio.get_running_loop().add_reader(self._control, listen)
        # A reload that happened while this child started must count from its first request on.
        listen()

    def failed(self, kind: Kind, reason: str) -> None:
        self._write(Report(ready=False, reason=reason, kind=kind))

    def _watch(self) -> None:
        while not self.orphaned:
            time.sleep(_LOOK_SECONDS)
        if sys.platform != "linux":
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_HUNG_SECONDS)
        os._exit(1)

    def _write(self, report: Report) -> None:
        try:
            os.write(self._descriptor, msgspec.json.encode(report) + b"\n")
        except (BlockingIOError, BrokenPipeError):
            # The supervisor hangs; or it has died, and SIGTERM is on its way.
            pass
