"""The whole fleet on one machine: the embedded store, if none is given, and all processes under one supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import structlog

from coordinator import __version__
from coordinator.metrics import clear_free_slots, logs, slot_is_free
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, FleetFile, Process
from coordinator.processes.reload import Rereader
from coordinator.processes.stores import given_url, open_for_serving, store_failed
from coordinator.processes.supervision.brief import Role
from coordinator.processes.supervision.cluster_supervisor import ClusterSupervisor, embedded_store
from coordinator.processes.supervision.roles import open_recording, slots
from coordinator.processes.supervision.running import Announcer, apply_reload, keep, metrics_dir, run_until_told
from coordinator.processes.supervision.sockets import reserved
from coordinator.processes.supervision.store_supervisor import StoreSupervisor
from coordinator.processes.supervision.supervised import Spec
from coordinator.processes.supervision.supervisor import Supervisor
from coordinator.service import Functions, ServiceGroup
from coordinator.settings import LoadedSettings, Settings, redacted
from coordinator.settings.effective_auth import base_url
from coordinator.store import StoreError
from coordinator.store.link.address import parse
from coordinator.toolsets.timestamp import now
from coordinator.wording import counted

_log = structlog.get_logger(__name__)

_PREFIX = "up"
LEFTOVER_SECONDS = 10.0
"""How long a start waits for the exit of processes whose supervisor was killed."""


def run_up(loaded: LoadedSettings, greet: Callable[[Settings], Awaitable[None]]) -> None:
    """Runs a whole fleet until SIGTERM or SIGINT, and drains it then.

    Args:
        greet: called with the settings in use when the fleet is ready.

    Raises:
        ProcessProblem: it cannot start; nothing is left running.
    """
    settings = loaded.settings
    logs.configure(settings.log_level, settings.log_format, context={"slot": _PREFIX})
    with closing(FleetFile(Path(settings.data_dir))) as file:
        fleet = FleetProcess(loaded, file, greet)
        run_until_told(fleet.run, fleet.hurry, fleet.reload)


class FleetProcess:
    """The process that supervises a whole fleet. Arguments as ``run_up``."""

    def __init__(self, loaded: LoadedSettings, file: FleetFile, greet: Callable[[Settings], Awaitable[None]]) -> None:
        self._settings = loaded.settings
        self._reader = Rereader(loaded)
        self._file = file
        self._greet = greet
        self._metrics_dir = metrics_dir(loaded.settings)
        self._started_at = now()
        self._embedded: StoreSupervisor | ClusterSupervisor | None = None
        self._supervisor: Supervisor | None = None
        self._ready = False

    async def run(self, stop: asyncio.Event) -> None:
        """Starts everything, waits for the stop signal, and stops it.

        Raises:
            ProcessProblem: it cannot start; nothing is left running.
        """
        directory = self._metrics_dir
        await wait_for_leftovers(self._file.previous)
        with ExitStack() as held:
            self._settings = settings = held.enter_context(reserved(self._settings))
            clear_free_slots(directory)
            held.callback(clear_free_slots, directory)
            (slot,) = held.enter_context(slots(directory, _PREFIX))
            logs.configure(settings.log_level, settings.log_format, context={"slot": slot})
            held.enter_context(closing(open_recording(directory, slot, settings)))
            frontends = held.enter_context(slots(directory, "fe", settings.frontends))
            workers = held.enter_context(slots(directory, "w", settings.workers))
            try:
                await keep(self.compose(frontends, workers), settings.drain_seconds, stop)
            except StoreError as error:
                raise store_failed(error) from None

    def compose(self, frontends: Sequence[str], workers: Sequence[str]) -> ServiceGroup:
        """The store, if none is given, and the processes in these slots.

        Raises:
            ProcessProblem: the settings contradict each other.
        """
        settings = self._settings
        children: list[tuple[Role, str]] = [("frontend", slot) for slot in frontends]
        children += [("worker", slot) for slot in workers]
        specs = [Spec(role, slot, self._child_settings, self._metrics_dir) for role, slot in children]
        self._supervisor = Supervisor(specs, self._metrics_dir, settings.watchdog_seconds, self._write)
        if not given_url(settings):
            self._embedded = embedded_store(settings, self._supervisor.renew, self._write)
        elif settings.shards > 1:
            raise ProcessProblem(
                "shards are those of the embedded Redis, and redis_url names another: give one", "usage"
            )
        return ServiceGroup(
            *([self._embedded] if self._embedded is not None else []),
            Functions(start=self._check_store),
            self._supervisor,
            Functions(start=self._announce),
        )

    def hurry(self) -> None:
        """Makes a drain kill the rest; before there is anything to drain, exits at once."""
        if self._supervisor is None or not self._supervisor.begun:
            # The embedded store, which may still be loading its data, stops with this process.
            os._exit(1)
        self._supervisor.hurry()

    def reload(self) -> None:
        """Rereads the settings and applies them in all front-ends."""
        self._settings = apply_reload(self._reader.read(), self._settings, self._supervisor)

    async def _check_store(self) -> None:
        store = await open_for_serving(self._settings, self._child_settings().redis_url)
        await store.close()

    def _child_settings(self) -> Settings:
        url = self._embedded.url if self._embedded is not None else given_url(self._settings)
        return msgspec.structs.replace(self._settings, redis_url=url)

    async def _announce(self) -> None:
        self._ready = True
        self._write()
        settings = self._settings
        store = redacted(settings.redis_url)
        if self._embedded is not None:
            cluster = f"{parse(self._embedded.url).without_password} " if settings.shards > 1 else ""
            store = f"embedded, {cluster}in {settings.data_dir}"
        Announcer(
            f"fleet ready at {base_url(settings.host, settings.port)} "
            f"({counted(settings.frontends, 'front-end')}, {counted(settings.workers, 'worker')}, store: {store})"
        ).ready()
        await self._greet(self._child_settings())

    def _write(self) -> None:
        """Writes the state of the fleet into ``fleet.json``, for other commands."""
        settings, embedded, supervisor = self._settings, self._embedded, self._supervisor
        fleet = Fleet(
            pid=os.getpid(),
            version=__version__,
            base_url=base_url(settings.host, settings.port),
            admin_url=base_url(settings.admin_host or settings.host, settings.admin_port or settings.port),
            ready=self._ready,
            stopping=supervisor is not None and supervisor.stopping,
            drain_seconds=settings.drain_seconds,
            started_at=self._started_at,
            metrics_dir=str(self._metrics_dir),
            store="embedded" if embedded is not None else redacted(settings.redis_url),
            store_pid=embedded.pid if embedded is not None else None,
            processes=tuple(
                Process(child.spec.slot, child.spec.role, child.pid, child.state == "ready")
                for child in supervisor or ()
            ),
        )
        try:
            self._file.write(fleet)
        except OSError as error:
            _log.warning("cannot write the fleet's state", error=str(error))


async def wait_for_leftovers(previous: Fleet | None) -> None:
    """Waits for the end of the processes of a supervisor that was killed.

    Args:
        previous: what it told about its fleet, if there was one.

    Raises:
        ProcessProblem: they do not end.
    """
    if previous is None:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEFTOVER_SECONDS
    directory = Path(previous.metrics_dir)
    while left := [process for process in previous.processes if not slot_is_free(directory, process.slot)]:
        if loop.time() > deadline:
            named = ", ".join(f"{process.slot} (process {process.pid})" for process in left)
            raise ProcessProblem(f"processes of an earlier fleet still run: {named}; end them first", "data_dir")
        await asyncio.sleep(0.05)
