"""Flattens one Lua source file: reads it with everything it includes, and builds the library that the server runs.

A script begins with a contract header::

    --[[
    purpose:   what the operation does
    guarantee: what holds whatever happens
    args:      request_key now_limit ids...      (ARGV in order; `name...` takes the rest)
    reply:     what comes back
    errors:    NOT_FOUND CONFLICT                (codes of `FLEET <CODE> <detail>`, or none)
    full:      deleting frees memory             (why it runs in a store that is full; most have no such line)
    --]]

followed by the body. The names in ``args`` become variables; text after the names explains them.

``-- @include name`` inserts ``lua/include/name.lua`` from the script's own package, else from ``coordinator.store``
or a package that the script names. A file is inserted once, where it is first included. ``-- @include keys`` is
generated from the key families (``keys.py``). Unused functions are removed (``lua_prune.py``), as are comments and
empty lines, and the rest is laid out as a library for the server (``lua_library.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.store import keys, lua_library, lua_names, lua_prune
from coordinator.store.errors import ScriptError

_INCLUDE = re.compile(r"\s*--\s*@include\b\s*(.*?)\s*")
_BLANK_OR_COMMENT = re.compile(r"\s*(?:--.*)?$")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ARGUMENT = re.compile(r"([a-z_][a-z0-9_]*)(\.\.\.)?")
_CODE = re.compile(r"[A-Z][A-Z0-9_]*")
_KEY_NAME = re.compile(r"\bK_[A-Z0-9_]+\b")
_FIELD = re.compile(r"([A-Za-z_]+):(.*)")
_RESERVED = re.compile(
    "and|break|do|else|elseif|end|false|for|function|goto|if|in|local|nil|not|or|repeat|return|then|true|until|while"
    "|redis|server|cjson|cmsgpack|bit|struct|string|table|math"
)
_FIELDS = ("purpose", "guarantee", "args", "reply", "errors")
_OPTIONAL_FIELDS = ("full",)


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of a script says to the product; the rest is for people."""

    args: tuple[str, ...]
    """Names of ARGV[1], ARGV[2] ...; with ``variadic`` the last one takes all that is left."""
    variadic: bool
    errors: frozenset[str]
    full: bool
    """Whether it may run while the server is out of memory, even if it writes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A flattened script."""

    header: Header
    function: str
    """The name of the function that is called, and of its library."""
    text: str
    """The library."""
    origins: tuple[str, ...]
    """Where each line of ``text`` came from, as ``file.lua:12``."""
    files: tuple[str, ...]
    """The paths of all files that it was made from: its own, then the included ones in order."""


def read(path: Path, shared: Sequence[Path], scope: keys.Scope = "project") -> Source:
    """Flattens the script at ``path``; includes come from its ``include`` directory, else from the ``shared`` ones.

    Raises:
        ScriptError: the file is missing, its header is wrong, or an include is missing,
            circular, asked for twice by one file, or present in several places.
    """
    return _Flattener(path, shared, scope).run()


class _Flattener:
    def __init__(self, path: Path, shared: Sequence[Path], scope: keys.Scope) -> None:
        self._path = path
        self._scope = scope
        own = path.parent / "include"
        self._places = [own, *(place for place in shared if place.resolve() != own.resolve())]
        self._lines: list[str] = []
        self._origins: list[str] = []
        self._included: set[str] = set()
        self._files = [str(path)]
        self._keys_at: int | None = None

    def run(self) -> Source:
        text = _read_text(self._path, f"no such script: {self._path}")
        raw, first_line = _split_header(text, self._path.name)
        header = _parse_header(raw, self._path.name)
        for line in _argument_lines(header):
            self._add(line, f"{self._path.name}:args")
        body = text.splitlines()[first_line:]
        self._take(body, self._path.name, first_line, (self._path.name,))
        key_names = self._key_names()
        kept = lua_prune.prune(self._lines, [origin.startswith("include/") for origin in self._origins])
        lines = [lua_library.Line(lua_names.substitute(self._lines[at], key_names), self._origins[at]) for at in kept]
        own = [line.origin.startswith(f"{self._path.name}:") and not line.origin.endswith(":args") for line in lines]
        name = f"fleet_{self._path.parent.parent.name}_{self._path.stem}"
        library = lua_library.build(name, lines, own, header.full)
        text = "\n".join(line.text for line in library.lines) + "\n"
        origins = tuple(line.origin for line in library.lines)
        return Source(header, library.name, text, origins, tuple(self._files))

    def _add(self, line: str, origin: str) -> None:
        self._lines.append(line)
        self._origins.append(origin)

    def _take(self, lines: list[str], file: str, offset: int, stack: tuple[str, ...]) -> None:
        asked: set[str] = set()
        for number, line in enumerate(lines, start=offset + 1):
            directive = _INCLUDE.fullmatch(line)
            if directive is None:
                if not _BLANK_OR_COMMENT.match(line):
                    self._add(line, f"{file}:{number}")
                continue
            name = directive[1]
            if name in asked:
                raise ScriptError(f"{file}:{number}: includes '{name}' twice{_through(stack)}")
            asked.add(name)
            self._include(name, f"{file}:{number}", stack)

    def _include(self, name: str, where: str, stack: tuple[str, ...]) -> None:
        if not _NAME.fullmatch(name):
            raise ScriptError(f"{where}: '{name}' cannot name an include{_through(stack)}")
        file = f"include/{name}.lua"
        if file in stack:
            raise ScriptError(f"{where}: circular include: {' -> '.join((*stack, file))}")
        if name in self._included:
            return
        found = [place / f"{name}.lua" for place in self._places if (place / f"{name}.lua").is_file()]
        if name == "keys" and not found:
            self._included.add(name)
            self._keys_at = len(self._lines)
            self._add("local P = KEYS[1]", "keys.py")
            return
        if name == "keys":
            raise ScriptError(f"{where}: 'keys' is made by the loader, but there is a file {found[0]}")
        if not found:
            looked = " or ".join(str(place) for place in self._places)
            raise ScriptError(f"{where}: no include '{name}' in {looked}{_through(stack)}")
        if len(found) > 1:
            raise ScriptError(f"{where}: include '{name}' exists twice: {found[0]} and {found[1]}")
        self._included.add(name)
        self._files.append(str(found[0]))
        lines = _read_text(found[0], f"{where}: cannot read {found[0]}").splitlines()
        self._take(lines, file, 0, (*stack, file))

    def _key_names(self) -> dict[str, str]:
        """The Lua expressions of the key names that are used."""
        used: dict[str, int] = {}
        for at, line in enumerate(self._lines):
            for name in _KEY_NAME.findall(line.split("--", 1)[0]):
                used.setdefault(name, at)
        for name, at in used.items():
            if self._keys_at is None:
                raise ScriptError(f"{self._origins[at]}: {name} is used without '-- @include keys'")
            if at < self._keys_at:
                raise ScriptError(f"{self._origins[at]}: {name} is used before '-- @include keys'")
        try:
            return keys.lua_names(used, self._scope)
        except KeyError as error:
            name = error.args[0]
            raise ScriptError(f"{self._origins[used[name]]}: {name} is not a declared key family") from None


