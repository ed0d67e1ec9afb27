"""Finds the files in a folder of workflows, and reads each by itself.

    <root>/<workflow>/workflow.toon                  or else <root>/<workflow>.toon
    <root>/<workflow>/activities/NN-<id>.toon        ``activitiesDir`` may name another folder
    <root>/<workflow>/skills/NN-<id>.toon
    <root>/<workflow>/resources/NN-<name>.md|.toon   or else guides/
    <root>/<workflow>/templates/NN-<name>.md
    <root>/<workflow>/rules.toon                     only that of ``meta`` is used

Files and folders of other names are ignored. Reading never fails as a whole: a file that
cannot be used is reported as a ``Problem`` and left out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal, NamedTuple

from coordinator.definitions import decoding, toon

Kind = Literal["workflow", "activity", "skill", "resource", "template", "rules"]

ID = re.compile(r"[A-Za-z0-9._-]+")
"""Ids of workflows, activities and so on. No id is a path; ``valid_id`` also refuses '..'."""
_NUMBERED = re.compile(r"(?P<index>\d+)-(?P<id>.+)\.(?P<format>md|toon)")
_FOLDERS: dict[str, Kind] = {"skills": "skill", "resources": "resource", "guides": "resource", "templates": "template"}
_FORMATS: dict[Kind, tuple[str, ...]] = {
    "activity": ("toon",), "skill": ("toon",), "resource": ("toon", "md"), "template": ("md",)
}  # fmt: skip
_MOST_BYTES = 4 * 1024 * 1024
_ACTIVITIES = "activities"
_PASSING = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.EINTR, errno.ESTALE, errno.ETIMEDOUT)
)
"""Temporary errors that say nothing about a file or folder: the process lacks a resource, or a file system does not
answer."""
# Nothing in it is tried in several ways, so that no line takes more than linear time.
_DIRECTORY_KEY = re.compile(r"^activitiesDir: *+\"?+(?P<name>[^\"\n]*+)\"?+ *+$", re.MULTILINE)


Level = Literal["broken", "wrong", "odd"]
"""broken: the file, or a part of it, is left out. wrong: it is used, but will break a run.
odd: it is used, but may not mean what its author thinks."""


class Problem(NamedTuple):
    """A problem with a file, for its author."""

    level: Level
    place: str
    """The file as seen from its root: ``work-package/skills/02-review.toon``."""
    line: int | None
    message: str

    def __str__(self) -> str:
        line = f":{self.line}" if self.line is not None else ""
        return f"{_printable(self.place)}{line}: {self.level}: {self.message}"


class Stamp(NamedTuple):
    """The attributes of a file that show whether it has changed."""

    changed_ns: int
    """The ctime: it also changes with the permissions, so a file that could not be read is tried again."""
    size: int
    inode: int


class FoundFile(NamedTuple):
    """A file that was found but not read yet."""

    root: Path
    workflow: str
    kind: Kind
    number: str
    """The number at the beginning of its name, as written; empty if it has none."""
    id: str
    format: str
    """``toon`` or ``md``."""
    path: Path
    stamp: Stamp

    @property
    def place(self) -> str:
        """The file as seen from its root."""
        return self.path.relative_to(self.root).as_posix()


@dataclass(frozen=True, slots=True)
class File:
    """A file that was read."""

    workflow: str
    kind: Kind
    index: str
    id: str
    format: str
    place: str
    text: str
    """The whole file, byte for byte."""
    digest: str
    """SHA-256 over the bytes, hex."""
    data: Any
    """The content of a TOON file; None for Markdown, and if the file cannot be read."""
    head: decoding.Head | None
    """The same as a struct; None for resources and templates, and if the data does not fit."""
    problems: tuple[Problem, ...]
    passing: bool = False
    """Whether it could not be read for a temporary reason outside the file."""

    @property
    def name(self) -> str:
        """The name of the file without its folder."""
        return self.place.rpartition("/")[2]

    @property
    def usable(self) -> bool:
        """Whether the file could be read and fits its kind."""
        return not any(problem.level == "broken" for problem in self.problems)


class Scanned(NamedTuple):
    """What one scan of a root has found."""

    files: dict[Path, FoundFile]
    problems: tuple[Problem, ...]
    incomplete: str
    """Why this scan may have missed files; empty: it has found all."""


def scan(root: Path) -> Scanned:
    """Every file of definitions below a root, and the problems met while looking for them."""
    scanning = _Scan(root)
    scanning.folder_of_workflows()
    return Scanned(scanning.files, tuple(scanning.problems), scanning.incomplete)


def valid_id(text: str) -> bool:
    """Whether a text can be an id. No path, absolute or relative, can be one."""
    return ID.fullmatch(text) is not None and text not in (".", "..") and len(text) <= 200


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one. A circular link is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def read(found: FoundFile) -> File:
    """Reads one file, which takes a few milliseconds."""
    text, data, head = "", None, None
    problems: list[Problem] = []
    passing = False
    raw = b""
    try:
        with found.path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise OSError(0, f"larger than {_MOST_BYTES} bytes")
        text = raw.decode("utf-8")
        if found.format == "toon":
            document = toon.read(text)
            data = document.data
            problems += [Problem("odd", found.place, note.line, note.message) for note in document.notes]
            if not isinstance(data, dict):
                raise toon.Unreadable(1, "must hold keys and values")
            head = decoding.head(found.kind, data)
    except OSError as error:
        passing = error.errno in _PASSING
        problems.append(Problem("broken", found.place, None, f"cannot be read: {error.strerror}"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.append(Problem("broken", found.place, line, "is not UTF-8 text"))
    except toon.Unreadable as error:
        data = None
        problems.append(Problem("broken", found.place, error.line, f"is not TOON: {error.message}"))
    except decoding.Misfit as error:
        problems.append(Problem("broken", found.place, None, str(error)))
    return File(
        found.workflow,
        found.kind,
        found.number,
        found.id,
        found.format,
        found.place,
        text,
        hashlib.sha256(raw).hexdigest(),
        data,
        head,
        tuple(problems),
        passing,
    )


class _Scan:
    """One scan of the files below a root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.files: dict[Path, FoundFile] = {}
        self.problems: list[Problem] = []
        self.incomplete = ""

    def folder_of_workflows(self) -> None:
        """Adds the files of all workflows: those in the root, and those in folders."""
        folders: list[str] = []
        for entry in self._entries(self._root, missing_is_fine=False):
            if is_folder(entry):
                folders.append(entry.name)
            elif entry.name.endswith(".toon"):
                self._add(entry, entry.name.removesuffix(".toon"), "workflow")
        for name in folders:
            if name.startswith("."):
                continue
            if valid_id(name):
                self._workflow(name)
            else:
                self._report("broken", name, bad_name(name))

    def _workflow(self, name: str) -> None:
        activities = _ACTIVITIES
        names: set[str] = set()
        for entry in self._entries(self._root / name):
            if is_folder(entry):
                names.add(entry.name)
            elif entry.name == "workflow.toon":
                if self.files.pop(self._root / f"{name}.toon", None):
                    self._report("odd", f"{name}.toon", f"is not used, because {name}/workflow.toon is there")
                self._add(entry, name, "workflow")
                if (workflow := self.files.get(Path(entry.path))) is not None:
                    activities = self._activities_folder(workflow)
            elif entry.name == "rules.toon":
                self._add(entry, name, "rules", identity="rules")
        kinds: dict[str, Kind] = {**_FOLDERS, activities: "activity"}
        if "resources" in names:
            del kinds["guides"]
        for folder, kind in kinds.items():
            if folder in names:
                self._numbered_files(name, folder, kind)

    def _numbered_files(self, workflow: str, folder: str, kind: Kind) -> None:
        for entry in self._entries(self._root / workflow / folder):
            match = _NUMBERED.fullmatch(entry.name)
            if match is None or match["format"] not in _FORMATS[kind] or is_folder(entry):
                continue
            if kind == "activity" and match["id"] == "index":
                continue
            self._add(entry, workflow, kind, match["index"], match["id"])

    def _activities_folder(self, workflow: FoundFile) -> str:
        """The folder that ``activitiesDir`` names. It must be directly in the workflow's folder, like the others."""
        try:
            written = _activities_dir(workflow.path, workflow.stamp)
        except OSError as error:
            # Reading the whole file will fail too, and say so.
            self._note_passing(error, workflow.place)
            return _ACTIVITIES
        if written is None:
            return _ACTIVITIES
        name = written.removeprefix("./").rstrip("/")
        if valid_id(name) and name not in _FOLDERS:
            return name
        message = f"activitiesDir: {written[:80]!r} is not a folder directly within the workflow's"
        self._report("odd", workflow.place, message)
        return _ACTIVITIES

    def _add(self, entry: os.DirEntry[str], workflow: str, kind: Kind, number: str = "", identity: str = "") -> None:
        """Adds a file, or reports why it cannot be one of a definition.

        Args:
            identity: the id of what the file defines; empty: that of its workflow.
        """
        identity = identity or workflow
        path = Path(entry.path)
        place = self._place(path)
        if not valid_id(identity) or not valid_id(workflow):
            self._report("broken", place, bad_name(identity))
            return
        try:
            # Not entry.stat(), so that a link is followed.
            status = os.stat(path)
        except OSError as error:
            self._note_passing(error, place)
            self._report("broken", place, f"cannot be read: {error.strerror}")
            return
        if not S_ISREG(status.st_mode):
            # Reading a pipe or a device could block forever, or never end.
            self._report("broken", place, "is not a file")
            return
        stamp = Stamp(status.st_ctime_ns, status.st_size, status.st_ino)
        self.files[path] = FoundFile(self._root, workflow, kind, number, identity, path.suffix[1:], path, stamp)

    def _entries(self, folder: Path, missing_is_fine: bool = True) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            if not missing_is_fine:
                self._report("broken", str(folder), "there is no such folder")
            return
        except OSError as error:
            place = str(folder) if folder == self._root else self._place(folder)
            self._report("broken", place, f"cannot be listed: {error.strerror}")
            self._note_passing(error, place, always=folder == self._root)
            return
        yield from listed

    def _place(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _note_passing(self, error: OSError, place: str, always: bool = False) -> None:
        if always or error.errno in _PASSING:
            self.incomplete = f"{place}: {error.strerror}"

    def _report(self, level: Level, place: str, message: str) -> None:
        self.problems.append(Problem(level, place, None, message))


@lru_cache(maxsize=1_000)
def _activities_dir(path: Path, _stamp: Stamp) -> str | None:
    """The value of ``activitiesDir`` in a workflow's file. It is cached until the file changes. Raises OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        # A larger file will not be read as a workflow anyway.
        match = _DIRECTORY_KEY.search(file.read(_MOST_BYTES))
    return None if match is None else match["name"].rstrip(" ")


def _printable(place: str) -> str:
    """The name of a file, escaped for printing: it may contain line breaks, and bytes that are not text."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in place)


def bad_name(name: str) -> str:
    """Says why a name cannot be an id."""
    return f"{name[:80]!r} cannot be an id; allowed are up to 200 letters, digits, '.', '_' and '-'"
