"""Builds a function library (``FUNCTION LOAD``) with one function from a flattened script.

The text of a library runs once, when it is loaded, so calls do not create functions and constants again. The
registered function has the script's own lines as its body. Outside of it are the arguments and the declarations of
included files that begin in the first column:

* ``local function`` and names in capitals are created once and never change.
* Other names are the state of one call. They are declared outside, so that included functions can reach them, and
  assigned in the body, at their place in the flattened text. Their values stay in memory until the next call of the
  same function.

A function that only reads is flagged ``no-writes``, so that the server runs it even when it accepts no writes. When the
server is out of memory, it refuses all other functions before they begin, unless they are flagged ``allow-oom``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from coordinator.store.errors import ScriptError
from coordinator.store.lua_prune import Piece, pieces

_WORD = re.compile(r"'([A-Z]+)'")
WRITES = frozenset(
    ("APPEND", "COPY", "DECR", "DECRBY", "DEL", "EXPIRE", "EXPIREAT", "GETDEL", "GETEX", "GETSET", "HDEL", "HINCRBY",
     "HINCRBYFLOAT", "HSET", "HSETNX", "INCR", "INCRBY", "INCRBYFLOAT", "LINSERT", "LMOVE", "LPOP", "LPUSH", "LREM",
     "LSET", "LTRIM", "MSET", "PERSIST", "PEXPIRE", "PEXPIREAT", "PSETEX", "PUBLISH", "RENAME", "RPOP", "RPUSH",
     "SADD", "SET", "SETBIT", "SETRANGE", "SMOVE", "SPOP", "SREM", "UNLINK", "XACK", "XADD", "XAUTOCLAIM", "XCLAIM",
     "XDEL", "XTRIM", "ZADD", "ZINCRBY", "ZPOPMAX", "ZPOPMIN", "ZRANGESTORE", "ZREM", "ZREMRANGEBYLEX",
     "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE")
)  # fmt: skip
"""Commands that write. A function with none of them is flagged ``no-writes``."""


class Line(NamedTuple):
    """A line of Lua and where it came from."""

    text: str
    origin: str


class Library(NamedTuple):
    """A library, ready to be loaded into the server."""

    name: str
    """The name of the library and of its only function. It ends in a digest of the text."""
    lines: list[Line]


def build(name: str, lines: Sequence[Line], own: Sequence[bool], full: bool) -> Library:
    """The library of a flattened script.

    Args:
        name: the beginning of its name.
        lines: the script.
        own: for each line, whether it is from the script's own body; the other lines may declare names for all of it.
        full: whether it may run while the server is out of memory.

    Raises:
        ScriptError: a name is declared twice.
    """
    outside: list[Line] = []
    inside: list[Line] = []
    declared: dict[str, str] = {}
    for piece in pieces([line.text for line in lines], [not at for at in own]):
        part = [lines[at] for at in piece.span]
        _check_unique(piece, part[0], declared)
        if piece.names and _made_once(piece, part[0].text):
            outside += part
        else:
            inside += _set_per_call(part, outside) if piece.names else part
    end = Line(f"end{_flags(lines, full)}}}", "lua_library.py")
    text = "\n".join(line.text for line in (*outside, *inside, end))
    named = f"{name}_{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
    begin = Line(f"#!lua name={named}", "lua_library.py")
    call = f"redis.register_function{{function_name='{named}', callback=function(KEYS, ARGV)"
    return Library(named, [begin, *outside, Line(call, "lua_library.py"), *inside, end])


def _made_once(piece: Piece, first: str) -> bool:
    constant = all(name.isupper() for name in piece.names) and "KEYS" not in first
    return constant or first.startswith("local function ")


def _set_per_call(part: list[Line], outside: list[Line]) -> list[Line]:
    """Declares variables outside of the function; returns the lines with which each call assigns them."""
    first, *rest = part
    names, equals, value = first.text.removeprefix("local ").partition(" -- ")[0].partition("=")
    outside.append(Line(f"local {names.rstrip()}", first.origin))
    return [Line(f"{names.rstrip()} = {value.strip() if equals else 'nil'}", first.origin), *rest]


def _check_unique(piece: Piece, first: Line, declared: dict[str, str]) -> None:
    for name in piece.names:
        if name in declared:
            raise ScriptError(f"{first.origin}: '{name}' is declared by {declared[name]} too")
        declared[name] = first.origin


def _flags(lines: Sequence[Line], full: bool) -> str:
    """The flags that the function is registered with."""
    if all(WRITES.isdisjoint(_WORD.findall(line.text)) for line in lines):
        return ", flags={'no-writes'}"
    return ", flags={'allow-oom'}" if full else ""
