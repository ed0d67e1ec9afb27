"""Checks the Lua of the product's function libraries, which ``coordinator/store/libraries/build.py`` builds.

Problems are reported as ``path:line: what``. In each file:

- No undefined names, and no unknown fields of the server's tables. Globals are not written.
- No unused locals, parameters or modules. Exempt are the name ``_`` and the ``run`` of an operation.
- No name shadows a module, function, parameter, local or name of the server.
- No variables at module level: a local there is assigned once, and its tables change only while it is loaded, also
  under other names and by functions that they are passed to. Closures with variables are not made there. Exempt is
  what ``remembered`` makes: it keeps values that follow from their texts alone.
- ``redis.call`` and ``redis.pcall`` are only called, never used as values, so every command is visible in such a call.
- Modules are required at the top, as ``local name = require 'name'``. They exist, have no cycles, and have the fields
  that are used. Every module, and every exported field, is used by another file.
- ``run.keys.<family>`` is in ``coordinator/store/keys.py``; the other fields of ``run`` are those that the module
  ``run`` makes it with, and arguments. What else a module keeps during a call is ``run[<the module>]``, for it alone.
- No line is longer than 120 characters. ``file_sizes.py`` checks the number of lines.

In the header of an operation:

- ``args`` are the parameters of the function after ``run``, except ``run.<name>``.
- ``reply`` names the structs that decode it, and they exist (``lua_replies.py``).

Of what is written (``lua_writes.py`` finds it):

- A file writes only key families, and fields of their hashes, that it ``owns`` by its header, and owns nothing else. No
  two own the same. Who owns a family may write the fields that nobody owns, and whoever gives these to the functions of
  ``lua_writes.SETTERS``. Keys of RQ are no family: each file that writes them says ``rq``.
- An operation writes if it may by what it owns, and the modules that it uses; what is written through others goes
  through the protocol of reads or uses no such module. The server refuses what the others write; those that may write
  must name their commands in the source.

Debian's ``luacheck`` also runs if it is installed;
what it prints is advice, so the same tree passes everywhere.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from luaparser import astnodes as lua

from coordinator.store import keys
from coordinator.store.errors import ScriptError
from coordinator.store.libraries import source
from coordinator.store.libraries.build import MADE, Constants, Library
from tests.lint import lua_names, lua_replies
from tests.lint.lua_names import LuaFile, Var
from tests.lint.lua_writes import Found, Site, Write, Writes

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("coordinator", "workers", "benchmarks")
WIDTH = 120
SHARED = ("rq",)
"""What several files may own."""
_DECLARES = re.compile(r"= (Library|Script)\(")
_NAMES = [family.name for scope in keys.FAMILIES.values() for family in scope.values()]


class Rooms(Protocol):
    """The files of a library."""

    @property
    def folder(self) -> Path:
        """The ``lua`` directory."""

    @property
    def places(self) -> Iterable[Path]:
        """The ``lua`` directories with its modules, in search order."""

    @property
    def constants(self) -> Mapping[str, Constants]:
        """Modules that Python declares."""


class Lint:
    """Checks libraries that may share modules; ``problems`` has the findings, as (path, line, what)."""

    def __init__(self, libraries: Sequence[Rooms]) -> None:
        self.problems: set[tuple[Path, int, str]] = set()
        self.writes: set[Write] = set()
        """What each file writes."""
        self.owns: dict[Path, frozenset[str]] = {}
        """What each file owns by its header."""
        for place in {place for library in libraries for place in (library.folder, *library.places)}:
            for path in chain(*(found.values() for found in source.find(place))):
                with contextlib.suppress(ScriptError):  # which is reported where the file is checked
                    self.owns[path] = source.read(path, place).header.owns
        self._files: dict[Path, LuaFile | None] = {}
        self._used: set[tuple[Path, str]] = set()
        for library in libraries:
            _Room(self, library).check()
        for library in libraries:
            for path in source.find(library.folder).modules.values():
                self._exports(path)
        self._owners(libraries)

    def read(self, path: Path) -> LuaFile | None:
        """A parsed file, after its own checks; None if it cannot be parsed."""
        if path not in self._files:
            try:
                file = self._files[path] = lua_names.read(path)
            except lua_names.NotLua as error:
                self._files[path] = None
                self.problems.add((path, error.line, str(error)))
            else:
                self.problems |= {(path, line, text) for line, text in file.problems}
                known = (*_NAMES, "prefix", "project")
                for family, line in file.families:
                    if family not in known:
                        self.problems.add((path, line, f"no key family '{family}' in coordinator/store/keys.py"))
                for n, line_text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                    if len(line_text) > WIDTH:
                        self.problems.add((path, n, f"{len(line_text)} characters, allowed are {WIDTH}"))
        return self._files[path]

    def uses(self, path: Path, name: str = "") -> None:
        """Records that another file uses a module, or a field of it."""
        self._used.add((path, name))

    def _exports(self, path: Path) -> None:
        if (path, "") not in self._used:
            self.problems.add((path, 1, "no file uses this module"))
        file = self.read(path)
        for name, (line, _) in file.exports.items() if file else ():
            if (path, name) not in self._used:
                self.problems.add((path, line, f"'{path.stem}.{name}' is used by no other file"))

    def _owners(self, libraries: Sequence[Rooms]) -> None:
        """Compares what files own with what they write."""
        folders = {library.folder for library in libraries}
        owns = {path: names for path, names in self.owns.items() if folders & set(path.parents)}
        owners: dict[str, Path] = {}
        for path, names in owns.items():
            for name in sorted(names):
                if name.partition(".")[0] not in (*_NAMES, *SHARED):
                    self._ownership(path, f"there is no key family '{name}'")
                elif owners.setdefault(name, path) != path and name not in SHARED:
                    self._ownership(path, f"{owners[name].stem} owns '{name}', too")
        written: set[tuple[Path, str]] = set()
        for write in self.writes:
            path, name = write.file.path, f"{write.family}.{write.field}"
            if path not in owns or write.family == "messages":
                continue
            if name not in owners:
                name = write.family
            if name in owns[path]:
                written.add((path, name))
            elif name != write.family or not write.given:
                owner = f"{owners[name].stem} owns that" if name in owners else "nobody owns that"
                self.problems.add((path, write.line, f"writes {name}: {owner}"))
        for path, names in owns.items():
            for name in sorted(names):
                if (path, name) not in written:
                    self._ownership(path, f"it does not write '{name}'")

    def _ownership(self, path: Path, text: str) -> None:
        self.of_header(path, "owns", text)

    def of_header(self, path: Path, field: str, text: str) -> None:
        """Records a problem of a field of a file's header."""
        lines = path.read_text(encoding="utf-8").splitlines()
        line = next(n for n, one in enumerate(lines, start=1) if one.removeprefix("-- ").startswith(f"{field}:"))
        self.problems.add((path, line, f"{field}: {text}"))


