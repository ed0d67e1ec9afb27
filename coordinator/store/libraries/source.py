"""Reads one Lua file of a ``lua`` directory: an operation, or a module that operations share.

Both begin with the modules that they use (``local clock = require 'clock'``), which are named without their folder: a
library has each name once. A module returns what others may use; the comment at its beginning ends with the key
families (``keys.py``) that it alone writes, or single fields of their hashes::

    -- owns: beneath item.k                      (or none)

An operation has a contract before all that::

    --[[
    purpose:   what the operation does
    guarantee: what holds whatever happens
    args:      request run.events_max id ids...
    reply:     Claims (store/claim_lists.py)     (the Python code that decodes it, and what that does not say)
    errors:    NOT_FOUND CONFLICT                (codes of `FLEET <CODE> <detail>`, or none)
    owns:      spent                             (as of a module; most have no such line)
    full:      deleting frees memory             (why it runs in a store that is full; most have no such line)
    --]]

``args`` are the words of the call in order, and any explanation on the lines below. ``request`` stands for three of
them, which the operation gets as one table: id, fingerprint and keep_ms. Those called ``run.<name>`` become fields of
the run, ``name...`` takes the rest as a list, and the others are parameters of the function that the file returns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from coordinator.store.errors import ScriptError

REQUEST = ("id", "fingerprint", "keep_ms")
"""The fields of the argument ``request``, each a word of the call."""
_FIELDS = ("purpose", "guarantee", "args", "reply", "errors")
_CONTRACT = "--[["
"""Begins an operation."""
_HEADER = re.compile(r"--\[\[\n(.*?\n)--\]\]\n", re.DOTALL)
_COMMENT = re.compile(r"(?:--.*\n)*")
_OWNS = re.compile(r"^-- owns: (.+)$", re.MULTILINE)
_FIELD = re.compile(r"^(\w+):(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_ARGUMENT = re.compile(r"(run\.)?[a-z][a-z0-9_]*(\.\.\.)?")
_REQUIRE = re.compile(r"local (\w+)=require '\1'")
_FUNCTION = re.compile(r"(?:local )?function (\w+\.)?(\w+)\(")
_ONE_LINE = re.compile(r"\bend$")
LOCALS = {
    "redis.call": "C",
    "redis.error_reply": "R",
    "tonumber": "N",
    "ipairs": "I",
    "pairs": "P",
    "unpack": "U",
    "string.sub": "S",
    "string.match": "M",
    "string.gmatch": "G",
    "cmsgpack.pack": "E",
    "cmsgpack.unpack": "D",
    "math.floor": "F",
    "math.min": "A",
    "math.max": "Z",
}
"""Locals of libraries for what is called most: shorter, and one look-up less for each call."""
_CALLED = re.compile(rf"(?<![\w.:])({'|'.join(map(re.escape, LOCALS))})(?=\()")
_NAME = rf"\b([{''.join(LOCALS.values())}])\b"
_TAKEN = re.compile(rf"\b(?:local|for)\b[\w, ]*?{_NAME}|\bfunction\b[^(\n]*\([\w, .]*?{_NAME}")
_NEEDLESS = re.compile(
    r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|--.*|, """
    r"""| [=~<>]?= | [<>+*/] |(?<!\d) \.\. | - (?!-)"""
    r"""|\b(?:return|and|or|not) (?=[{(#'"])|[)}\]] (?=[a-z])"""
)
"""A string, or what the server does not need: a comment, or space at a comma, an operator or a bracket. (Not where it
ends a number before dots, or keeps two signs from being a comment.)"""


class Line(NamedTuple):
    """A line of Lua and where it came from, as ``claims/claim_item.lua:12``: a path below ``lua``."""

    text: str
    origin: str
    block: str = ""
    """The function at the file's level that it is of: its name, with a dot before it if it is exported; '' for none."""


class Header(NamedTuple):
    """The part of a file's header that the product uses; the rest is for people."""

    args: tuple[str, ...] = ()
    reply: str = ""
    errors: frozenset[str] = frozenset()
    owns: frozenset[str] = frozenset()
    """What it alone writes: key families, and fields of their hashes, as ``item.k``."""
    full: bool = False
    """Whether it may run while the server is out of memory, even if it writes."""


