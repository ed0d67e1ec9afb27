"""The expressions of guards: exactly one comparison, *operand operator operand*.

Operands are numbers, quoted texts without escapes, true, false, null and paths; operators are
``== != < <= > >= starts_with contains``. A path that leads to nothing is null. Numbers compare as doubles, and
are equal within machine epsilon. ``< <= > >=`` are true only between numbers. Other values are equal if they are
the same JSON, without conversion. ``starts_with`` and ``contains`` treat a value that is not a text as "".
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from coordinator.toolsets.gateway.rules import scope
from coordinator.toolsets.gateway.rules.scope import MISSING, Path, Scope

WORDS = ("starts_with", "contains")
_ORDER: dict[str, Callable[..., bool]] = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
OPERATORS = ("==", "!=", *_ORDER, *WORDS)

_EPSILON = sys.float_info.epsilon
_MAX_LENGTH = 2_000
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])
    | "(?P<double>[^"]*)"
    | '(?P<single>[^']*)'
    | \$(?P<path>(?:\.[\w-]+|\[\d{1,9}\])+)(?![\w$.\[-])
    | (?P<operator>==|!=|<=|>=|<|>)
    | (?P<word>[A-Za-z_]\w*)
    )""",
    re.VERBOSE,
)
_LITERALS = {"true": True, "false": False, "null": None}


class Malformed(ValueError):
    """A text is not an expression. The message says why."""


class Expression(NamedTuple):
    """A parsed comparison. Its operands are values or paths."""

    left: Any
    operator: str
    right: Any

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(operand for operand in (self.left, self.right) if isinstance(operand, Path))


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parses an expression.

    Raises:
        Malformed: the text is not an expression.
    """
    tokens = _tokens(text)
    if len(tokens) != 3 or tokens[1][0] != "operator":
        raise Malformed(
            "must be one comparison: a value, one of " + ", ".join(OPERATORS) + ", a value; "
            "combine several with allOf, anyOf and not"
        )
    for kind, token in (tokens[0], tokens[2]):
        if kind == "operator":
            raise Malformed(f"has {token!r} where a value must be")
    return Expression(tokens[0][1], tokens[1][1], tokens[2][1])


def holds(text: str, known: Scope) -> bool:
    """Whether an expression is true. A malformed one is not."""
    try:
        expression = parse(text)
    except Malformed:
        return False
    left, right = (_value(operand, known) for operand in (expression.left, expression.right))
    return compare(left, expression.operator, right)


def depends_on_arguments(text: str) -> bool:
    """Whether the arguments of a call decide if an expression is true."""
    try:
        return any(path.root == "arguments" for path in parse(text).paths)
    except Malformed:
        return False


def compare(left: Any, word: str, right: Any) -> bool:
    """The result of comparing two JSON values with one of ``OPERATORS``."""
    if word == "==":
        return equal(left, right)
    if word == "!=":
        return not equal(left, right)
    if word == "starts_with":
        return _text(left).startswith(_text(right))
    if word == "contains":
        return _text(right) in _text(left)
    return _is_number(left) and _is_number(right) and _ORDER[word](double(left), double(right))


def equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; numbers are compared as doubles, within machine epsilon."""
    if _is_number(left) and _is_number(right):
        first, other = double(left), double(right)
        return first == other or abs(first - other) < _EPSILON
    return _same(left, right)


def double(number: float) -> float:
    """The number as a double; whole numbers beyond its range are infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(entry, right[key]) for key, entry in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def _value(operand: Any, known: Scope) -> Any:
    if not isinstance(operand, Path):
        return operand
    value = operand.find(known)
    return None if value is MISSING else value


def _tokens(text: str) -> list[tuple[str, Any]]:
    if len(text) > _MAX_LENGTH:
        raise Malformed(f"is longer than {_MAX_LENGTH} characters")
    tokens: list[tuple[str, Any]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise Malformed(f"cannot be understood from {text[at:].strip()[:40]!r} on")
        tokens.append(_token(match))
        at = match.end()
    return tokens


def _token(match: re.Match[str]) -> tuple[str, Any]:
    if match["number"] is not None:
        return "value", float(match["number"])
    if match["double"] is not None or match["single"] is not None:
        return "value", match["double"] if match["double"] is not None else match["single"]
    if match["path"] is not None:
        return "value", scope.made(match["path"])
    if match["operator"] is not None:
        return "operator", match["operator"]
    word = match["word"]
    if word in WORDS:
        return "operator", word
    if word in _LITERALS:
        return "value", _LITERALS[word]
    raise Malformed(f"has {word!r}, which is neither true, false, null, {' nor '.join(WORDS)}; texts need quotes")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
