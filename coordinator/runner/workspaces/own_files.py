"""Changed files of a workspace, without those that the runner and the fleet write: they are not the command's work."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from coordinator.runner.workspaces.ignored import CACHES

Identity = tuple[int, int]
"""Device and inode."""
_DATA_DIRECTORY = {"fleet.lock", "store.json"}
"""Files by which the data directory of a fleet is known."""
_OUTPUT = (1, 2)


def changed_since(top: Path, moment: float, own: Collection[Identity] = ()) -> bool:
    """Whether a file was changed after a moment (Unix time), but for caches, git's own and fleets' data."""
    waiting = [str(top)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                entries = list(listing)
            if {entry.name for entry in entries} >= _DATA_DIRECTORY:
                continue
            for entry in entries:
                if entry.name == ".git" or entry.name in CACHES:
                    continue
                seen = entry.stat(follow_symlinks=False)
                if (seen.st_dev, seen.st_ino) in own:
                    continue
                if seen.st_mtime > moment:
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
        except OSError:  # it went meanwhile, or cannot be read
            continue
    return False


def own_files(directories: Sequence[Path]) -> set[Identity]:
    """What this process writes: these directories, and files that it has open, its output above all.

    Where the output is a pipe, also the files that its readers write, as in ``| tee run.log``. What a terminal or a
    socket does with it cannot be known.
    """
    identities: set[Identity] = set()
    for directory in directories:
        try:
            identities.add(_identity(os.stat(directory)))
        except OSError:  # it is not there
            continue
    me = str(os.getpid())
    if not os.path.isdir("/proc/self/fd"):
        return identities | {_identity(status) for status in map(os.fstat, _OUTPUT) if stat.S_ISREG(status.st_mode)}
    pipes: set[Identity] = set()
    for descriptor, status in _written(me):
        if stat.S_ISREG(status.st_mode):
            identities.add(_identity(status))
        elif stat.S_ISFIFO(status.st_mode) and descriptor in _OUTPUT:
            pipes.add(_identity(status))
    return identities | _written_below(pipes, {me}) if pipes else identities


def _written_below(pipes: set[Identity], known: set[str]) -> set[Identity]:
    """Files that readers of these pipes write, and those behind the pipes that they write to."""
    identities: set[Identity] = set()
    while pipes:
        further: set[Identity] = set()
        for process in os.listdir("/proc"):
            if not process.isdigit() or process in known or not pipes & set(_read(process)):
                continue
            known.add(process)
            for _, status in _written(process):
                if stat.S_ISREG(status.st_mode):
                    identities.add(_identity(status))
                elif stat.S_ISFIFO(status.st_mode):
                    further.add(_identity(status))
        pipes = further - pipes
    return identities


def _read(process: str) -> Iterator[Identity]:
    for _, status, flags in _open_files(process):
        if stat.S_ISFIFO(status.st_mode) and flags & os.O_ACCMODE == os.O_RDONLY:
            yield _identity(status)


def _written(process: str) -> Iterator[tuple[int, os.stat_result]]:
    """The descriptors that a process can write to."""
    for descriptor, status, flags in _open_files(process):
        if flags & os.O_ACCMODE != os.O_RDONLY:
            yield descriptor, status


def _open_files(process: str) -> Iterator[tuple[int, os.stat_result, int]]:
    """Descriptors with what they are open on, and how; none of processes of other users."""
    try:
        names = os.listdir(f"/proc/{process}/fd")
    except OSError:
        return
    for name in names:
        try:
            with open(f"/proc/{process}/fdinfo/{name}", encoding="ascii") as file:
                flags = next(line for line in file if line.startswith("flags:"))
            yield int(name), os.stat(f"/proc/{process}/fd/{name}"), int(flags.split()[1], 8)
        except OSError:  # closed meanwhile
            continue


def _identity(seen: os.stat_result) -> Identity:
    return seen.st_dev, seen.st_ino
