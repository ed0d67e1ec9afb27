"""What the commands that keep processes up have in common: signals, slots, places."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog

from coordinator.cli.child import Role
from coordinator.cli.children import Spec
from coordinator.cli.roles import open_recorder
from coordinator.cli.supervisor import Supervisor
from coordinator.metrics import clear_free_slots, logs, slot_is_free
from coordinator.settings import Settings

_log = structlog.get_logger(__name__)


def metrics_dir(settings: Settings) -> Path:
    """Where all processes of this host that work on one data directory keep their numbers."""
    named = os.environ.get("FLEET_METRICS_DIR")
    return Path(named).absolute() if named else Path(settings.data_dir) / "run" / "metrics"


def free_slots(directory: Path, prefix: str, count: int) -> list[str]:
    """The first ``count`` slots that no living process has: ``fe-0``, ``fe-1`` ..."""
    slots: list[str] = []
    number = 0
    while len(slots) < count:
        slot = f"{prefix}-{number}"
        if slot_is_free(directory, slot):
            slots.append(slot)
        number += 1
    return slots


class Announcer:
    """Says on stdout that what a command started is ready; the guardian of a process that runs alone."""

    orphaned = False

    def __init__(self, line: str) -> None:
        self._line = line

    def ready(self) -> None:
        """Prints the line."""
        # Whoever started us may not care to read.
        with contextlib.suppress(BrokenPipeError):
            print(self._line, flush=True)


def keep_up(role: Role, prefix: str, count: int, settings: Settings, directory: Path, announcer: Announcer) -> None:
    """Keeps ``count`` processes of one role up until SIGTERM or SIGINT, then drains them.

    Raises:
        CommandFailed: they cannot start.
    """
    clear_free_slots(directory)
    slot = free_slots(directory, "serve", 1)[0]
    logs.configure(settings.log_level, settings.log_format, context={"slot": slot})
    recorder = open_recorder(directory, slot, settings)
    specs = [Spec(role, child, lambda: settings, directory) for child in free_slots(directory, prefix, count)]
    supervisor: Supervisor | None = None

    async def main(stop: asyncio.Event) -> None:
        nonlocal supervisor
        supervisor = Supervisor(specs, directory, settings.drain_seconds)
        try:
            if await supervisor.start(stop):
                announcer.ready()
                await stop.wait()
        finally:
            await supervisor.drain()

    def hurry() -> None:
        if supervisor is not None:
            supervisor.hurry()

    try:
        run_until_told(main, hurry)
    finally:
        recorder.close()


def run_until_told(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], again: Callable[[], None] = lambda: None
) -> None:
    """Runs a supervisor's main coroutine in an event loop of its own.

    Args:
        main: gets an event that SIGTERM and SIGINT set.
        again: called when one of them comes a second time.
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
        # A terminal that closes must not end the fleet; settings are read at the start only.
        loop.add_signal_handler(signal.SIGHUP, _log.info, "SIGHUP ignored")
        await main(stop)

    asyncio.run(run())
