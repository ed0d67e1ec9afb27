"""Checks values against JSON Schemas in limited time, whatever the schema and the value.

Callers choose the values, and downstream servers some of the schemas. Neither may keep a process busy. So every
keyword checks the clock, patterns are matched by a library that has timeouts, and ``uniqueItems`` does not compare
every item with every other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
from referencing import Registry

from coordinator.toolsets.gateway.rules.schemas.patterns import compiled

MOST_SECONDS = 0.25
"""The processor time for one value."""
_DRAFT = jsonschema.Draft202012Validator
_encode = msgspec.json.Encoder(order="deterministic").encode
_local = threading.local()
_classes: dict[type, Any] = {}


class TooLong(Exception):
    """Checking a value takes too long."""


def validator(schema: Mapping[str, Any]) -> Any:
    """Makes a validator that raises TooLong. Its own, empty registry makes sure that no schema is fetched."""
    return _bounded(draft_of(schema))(schema, registry=Registry())


def draft_of(schema: Any) -> Any:
    """The library's class for the draft that a schema states."""
    return jsonschema.validators.validator_for(schema, _DRAFT)


def _bounded(cls: Any) -> Any:
    """The class with keywords of our own."""
    if cls in _classes.values():
        return cls
    bounded = _classes.get(cls)
    if bounded is None:
        own = {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "uniqueItems": _unique_items,
            "unevaluatedProperties": _unevaluated_properties,
        }
        known = {**cls.VALIDATORS, **{name: own[name] for name in own.keys() & cls.VALIDATORS.keys()}}
        known["additionalProperties"] = _additional_properties(cls.VALIDATORS["additionalProperties"])
        bounded = jsonschema.validators.extend(cls, {key: _timed(of) for key, of in known.items()})
        bounded.evolve = _evolve(bounded.evolve)
        _classes[cls] = bounded
    return bounded


def _evolve(original: Callable[..., Any]) -> Callable[..., Any]:
    def evolve(self: Any, **changes: Any) -> Any:
        made = original(self, **changes)
        own = _bounded(type(made))
        # An inner schema that states a draft gets the library's own class for it.
        return made if own is type(made) else own(made.schema, registry=Registry(), _resolver=made._resolver)

    return evolve


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


def _found(pattern: str, text: str) -> bool:
    try:
        return compiled(pattern).search(text, timeout=_left()) is not None
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
        rest = {key: entry for key, entry in instance.items() if not any(_found(pattern, key) for pattern in patterns)}
        # The patterns were applied above, so the original must not match them again.
        return original(validator, value, rest, {**schema, "patternProperties": {}})

    return additional


def _unevaluated_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    evaluated = _evaluated(validator, instance, {**schema, "unevaluatedProperties": False})
    for key in instance:
        if key in evaluated:
            continue
        if inner is False:
            yield jsonschema.ValidationError(f"Unevaluated properties are not allowed ({key!r} was unexpected)")
        else:
            yield from validator.descend(instance[key], inner, path=key)


def _evaluated(validator: Any, instance: Mapping[str, Any], schema: Any) -> set[str]:
    """The properties of an object that a schema evaluates, together with its inner schemas that the object matches."""
    _left()
    if not isinstance(schema, Mapping):
        return set()
    evaluated = set(instance.keys() & schema.get("properties", {}).keys())
    evaluated |= {key for key in instance if any(_found(regex, key) for regex in schema.get("patternProperties", ()))}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            evaluated |= {key for key, value in instance.items() if _holds(validator, value, schema[keyword])}
    inner = [part for key, part in schema.get("dependentSchemas", {}).items() if key in instance]
    inner += [part for key in ("allOf", "anyOf", "oneOf") for part in schema.get(key, ())]
    if "if" in schema:
        holds = _holds(validator, instance, schema["if"])
        inner += [schema["if"], schema.get("then")] if holds else [schema.get("else")]
    for part in inner:
        if isinstance(part, Mapping) and _holds(validator, instance, part):
            evaluated |= _evaluated(validator, instance, part)
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            # The library has no public way to follow a reference.
            meant = validator._resolver.lookup(schema[keyword])
            there = validator.evolve(schema=meant.contents, _resolver=meant.resolver)
            evaluated |= _evaluated(there, instance, meant.contents)
    return evaluated


def _holds(validator: Any, value: Any, schema: Any) -> bool:
    return next(validator.descend(value, schema), None) is None


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
