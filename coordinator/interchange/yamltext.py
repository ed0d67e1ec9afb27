"""YAML of other people: plain data only, and not too much of it."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

_MOST = 1_000_000


def safe_yaml(text: str) -> Any:
    """The data of a YAML text. Aliases are refused: with them a small text can stand for any amount of data.

    Raises:
        ValueError: it is not YAML, too large, or needs more than plain data.
    """
    if len(text) > _MOST:
        raise ValueError(f"it has more than {_MOST} characters")
    try:
        if "*" in text and any(isinstance(event, AliasEvent) for event in YAML(typ="safe", pure=True).parse(text)):
            raise ValueError("aliases are not read")
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError) as error:
        problem = getattr(error, "problem", None) or "it is nested too deeply"
        raise ValueError(f"it is not YAML: {problem}") from None
