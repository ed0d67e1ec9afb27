"""Detects what tests must not leave behind: keys without an expiry, and processes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import redis

from coordinator.store import keys

_BATCH = 500
SESSION_VARIABLE = "PYTEST_FLEET_SESSION"
"""Set in the environment of all processes of a test session."""


def leaked_keys(client: redis.Redis, project: str, *, delete: bool = False) -> list[str]:
    """Complaints about a project's keys: undeclared ones, wrong types, and missing times to live.

    Args:
        delete: whether every key is removed as well.
    """
    complaints = []
    for key, kind, ttl in _keys(client, project, delete):
        family = keys.declared(key)
        name = key.decode(errors="replace")
        if family is None:
            complaints.append(f"{name} ({kind}) belongs to no declared family")
        elif kind != family.type:
            complaints.append(f"{name} is a {kind}, but the family {family.name} is declared as {family.type}")
        elif family.ttl is not None and ttl < 0:
            complaints.append(f"{name} has no time to live, but the family {family.name} is declared with one")
    return sorted(complaints)


def delete_keys(client: redis.Redis, project: str) -> None:
    """Removes every key of a project."""
    for batch in _batches(client, project):
        client.unlink(*batch)


def _batches(client: redis.Redis, project: str) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for key in client.scan_iter(match=keys.prefix(project) + b"*", count=_BATCH):
        batch.append(key)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _keys(client: redis.Redis, project: str, delete: bool) -> Iterator[tuple[bytes, str, int]]:
    for batch in _batches(client, project):
        pipeline: Any = client.pipeline(transaction=False)
        for key in batch:
            pipeline.type(key)
            pipeline.pttl(key)
        if delete:
            pipeline.unlink(*batch)
        replies = pipeline.execute()[: 2 * len(batch)]
        for key, kind, ttl in zip(batch, replies[::2], replies[1::2], strict=True):
            if kind != b"none":  # it may have expired since
                yield key, kind.decode(), ttl


class Process(NamedTuple):
    """A process."""

    pid: int
    command: str


def leftover_processes(session: str, directory: Path) -> list[Process]:
    """Live processes of this test session: its descendants, those that carry its mark in their
    environment, and those that work in its temporary directory (servers overwrite their environment).

    Empty where there is no /proc.
    """
    mark = f"{SESSION_VARIABLE}={session}".encode()
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has exited, or belongs to another user
            pid = int(entry.name)
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if state in ("Z", "X"):
                continue
            parents[pid] = int(parent)
            works_in = Path(os.readlink(entry / "cwd"))
            if mark in (entry / "environ").read_bytes().split(b"\0") or works_in.is_relative_to(directory):
                marked.add(pid)
    me = os.getpid()
    found = {pid for pid in parents if pid in marked or _descends(pid, me, parents)} - {me}
    return [Process(pid, _command(pid)) for pid in sorted(found)]


def end(processes: list[Process]) -> None:
    """Kills the leftover processes of a test session."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(ended)"
