"""What processes report of themselves, and what the server tells of itself."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import msgspec
import pytest

from coordinator import __version__
from coordinator.metrics import process, recording
from coordinator.metrics.hot import Hot
from coordinator.store import Script, Store, keys
from coordinator.store.facts import read_facts
from coordinator.store.fleet import drains
from coordinator.store.fleet.drains import Drains, host_scope
from coordinator.store.fleet.processes import STATUS_SECONDS, Process, ProcessStatus, StatusReport, read_processes
from coordinator.store.scripts import STORE
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

HOST = socket.gethostname()
NOTE: Script[Any] = Script(STORE, "note_process", scope="fleet")


async def apply(scope: str) -> None:
    """The processes of these tests have nothing to do."""


async def found(store: Store, slot: str) -> Process | None:
    return next((one for one in (await read_processes(store)).running if one.slot == slot), None)


async def note(store: Store, name: str, status: str) -> None:
    await store.run(NOTE, keys.FLEET, name, 30, status, STATUS_SECONDS)


def fill(status: ProcessStatus) -> None:
    status.limit = 64


async def test_a_process_reports_its_status_while_it_runs(alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(drains, "NOTE_SECONDS", 0.0)
    process.note_settings("d1", "v1")
    recording().hot.lost("p", "i")
    report = StatusReport("frontend", fill)
    following = asyncio.create_task(Drains(alone).follow("fe-70", apply, report))
    try:
        await wait_until(lambda: found(alone, "fe-70"), what="the process")
        one = await found(alone, "fe-70")
        assert one is not None
        assert one.status is not None
        status = one.status
        assert (one.host, status.role, status.pid, status.limit) == (HOST, "frontend", os.getpid(), 64)
        assert (status.version, status.config_version, status.drained) == (__version__, "v1", "")
        assert [(hot.project, hot.item) for hot in status.hot] == [("p", "i")]
        now = (await read_processes(alone)).now
        assert 0 <= now / 1000 - one.noted_at < 30
        key = keys.process_status.key(keys.FLEET, f"{HOST}/fe-70")
        assert 0 < await alone.command("TTL", key) <= STATUS_SECONDS
        await Drains(alone).begin(host_scope(HOST))

        async def drained() -> bool:
            one = await found(alone, "fe-70")
            return one is not None and one.status is not None and one.status.drained == host_scope(HOST)

        await wait_until(drained, what="the drain to be reported")
    finally:
        following.cancel()
        await Drains(alone).end(host_scope(HOST))


async def test_writes_make_a_process_note_the_time_without_a_new_status(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drains, "LOOK_SECONDS", 0.01)
    key = keys.process_status.key(keys.FLEET, f"{HOST}/fe-71")
    reports: list[str] = []

    def report(drained: str) -> bytes:
        reports.append(drained)
        return b'{"role":"worker"}'

    following = asyncio.create_task(Drains(alone).follow("fe-71", apply, report))
    try:
        await wait_until(lambda: alone.command("EXISTS", key), what="the first status")
        for _ in range(3):
            alone.written = True
            await wait_until(lambda: not alone.written, what="the note")
        assert reports == [""]
    finally:
        following.cancel()


def test_the_lag_is_the_longest_since_the_last_report() -> None:
    report = StatusReport("frontend", fill)
    process.loop_lag("frontend", 0.25)
    process.loop_lag("frontend", 0.125)
    first, second = (msgspec.json.decode(report(drained), type=ProcessStatus) for drained in ("", "fleet"))
    assert (first.lag_ms, first.drained, second.lag_ms, second.drained) == (250, "", 0, "fleet")


async def test_a_process_that_is_late_or_of_another_release_has_no_status(alone: Store) -> None:
    for slot, status in {
        "fe-72": "",
        "fe-73": '{"role":"pilot"}',
        "fe-74": "none",
        "fe-75": '{"role":"worker"}',
    }.items():
        await note(alone, f"h/{slot}", status)
    statuses = {one.slot: one.status for one in (await read_processes(alone)).running if one.host == "h"}
    assert statuses == {"fe-72": None, "fe-73": None, "fe-74": None, "fe-75": ProcessStatus("worker")}
    await alone.command("ZINCRBY", keys.processes.key(keys.FLEET), -40, "h/fe-75")
    assert await found(alone, "fe-75") is None


async def test_the_most_contended_items_of_all_processes_are_added_up(alone: Store) -> None:
    for slot, losers in {"fe-76": (5, 2), "fe-77": (4, 9)}.items():
        hot = [Hot("p", "i", losers[0]), Hot("q", "j", losers[1])]
        await note(alone, f"h/{slot}", msgspec.json.encode(ProcessStatus("frontend", hot=hot)).decode())
    await note(alone, "h/fe-78", "")
    found = await read_processes(alone)
    assert found.hot() == [Hot("q", "j", 11.0), Hot("p", "i", 9.0)]
    assert found.hot(1) == [Hot("q", "j", 11.0)]
    assert found.hot(project="p") == [Hot("p", "i", 9.0)]


async def test_at_most_a_thousand_processes_are_read_in_one_round_trip(alone: Store) -> None:
    names = [(f"h/x-{number}", 4_000_000_000 + number) for number in range(1_005)]
    key = keys.processes.key(keys.FLEET)
    await alone.command("ZADD", key, *(word for name, at in names for word in (at, name)))
    running = (await read_processes(alone)).running
    assert len(running) == 1_000
    assert "x-1004" in {one.slot for one in running}
    await alone.command("DEL", key)


@pytest.mark.every_store
async def test_the_server_tells_of_itself(store: Store, project: str) -> None:
    await store.command("SET", keys.arrivals.key(project), 1)
    facts = await read_facts(store)
    assert (facts.name, facts.version) == store.server
    assert facts.memory_bytes > 100_000
    assert facts.memory_peak_bytes >= facts.memory_bytes // 2
    assert facts.clients >= 1
    assert facts.keys >= 1
    assert facts.uptime_seconds >= 0
    assert facts.persistence in {"aof", "rdb", "none"}
    assert facts.persistence_ok
    assert facts.latency_ms > 0
    assert facts.eviction == "noeviction"
