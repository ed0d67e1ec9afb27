"""Which processes are asked to take no new work: the whole fleet, a host, or one process.

An operator begins and ends a drain (``fleet drain``). It is kept in Redis, so it applies to processes on every host,
and to processes that start later. Each process checks once a second, and reports regularly that it runs, so that a
misspelt name is noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from coordinator.errors import ToolFailure, invalid
from coordinator.store import keys
from coordinator.store.errors import StoreError
from coordinator.store.fleet.processes import GONE_SECONDS, STATUS_SECONDS, read_processes
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

_log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
NOTE_SECONDS = 5.0
"""How often a process reports that it runs, with its status."""
FLEET_SCOPE = "fleet"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")

_SET = Script(STORE, "set_drain", tuple[bool, list[tuple[str, int]]], scope="fleet")
_READ = Script(STORE, "read_drains", list[tuple[str, int]], scope="fleet")
_NOTE: Script[Any] = Script(STORE, "note_process", scope="fleet")


def host_scope(host: str) -> str:
    """The scope of all processes on one host.

    Raises:
        ToolFailure: VALIDATION_ERROR: no host can have this name.
    """
    if not _NAME.fullmatch(host):
        raise invalid("host", "must be a host name: letters, digits, '.', '_' and '-', at most 253")
    return f"host:{host}"


def process_scope(host: str, slot: str) -> str:
    """The scope of one process. Raises as ``host_scope``."""
    if not _NAME.fullmatch(slot):
        raise invalid("process", "must be a process's name, such as fe-0")
    return f"process:{host_scope(host)[5:]}/{slot}"


def ending(scope: str) -> str:
    """The command that ends the drain of a scope, from any host."""
    host, _, process = scope.partition(":")[2].partition("/")
    return "fleet drain" + (f" --host {host}" if host else "") + (f" --process {process}" if process else "") + " --end"


def scope_of(found: dict[str, int], host: str, slot: str) -> str:
    """The narrowest requested scope that a process belongs to; '' for none."""
    for scope in (f"process:{host}/{slot}", f"host:{host}", FLEET_SCOPE):
        if scope in found:
            return scope
    return ""


Records = tuple[int, bytes, bytes]
"""For the log of operators' acts (``coordinator.operations.log``): how many records it keeps, the record, and that in
its place if the step changes nothing."""
_NONE: Records = (0, b"", b"")


class Drains:
    """Begins, ends and reads drains. Every method but ``follow`` raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, scope: str, records: Records = _NONE) -> tuple[bool, dict[str, int]]:
        """Begins to drain a scope; returns whether it was not drained before, and all scopes being drained, with since
        when (ms)."""
        return await self._set(scope, True, records)

    async def end(self, scope: str, records: Records = _NONE) -> tuple[bool, dict[str, int]]:
        """Ends the drain of a scope; returns whether it was drained, and as ``begin``."""
        return await self._set(scope, False, records)

    async def _set(self, scope: str, on: bool, records: Records) -> tuple[bool, dict[str, int]]:
        changed, rows = await self._store.run(_SET, keys.FLEET, scope, int(on), *records)
        return changed, dict(rows)

    async def follow(
        self, slot: str, apply: Callable[[str], Awaitable[None]], report: Callable[[str], bytes] = lambda drained: b""
    ) -> None:
        """Watches, until it is cancelled, whether the process ``slot`` of this host is being drained.

        It also reports that the process runs, once a second while it writes (``checks/identity.py``). While the store
        does not answer, nothing changes.

        Args:
            apply: called at each change, with the scope that drains the process; '' when none does any more.
            report: makes the status of the process (``processes.StatusReport``), given that scope.
        """
        host, known, noted_at = socket.gethostname(), "", -NOTE_SECONDS
        while True:
            if (due := (now := time.monotonic()) - noted_at >= NOTE_SECONDS) or self._store.written:
                self._store.written = False
                # A store that rejects writes can still be read.
                with contextlib.suppress(ToolFailure, StoreError):
                    said = (f"{host}/{slot}", GONE_SECONDS, report(known) if due else b"", STATUS_SECONDS)
                    self._store.identity.saw(await self._store.run(_NOTE, keys.FLEET, *said))
                    noted_at = now if due else noted_at
            with contextlib.suppress(ToolFailure, StoreError):  # what was known last holds meanwhile
                asked = scope_of(await self.read(), host, slot)
                if asked != known:
                    _log.info("drained" if asked else "no longer drained", scope=asked or known)
                    known, noted_at = asked, -NOTE_SECONDS
                    await apply(asked)
            await asyncio.sleep(LOOK_SECONDS)

    async def read(self) -> dict[str, int]:
        """All scopes being drained, and since when (ms)."""
        rows = await self._store.run(_READ, keys.FLEET)
        return dict(rows)

    async def processes(self) -> dict[str, list[str]]:
        """The processes that run, or did a moment ago, on every host: host -> slots."""
        found: dict[str, list[str]] = {}
        for one in (await read_processes(self._store, GONE_SECONDS)).running:
            found.setdefault(one.host, []).append(one.slot)
        return found