class _Room:
    """The operations and modules of one library."""

    def __init__(self, lint: Lint, library: Rooms) -> None:
        self._lint = lint
        self._folder = library.folder
        self._places = [source.find(place).modules for place in library.places]
        self._constants = library.constants
        self._done: set[str] = set()  # modules
        self._fields: dict[str, tuple[Path, int]] = {}  # of `run`, read or assigned: where
        self._made = {"keys"}  # those that it has from the beginning

    def check(self) -> None:
        """Checks all files, then the writes of the operations."""
        found = source.find(self._folder)
        operations = [file for path in found.operations.values() if (file := self._lint.read(path))]
        self._module("run", ())
        for file in operations:
            self._file(file, ())
            self._contract(file)
        for name, (path, line) in self._fields.items():
            if name not in self._made:
                self._problem(path, line, f"run.{name} is neither made by the module run nor an argument")
        for name in found.modules:
            self._module(name, ())  # those used only by other libraries
        study = Writes(self._find)
        writes = study.of(operations)
        self._lint.writes |= study.own
        for file, one in zip(operations, writes, strict=True):
            self._writes(file, one)
        for site in set[Site]().union(*(one.writes - one.named for one in writes)):
            if not any(site in one.named for one in writes):
                self._command_problem(site, "the family of the key that is written here cannot be told")

    def _problem(self, path: Path, line: int, text: str) -> None:
        self._lint.problems.add((path, line, text))

    def _command_problem(self, site: Site, text: str) -> None:
        file, node = site
        self._problem(file.path, file.lines[node], text)

    def _find(self, name: str) -> LuaFile | None:
        path = self._path(name)
        return self._lint.read(path) if path else None

    def _path(self, name: str) -> Path | None:
        return next((place[name] for place in self._places if name in place), None)

    def _module(self, name: str, stack: tuple[str, ...]) -> None:
        """Checks a module once, after those that it uses."""
        file = self._find(name) if name not in self._done else None
        self._done.add(name)
        if file is not None:
            if name == "run":
                self._lint.uses(file.path)
            self._file(file, (*stack, name))

    def _file(self, file: LuaFile, stack: tuple[str, ...]) -> None:
        """Checks a file's references: modules and their fields, and ``run``."""
        for name, line in file.requires.items():
            path = self._path(name)
            if name in stack:
                circle = " -> ".join((*stack[stack.index(name) :], name))
                self._problem(file.path, line, f"modules use each other in a circle: {circle}")
            elif path is None and name not in (*MADE, *self._constants):
                self._problem(file.path, line, f"there is no module '{name}'")
            elif path is not None:
                self._lint.uses(path)
                self._module(name, stack)
        for name, field, line in file.used_fields:
            path = file.path if name == file.own else self._path(name)
            other = self._lint.read(path) if path else None
            if path and path != file.path:
                self._lint.uses(path, field)
            fields = other.exports if other else self._constants.get(name)
            if fields is not None and field not in fields:
                self._problem(file.path, line, f"the module '{name}' has no '{field}'")
        if file.path.stem == "run":
            self._made |= set(file.run_written)
        for field, line in (*file.run_read.items(), *file.run_written.items()):
            self._fields.setdefault(field, (file.path, line))
        self._kept(file)

    def _kept(self, file: LuaFile) -> None:
        """Reports calls that keep state between calls of operations."""
        for called, tables, top, line in file.calls:
            other, function = self._function(called, file)
            if other is None:
                continue
            if top and id(function) in other.keeping and other.path.stem not in lua_names.MAY_KEEP:
                self._problem(file.path, line, "the function that is made here has variables at the module's level")
            for n, var in enumerate(tables):
                if var and (var.top or var.kind == "module") and not top and self._changes(other, function, n, set()):
                    self._problem(file.path, line, f"'{var.name}', which is at the module's level, is changed there")

    def _function(self, called: Any, file: LuaFile) -> tuple[LuaFile | None, Any]:
        """The function that a call is of, if it is one at the level of a file, and that file."""
        names = lua_names.dotted(called)
        var = file.names.get(id(lua_names.root(called)))
        value = var.value if var and len(names) == 1 else None
        other: LuaFile | None = file
        if var and var.kind == "module":
            other = self._find(var.name)
            value = other.returned if other else None
        if other and len(names) == 2 and (other is not file or names[0] == file.own):
            value = other.exports.get(names[1], (0, None))[1]
        if other and isinstance(value, lua.Name) and id(value) in other.names:
            value = other.names[id(value)].value
        return (other, value) if other and id(value) in other.parameters else (None, None)

    def _changes(self, file: LuaFile, function: Any, n: int, seen: set[Var]) -> bool:
        """Whether a function changes the table that is its n-th argument, by itself or by those that it calls."""
        parameters = file.parameters[id(function)]
        if n >= len(parameters) or parameters[n] in seen:
            return False
        seen.add(parameters[n])
        if parameters[n].changed:
            return True
        for called, tables, _, _ in file.calls:
            if parameters[n] in tables:
                other, inner = self._function(called, file)
                if other and any(
                    self._changes(other, inner, m, seen) for m, t in enumerate(tables) if t is parameters[n]
                ):
                    return True
        return False

    def _contract(self, file: LuaFile) -> None:
        """The header's arguments and reply."""
        try:
            header = source.read(file.path, self._folder).header
        except ScriptError as error:
            if all(text != lua_names.REQUIRE_FORM for _, text in file.problems):  # the loader rejects that too
                self._problem(file.path, 1, str(error))
            return
        decoders = lua_replies.decoders(self._folder, file.path.stem)
        for text in lua_replies.problems(header.reply, self._folder.parent, decoders):
            self._lint.of_header(file.path, "reply", text)
        self._made |= {word.removeprefix("run.") for word in header.args if word.startswith("run.")}
        if not isinstance(file.returned, lua.AnonymousFunction):
            self._problem(file.path, 1, "an operation ends with: return function(run, ...)")
            return
        wanted = ["run", *(word.removesuffix("...") for word in header.args if not word.startswith("run."))]
        has = [var.name for var in file.parameters[id(file.returned)]]
        if has != wanted:
            line = file.returned.line
            self._problem(file.path, line, f"takes ({', '.join(has)}), by its header ({', '.join(wanted)})")

    def _writes(self, file: LuaFile, found: Found) -> None:
        """Whether an operation writes as it may by what it and its modules own, and the commands of one that does."""
        may = "read" not in file.requires and self._owns(file, set())
        line = file.returned.line if file.returned is not None else 1
        if found.families and not may:
            self._problem(file.path, line, f"writes {' '.join(sorted(found.families))}, which it may not")
        if may and not found.families:
            self._problem(file.path, line, "writes nothing, but uses what owns something: read(run, ...) is for that")
        for site, command in found.commands:
            if command:
                self._command_problem(site, f"whether '{command}' writes is not known (lua_writes.py)")
            elif found.families:
                self._command_problem(site, f"which command this is cannot be told, and {file.path.stem} may write")

    def _owns(self, file: LuaFile, seen: set[Path]) -> bool:
        """Whether a file or a module that it uses, directly or not, owns something."""
        seen.add(file.path)
        if self._lint.owns.get(file.path):
            return True
        used = (other for name in file.requires if (other := self._find(name)) and other.path not in seen)
        return any(self._owns(other, seen) for other in used)


