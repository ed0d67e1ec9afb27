"""Finds and kills what is left of runs whose supervisor is dead."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Mapping

from coordinator.linux import adopt_orphans
from coordinator.runner.supervision import supervisor
from coordinator.runner.supervision.supervisor import LINUX, send, stat_of

ROUND_SECONDS = 0.2

_SUPERVISOR = supervisor.__file__.encode()


_adopting = False


def adopt() -> None:
    """Makes this process the parent of all orphans below it: what it has not started itself is what runs have left."""
    global _adopting
    adopt_orphans()
    _adopting = True


def kill(run_ids: Collection[str]) -> list[int]:
    """One round: kills what these runs have left, and returns the ids of processes that were found.

    They are known by FLEET_RUN in their environment; what they have started is theirs, too. So are orphans that this
    process was given (``adopt``), which have no other supervisor.
    """
    if not LINUX:
        return []
    strays = _of(run_ids)
    for pid, began in strays.items():
        send(pid, began, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return sorted(strays)


def kill_children() -> None:
    """Kills what this process has started itself, such as git, and what that has started. Supervisors end by themselves
    what is theirs, and then themselves.
    """
    if not LINUX:
        return
    stats = {int(name): stat_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    parents = {pid: (stat[1], stat[2]) for pid, stat in stats.items() if stat is not None}
    me = os.getpid()
    ours = {pid for pid, (parent, _) in parents.items() if parent == me and _SUPERVISOR not in _read(pid, "cmdline")}
    for pid in _with_descendants(ours, parents):
        send(pid, parents[pid][1], signal.SIGKILL)


def _of(run_ids: Collection[str]) -> dict[int, int]:
    marks = [f"FLEET_RUN={run}\0".encode() for run in run_ids]
    me, session = os.getpid(), os.getsid(0)
    parents: dict[int, tuple[int, int]] = {}
    strays: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or (stat := stat_of(pid := int(name))) is None or pid == me:
            continue
        state, parent, began, _ = stat
        ours = _adopting and parent == me and _session(pid) != session
        if state == "Z":
            if ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            continue
        parents[pid] = (parent, began)
        orphan = ours and _SUPERVISOR not in _read(pid, "cmdline")
        if orphan or any(mark in _read(pid, "environ") for mark in marks):
            strays.add(pid)
    return {pid: parents[pid][1] for pid in _with_descendants(strays, parents)}


def _with_descendants(pids: Collection[int], parents: Mapping[int, tuple[int, int]]) -> set[int]:
    """Processes and all below them; parents: by process, each with when that was started."""
    descendants = above = set(pids)
    while above:
        above = {pid for pid, (parent, _) in parents.items() if parent in above} - descendants
        descendants = descendants | above
    return descendants


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read() + b"\0"
    except OSError:
        return b""
