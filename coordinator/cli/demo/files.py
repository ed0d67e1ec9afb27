"""Dependency graphs from files: lock and requirements files, and ``pyproject.toml``.

The file lists the distributions. Their requirements come from the file if it has them (the
``# via`` notes of pip-compile and uv), else from the metadata of the distributions installed here.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from coordinator.cli.demo import graph
from coordinator.cli.demo.graph import Declared, Graph, Package
from coordinator.cli.exits import CommandFailed, Exit

_COMMENT = re.compile(r"((?:^|(?<=\s))#)")
_OPTIONS = re.compile(r"\s--?[a-z].*$")
_VIA = re.compile(r"\s*via(?P<names>(?:\s.*)?)$")
_MAX_BYTES = 10_000_000


def read(path: Path) -> Graph:
    """The graph that a file describes; ``pyproject.toml`` and directories that hold one are known by name.

    Raises:
        CommandFailed: the file cannot be read or understood, or names no distribution.
    """
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            path = path / "pyproject.toml"
        with path.open("rb") as file:
            # Not by the size that it says it has: pipes and devices have none.
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise _refused(path, "it is larger than 10 MB, so it is no list of requirements")
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _refused(path, "it is not text") from None
    found = _from_project(path, text) if path.suffix == ".toml" else _from_requirements(path, text)
    if not found.packages:
        raise _refused(path, "it names no distribution that is wanted here")
    return found


def _from_requirements(path: Path, text: str) -> Graph:
    """A requirements or lock file."""
    listed: dict[str, Declared] = {}
    extras: dict[str, set[str]] = {}
    via: dict[str, set[str]] = {}
    skipped = 0
    for entry in _entries(text):
        if entry.text.startswith("-"):
            # Options say nothing of the graph; other files and editable paths would.
            skipped += entry.text.startswith(("-r", "--requirement", "-e", "--editable"))
            continue
        requirement = _requirement(path, entry.number, _OPTIONS.sub("", entry.text))
        if requirement.marker is not None and not graph.holds(requirement.marker):
            continue
        name: str = canonicalize_name(requirement.name)
        versions = [one.version for one in requirement.specifier if one.operator in ("==", "===")]
        listed[name] = Declared(Package(requirement.name, versions[0] if versions else ""), [])
        extras.setdefault(name, set()).update(requirement.extras)
        via.setdefault(name, set()).update(entry.via)
    notes = [f"left out what {path.name} takes from other files and paths ({skipped} lines)"] if skipped else []
    requires: dict[str, set[str]] = {name: set() for name in listed}
    for name, dependents in via.items():
        for dependent in dependents & (listed.keys() - {name}):
            requires[dependent].add(name)
    if any(via.values()):
        return graph.assemble(f"{path.name} and its '# via' notes", listed, requires, notes)
    return _with_metadata(f"{path.name}", listed, extras, notes)


def _from_project(path: Path, text: str) -> Graph:
    """The project of a ``pyproject.toml`` and what it needs, as far as that is installed here."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refused(path, f"it is not TOML: {error}") from None
    project = table.get("project")
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        raise _refused(path, "it has no [project] table with a name")
    lines = project.get("dependencies", [])
    if not isinstance(lines, list):
        raise _refused(path, "project.dependencies must be a list")
    direct = [_requirement(path, None, line) for line in lines]
    name: str = canonicalize_name(project["name"])
    version = project.get("version")
    own = Declared(Package(project["name"], version if isinstance(version, str) else ""), direct)
    known, _ = graph.installed_distributions()
    if "dependencies" in project:
        known[name] = own
    declared = {name: own}
    for requirement in graph.active(direct, [""]):
        target: str = canonicalize_name(requirement.name)
        declared.setdefault(target, Declared(Package(requirement.name, ""), []))
    reached = graph.resolve(known)
    todo = list(declared)
    while todo:
        for target in reached.get(todo.pop(), ()):
            if target not in declared:
                declared[target] = known[target]
                todo.append(target)
    return _with_metadata(f"{path.name} of {project['name']}", declared, {}, [], known)


def _with_metadata(
    source: str,
    listed: dict[str, Declared],
    extras: Mapping[str, set[str]],
    notes: list[str],
    known: dict[str, Declared] | None = None,
) -> Graph:
    """``listed`` with versions and requirements filled in from what is installed."""
    installed = graph.installed_distributions()[0] if known is None else known
    unknown = 0
    for name, entry in listed.items():
        there = installed.get(name)
        if there is None:
            unknown += 1
        else:
            version = entry.package.version or there.package.version
            listed[name] = Declared(Package(entry.package.name, version), there.requirements)
    if unknown:
        notes.append(
            f"{unknown} of {len(listed)} distributions are not installed here, so what they require is not known: "
            "they wait for nothing"
        )
    return graph.assemble(source, listed, graph.resolve(listed, extras), notes)


class _Entry:
    """One logical line, with the names in the ``# via`` notes behind it."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        self.via: set[str] = set()

    def note(self, names: str) -> None:
        # "# via a, b" (pip-compile) or a name a line (uv); "project (pyproject.toml)" for a direct one.
        for name in names.split(","):
            if name.strip():
                self.via.add(canonicalize_name(name.split()[0]))


def _entries(text: str) -> list[_Entry]:
    """The logical lines of a requirements file; notes belong to the entry above them."""
    entries: list[_Entry] = []
    continued = in_via = False
    for number, raw in enumerate(text.splitlines(), start=1):
        content, mark, comment = _COMMENT.split(raw, maxsplit=1) if _COMMENT.search(raw) else (raw, "", "")
        if content.strip():
            line = content.strip()
            if continued:
                entries[-1].text += " " + line.removesuffix("\\").strip()
            else:
                entries.append(_Entry(number, line.removesuffix("\\").strip()))
            continued = line.endswith("\\")
            in_via = False
        if not mark or not entries:
            in_via = False
            continue
        via = _VIA.match(comment)
        if via:
            in_via = True
            entries[-1].note(via["names"])
        elif in_via and comment.startswith("  "):
            entries[-1].note(comment)
        else:
            in_via = False
    return entries


def _requirement(path: Path, number: int | None, text: Any) -> Requirement:
    try:
        return Requirement(str(text))
    except InvalidRequirement:
        where = "project.dependencies" if number is None else f"line {number}"
        raise _refused(path, f"{where}: {str(text)[:120]!r} is no requirement") from None


def _refused(path: Path, why: str) -> CommandFailed:
    return CommandFailed(f"--from {path}: {why}", Exit.USAGE)
