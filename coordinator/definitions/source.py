"""The definitions of a toolset in a running process: read once, and again when files change.

A thread polls the folders every two seconds. A change takes effect when two polls in a row have seen the same files, so
that no half-written file is read. If one file keeps changing, the other changes take effect without it after a few
polls. Only changed files are read again, and the new library replaces the old one in one step. Files that cannot be
listed or read for a temporary reason, such as too many open files, stay as they were read before. Calls never wait for
this: a call takes ``current`` once and uses that library to its end. So a change takes effect within seconds in all
processes that see the same folders.

Nothing is read, and no thread runs, before ``start`` is called or ``current`` is first used. A forked process starts
over. The log says how much was read, and each problem once.
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
from coordinator.definitions.files import File, FoundFile, Problem, Stamp
from coordinator.definitions.loaded import Library

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
_POLLS_MAX = 3
"""After this many polls that all differ, the changes that have settled are applied without the others."""
_DEEPEST = 2
"""How many folders deep below a root definitions can be: ``<workflow>/activities``."""

Seen = tuple[tuple[str, int, int, int], ...]
"""What one poll of the folders has seen: path, time, size and inode of each file."""

_shared: weakref.WeakValueDictionary[tuple[Path, ...], Definitions] = weakref.WeakValueDictionary()
_sharing = threading.Lock()
_reading = threading.Lock()
"""Definitions of several toolsets are read one after the other: reading in parallel would not be faster."""


class Definitions:
    """The definitions below some folders.

    Args:
        roots: the folders; if several have the same workflow, the first one counts.
        poll_seconds: how often to look for changes; 0: only when ``refresh`` is called.
        quiet: whether to log nothing about what was read.
    """

    def __init__(self, roots: Sequence[Path], poll_seconds: float = POLL_SECONDS, *, quiet: bool = False) -> None:
        self.roots = tuple(roots)
        self._poll_seconds = poll_seconds
        self._quiet = quiet
        self._read: dict[Path, tuple[Stamp, File]] = {}
        self._logged: frozenset[Problem] = frozenset()
        self._seen: Seen = ()
        self._unsettled = 0
        """How many polls in a row differed from each other."""
        self._obstacle = ""
        """Why definitions are as they were read before, though they may have changed."""
        self._current: Library | None = None
        self._process = 0
        """The process that ``_lock`` and the thread belong to."""
        self._lock = threading.Lock()
        self._stop = threading.Event()

    @property
    def current(self) -> Library:
        """The newest library. A call takes it once and uses it to its end.

        The first use in a process waits until everything is read: half a second for hundreds of files.
        """
        library = self._current
        if library is not None and self._process == os.getpid():
            return library
        self.start()
        return self._load()

    @property
    def newest(self) -> Library | None:
        """``current`` without waiting; None: nothing was read yet."""
        return self._current if self._process == os.getpid() else None

    def start(self) -> None:
        """Starts the thread that reads and looks for changes, and returns at once. Further calls do nothing."""
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
        self._stop.set()

    def _load(self) -> Library:
        with self._lock:
            return self._current or self._reload(self._look())

    def poll(self, last: Seen) -> Seen:
        """Polls the folders, and reads the changes if they have settled. Returns what this poll has seen.

        Args:
            last: what the previous poll has seen.
        """
        with self._lock:
            seen = self._look()
            self._unsettled = self._unsettled + 1 if seen not in (self._seen, last) else 0
            if self._unsettled >= _POLLS_MAX:
                self._unsettled = 0
                self._reload(seen, frozenset(path for path, *_ in set(seen).difference(last)))
            elif seen != self._seen and seen == last:
                self._reload(seen)
            return seen

    def _look(self) -> Seen:
        return tuple(file for root in self.roots for file in _files(str(root), _DEEPEST))

    def _reload(self, seen: Seen, restless: frozenset[str] = frozenset()) -> Library:
        """Reads the changed files and makes a new library.

        Args:
            seen: what the folders looked like just before. Later changes are noticed by the next poll.
            restless: paths of files that keep changing. They stay as they were read before.
        """
        before = self._current
        with _reading:
            library = self._read_changed(seen, restless)
        if not self._quiet and library is not before:
            self._log_changes(library)
        return library

    def _read_changed(self, seen: Seen, restless: frozenset[str]) -> Library:
        found, problems, obstacle = _scan_roots(self.roots)
        before = self._current
        if before is not None and obstacle:
            self._hold(obstacle)
            return before
        read: dict[Path, tuple[Stamp, File]] = {}
        for path, one in found.items():
            known = self._read.get(path)
            if str(path) in restless:
                if known is not None:
                    read[path] = known
                continue
            if known is None or known[0] != one.stamp or not known[1].usable:
                file = files.read(one)
                if file.passing:
                    obstacle = str(file.problems[0])
                if known is None or not file.passing:
                    known = (one.stamp, file)
            read[path] = known
        library = assembled([file for _, file in read.values()], problems)
        if before is not None and (before.version, before.problems) == (library.version, library.problems):
            # Nothing that matters has changed. Callers may keep what they derived from the old library.
            library = before
        # Files that were held back must count as changed at the next poll, so ``seen`` is forgotten then.
        self._read, self._seen, self._current = read, () if restless else seen, library
        self._hold(obstacle)
        return library

    def _hold(self, obstacle: str) -> None:
        """Makes the next poll retry files that cannot be read now, for this reason; empty: there are none."""
        if obstacle:
            self._seen = ()
        if obstacle != self._obstacle and not self._quiet:
            if obstacle:
                _log.warning("some definitions cannot be read now, those read before stay in force: %s", obstacle)
            else:
                _log.info("definitions can be read again")
        self._obstacle = obstacle

    def _log_changes(self, library: Library) -> None:
        where = ", ".join(map(str, self.roots))
        counts = (len(library.workflows), library.files, library.version, len(library.problems))
        _log.info("definitions read from %s: %d workflows in %d files, version %s, %d problems", where, *counts)
        for problem in library.problems:
            if problem not in self._logged:
                _log.log(logging.WARNING if problem.level == "broken" else logging.INFO, "definition %s", problem)
        self._logged = frozenset(library.problems)


def shared_definitions(roots: Sequence[str]) -> Definitions:
    """The definitions below these roots; below none: those that come with the product.

    All callers in a process share one object, as long as any of them uses it.
    """
    key = tuple(Path(root).absolute() for root in roots) or (shipped(),)
    with _sharing:
        definitions = _shared.get(key)
        if definitions is None:
            definitions = _shared[key] = Definitions(key)
        return definitions


def shipped() -> Path:
    """The folder of the definitions that come with the product."""
    packaged = Path(__file__).parent / "shipped"
    # In a source tree they are in config/, where people look for them.
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "config" / "workflows"


def _files(folder: str, depth: int) -> list[tuple[str, int, int, int]]:
    """Every file that could be a definition, as in ``Seen``. Must be cheap, because it runs every two seconds."""
    found: list[tuple[str, int, int, int]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".toon", ".md")):
                    found.append((entry.path, *_stamp(entry)))
                elif depth and files.is_folder(entry):
                    found += _files(entry.path, depth - 1)
    except OSError:
        # The folder is being removed, or cannot be read. ``scan`` reports that.
        pass
    found.sort()
    return found


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    try:
        status = entry.stat()
    except OSError:
        # A dangling link must not hide the files next to it.
        return 0, 0, 0
    return status.st_ctime_ns, status.st_size, status.st_ino


def _scan_roots(roots: Sequence[Path]) -> files.Scanned:
    """All files below the roots. If several roots have the same workflow, those of the first root."""
    incomplete = ""
    found: dict[Path, FoundFile] = {}
    problems: list[Problem] = []
    owners: dict[str, Path] = {}
    for root in roots:
        here, new_problems, missed = files.scan(root)
        problems += new_problems
        incomplete = incomplete or missed
        hidden = sorted({file.workflow for file in here.values()} & set(owners))
        problems += [
            Problem("odd", name, None, f"is taken from {owners[name]}, so {root / name} is not used") for name in hidden
        ]
        found.update({path: file for path, file in here.items() if file.workflow not in owners})
        owners.update({file.workflow: root for file in here.values() if file.workflow not in owners})
    return files.Scanned(found, tuple(problems), incomplete)


def _watch(definitions: weakref.ref[Definitions], stop: threading.Event, seconds: float) -> None:
    """Reads the definitions, then polls for changes until nobody uses them any more."""
    last: Seen | None = None
    while (owner := definitions()) is not None:
        try:
            if last is None:
                owner._load()
                last = ()
            else:
                last = owner.poll(last)
        except Exception:
            # A defect must not end the thread.
            _log.exception("looking for changed definitions failed")
        del owner
        if stop.wait(seconds):
            return
