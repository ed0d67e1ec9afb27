"""What every service of a process stands: a stop while it starts, a start that is cancelled, a second stop, and new
settings while it stops and afterwards. The services are those that processes are composed of, over a real store."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from coordinator.metrics import MemoryCells, Recording
from coordinator.processes import frontend
from coordinator.processes.fleetfile import FleetFile
from coordinator.processes.frontend import FrontEndProcess
from coordinator.processes.stdio import StdioSession
from coordinator.processes.supervision import spawner
from coordinator.processes.supervision.cluster_supervisor import embedded_store
from coordinator.processes.supervision.lifecycle import Report
from coordinator.processes.supervision.running import Announcer, keep, run_until_told
from coordinator.processes.supervision.spawner import Spawner
from coordinator.processes.supervision.supervisor import Supervisor
from coordinator.processes.up import FleetProcess
from coordinator.service import Background, Functions, Service, ServiceGroup, Together
from coordinator.settings import Settings, load_settings
from coordinator.settings.sections.identity import ActorAuthentication
from coordinator.store import Store
from tests.gateway.lab import section, settings_of
from tests.processes.told import Told
from tests.support.counts import recorded_in
from tests.support.wait import wait_until
from workers.process import WorkerProcess
from workers.run_kinds import make_run_kinds

pytestmark = pytest.mark.anyio

Compose = Callable[[Store, Settings, Path], AsyncIterator[ServiceGroup]]


async def front_end(store: Store, settings: Settings, directory: Path) -> AsyncIterator[ServiceGroup]:
    process = FrontEndProcess(settings, "fe-0", directory, Told(), store)
    yield process.services
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


async def stdio(store: Store, settings: Settings, _: Path) -> AsyncIterator[ServiceGroup]:
    (asked, asks), (hears, heard) = os.pipe(), os.pipe()
    streams = os.fdopen(asked, "rb"), os.fdopen(heard, "wb")
    yield StdioSession(settings, ("items",), "default", streams, None, "agent").compose(store, settings.redis_url)
    os.close(asks)
    os.close(hears)
    for stream in streams:
        with suppress(OSError):  # what was not flushed: nobody reads it
            stream.close()


async def worker(store: Store, settings: Settings, _: Path) -> AsyncIterator[ServiceGroup]:
    services = await WorkerProcess(settings, "w-0", make_run_kinds, lambda: None).compose(store, store)
    assert services is not None
    yield services
    for service in services:
        await service.stop()  # one that was never started, too


CHILD = "import os, signal, sys; os.write(int(sys.argv[1]), sys.argv[3].encode()); signal.pause()"
TEMPLATE = "import socket, sys; it = socket.socket(fileno=int(sys.argv[1])); it.send(b'ready'); it.recv(1)"


def quick(program: str, *descriptors: int) -> subprocess.Popen[bytes]:
    """In place of a template or a process of the fleet, which would import everything."""
    arguments = *map(str, descriptors), msgspec.json.encode(Report(ready=True)).decode() + "\n"
    return subprocess.Popen([sys.executable, "-IS", "-c", program, *arguments], pass_fds=descriptors)


async def fleet(store: Store, settings: Settings, directory: Path) -> AsyncIterator[ServiceGroup]:
    file = FleetFile(directory)
    own = msgspec.structs.replace(settings, data_dir=str(directory))
    process = FleetProcess(dataclasses.replace(load_settings({}, {}), settings=own), file, greeted)
    services = process.compose(("fe-0", "fe-1"), ("w-0",))
    yield services
    file.close()
    assert [child.pid for one in services if isinstance(one, Supervisor) for child in one] == [None] * 3


async def greeted(_: Settings) -> None:
    """No person looks on."""


async def own_store(_: Store, settings: Settings, directory: Path) -> AsyncIterator[ServiceGroup]:
    embedded = embedded_store(msgspec.structs.replace(settings, data_dir=str(directory)), lambda: None)
    yield ServiceGroup(embedded)


COMPOSITIONS: tuple[Compose, ...] = (front_end, stdio, worker, fleet, own_store)


class Case:
    """A service, alone or with all that are started before it, and settings that differ."""

    def __init__(self, services: ServiceGroup, settings: Settings) -> None:
        self.services = services
        self.settings = settings
        changed = section(capabilities={"more": {"title": "More", "executor": {"kind": "noop"}}})
        self.changed = msgspec.structs.replace(
            settings,
            gateway=settings_of(changed, "p").gateway,
            actor_authentication=ActorAuthentication(degraded_mode_policy="reject", enabled=True),
        )


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def stopped_while_it_starts(case: Case, turns: int) -> None:
    starting = asyncio.create_task(case.services.start())
    await _turns(turns)
    await case.services.stop()
    await starting


async def cancelled_while_it_starts(case: Case, turns: int) -> None:
    starting = asyncio.create_task(case.services.start())
    await _turns(turns)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    await case.services.stop()


async def stopped_twice(case: Case, turns: int) -> None:
    await case.services.start()
    await _turns(turns)
    await asyncio.gather(case.services.stop(), case.services.stop())
    await case.services.stop()


async def configured_while_it_stops(case: Case, turns: int) -> None:
    await case.services.start()
    case.services.configure(case.changed)
    stopping = asyncio.create_task(case.services.stop())
    for settings in (case.settings, case.changed) * 3:
        await _turns(turns)
        case.services.configure(settings)
    await stopping
    case.services.configure(case.settings)


ACTS: tuple[Callable[[Case, int], Awaitable[None]], ...] = (
    stopped_while_it_starts,
    cancelled_while_it_starts,
    stopped_twice,
    configured_while_it_stops,
)


@pytest.fixture(autouse=True)
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process of the tests is no front-end."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(frontend, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(frontend, "FRESH_SECONDS", 0.01)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(spawner, "adopt_orphans", lambda: None)
    monkeypatch.setattr(spawner, "start_template", lambda requests, roles: quick(TEMPLATE, requests))
    monkeypatch.setattr(Spawner, "start", lambda self, slot, brief, *pipes: quick(CHILD, *pipes))
    with recorded_in(Recording(MemoryCells(), "tests")):
        yield


THREADS = {"definitions", "AnyIO worker thread", "plain-jobs_0", *(f"asyncio_{number}" for number in range(64))}
"""Those that the process keeps; one may wait for the next line of stdin."""


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No task and no thread of the block goes on after it."""
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())

    def ended() -> bool:
        left = {thread.name for thread in set(threading.enumerate()) - threads}
        return asyncio.all_tasks() <= tasks and left <= THREADS

    yield
    await wait_until(ended, what="the end of tasks and threads")


