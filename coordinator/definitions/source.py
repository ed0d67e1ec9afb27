"""The definitions of a toolset in a running process: read once, and again when files change.

A thread looks at the folders every two seconds. A change takes effect when the folders have looked the same twice in
a row, so that no half-written file is read. If one file keeps changing, the other changes take effect without it after
a few looks. Only changed files are read again, and the new library replaces the old one in one step. Calls never wait
for this: a call takes ``current`` once and uses that library to its end. So a change takes effect within seconds in
all processes that see the same folders.

Nothing is read and no thread runs before ``start`` or the first ``current``. A forked process starts over.

Changes are logged: how much was read, and each problem once.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

from coordinator.definitions import files
from coordinator.definitions.assembly import assembled
from coordinator.definitions.files import File, Found, Problem, Stamp
from coordinator.definitions.loaded import Library

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
_PATIENCE = 3
"""Looks at folders that are never the same twice, until what has settled is taken over."""
_DEEPEST = 2
"""Folders below a root that files of definitions can be in: ``<workflow>/activities``."""

Seen = tuple[tuple[str, int, int, int], ...]
"""What a look at the folders has seen: path, time, size and inode of each file."""

_shared: weakref.WeakValueDictionary[tuple[Path, ...], Definitions] = weakref.WeakValueDictionary()
_sharing = threading.Lock()
_reading = threading.Lock()
"""Those of several toolsets are read one after the other: together they would only take turns at the interpreter."""


class Definitions:
    """The definitions below some folders.

    Args:
        roots: where to look; a workflow that several have is taken from the first.
        poll_seconds: how often to look for changes; 0: never by itself (``refresh``).
        quiet: whether to leave out of the log what was read.
    """

    def __init__(self, roots: Sequence[Path], poll_seconds: float = POLL_SECONDS, *, quiet: bool = False) -> None:
        self.roots = tuple(roots)
        self._poll_seconds = poll_seconds
        self._quiet = quiet
        self._read: dict[Path, tuple[Stamp, File]] = {}
        self._told: frozenset[Problem] = frozenset()
        self._seen: Seen = ()
        self._unsettled = 0
        """Looks since the last time that the folders were seen at rest."""
        self._current: Library | None = None
        self._process = 0
        """The process that ``_lock`` and the thread belong to."""
        self._lock = threading.Lock()
        self._stop = threading.Event()

    @property
    def current(self) -> Library:
        """The newest library; a call takes it once and works with that to its end.

        The first one in a process waits until all is read, half a second for hundreds of files.
        """
        library = self._current
        if library is not None and self._process == os.getpid():
            return library
        self.start()
        return self._load()

    def start(self) -> None:
        """Begins to read, and to look for changes, in a thread; returns at once. Further calls do nothing."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        self._lock, self._stop = threading.Lock(), threading.Event()
        if self._poll_seconds:
            arguments = (weakref.ref(self), self._stop, self._poll_seconds)
            threading.Thread(target=_watch, args=arguments, name="definitions", daemon=True).start()

    def refresh(self) -> Library:
        """Reads what has changed since the last time, at once."""
        self.start()
        with self._lock:
            return self._reload(self._look())

    def close(self) -> None:
        """Stops looking for changes."""
        self._stop.set()

    def _load(self) -> Library:
        with self._lock:
            return self._current or self._reload(self._look())

    def _poll(self, last: Seen) -> Seen:
        """Takes a change over if the folders have not changed since the last look; what this look has seen."""
        with self._lock:
            seen = self._look()
            self._unsettled = self._unsettled + 1 if seen not in (self._seen, last) else 0
            if self._unsettled >= _PATIENCE:
                self._unsettled = 0
                self._reload(seen, frozenset(path for path, *_ in set(seen).difference(last)))
            elif seen != self._seen and seen == last:
                self._reload(seen)
            return seen

    def _look(self) -> Seen:
        return tuple(one for root in self.roots for one in _files(str(root), _DEEPEST))

    def _reload(self, seen: Seen, restless: frozenset[str] = frozenset()) -> Library:
        """Reads what there is now; what has changed since ``seen`` was seen is taken at the next look.

        Args:
            restless: paths of files that go on changing: they stay as they were read before.
        """
        before = self._current
        with _reading:
            library = self._read_changed(seen, restless)
        if not self._quiet and library is not before:
            self._log_changes(library)
        return library

    def _read_changed(self, seen: Seen, restless: frozenset[str]) -> Library:
        found, problems = _scan_roots(self.roots)
        read: dict[Path, tuple[Stamp, File]] = {}
        for path, one in found.items():
            known = self._read.get(path)
            if str(path) in restless:
                if known is not None:
                    read[path] = known
                continue
            if known is None or known[0] != one.stamp or not known[1].usable:
                known = (one.stamp, files.read(one))
            read[path] = known
        library = assembled([file for _, file in read.values()], problems)
        before = self._current
        if before is not None and (before.version, before.problems) == (library.version, library.problems):
            # Touched, or none of our business: what was made from the old one still holds.
            library = before
        # What was held back is still to come.
        self._read, self._seen, self._current = read, () if restless else seen, library
        return library

    def _log_changes(self, library: Library) -> None:
        where = ", ".join(map(str, self.roots))
        counts = (len(library.workflows), library.files, library.version, len(library.problems))
        _log.info("definitions read from %s: %d workflows in %d files, version %s, %d problems", where, *counts)
        for problem in library.problems:
            if problem not in self._told:
                _log.log(logging.WARNING if problem.level == "broken" else logging.INFO, "definition %s", problem)
        self._told = frozenset(library.problems)


