"""The audit file: whole lines, each at least once, whatever happens to the file."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import structlog

from coordinator.cli.gateway import records
from coordinator.steps.handoff import Handoff
from coordinator.steps.store import StepStore
from coordinator.store import Store, keys
from coordinator.toolsets.gateway.operations import Operations
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.audit import AuditEntry, AuditStore
from tests.gateway.lab import section, settings_of
from tests.support.counts import counted
from tests.support.wait import wait_until
from workers.connections.pool import Connections
from workers.gateway import copies, executor
from workers.metrics import AUDIT_COPIES
from workers.tools.demo import DemoTools

pytestmark = pytest.mark.anyio


class Copied:
    """An audit and its copy."""

    def __init__(self, store: Store, project: str) -> None:
        self.project = project
        self.settings = settings_of(section(), project)
        self.audit = AuditStore(store, self.settings)

    async def write(self, *numbers: int) -> None:
        await self.audit.write(self.project, [Event("x", msgspec.json.encode({"n": n}).decode()) for n in numbers])

    async def copy(self, file: Path) -> None:
        """Copies this project's audit."""
        entries = await self.audit.read(self.project, await self.audit.copied(self.project))
        copies.append_entries(file, self.project, entries)
        await self.audit.note_copied(self.project, entries[-1].position)

    def numbers(self, file: Path) -> list[int]:
        """This project's lines of the file; a fleet's copier also writes those of other tests."""
        lines = map(msgspec.json.decode, file.read_bytes().splitlines())
        return [line["payload"]["n"] for line in lines if line["project"] == self.project]


