"""Keeps processes running, and stops them together.

``fleet up`` runs its processes under this, and ``fleet serve`` does if it has several. A process that runs alone, such
as a ``fleet worker``, is supervised by whatever started it. Until every process has been ready once, a failure aborts
the start, with the reason that the process has reported. After that, a process that exits is restarted in its slot,
with backoff, as often as needed. A process that hangs is killed, because it would hold its share of the connections
without answering.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import structlog

from coordinator.linux import end_session
from coordinator.metrics import forget_gauges
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.metrics import PROCESSES, RESTARTS, start_restarts
from coordinator.processes.supervision import spawner
from coordinator.processes.supervision.brief import ReloadOutcome
from coordinator.processes.supervision.lifecycle import BEAT_SECONDS
from coordinator.processes.supervision.supervised import Child, Spec
from coordinator.service import Service, Tasks

_log = structlog.get_logger(__name__)

START_SECONDS = 60.0
"""How long the first start of all processes may take."""
RESTART_SECONDS = 60.0
"""How long the event loop of a restarted process may be blocked or not started before it counts as hung."""
START_ATTEMPTS = 3
KILL_SECONDS = 5.0
"""How long killed processes may take to exit, and those of a fleet that does not start to end by themselves."""
_LOOK_SECONDS = 0.5


class Supervisor(Service):
    """The processes of one fleet, or of one command.

    Args:
        specs: the processes to keep running.
        metrics_dir: the directory of their metrics.
        watchdog_seconds: how long the event loop of a process may be blocked; 0: for ever.
        on_change: called when a process has started, become ready or exited, and when all are asked to end.
    """

    def __init__(
        self,
        specs: Sequence[Spec],
        metrics_dir: Path,
        watchdog_seconds: int,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._spawner = spawner.Spawner(spec.role for spec in specs)
        self._children = [Child(spec, self._spawner, self._reported) for spec in specs]
        self._metrics_dir = metrics_dir
        self._watchdog_seconds = watchdog_seconds
        self._watching = Tasks()
        self._on_change = on_change
        self._all_ready = asyncio.Event()
        self._failed: ProcessProblem | None = None
        self._refused: ReloadOutcome | None = None
        self.begun = self.stopping = False
        """Whether it has begun to start processes, and to end them."""
        self._ended = asyncio.Event()
        self._hurry = asyncio.Event()
        self._restarts: dict[Child, asyncio.TimerHandle] = {}
        self._next_reap: asyncio.TimerHandle | None = None
        """The next check of zombies that were left for others to reap, for which no further signal comes."""

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    async def start(self) -> None:
        """Starts all processes; returns when all are ready.

        Raises:
            ProcessProblem: a process cannot start.
        """
        self.begun = True
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.reap)
        start_restarts({child.spec.role for child in self._children})
        await self._spawner.prepare()
        for child in self._children:
            self._start(child)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._all_ready.wait()
        if self._failed is not None:
            raise self._failed
        if not self._all_ready.is_set():
            late = ", ".join(str(child.spec) for child in self._children if child.state != "ready")
            raise ProcessProblem(f"not ready after {START_SECONDS:.0f} seconds: {late}")
        if self._watchdog_seconds:
            self._watching.spawn(self._end_what_hangs(), "watchdog")

    async def stop(self, deadline: float = 0.0) -> None:
        """Asks every process to finish its work and exit; kills those left after the deadline."""
        self.stopping = True
        self._on_change()
        await self._watching.stop()
        for timer in self._restarts.values():
            timer.cancel()
        self._restarts.clear()
        self._signal(signal.SIGTERM)
        seconds = deadline - asyncio.get_running_loop().time() if deadline else KILL_SECONDS
        if not await self._gone(seconds):
            left = ", ".join(str(child.spec) for child in self._children if child.pid is not None)
            _log.warning("killing what did not end in time", processes=left, seconds=round(seconds, 1))
            self._hurry.clear()
            self._signal(signal.SIGKILL)
            await self._gone(KILL_SECONDS)
        if self._next_reap is not None:
            self._next_reap.cancel()
        self._spawner.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def hurry(self) -> None:
        """Makes a drain kill the remaining processes at once."""
        self._hurry.set()
        self._ended.set()

    def renew(self) -> None:
        """Makes every process drain and restart, because its settings have changed."""
        self._signal(signal.SIGTERM)

    def tell(self, outcome: ReloadOutcome) -> None:
        """Passes the outcome of a reload to every process, and to those that start later."""
        self._refused = outcome if outcome.settings is None else None
        for child in self._children:
            child.tell(outcome)

    def reap(self) -> None:
        for child in self._children:
            if child.ended():
                self._after(child)
        if self._next_reap is not None:
            self._next_reap.cancel()
        left = self._spawner.reap_orphans()
        self._next_reap = asyncio.get_running_loop().call_later(spawner.UNREAPED_SECONDS, self.reap) if left else None

    def _start(self, child: Child) -> None:
        self._restarts.pop(child, None)
        if child.start(self._refused):
            self._changed()
        else:
            self._after(child)

    def _reported(self, child: Child) -> None:
        if child.state == "ready" and all(other.state == "ready" for other in self._children):
            self._all_ready.set()
        self._changed()

    def _after(self, child: Child) -> None:
        """Handles the exit of a process, or a failed start."""
        forget_gauges(self._metrics_dir, child.spec.slot)
        if child.by_signal:
            # It could not stop the commands that it had started, and another process may start them again.
            end_session(child.session)
        self._ended.set()
        if not self.stopping:
            if not self._all_ready.is_set() and (child.kind != "failed" or child.failures >= START_ATTEMPTS):
                self._failed = ProcessProblem(_sentence(child), child.kind)
                self._all_ready.set()
            else:
                delay = child.restart_delay()
                _log.warning(
                    "process ended", process=str(child.spec), reason=child.reason, restart_seconds=round(delay, 3)
                )
                RESTARTS.labels(child.spec.role, child.cause).inc()
                self._restarts[child] = asyncio.get_running_loop().call_later(delay, self._start, child)
        self._changed()

    async def _end_what_hangs(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for child in self._children:
                # While a process starts, it imports modules (users' tools too), which may be very slow.
                least = RESTART_SECONDS if child.state == "starting" else 0.0
                limit = max(self._watchdog_seconds, least)
                if child.overdue() >= limit and not child.hung:
                    child.kill_hung(limit)

    def _changed(self) -> None:
        living = Counter(child.spec.role for child in self._children if child.pid is not None)
        for role in {child.spec.role for child in self._children}:
            PROCESSES.labels(role).set(living[role])
        self._on_change()

    def _signal(self, number: int) -> None:
        for child in self._children:
            child.signal(number)

    async def _gone(self, seconds: float) -> bool:
        """Waits until no process is left; False: timed out, or ``hurry`` was called."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while any(child.pid is not None for child in self._children):
            if self._hurry.is_set() or loop.time() >= deadline:
                return False
            self._ended.clear()
            # Usually woken when a process exits; the timeout is a safety net.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(deadline, loop.time() + _LOOK_SECONDS)):
                    await self._ended.wait()
            self.reap()
        return True


def _sentence(child: Child) -> str:
    return child.reason if child.kind != "failed" else f"{child.spec} does not start: {child.reason}"
