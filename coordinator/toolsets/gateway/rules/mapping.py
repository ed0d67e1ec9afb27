"""Output mappings: what a transition writes into the context.

A mapping is ``{key: spec}``. A spec is a path, an operator object with exactly one key, or a literal value. All
specs see the context as it was before. Only top-level keys of the context are written.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from coordinator.toolsets.gateway.rules.expressions import double
from coordinator.toolsets.gateway.rules.scope import MISSING, Scope, is_path, parse

_encode = msgspec.json.Encoder().encode


def written(output: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """The values that an output mapping writes, by key."""
    return {key: evaluated(spec, scope) for key, spec in output.items()}


def evaluated(spec: Any, scope: Scope) -> Any:
    """The value of one spec. A path that leads to nothing is null."""
    if is_path(spec):
        path = parse(spec)
        value = MISSING if path is None else path.find(scope)
        return None if value is MISSING else value
    if isinstance(spec, dict) and len(spec) == 1:
        ((name, operands),) = spec.items()
        if name == "set":
            return operands
        if name == "concat":
            return _concat(operands, scope)
        if name in _ARITHMETIC:
            return _arithmetic(_ARITHMETIC[name], operands, scope)
    return spec


def problem(spec: Any) -> str:
    """What is wrong with a spec, as a sentence; empty if it is valid."""
    if is_path(spec):
        path = parse(spec)
        if path is None or not path.root:
            return f"{spec!r} is no path that leads anywhere; paths begin with {', '.join(PATHS)}"
    if isinstance(spec, dict) and len(spec) == 1:
        ((name, operands),) = spec.items()
        if name == "concat" and not isinstance(operands, list):
            return "concat needs a list"
        if name in _ARITHMETIC and not (isinstance(operands, list) and len(operands) == 2):
            return f"{name} needs a list of two operands"
        for operand in operands if name in _OF_OPERANDS and isinstance(operands, list) else ():
            if is_path(operand) and (sentence := problem(operand)):
                return sentence
    return ""


def is_literal(spec: Any) -> bool:
    """Whether a spec is a literal: neither a path nor an operator object."""
    if isinstance(spec, dict) and len(spec) == 1:
        return next(iter(spec)) not in OPERATORS
    return not is_path(spec)


def _arithmetic(operate: Callable[[float, float], float], operands: Any, scope: Scope) -> Any:
    if not isinstance(operands, list) or len(operands) != 2:
        return None
    numbers = [_number(operand, scope) for operand in operands]
    if None in numbers:
        return None
    try:
        result = operate(*numbers)  # type: ignore[arg-type]
    except ZeroDivisionError:
        return None
    if not math.isfinite(result):
        return None
    return int(result) if result.is_integer() else result


def _number(operand: Any, scope: Scope) -> float | None:
    """An operand as a double. Null counts as 0; anything else that is not a number is None."""
    value = evaluated(operand, scope) if is_path(operand) else operand
    if value is None:
        return 0.0
    return double(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _concat(operands: Any, scope: Scope) -> str | None:
    if not isinstance(operands, list):
        return None
    return "".join(_rendered(evaluated(operand, scope) if is_path(operand) else operand) for operand in operands)


def _rendered(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}
_OF_OPERANDS = (*_ARITHMETIC, "concat")
OPERATORS = ("set", *_OF_OPERANDS)
PATHS = ("$.context", "$.arguments", "$.workflow.input", "$.output")