def _read_text(path: Path, problem: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ScriptError(f"{problem} ({reason})") from None


def _through(stack: tuple[str, ...]) -> str:
    return f" (included through {' -> '.join(stack)})" if len(stack) > 1 else ""


def _split_header(text: str, file: str) -> tuple[list[str], int]:
    """The lines between ``--[[`` and ``--]]``, and how many lines the header takes."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "--[[":
        raise ScriptError(f"{file}: must begin with a contract header, '--[[' on the first line")
    for number, line in enumerate(lines):
        if line.strip() in ("--]]", "]]"):
            return lines[1:number], number + 1
    raise ScriptError(f"{file}: the contract header is not closed with '--]]'")


def _parse_header(lines: list[str], file: str) -> Header:
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(lines, start=2):
        if not line[:1].isspace() and (match := _FIELD.fullmatch(line)):
            name, rest = match.groups()
            if name not in (*_FIELDS, *_OPTIONAL_FIELDS):
                allowed = ", ".join((*_FIELDS, *_OPTIONAL_FIELDS))
                raise ScriptError(f"{file}:{number}: unknown header field '{name}'; allowed: {allowed}")
            if name in fields:
                raise ScriptError(f"{file}:{number}: header field '{name}' is there twice")
            current = fields[name] = [rest.strip()]
        elif line.strip():
            if current is None or not line[:1].isspace():
                raise ScriptError(f"{file}:{number}: header lines are 'field: text', further lines indented")
            current.append(line.strip())
    for name in _FIELDS:
        if not any(fields.get(name, ())):
            raise ScriptError(f"{file}: the header lacks '{name}:'")
    args, variadic = _parse_args(fields["args"], file)
    return Header(args, variadic, _parse_errors(" ".join(fields["errors"]), file), any(fields.get("full", ())))


def _parse_args(lines: list[str], file: str) -> tuple[tuple[str, ...], bool]:
    """The names, on the first line or lines; from the first line with anything else on, the text is prose."""
    words: list[str] = []
    for number, line in enumerate(lines):
        if not all(_ARGUMENT.fullmatch(word) for word in line.split()):
            if number == 0:
                raise ScriptError(f"{file}: args: '{line}' are not argument names (lower case, 'name...' for the rest)")
            break
        words += line.split()
    if words == ["none"]:
        return (), False
    variadic = bool(words) and words[-1].endswith("...")
    names = tuple(word.removesuffix("...") for word in words)
    for name, word in zip(names, words, strict=True):
        if word.endswith("...") and word is not words[-1]:
            raise ScriptError(f"{file}: args: '{word}' takes the rest, so it must come last")
        if _RESERVED.fullmatch(name):
            raise ScriptError(f"{file}: args: '{name}' is a word of Lua or of the server")
        if names.count(name) > 1:
            raise ScriptError(f"{file}: args: '{name}' is there twice")
    return names, variadic


def _parse_errors(text: str, file: str) -> frozenset[str]:
    words = text.replace(",", " ").split()
    if words == ["none"]:
        return frozenset()
    for word in words:
        if not _CODE.fullmatch(word):
            raise ScriptError(f"{file}: errors: '{word}' is not a code (upper case) or 'none'")
    return frozenset(words)


def _argument_lines(header: Header) -> list[str]:
    fixed = header.args[:-1] if header.variadic else header.args
    lines = []
    if fixed:
        values = ", ".join(f"ARGV[{n}]" for n in range(1, len(fixed) + 1))
        lines.append(f"local {', '.join(fixed)} = {values}")
    if header.variadic:
        rest, skip = header.args[-1], len(fixed)
        lines.append(f"local {rest} = {{}}; for n = {skip + 1}, #ARGV do {rest}[n - {skip}] = ARGV[n] end")
    return lines