def libraries(root: Path = ROOT) -> list[Library]:
    """All libraries of the product. Its scripts are registered then."""
    found: dict[Path, Library] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if _DECLARES.search(path.read_text(encoding="utf-8")):
                module = importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
                found |= {one.folder: one for one in vars(module).values() if isinstance(one, Library)}
    return list(found.values())


def strays(root: Path, declared: Iterable[Rooms]) -> list[Path]:
    """Folders of Lua that belong to no library."""
    folders = {library.folder for library in declared}
    found = [path for folder in FOLDERS for path in (root / folder).rglob("lua") if path.is_dir()]
    return sorted(path for path in found if path not in folders)


def luacheck(paths: Iterable[Path]) -> None:
    """Has ``luacheck`` print its advice, if it is installed."""
    if shutil.which("luacheck") is None:
        return
    known = [f"{name}.{field}" for name, fields in lua_names.GLOBALS.items() for field in fields.split()]
    options = ["--formatter", "plain", "--std", "lua51", "--max-line-length", str(WIDTH), "--ignore", "212/run"]
    command = ["luacheck", *options, "--read-globals", *known, "--", *(str(path.relative_to(ROOT)) for path in paths)]
    subprocess.run(command, cwd=ROOT, check=False)


def main() -> int:
    try:
        declared = libraries()
    except ScriptError as error:  # the loader's own checks failed, so there is no library to check
        print(error, file=sys.stderr)
        return 1
    problems = {(path, 1, "no Library is declared for this folder") for path in strays(ROOT, declared)}
    for product in (True, False):  # benchmarks write keys of the product in their own way
        of_one_kind = [one for one in declared if one.folder.is_relative_to(ROOT / "benchmarks") is not product]
        problems |= Lint(of_one_kind).problems
    for path, line, text in sorted(problems):
        print(f"{path.relative_to(ROOT)}:{line}: {text}", file=sys.stderr)
    luacheck(path for library in declared for path in sorted(library.folder.rglob("*.lua")))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
