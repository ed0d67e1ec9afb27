"""Shared by the commands that run a fleet or parts of it: signals, reloads, the metrics directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from coordinator.metrics import clear_free_slots, logs, process
from coordinator.processes.metrics import PROCESSES
from coordinator.processes.reload import Rereader
from coordinator.processes.supervision.brief import ReloadOutcome, Role
from coordinator.processes.supervision.roles import open_recording, slots
from coordinator.processes.supervision.supervised import Spec
from coordinator.processes.supervision.supervisor import Supervisor
from coordinator.service import Functions, ServiceGroup
from coordinator.settings import LoadedSettings, Settings, config_version, settings_digest, taken_over

_log = structlog.get_logger(__name__)


def metrics_dir(settings: Settings) -> Path:
    """The directory for the metrics of all processes of this host that work on one data directory."""
    named = os.environ.get("FLEET_METRICS_DIR")
    return Path(named).absolute() if named else Path(settings.data_dir) / "run" / "metrics"


class Announcer:
    """The ``Lifecycle`` of a process without a supervisor: prints on stdout that the command is ready.

    Args:
        line: the line to print.
        loaded: the settings to reread on SIGHUP; None: SIGHUP is ignored.
        role: the role to count in the metrics; None: a supervisor counts it.
    """

    orphaned = False
    refused_reload = None

    def __init__(self, line: str, loaded: LoadedSettings | None = None, role: Role | None = None) -> None:
        self._line = line
        self._role = role
        self._loaded = loaded
        self._reading: asyncio.Task[None] | None = None

    def begun(self) -> None:
        """Nothing to do: there is no supervisor."""

    def ready(self) -> None:
        if self._role is not None:
            PROCESSES.labels(self._role).set(1)
        # A closed pipe or a full disk must not stop the service.
        with contextlib.suppress(OSError):
            print(self._line, flush=True)

    def on_reload(self, take: Callable[[ReloadOutcome], None]) -> None:
        """Rereads the settings on every SIGHUP, without blocking the event loop, and calls ``take``."""
        if self._loaded is None:
            return
        reader = Rereader(self._loaded)
        asked = asyncio.Event()

        async def read() -> None:
            try:
                while await asked.wait():
                    asked.clear()
                    take(await asyncio.to_thread(reader.read))
            finally:
                _ignore_reloads()

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        self._reading = asyncio.create_task(read(), name="settings")


def apply_reload(outcome: ReloadOutcome, running: Settings, supervisor: Supervisor | None) -> Settings:
    """Passes the outcome of a reload to a supervisor's processes; returns the settings now in force."""
    if outcome.settings is not None:
        running = taken_over(running, outcome.settings)
        process.note_settings(settings_digest(running), config_version(running))
    if supervisor is not None:
        supervisor.tell(outcome)
    return running


def keep_frontends_up(
    settings: Settings,
    loaded: LoadedSettings,
    directory: Path,
    announcer: Announcer,
) -> None:
    """Keeps as many front-ends running as the settings say, until SIGTERM or SIGINT; then drains them.

    Args:
        settings: the settings that they run with, derived from ``loaded``.
        loaded: the settings to reread on SIGHUP.

    Raises:
        ProcessProblem: they cannot start.
    """
    clear_free_slots(directory)
    with slots(directory, "serve") as (slot,), slots(directory, "fe", settings.frontends) as frontends:
        logs.configure(settings.log_level, settings.log_format, context={"slot": slot})
        with contextlib.closing(open_recording(directory, slot, settings)):
            reader = Rereader(loaded)
            specs = [Spec("frontend", slot, lambda: settings, directory) for slot in frontends]
            supervisor = Supervisor(specs, directory, settings.watchdog_seconds)

            def reload() -> None:
                nonlocal settings
                settings = apply_reload(reader.read(), settings, supervisor)

            services = ServiceGroup(supervisor, Functions(start=announcer.ready))
            run_until_told(partial(keep, services, settings.drain_seconds), supervisor.hurry, reload)


async def keep(services: ServiceGroup, drain_seconds: float, stop: asyncio.Event) -> None:
    """Starts services, waits until ``stop`` is set, and stops them. Raises as their ``start``."""
    starting, told = asyncio.ensure_future(services.start()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, told], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await told
        _log.info("stopping", drain_seconds=drain_seconds)
    finally:
        await services.stop(asyncio.get_running_loop().time() + drain_seconds)
    # Raises what made the start fail, also if the signal came while what had begun was being stopped.
    await starting


def run_until_told(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
    again: Callable[[], None],
    reload: Callable[[], None],
) -> None:
    """Runs a supervisor's main coroutine in an event loop of its own.

    Args:
        main: gets an event that SIGTERM and SIGINT set.
        again: called at a second such signal.
        reload: called on SIGHUP.
    """

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def told() -> None:
            if stop.is_set():
                again()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told)
        # A closing terminal sends SIGHUP too, and must not stop the fleet.
        loop.add_signal_handler(signal.SIGHUP, reload)
        try:
            await main(stop)
        finally:
            _ignore_reloads()

    asyncio.run(run())


def _ignore_reloads() -> None:
    """Makes SIGHUP do nothing: an event loop that ends would leave it to kill the process, which is still ending."""
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