async def test_a_full_disk_leaves_no_partial_line(
    store: Store, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, file, real = Copied(store, project), tmp_path / "audit.jsonl", os.write
    await copied.write(1)
    await copied.copy(file)
    room = 150

    def write(descriptor: int, data: Any) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = real(descriptor, bytes(data[:room]))
        room -= taken
        return taken

    await copied.write(2, 3)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        await copied.copy(file)
    assert copied.numbers(file) == [1]
    room = 1_000_000
    await copied.copy(file)
    assert copied.numbers(file) == [1, 2, 3]


async def test_a_full_disk_does_not_remove_a_successors_lines(
    store: Store, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stalled copier must not remove lines that its successor wrote and recorded as copied."""
    copied, file, real = Copied(store, project), tmp_path / "audit.jsonl", os.write
    await copied.write(1, 2)
    entries = await copied.audit.read(project)

    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def late(descriptor: int, data: Any) -> int:
        monkeypatch.setattr(os, "write", real)
        copies.append_entries(file, project, entries)
        monkeypatch.setattr(os, "write", full)
        return real(descriptor, bytes(data[:100]))

    monkeypatch.setattr(os, "write", late)
    with pytest.raises(OSError, match="No space left"):
        copies.append_entries(file, project, entries)
    assert copied.numbers(file) == [1, 2]


async def test_short_writes_are_completed(
    store: Store, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, file, real = Copied(store, project), tmp_path / "audit.jsonl", os.write
    await copied.write(*range(20))
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:100])))
    await copied.copy(file)
    assert copied.numbers(file) == list(range(20))


async def test_a_pipe_without_a_reader_does_not_block(store: Store, project: str, tmp_path: Path) -> None:
    copied = Copied(store, project)
    os.mkfifo(tmp_path / "pipe")
    await copied.write(1)
    with pytest.raises(OSError, match="No such device"):
        await copied.copy(tmp_path / "pipe")


async def test_a_moved_file_is_created_again(store: Store, project: str, tmp_path: Path) -> None:
    copied, file = Copied(store, project), tmp_path / "there" / "audit.jsonl"
    await copied.write(1)
    await copied.copy(file)
    file.rename(tmp_path / "audit.1")
    await copied.write(2)
    await copied.copy(file)
    assert (copied.numbers(tmp_path / "audit.1"), copied.numbers(file)) == ([1], [2])
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_stale_copier_does_not_set_the_position_back(store: Store, project: str) -> None:
    audit = Copied(store, project).audit
    for position in ("9-0", "10-0", "10-2", "9-0", "10-10", "10-9", "9-11"):
        await audit.note_copied(project, position)
    assert await audit.copied(project) == "10-10"


async def test_nothing_is_copied_twice_while_the_store_is_full(alone: Store, tmp_path: Path) -> None:
    copied, file = Copied(alone, "full"), tmp_path / "audit.jsonl"
    steps = StepStore(alone, Handoff.of(copied.settings, alone))
    beside = copies.AuditCopies(copied.settings, alone, steps)
    await steps.projects.note("full")
    await copied.write(1, 2)
    before = counted(AUDIT_COPIES, "ok")
    await alone.command("CONFIG", "SET", "maxmemory", 1)
    try:
        for _ in range(2):
            await beside.copy(file)
    finally:
        await alone.command("CONFIG", "SET", "maxmemory", 0)
    assert copied.numbers(file) == [1, 2]
    assert counted(AUDIT_COPIES, "ok") == before + 1


async def test_a_copy_that_fails_is_counted(alone: Store, tmp_path: Path) -> None:
    copied = Copied(alone, "p")
    steps = StepStore(alone, Handoff.of(copied.settings, alone))
    settings = settings_of(section(audit={"sink": "file", "path": str(tmp_path)}), "p")  # a directory
    await steps.projects.note("p")
    await copied.write(1)
    before = counted(AUDIT_COPIES, "failed")
    copying = asyncio.create_task(copies.AuditCopies(settings, alone, steps).run())
    try:
        await wait_until(lambda: counted(AUDIT_COPIES, "failed") > before, what="a copy that fails")
    finally:
        copying.cancel()
        await asyncio.wait([copying])


async def test_copying_continues_after_an_unexpected_error(
    store: Store, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "RESTART_SECONDS", 0.01)
    copied, file, position = Copied(store, project), tmp_path / "audit.jsonl", keys.gate_copied.key(project)
    sink = section(audit={"sink": "file", "path": str(file)})
    steps = StepStore(store, Handoff.of(copied.settings, store))
    beside = copies.AuditCopies(settings_of(sink, project), store, steps)
    await steps.projects.note(project)
    await copied.write(1)
    await store.command("LPUSH", position, "what is no position")
    worker = executor.GatewayExecutor(
        Connections(copied.settings), cast("Operations", None), DemoTools(store).find, (beside,)
    )
    with structlog.testing.capture_logs() as logs:
        await worker.start()
        try:
            await wait_until(lambda: "AuditCopies" in [one.get("part") for one in logs], what="it has broken off")
            await store.command("DEL", position)
            await wait_until(lambda: file.exists() and copied.numbers(file) == [1], what="it is copied")
        finally:
            await worker.stop()


async def test_following_the_audit_misses_no_entries_written_meanwhile(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Copied(store, project)
    await copied.write(1)
    acts: list[Callable[[Store], Coroutine[Any, Any, None]]] = []
    shown: list[int] = []
    newest = AuditStore.newest

    async def writing(audit: AuditStore, project: str, count: int) -> list[AuditEntry]:
        found = await newest(audit, project, count)
        monkeypatch.setattr(AuditStore, "newest", newest)
        await copied.write(2)
        return found

    monkeypatch.setattr(AuditStore, "newest", writing)
    monkeypatch.setattr(records, "with_store", lambda _, act: acts.append(act))
    records.audit(project=project, follow=True, format="json")
    following = asyncio.create_task(acts[0](store))

    def both() -> bool:
        shown.extend(json.loads(line)["payload"]["n"] for line in capsys.readouterr().out.splitlines())
        return len(shown) >= 2

    await wait_until(both, what="both entries")
    assert shown == [1, 2]
    following.cancel()
    await asyncio.wait([following])
