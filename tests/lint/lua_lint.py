"""Checks the Lua of the product's function libraries, which ``coordinator/store/lua_library.py`` builds.

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
- ``writes`` are the key families that the operation may write, or ``none`` (``lua_writes.py`` finds them). ``rq``
  stands for keys of RQ, and ``messages`` for messages that are published. The server refuses an operation with ``none``
  whatever writes; the others must name their commands in the source.

``python -m tests.lint.lua_lint --fix`` corrects these ``writes``. Debian's ``luacheck`` also runs if it is installed;
what it prints is advice, so the same tree passes everywhere.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from luaparser import astnodes as lua

from coordinator.store import keys, lua_source
from coordinator.store.errors import ScriptError
from coordinator.store.lua_library import CONSTANTS, MADE, Library
from tests.lint import lua_names
from tests.lint.lua_names import LuaFile, Var
from tests.lint.lua_writes import Found, Site, Writes

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("coordinator", "workers", "benchmarks")
WIDTH = 120
WORDS = ("rq", "messages")
"""Words that a header's ``writes`` may have besides families."""
_NAMES = [family.name for scope in keys.FAMILIES.values() for family in scope.values()]


class Rooms(Protocol):
    """The files of a library."""

    @property
    def folder(self) -> Path:
        """The ``lua`` directory."""

    @property
    def places(self) -> Iterable[Path]:
        """The ``lua`` directories with its modules, in search order."""


class Lint:
    """Checks libraries that may share modules; ``problems`` has the findings, as (path, line, what)."""

    def __init__(self, libraries: Sequence[Rooms]) -> None:
        self.problems: set[tuple[Path, int, str]] = set()
        self.writes: dict[Path, list[str]] = {}
        """The correct ``writes`` of each operation's header, by file; [] for none."""
        self._files: dict[Path, LuaFile | None] = {}
        self._used: set[tuple[Path, str]] = set()
        for library in libraries:
            _Room(self, library).check()
        for library in libraries:
            for path in lua_source.find(library.folder).modules.values():
                self._exports(path)

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


class _Room:
    """The operations and modules of one library."""

    def __init__(self, lint: Lint, library: Rooms) -> None:
        self._lint = lint
        self._folder = library.folder
        self._places = [lua_source.find(place).modules for place in library.places]
        self._done: set[str] = set()  # modules
        self._fields: dict[str, tuple[Path, int]] = {}  # of `run`, read or assigned: where
        self._made = {"keys"}  # those that it has from the beginning

    def check(self) -> None:
        """Checks all files, then the writes of the operations."""
        found = lua_source.find(self._folder)
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
        writes = Writes(self._find).of(operations)
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
            elif path is None and name not in MADE:
                self._problem(file.path, line, f"there is no module '{name}'")
            elif path is not None:
                self._lint.uses(path)
                self._module(name, stack)
        for name, field, line in file.used_fields:
            path = file.path if name == file.own else self._path(name)
            other = self._lint.read(path) if path else None
            if path and path != file.path:
                self._lint.uses(path, field)
            fields = other.exports if other else CONSTANTS.get(name)
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
        """The header's arguments."""
        try:
            header = lua_source.read(file.path, self._folder).header
        except ScriptError as error:
            if all(text != lua_names.REQUIRE_FORM for _, text in file.problems):  # the loader rejects that too
                self._problem(file.path, 1, str(error))
            return
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
        """The header's families."""
        try:
            header = lua_source.read(file.path, self._folder).header
        except ScriptError:
            return  # reported by _contract
        order = [*dict.fromkeys(_NAMES), *WORDS]
        wanted = sorted(found.families, key=lambda name: order.index(name) if name in order else len(order))
        for site, command in found.commands:
            if command:
                self._command_problem(site, f"whether '{command}' writes is not known (lua_writes.py)")
            elif wanted:
                self._command_problem(site, f"which command this is cannot be told, and {file.path.stem} may write")
        self._lint.writes[file.path] = wanted
        if lacks := [name for name in wanted if name not in header.writes]:
            self._problem(file.path, _header_line(file.path), f"writes: lacks {' '.join(lacks)}")
        if extra := sorted(header.writes - set(wanted)):
            self._problem(file.path, _header_line(file.path), f"writes: it does not write {' '.join(extra)}")


def _header_line(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, start=1) if line.startswith("writes:")), 1)


def fix(path: Path, families: Sequence[str]) -> bool:
    """Writes the header's ``writes``. Returns whether it has changed."""
    old = path.read_text(encoding="utf-8")
    lines = old.splitlines()
    start = _header_line(path) - 1
    end = start + 1
    while lines[end].startswith(" "):
        end += 1
    new = ["writes:   "]
    for word in families or ["none"]:
        if len(new[-1]) + 1 + len(word) > WIDTH:
            new.append(" " * 10)
        new[-1] += f" {word}"
    lines[start:end] = new
    text = "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    return text != old


def libraries(root: Path = ROOT) -> list[Library]:
    """All libraries of the product."""
    found: dict[Path, Library] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if "= Library(" in path.read_text(encoding="utf-8"):
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


def main(arguments: Sequence[str]) -> int:
    try:
        declared = libraries()
    except ScriptError as error:  # the loader's own checks failed, so there is no library to check
        print(error, file=sys.stderr)
        return 1
    lint = Lint(declared)
    lint.problems |= {(path, 1, "no Library is declared for this folder") for path in strays(ROOT, declared)}
    if arguments == ["--fix"]:
        for path, families in lint.writes.items():
            if fix(path, families):
                print(path.relative_to(ROOT))
        return 0
    for path, line, text in sorted(lint.problems):
        print(f"{path.relative_to(ROOT)}:{line}: {text}", file=sys.stderr)
    luacheck(path for library in declared for path in sorted(library.folder.rglob("*.lua")))
    return 1 if lint.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
