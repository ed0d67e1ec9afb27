"""The files of a folder of workflows: which there are, and what each says by itself.

    <root>/<workflow>/workflow.toon                  else <root>/<workflow>.toon
    <root>/<workflow>/activities/NN-<id>.toon        the folder can be named by ``activitiesDir``
    <root>/<workflow>/skills/NN-<id>.toon
    <root>/<workflow>/resources/NN-<name>.md|.toon   else guides/
    <root>/<workflow>/templates/NN-<name>.md
    <root>/<workflow>/rules.toon                     that of ``meta`` counts

Files and folders of other names are ignored. Reading never fails as a whole: a file that
cannot be used is reported as a ``Problem`` and left out.
"""

from __future__ import annotations

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
"""What workflows, activities and the rest may be called; never a path, as '..' alone is refused too."""
_NUMBERED = re.compile(r"(?P<index>\d+)-(?P<id>.+)\.(?P<format>md|toon)")
_FOLDERS: dict[str, Kind] = {"skills": "skill", "resources": "resource", "guides": "resource", "templates": "template"}
_FORMATS: dict[Kind, tuple[str, ...]] = {
    "activity": ("toon",), "skill": ("toon",), "resource": ("toon", "md"), "template": ("md",)
}  # fmt: skip
_MOST_BYTES = 4 * 1024 * 1024
_ACTIVITIES = "activities"
_DIRECTORY_KEY = re.compile(r"^activitiesDir: *\"?(?P<name>[^\"\n]*?)\"? *$", re.MULTILINE)


Level = Literal["broken", "wrong", "odd"]
"""broken: the file, or a part of it, is left out. wrong: it is used, but will trouble whoever follows it.
odd: it is used, but may not mean what its author thinks."""


class Problem(NamedTuple):
    """Something about a file that its author should know."""

    level: Level
    place: str
    """The file as seen from its root: ``work-package/skills/02-review.toon``."""
    line: int | None
    message: str

    def __str__(self) -> str:
        line = f":{self.line}" if self.line is not None else ""
        return f"{_printable(self.place)}{line}: {self.level}: {self.message}"


class Stamp(NamedTuple):
    """By what a change of a file is noticed."""

    changed_ns: int
    """Also of its permissions: a file that could not be read may be one now."""
    size: int
    inode: int


class Found(NamedTuple):
    """A file that is there, before it is read."""

    root: Path
    workflow: str
    kind: Kind
    number: str
    """What its name begins with, as it is written; empty where it has none."""
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
    """What its TOON says; None for Markdown and for what cannot be read."""
    head: decoding.Head | None
    """The same as a struct; None for resources and templates, and for what cannot be used."""
    problems: tuple[Problem, ...]

    @property
    def name(self) -> str:
        """The name of the file without its folder."""
        return self.place.rpartition("/")[2]

    @property
    def usable(self) -> bool:
        """Whether it could be read."""
        return not any(problem.level == "broken" for problem in self.problems)


def scan(root: Path) -> tuple[dict[Path, Found], tuple[Problem, ...]]:
    """Every file of definitions below a root, and what could not be looked at."""
    found = _Scan(root)
    found.folder_of_workflows()
    return found.files, tuple(found.problems)


def valid_id(text: str) -> bool:
    """Whether something can have this id; no path, absolute or relative, can be one."""
    return ID.fullmatch(text) is not None and text not in (".", "..") and len(text) <= 200


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or a link to one; a link that leads in a circle is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def read(found: Found) -> File:
    """Reads one file. Takes some milliseconds."""
    text, data, head = "", None, None
    problems: list[Problem] = []
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
    )


class _Scan:
    """One look at the files below a root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.files: dict[Path, Found] = {}
        self.problems: list[Problem] = []

    def folder_of_workflows(self) -> None:
        """Adds all workflows: files in the root, and folders."""
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

    def _activities_folder(self, workflow: Found) -> str:
        """The folder that ``activitiesDir`` names; one path component, as everything else is in the workflow's."""
        written = _activities_dir(workflow.path, workflow.stamp)
        if written is None:
            return _ACTIVITIES
        name = written.removeprefix("./").rstrip("/")
        if valid_id(name) and name not in _FOLDERS:
            return name
        message = f"activitiesDir: {written[:80]!r} is not a folder of its own within the workflow's"
        self._report("odd", workflow.place, message)
        return _ACTIVITIES

    def _add(self, entry: os.DirEntry[str], workflow: str, kind: Kind, number: str = "", identity: str = "") -> None:
        """Adds a file, unless its name or what it is forbids that; ``identity`` empty: that of its workflow."""
        identity = identity or workflow
        path = Path(entry.path)
        place = self._place(path)
        if not valid_id(identity) or not valid_id(workflow):
            self._report("broken", place, bad_name(identity))
            return
        try:
            # Not the entry's own, which is that of a link where it is one.
            status = os.stat(path)
        except OSError as error:
            self._report("broken", place, f"cannot be read: {error.strerror}")
            return
        if not S_ISREG(status.st_mode):
            # Reading a pipe or a device would wait for ever, or never end.
            self._report("broken", place, "is not a file")
            return
        stamp = Stamp(status.st_ctime_ns, status.st_size, status.st_ino)
        self.files[path] = Found(self._root, workflow, kind, number, identity, path.suffix[1:], path, stamp)

    def _entries(self, folder: Path, missing_is_fine: bool = True) -> Iterator[os.DirEntry[str]]:
        """What a folder holds, by name."""
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
            return
        yield from listed

    def _place(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _report(self, level: Level, place: str, message: str) -> None:
        self.problems.append(Problem(level, place, None, message))


@lru_cache(maxsize=1_000)
def _activities_dir(path: Path, _stamp: Stamp) -> str | None:
    """The folder that a file of a workflow states, remembered for as long as the file does not change."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            # What is larger is not read as a workflow either.
            match = _DIRECTORY_KEY.search(file.read(_MOST_BYTES))
    except OSError:
        return None
    return None if match is None else match["name"]


def _printable(place: str) -> str:
    """The name of a file as it can be printed: it may hold line breaks, and bytes that are no text."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in place)


def bad_name(name: str) -> str:
    """Why it cannot be an id, in words."""
    return f"{name[:80]!r} cannot be an id; allowed are up to 200 letters, digits, '.', '_' and '-'"
