"""Checks values against JSON Schemas in limited time, whatever the schema and the value.

Callers choose the values, and downstream servers some of the schemas. Neither may keep a process busy. So every
keyword checks the clock, patterns are matched by a library that has timeouts, and ``uniqueItems`` does not compare
every item with every other.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import regex  # type: ignore[import-untyped]
from referencing import Registry

MOST_SECONDS = 0.25
"""The processor time for one value."""
_DRAFT = jsonschema.Draft202012Validator
_encode = msgspec.json.Encoder(order="deterministic").encode
_TOKEN = re.compile(r"\\.|[\[\]$]", re.DOTALL)
_ASCII = {
    r"\d": r"0-9",
    r"\D": r"\x00-\x2f\x3a-\U0010ffff",
    r"\w": r"A-Za-z0-9_",
    r"\W": r"\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\U0010ffff",
}
"""What these stand for in a class."""
_local = threading.local()
_classes: dict[type, Any] = {}


class TooLong(Exception):
    """Checking a value takes too long."""


def validator(schema: Mapping[str, Any]) -> Any:
    """Makes a validator that raises TooLong. Its own, empty registry makes sure that no schema is fetched."""
    cls = jsonschema.validators.validator_for(schema, _DRAFT)
    bounded = _classes.get(cls)
    if bounded is None:
        own = {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique_items}
        known = {**cls.VALIDATORS, **{name: own[name] for name in own.keys() & cls.VALIDATORS.keys()}}
        known["additionalProperties"] = _additional_properties(cls.VALIDATORS["additionalProperties"])
        bounded = _classes[cls] = jsonschema.validators.extend(cls, {key: _timed(of) for key, of in known.items()})
    return bounded(schema, registry=Registry())


def begin() -> None:
    """Starts the clock for one value, in this thread."""
    _local.ends = time.thread_time() + MOST_SECONDS


def _left() -> float:
    left: float = _local.ends - time.thread_time()
    if left <= 0:
        raise TooLong
    return left


def _timed(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def timed(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _left()
        yield from keyword(validator, value, instance, schema) or ()

    return timed


@lru_cache(1024)
def _translated(pattern: str) -> str:
    """A pattern of JSON Schema (ECMA-262) in the syntax of ``regex``.

    In that, ``$`` also matches before a last line break; ``\\d`` and ``\\w`` match digits and letters of any script:
    more than the author of the schema allows, for instance in an argument of a command.
    """
    in_class = False

    def translate(found: re.Match[str]) -> str:
        nonlocal in_class
        part = found[0]
        if part in ("[", "]"):
            in_class = part == "["
        elif part == "$" and not in_class:
            return r"\Z"
        elif part in _ASCII:
            return _ASCII[part] if in_class else f"[{_ASCII[part]}]"
        return part

    return _TOKEN.sub(translate, pattern)


def _found(pattern: str, text: str) -> bool:
    try:
        return regex.search(_translated(pattern), text, timeout=_left()) is not None
    except TimeoutError:
        raise TooLong from None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _found(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _found(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(original: Callable[..., Any]) -> Callable[..., Any]:
    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        patterns = schema.get("patternProperties")
        if not patterns or not validator.is_type(instance, "object"):
            return original(validator, value, instance, schema)
        rest = {key: entry for key, entry in instance.items() if not any(_found(one, key) for one in patterns)}
        # The patterns were applied above, so the original must not match them again.
        return original(validator, value, rest, {**schema, "patternProperties": {}})

    return additional


def _unique_items(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if unique and validator.is_type(instance, "array"):
        seen = set()
        for item in instance:
            key = _encode(_canonical(item))
            if key in seen:
                yield jsonschema.ValidationError("has non-unique elements")
                return
            seen.add(key)


def _canonical(value: Any) -> Any:
    """Normalizes numbers, so that equal ones have equal texts: 1.0 becomes 1."""
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
