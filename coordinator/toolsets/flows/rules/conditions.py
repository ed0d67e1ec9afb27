"""The conditions of a branch: five exact forms, compared as strictly as JSON does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

ALLOWED = 'result == true, result == false, result != nil, result == nil, result == "some text"'

_FIXED: dict[str, Callable[[Any], bool]] = {
    "result == true": lambda value: value is True,
    "result == false": lambda value: value is False,
    "result != nil": lambda value: value is not None,
    "result == nil": lambda value: value is None,
}
_TEXT = re.compile(r'result == "(.*)"\Z', re.DOTALL)
_SEVERAL = re.compile(r'"\s*(?:and|or|&&|\|\|)\s*result\s*[=!]=', re.IGNORECASE)


def problem(text: object) -> str:
    """Why ``text`` is not one of the five forms; empty if it is. Blanks and case matter."""
    if not isinstance(text, str) or (text not in _FIXED and not _TEXT.match(text)):
        return f"must be exactly one of: {ALLOWED}"
    # Without this check, 'result == "a" or result == "b"' would be accepted as a comparison with one long text.
    return "must be a single comparison; alternatives are entries of their own" if _SEVERAL.search(text) else ""


def holds(condition: str, value: Any) -> bool:
    """Whether a condition holds for a step's result.

    Types are those of JSON: ``true`` is not ``"true"`` and not 1. The text between the outer
    quotes is compared literally, without escapes.

    Raises:
        ValueError: the condition has none of the five forms.
    """
    fixed = _FIXED.get(condition)
    if fixed is not None:
        return fixed(value)
    text = _TEXT.match(condition)
    if text is None:
        raise ValueError(f"not a condition: {condition!r}; allowed: {ALLOWED}")
    return isinstance(value, str) and value == text[1]
