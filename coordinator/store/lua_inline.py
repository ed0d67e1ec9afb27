"""Puts tiny functions into the places of a flattened script that call them.

A script's text runs from the top at each call: a function is made anew each time, and calling it costs more
than what a line of arithmetic does. So ``local function name(a, b) return <expression> end`` of an included
file, on one line or three, is a name for an expression: each call becomes the expression with the arguments
in place of the parameters; a last parameter ``...`` stands for all arguments that are left. A call stays as it
is where that could mean something else: an argument that is more than a name or a literal is only put in place
of a parameter that occurs once, and the expression may name, besides its parameters, the server's libraries and
what included files have declared before, as far as these names mean nothing else anywhere in the script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from coordinator.store import lua_fold, lua_prune

_HEAD = re.compile(r"local function ([a-z_]\w*)\(((?:\w+|\.{3})?(?:, (?:\w+|\.{3}))*)\)(?: return (.+) end)?")
_FUNCTION = re.compile(r"\s*local function (\w+)\(")
_RETURN = re.compile(r"  return (.+)")
_SIMPLE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|\d+|'[^'\\]*'")
_BEFORE_VALUE = re.compile(r"(?:.*(?:[-+*/%^<>=~#(,{[]|\.\.|\b(?:return|and|or|not|in|if|elseif|while|until)))\s*")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_ONE_VALUE = re.compile(r"redis\.call|math\.\w+|string\.(?:format|sub|lower|upper|rep|gmatch)|tonumber|tostring|type")
_PIECE = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|.")
_ALLOWED = frozenset(
    ("and", "or", "not", "nil", "true", "false", "math", "string", "redis", "cmsgpack", "cjson", "struct", "bit",
     "tonumber", "tostring", "unpack", "next", "pairs", "ipairs", "type", "P")
)  # fmt: skip


class _Tiny(NamedTuple):
    parameters: tuple[str, ...]
    expression: str


def inlined(lines: Sequence[str], included: Sequence[bool]) -> list[str]:
    """The lines with the calls of tiny functions replaced; the functions themselves are still there."""
    known: dict[str, _Tiny] = {}
    text: list[str] = []
    meanings = Counter(lua_fold.bound_names(lines))
    meanings.update(function[1] for line in lines if (function := _FUNCTION.match(line)))
    visible = set(_ALLOWED)
    for at, line in enumerate(lines):
        text.append(_put(line, known, statements=True))
        if not included[at]:
            continue
        if (function := _FUNCTION.match(line)) and meanings[function[1]] == 1:
            tiny = _tiny(lines, at, known, visible)
            if tiny is not None:
                known[function[1]] = tiny
        visible.update(name for name in lua_prune.declared(line) if meanings[name] == 1)
    return text


def _tiny(lines: Sequence[str], at: int, known: Mapping[str, _Tiny], visible: AbstractSet[str]) -> _Tiny | None:
    """The tiny function that begins at a line; it may call those that are known."""
    head = _HEAD.fullmatch(lines[at])
    if head is None:
        return None
    expression = head[3]
    if expression is None:
        body = _RETURN.fullmatch(lines[at + 1])
        if body is None or lines[at + 2] != "end":
            return None
        expression = body[1]
    expression = _put(expression, known)
    parameters = tuple(head[2].split(", ")) if head[2] else ()
    names = {name for _, _, name in lua_fold.names(expression) if not name.startswith("K_")}
    if "{" in expression or "--" in expression or not names <= {*visible, *parameters}:
        return None
    if expression.count("...") != ("..." in parameters) or _may_be_several(expression):
        return None
    return _Tiny(parameters, expression) if len(_parts(expression)) == 1 else None


def _may_be_several(expression: str) -> bool:
    """Whether the expression is a call that may give several values: in brackets it would give one."""
    call = _CALL.match(expression)
    if call is None or _ONE_VALUE.fullmatch(call[1]):
        return False
    inner = _inside(expression[call.end(1) :])
    return inner is not None and call.end(1) + len(inner) + 2 == len(expression)


def _put(line: str, known: Mapping[str, _Tiny], statements: bool = False) -> str:
    """A line, or a part of an expression, with calls replaced."""
    if known.keys().isdisjoint(lua_fold.words(line)):
        return line
    made: list[str] = []
    done = 0
    for start, end, name in lua_fold.names(line):
        if start < done or name not in known or line[end : end + 1] != "(":
            continue
        inner = _inside(line[end:])
        if inner is None:
            continue
        close = end + len(inner) + 2
        statement = statements and not line[:start].strip() and not line[close:].strip()
        if statements and not statement and not _BEFORE_VALUE.fullmatch(line[:start]):
            continue
        text = _applied(known[name], [_put(part, known) for part in _parts(inner)])
        if text is not None:
            made += (line[done:start], "local _ = " if statement else "", text)
            done = close
    return "".join((*made, line[done:]))


def _applied(tiny: _Tiny, arguments: Sequence[str]) -> str | None:
    """The expression for some arguments; None where it could mean something else than the call."""
    parameters, expression = tiny
    if parameters[-1:] == ("...",):
        parameters = parameters[:-1]
        rest, arguments = arguments[len(parameters) :], arguments[: len(parameters)]
        if not rest or any("..." in argument for argument in rest):
            return None
        expression = expression.replace("...", ", ".join(rest))
        taken = {name for argument in rest for _, _, name in lua_fold.names(argument)}
        if taken.intersection(parameters):
            return None
    if len(arguments) != len(parameters):
        return None
    names = [name for _, _, name in lua_fold.names(expression)]
    values: dict[str, str] = {}
    for parameter, argument in zip(parameters, arguments, strict=True):
        simple = _SIMPLE.fullmatch(argument) is not None
        if not simple and names.count(parameter) != 1:
            return None
        values[parameter] = argument if simple else f"({argument})"
    return f"({lua_fold.put(expression, values)})"


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Each piece of a text: where it begins, itself (a string is one), how many brackets are open after it."""
    depth = 0
    for piece in _PIECE.finditer(text):
        depth += (piece[0] in "([{") - (piece[0] in ")]}")
        yield piece.start(), piece[0], depth


def _inside(text: str) -> str | None:
    """What is between the bracket that the text begins with and its counterpart; None where that is not there."""
    return next((text[1:at] for at, _, depth in _depths(text) if depth == 0), None)


def _parts(text: str) -> list[str]:
    """What commas outside of brackets divide."""
    commas = [at for at, piece, depth in _depths(text) if piece == "," and depth == 0]
    ends = [*commas, len(text)]
    starts = [0, *(at + 1 for at in commas)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)] if text.strip() else []
