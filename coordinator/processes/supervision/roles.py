"""Runs a process of the fleet in its role (front-end or worker), supervised or alone."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator import __version__
from coordinator.metrics import Recording, SharedCells, SlotBusy, install, logs, process, reserved_slots, start, tracing
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import store_failed
from coordinator.processes.supervision.brief import ReloadOutcome, Role
from coordinator.processes.supervision.lifecycle import Lifecycle
from coordinator.settings import Settings, config_version, settings_digest, taken_over
from coordinator.store import AccessRefused, AddressError, KeySpaceDiffers, StoreTooOld

if TYPE_CHECKING:
    from workers.process import Companion


def run(
    role: Role,
    slot: str,
    settings: Settings,
    metrics_dir: Path,
    lifecycle: Lifecycle,
    *,
    alone: bool = False,
) -> None:
    """Runs until SIGTERM or SIGINT, and returns when all work in progress is done.

    Args:
        settings: with the URL of the store in use.
        alone: whether a worker is no part of `fleet up`; then it serves its operators' port.

    Raises:
        ProcessProblem: it cannot start.
    """
    # SIGHUP must not kill it: a terminal may close, or the signal may be meant for the supervisor.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logs.configure(settings.log_level, settings.log_format, context={"slot": slot})
    own = open_recording(metrics_dir, slot, settings)
    try:
        start_tracing(settings, slot)
        if role == "frontend":
            from coordinator.processes.frontend import run_frontend

            run_frontend(settings, slot, metrics_dir, lifecycle)
        else:
            _work(settings, slot, lifecycle, _port_of_worker(settings, metrics_dir, slot) if alone else None)
    finally:
        tracing.stop()
        own.close()


def start_tracing(settings: Settings, slot: str) -> None:
    """Starts tracing in this process if the settings say so.

    Raises:
        ProcessProblem: the packages that tracing needs are not installed.
    """
    if settings.tracing.endpoint:
        try:
            tracing.start(settings.tracing.endpoint, settings.tracing.sample_ratio, __version__, slot)
        except tracing.TracingUnavailable as error:
            raise ProcessProblem(str(error), "usage") from None


def open_recording(metrics_dir: Path, slot: str, settings: Settings) -> Recording:
    """Makes this process the owner of a metrics slot.

    Raises:
        ProcessProblem: another living process has it, or the directory can't be written.
    """
    try:
        own = Recording(SharedCells(metrics_dir, slot), slot)
    except SlotBusy as error:
        raise ProcessProblem(str(error)) from None
    except OSError as error:
        raise _unwritable(metrics_dir, error) from None
    install(own)
    process.note_build(__version__)
    process.note_settings(settings_digest(settings), config_version(settings))
    return own


@contextlib.contextmanager
def slots(metrics_dir: Path, prefix: str, count: int = 1) -> Iterator[list[str]]:
    """Reserves metrics slots for this process and those that it starts.

    Raises:
        ProcessProblem: the directory can't be written.
    """
    with contextlib.ExitStack() as held:
        try:
            names = held.enter_context(reserved_slots(metrics_dir, prefix, count))
        except OSError as error:
            raise _unwritable(metrics_dir, error) from None
        yield names


def _unwritable(metrics_dir: Path, error: OSError) -> ProcessProblem:
    return ProcessProblem(
        f"cannot keep metrics in {metrics_dir}: {error.strerror} (--data-dir or FLEET_METRICS_DIR)", "data_dir"
    )


def _port_of_worker(settings: Settings, metrics_dir: Path, slot: str) -> Companion | None:
    if not settings.worker_port:
        return None
    # Imported here, because most workers need no HTTP.
    from coordinator.processes.operators_port import worker_port

    return lambda worker: worker_port(worker, settings, metrics_dir, slot)


def _work(settings: Settings, slot: str, lifecycle: Lifecycle, companion: Companion | None) -> None:
    # Imported here, because front-ends do not need RQ.
    from workers.process import WorkerProcess
    from workers.run_kinds import make_run_kinds

    start("worker")

    def on_settings(take: Callable[[Settings], None]) -> None:
        def hear(outcome: ReloadOutcome) -> None:
            if outcome.settings is not None:
                mixed = taken_over(settings, outcome.settings)
                process.note_settings(settings_digest(mixed), config_version(mixed))
                take(mixed)

        lifecycle.on_reload(hear)

    worker = WorkerProcess(
        settings,
        slot,
        make_run_kinds,
        lifecycle.ready,
        lambda: lifecycle.orphaned,
        on_settings,
        companion,
        lifecycle.begun,
    )
    try:
        worker.run()
    except (AccessRefused, AddressError, KeySpaceDiffers, StoreTooOld) as error:
        raise store_failed(error) from None
