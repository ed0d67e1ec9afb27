"""YAML of other people: plain data only, and not too much of it."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

_MOST = 1_000_000
MOST_LEVELS = 50
_BRACKET = re.compile(r"[\[\]{}]")


def safe_yaml(text: str) -> Any:
    """The data of a YAML text. Aliases are refused: with them a small text can stand for any amount of data.

    Raises:
        ValueError: it is not YAML, too large, nested too deeply, or needs more than plain data.
    """
    if len(text) > _MOST:
        raise ValueError(f"it has more than {_MOST} characters")
    # Before it is parsed, which takes the square of the time for brackets in each other: 10 s for 5,000 of them.
    if _levels(text) > MOST_LEVELS:
        raise ValueError(f"it has more than {MOST_LEVELS} brackets in each other")
    try:
        if "*" in text and any(isinstance(event, AliasEvent) for event in YAML(typ="safe", pure=True).parse(text)):
            raise ValueError("aliases are not read")
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError) as error:
        problem = getattr(error, "problem", None) or "it is nested too deeply"
        raise ValueError(f"it is not YAML: {problem}") from None


def _levels(text: str) -> int:
    """How many brackets are open at most, those of texts included."""
    levels = deepest = 0
    for bracket in _BRACKET.finditer(text):
        levels = levels + 1 if bracket[0] in "[{" else max(0, levels - 1)
        deepest = max(deepest, levels)
    return deepest
