"""Copies the audit to a file of JSON lines, in one worker for the whole fleet (``gateway.audit``).

The position of the copy is kept in Redis, and advances only after the lines are on disk. If a worker dies in
between, its successor writes some lines again, with the same ids.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.steps.store import StepStore
from coordinator.store import Store
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.toolsets.gateway.store.audit import OWN_PROJECT, PAGE, AuditEntry, AuditStore
from workers.metrics import AUDIT_COPIES

_log = structlog.get_logger(__name__)

COPY_SECONDS = 1.0
"""How often new entries are copied."""
LEASE_MS = 20_000
"""How long a leader lease lasts after its last renewal."""
_LEASE = "audit"
"""The name of the leader's lease."""


class AuditCopies:
    """Copies the audit while this worker leads.

    Args:
        steps: knows the active projects.
    """

    def __init__(self, settings: Settings, store: Store, steps: StepStore) -> None:
        self._settings = settings
        self._store = store
        self._audit = AuditStore(store, settings)
        self._leases = LeaderLeases(store)
        self._steps = steps
        self._process = uuid4().hex
        self._leads = False

    def configure(self, settings: Settings) -> None:
        self._settings = settings

    async def run(self) -> None:
        try:
            while True:
                gateway = self._settings.gateway
                if gateway is not None and gateway.audit.sink == "file":
                    await self._copy_as_leader(Path(gateway.audit.path))
                await asyncio.sleep(COPY_SECONDS)
        finally:
            if self._leads:
                await self._leases.release(_LEASE, self._process)

    async def _copy_as_leader(self, file: Path) -> None:
        """Copies new entries if this worker leads, or can become the leader."""
        try:
            self._leads = await self._leases.acquire(_LEASE, self._process, LEASE_MS)
            if self._leads:
                await self.copy(file)
        except (ToolFailure, OSError) as error:
            AUDIT_COPIES.labels("failed").inc()
            _log.warning("the gateway's audit cannot be copied, trying again", reason=str(error))

    async def copy(self, file: Path) -> None:
        for project in {OWN_PROJECT, *await self._steps.projects.ages()}:
            with self._store.others_go_on():
                await self._copy_project(file, project)

    async def _copy_project(self, file: Path, project: str) -> None:
        # Renewed before each page: if this process was paused, its successor may have copied the rest.
        while entries := await self._audit.read(project, await self._audit.copied(project)):
            await asyncio.to_thread(append_entries, file, project, entries)
            await self._audit.note_copied(project, entries[-1].position)
            AUDIT_COPIES.labels("ok").inc()
            if len(entries) < PAGE:
                break


def append_entries(file: Path, project: str, entries: Sequence[AuditEntry]) -> None:
    """Appends all lines or none. If the disk gets full, the part that was written is removed again.

    Raises:
        OSError: the lines are not written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    left = memoryview(b"".join(_line(project, entry) + b"\n" for entry in entries))
    # O_NONBLOCK: if the file is a pipe that nobody reads, the write fails instead of waiting.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(file, flags, 0o600)
    try:
        regular, written = stat.S_ISREG(os.fstat(descriptor).st_mode), 0
        try:
            while left:
                taken = os.write(descriptor, left)
                left, written = left[taken:], written + taken
            if regular:
                os.fsync(descriptor)
        except OSError:
            if regular:
                # Not to the size at the beginning: if this process was paused since, its successor has written.
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise
    finally:
        os.close(descriptor)


def _line(project: str, entry: AuditEntry) -> bytes:
    record = {"project": project, **msgspec.to_builtins(entry)}
    del record["position"]
    return msgspec.json.encode(record)