@pytest.mark.parametrize("turns", [0, 1, 7])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("compose", COMPOSITIONS, ids=lambda compose: compose.__name__)
async def test_no_service_goes_on_after_it_was_stopped(
    compose: Compose,
    act: Callable[[Case, int], Awaitable[None]],
    turns: int,
    alone: Store,
    tmp_path: Path,
) -> None:
    settings = msgspec.structs.replace(
        settings_of(section(discovery={"include": ["connections"]}), "p"), redis_url=alone.url, port=0
    )
    await alone.command("PING")
    async with asynccontextmanager(compose)(alone, settings, tmp_path) as composed:
        for service in reversed(list(composed)):
            async with nothing_left():
                await act(Case(ServiceGroup(service), settings), turns)
    async with asynccontextmanager(compose)(alone, settings, tmp_path) as composed, nothing_left():
        await act(Case(composed, settings), turns)


class Noted(Service):
    """Notes what is done with it; fails, or waits, where it is told to."""

    def __init__(self, name: str, log: list[str], *, fails: bool = False, waits: bool = False) -> None:
        self._name, self._log, self._fails, self._waits = name, log, fails, waits

    async def start(self) -> None:
        self._log.append(f"start {self._name}")
        if self._fails:
            raise OSError(self._name)
        if self._waits:
            await asyncio.Event().wait()

    async def stop(self, deadline: float = 0.0) -> None:
        self._log.append(f"stop {self._name}" + (f" by {deadline}" if deadline else ""))
        if self._fails:
            raise OSError(self._name)

    def configure(self, settings: Settings) -> None:
        self._log.append(f"configure {self._name}")


async def test_services_are_started_in_order_and_stopped_in_reverse() -> None:
    log: list[str] = []
    services = ServiceGroup(Noted("a", log), Together(Noted("b", log), Noted("c", log)), Noted("d", log))
    await services.start()
    services.configure(Settings())
    await services.stop()
    words = ["start a", "start b", "start c", "start d", *(f"configure {name}" for name in "abcd")]
    assert log == [*words, "stop d", "stop b", "stop c", "stop a"]


async def test_a_failed_start_stops_what_has_begun() -> None:
    log: list[str] = []
    services = ServiceGroup(Noted("a", log), Noted("b", log, fails=True), Noted("c", log))
    with pytest.raises(OSError, match="b"):
        await services.start()
    assert log == ["start a", "start b", "stop b", "stop a"]


async def test_a_stop_ends_a_start_that_waits() -> None:
    log: list[str] = []
    services = ServiceGroup(Noted("a", log), Noted("b", log, waits=True), Noted("c", log))
    starting = asyncio.create_task(services.start())
    await wait_until(lambda: "start b" in log)
    await services.stop(7.0)
    await starting
    assert log == ["start a", "start b", "stop b by 7.0", "stop a by 7.0"]


async def test_a_start_that_fails_says_why_also_if_it_is_told_to_stop_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log: list[str] = []
    stop, told = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        stop.set()
        await told.wait()

    services = ServiceGroup(Functions(stop=slowly), Noted("b", log, fails=True))
    kept = asyncio.create_task(keep(services, 5, stop))
    await wait_until(stop.is_set)
    await _turns(10)
    told.set()
    with pytest.raises(OSError, match="b"):
        await kept
    gc.collect()
    assert [record.name for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize("process", ["supervisor", "alone"])
def test_a_process_that_ends_does_not_die_of_a_reload(process: str) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    async def run(*_: object) -> None:
        if process == "alone":
            Announcer("ready", load_settings({}, {})).on_reload(lambda _: None)
            await _turns(3)

    try:
        if process == "alone":
            asyncio.run(run())
        else:
            run_until_told(run, lambda: None, lambda: None)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_functions_may_be_of_both_kinds() -> None:
    done: list[str] = []

    async def later() -> None:
        done.append("later")

    one = Functions(start=later, stop=lambda: done.append("stop"), configure=lambda settings: done.append("configure"))
    await one.start()
    one.configure(Settings())
    await one.stop()
    await Background(later, "never started").stop()
    assert done == ["later", "configure", "stop"]
