"""Watches a command that runs: ends it when it has stalled, or stays after its final event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from coordinator.runner.logs import AttemptLog
from coordinator.runner.options import Options
from coordinator.runner.outcomes import Stop
from coordinator.runner.protocols import Reader, Workspace
from coordinator.runner.supervision.processes import Supervised

FINISHED_SECONDS = 30.0
"""How long an agent may stay after its final event."""
_LEAST_LOOK = 0.02
_IDLE = 0.01
"""Of one CPU: a process that uses no more does nothing. Event loops that wait use about a tenth of it."""


async def watch(
    run: Supervised,
    log: AttemptLog,
    reader: Reader,
    workspace: Workspace,
    options: Options,
    stop: Callable[[Stop], None],
    warn: Callable[[str], None],
) -> None:
    """Runs beside the command until it is cancelled, or has called ``stop``; warns when half of a stall is over."""
    active = looked = time.monotonic()
    cpu, warned, finished = 0.0, False, 0.0
    pause = max(min(FINISHED_SECONDS / 2, options.stall / 20 or FINISHED_SECONDS), _LEAST_LOOK)
    while True:
        await _sleep(run, pause)
        now = time.monotonic()
        if reader.reading().finished:
            finished = finished or now
            if now - finished >= FINISHED_SECONDS:
                return stop("finished")
            continue
        if not options.stall:
            continue
        if log.last_output > active:
            active, warned = log.last_output, False
        if now - active >= options.stall / 4:
            # Costs something, so it is looked at only when there is no output.
            used = await run.cpu()
            working = used - cpu > _IDLE * (now - looked)
            cpu, looked = used, now
            age = time.time() - (now - active)
            if working or await asyncio.to_thread(workspace.changed_since, age):
                active, warned = now, False
        if now - active >= options.stall:
            return stop("stall")
        if now - active >= options.stall / 2 and not warned:
            warned = True
            warn(f"no output, CPU time or changed file for {now - active:.0f} s")


async def _sleep(run: Supervised, seconds: float) -> None:
    """Waits so long; for ever if the command ends meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await run.leader_ended.wait()
    except TimeoutError:
        return
    await asyncio.Event().wait()
