"""Plain reference implementations of the gateway's small languages.

Slow and obvious on purpose: the product's results are compared with them.
"""

from __future__ import annotations

import json
import math
from typing import Any

Json = dict[str, Any]

NOTHING = object()


def walk(known: Json, path: list[str | int]) -> Any:
    """The value of a path, with its root: ``["context", "a", 0]``."""
    value: Any = known
    for step in path:
        if isinstance(value, dict) and isinstance(step, str) and step in value:
            value = value[step]
        elif isinstance(value, list) and str(step).isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return NOTHING
    return value


def number(value: Any) -> bool:
    return type(value) in (int, float)


def same(one: Any, other: Any) -> bool:
    """JSON equality: numbers as doubles within machine epsilon, everything else by type and value."""
    if number(one) and number(other):
        return abs(float(one) - float(other)) < 2**-52
    return exactly(one, other)


def exactly(one: Any, other: Any) -> bool:
    if number(one) and number(other):
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(exactly(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(exactly(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def compares(left: Any, operator: str, right: Any) -> bool:
    """One comparison of two values; unresolved paths are passed as null."""
    text_left = left if isinstance(left, str) else ""
    text_right = right if isinstance(right, str) else ""
    if operator == "==":
        return same(left, right)
    if operator == "!=":
        return not same(left, right)
    if operator == "starts_with":
        return text_left.startswith(text_right)
    if operator == "contains":
        return text_right in text_left
    if not (number(left) and number(right)):
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def arithmetic(operator: str, one: Any, other: Any) -> Any:
    """An operator of output mappings on two values."""
    one, other = (0 if value is None or value is NOTHING else value for value in (one, other))
    if not (number(one) and number(other)):
        return None
    one, other = float(one), float(other)
    if operator == "divide" and other == 0:
        return None
    result = {
        "add": lambda: one + other,
        "subtract": lambda: one - other,
        "multiply": lambda: one * other,
        "divide": lambda: one / other,
    }[operator]()
    if not math.isfinite(result):
        return None
    return int(result) if result == int(result) else result


def concatenated(values: list[Any]) -> str:
    """``concat``: texts as they are, everything else as JSON."""
    parts = []
    for value in values:
        if value is NOTHING or value is None:
            parts.append("null")
        elif isinstance(value, str):
            parts.append(value)
        else:
            parts.append(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    return "".join(parts)


def trigrams(word: str) -> set[str]:
    return {word[at : at + 3] for at in range(len(word) - 2)}


def alike(one: str, other: str) -> float:
    """Jaccard similarity of trigrams."""
    left, right = trigrams(one), trigrams(other)
    if not left and not right:
        return 1.0
    return len(left & right) / len(left | right)


def terms(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()


WEIGHTS = {"title": 6.0, "id": 5.0, "tags": 3.0, "aliases": 3.0, "description": 2.0, "text": 1.0}


def score(fields: dict[str, str], query: str) -> float:
    """The score of one item, term by term and field by field."""
    total = 0.0
    for term in terms(query):
        for name, weight in WEIGHTS.items():
            field = fields.get(name, "").lower()
            words = terms(field)
            if term in field:
                total += weight
            elif len(term) >= 2 and any(word.startswith(term) for word in words):
                total += weight * 0.7
            elif len(term) >= 4:
                best = max((alike(term, word) for word in words), default=0.0)
                if best > 0.3:
                    total += weight * 0.5 * best
    return total