def shared(roots: Sequence[Path]) -> Definitions:
    """The definitions below these roots, one object for all of a process that ask while it is in use."""
    key = tuple(root.absolute() for root in roots)
    with _sharing:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = Definitions(key)
        return found


def shipped() -> Path:
    """The folder of the definitions that come with the product."""
    packaged = Path(__file__).parent / "shipped"
    # In a source tree they are where people look for them.
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "config" / "workflows"


def _files(folder: str, depth: int) -> list[tuple[str, int, int, int]]:
    """Every file that could matter, told apart as cheaply as can be: this runs every two seconds."""
    found: list[tuple[str, int, int, int]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".toon", ".md")):
                    found.append((entry.path, *_stamp(entry)))
                elif depth and files.is_folder(entry):
                    found += _files(entry.path, depth - 1)
    except OSError:
        # It is just going, or cannot be read; the reading itself says so.
        pass
    found.sort()
    return found


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    try:
        status = entry.stat()
    except OSError:
        # A link that leads nowhere; what is beside it counts all the same.
        return 0, 0, 0
    return status.st_ctime_ns, status.st_size, status.st_ino


def _scan_roots(roots: Sequence[Path]) -> tuple[dict[Path, Found], tuple[Problem, ...]]:
    """All files below the roots; of a workflow that several roots have, those of the first."""
    found: dict[Path, Found] = {}
    problems: list[Problem] = []
    owners: dict[str, Path] = {}
    for root in roots:
        here, told = files.scan(root)
        problems += told
        hidden = sorted({one.workflow for one in here.values()} & set(owners))
        problems += [
            Problem("odd", name, None, f"is taken from {owners[name]}, so {root / name} is not used") for name in hidden
        ]
        found.update({path: one for path, one in here.items() if one.workflow not in owners})
        owners.update({one.workflow: root for one in here.values() if one.workflow not in owners})
    return found, tuple(problems)


def _watch(definitions: weakref.ref[Definitions], stop: threading.Event, seconds: float) -> None:
    """Reads, then looks again and again, as long as somebody uses the definitions."""
    last: Seen | None = None
    while (owner := definitions()) is not None:
        try:
            if last is None:
                owner._load()
                last = ()
            else:
                last = owner._poll(last)
        except Exception:
            # A defect here must not end the looking.
            _log.exception("looking for changed definitions failed")
        del owner
        if stop.wait(seconds):
            return