class Source(NamedTuple):
    """A Lua file without comments and layout."""

    name: str
    """Its path below ``lua``."""
    lines: list[Line]
    """Without those that name the modules that it uses."""
    requires: list[str]
    header: Header


class Files(NamedTuple):
    """The files of a ``lua`` directory by their names without folder and suffix, in order of these."""

    operations: dict[str, Path]
    modules: dict[str, Path]


def find(folder: Path) -> Files:
    """The files below a directory.

    Raises:
        ScriptError: two have one name.
    """
    files = Files({}, {})
    for path in sorted(folder.rglob("*.lua"), key=lambda path: path.stem):
        if other := files.operations.get(path.stem) or files.modules.get(path.stem):
            raise ScriptError(f"two files have the name '{path.stem}': {other} and {path}")
        with path.open("rb") as file:
            is_operation = file.read(len(_CONTRACT)) == _CONTRACT.encode()
        (files.operations if is_operation else files.modules)[path.stem] = path
    return files


def read(path: Path, folder: Path) -> Source:
    """Reads a file of a ``lua`` directory.

    Raises:
        ScriptError: it cannot be read, or its header is wrong.
    """
    text = _text(path)
    name = path.relative_to(folder).as_posix()
    header, begin = _read_header(text, name) if text.startswith(_CONTRACT) else (_of_module(text, name), 0)
    body = _NEEDLESS.sub(_needed, text[begin:])
    if found := _TAKEN.search(body):
        letter = found[1] or found[2]
        raise ScriptError(f"{name}: {letter} is a name of libraries (source.py), and nothing else can have it")
    body = _CALLED.sub(lambda called: LOCALS[called[1]], body)
    lines: list[Line] = []
    requires: list[str] = []
    own = body.rstrip().rpartition("\n")[2].removeprefix("return ")
    block = ""
    for number, line in enumerate(body.splitlines(), start=text.count("\n", 0, begin) + 1):
        begun = _FUNCTION.match(line)
        if begun and begun[1] in (None, f"{own}."):
            block = f"{'.' if begun[1] else ''}{begun[2]}"
        code = line.strip()
        if used := _REQUIRE.fullmatch(code):
            requires.append(used[1])
        elif code:
            lines.append(Line(code, f"{name}:{number}", block))
        if line == "end" or (begun and _ONE_LINE.search(line)):
            block = ""
    return Source(name, lines, requires, header)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"cannot read {path}: {error}") from None


def _needed(found: re.Match[str]) -> str:
    """What is left of a match of ``_NEEDLESS``."""
    return "" if found[0].startswith("--") else found[0].strip()


def _of_module(text: str, name: str) -> Header:
    comment = _COMMENT.match(text)
    found = _OWNS.findall(comment[0]) if comment else []
    if not found:
        raise ScriptError(f"{name}: has to begin with a contract in '--[[', or with a comment that has '-- owns:'")
    return Header(owns=_words(" ".join(found)))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.replace(",", " ").split()) - {"none"}


def _read_header(text: str, name: str) -> tuple[Header, int]:
    """The header at the beginning of a file, and where it ends."""
    match = _HEADER.match(text)
    if match is None:
        raise ScriptError(f"{name}: has to begin with a contract header between the lines '--[[' and '--]]'")
    fields = {field: value.strip() for field, value in _FIELD.findall(match[1])}
    for field in _FIELDS:
        if not fields.get(field):
            raise ScriptError(f"{name}: the header lacks '{field}:'")
    words: list[str] = []
    for line in fields["args"].splitlines():
        if not all(_ARGUMENT.fullmatch(word) for word in line.split()):
            break  # the explanation begins
        words += line.split()
    if not words or any(word.endswith("...") for word in words[:-1]):
        raise ScriptError(f"{name}: args: first come only names (lower case, 'run.name', at the end 'name...')")
    args = () if words == ["none"] else tuple(words)
    header = Header(args, fields["reply"], _words(fields["errors"]), _words(fields.get("owns", "")), "full" in fields)
    return header, match.end()
