"""Turns plain data into typed values, reporting every problem instead of the first."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from coordinator.settings import fields
from coordinator.settings.problems import Faults, KeyPath, shown, unknown

Report = Callable[[KeyPath, str], None]
"""Takes the place inside the data and a full sentence about it."""

RENAMED = {"auditing": "actor_authentication"}
"""Former names of sections -> present names."""

BAD: Any = object()
"""Stands for an invalid value whose problem was reported."""


def from_text(field: fields.Field, text: str) -> Any:
    """The value of a simple setting from the environment or the command line.

    Lists are comma-separated; empty entries are ignored.

    Raises:
        msgspec.ValidationError: the text does not fit the setting's type.
    """
    raw: object = text
    if fields.is_list(fields.bare(fields.non_null(fields.bare(field.type)))):
        raw = [part for entry in text.split(",") if (part := entry.strip())]
    return msgspec.convert(raw, field.type, strict=False)


def section(data: Any, cls: type[Struct], path: KeyPath, report: Report) -> dict[KeyPath, Any]:
    """The settings in a mapping and in its sections, flattened to ``path -> value``."""
    found: dict[KeyPath, Any] = {}
    if data is None and path:
        return found  # a section whose entries are all commented out
    if not isinstance(data, dict):
        report(path, f"{_name(path)} must be a mapping{got(cls, data)}")
        return found
    known = fields.parts_of(cls)
    for key, value in data.items():
        here = (*path, key)
        if key not in known:
            report(here, _unknown_setting(here, known))
        elif fields.is_struct(fields.bare(known[key].type)):
            found.update(section(value, fields.bare(known[key].type), here, report))
        elif (converted := convert(value, known[key].type, here, report)) is not BAD:
            found[here] = converted
    return found


def convert(value: Any, annotation: Any, path: KeyPath, report: Report) -> Any:
    """The typed value, or ``BAD`` after each problem in it was reported."""
    kind = fields.bare(annotation)
    inner = fields.bare(fields.non_null(kind))
    if inner is not kind and (fields.is_struct(inner) or fields.is_list(inner) or typing.get_origin(inner) is dict):
        return None if value is None else convert(value, fields.non_null(kind), path, report)
    if fields.is_struct(kind):
        return _struct(value, kind, path, report)
    long_forms = (
        [part for part in map(fields.bare, typing.get_args(kind)) if fields.is_struct(part)]
        if fields.is_union(kind)
        else []
    )
    if isinstance(value, dict) and len(long_forms) == 1:
        return _struct(value, long_forms[0], path, report)
    if isinstance(value, str) and fields.is_list(kind) and fields.may_be_one(annotation):
        value = [value]
    problems = 0

    def count(at: KeyPath, sentence: str) -> None:
        nonlocal problems
        problems += 1
        report(at, sentence)

    if isinstance(value, dict) and typing.get_origin(kind) is dict:
        of_key, of = typing.get_args(kind)
        for key in value:
            _check_key(key, of_key, path, count)
        value = {key: convert(entry, of, (*path, key), count) for key, entry in value.items()}
    elif isinstance(value, list) and fields.is_list(kind):
        of = typing.get_args(kind)[0]
        value = [convert(entry, of, (*path, index), count) for index, entry in enumerate(value)]
    if problems:
        return BAD
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        report(path, f"{_name(path)} must be {fields.allowed(annotation)}{got(annotation, value)}{_detail(error)}")
        return BAD


def _struct(value: Any, cls: type[Struct], path: KeyPath, report: Report) -> Any:
    """A struct that is a part of a larger setting, such as an entry of a mapping."""
    known = fields.parts_of(cls)
    if not isinstance(value, dict):
        report(path, f"{_name(path)} must be a mapping{got(cls, value)}; its keys: {', '.join(known)}")
        return BAD
    values: dict[str, Any] = {}
    for key, entry in value.items():
        if key in known:
            values[known[key].name] = convert(entry, known[key].type, (*path, key), report)
        else:
            report((*path, key), unknown("key", str(key), known, _name(path) + "."))
            values[str(key)] = BAD
    for field in known.values():
        if field.name not in values and fields.default_of(field) is msgspec.NODEFAULT:
            report(path, f"{_name(path)} lacks {field.encode_name}, which must be {fields.allowed(field.type)}")
            values[field.name] = BAD
    if any(entry is BAD for entry in values.values()):
        return BAD
    try:
        return cls(**values)
    except ValueError as error:
        for at, sentence in error.faults if isinstance(error, Faults) else [((), str(error))]:
            report((*path, *at), f"{_name((*path, *at))}: {sentence}")
        return BAD


def _check_key(key: Any, annotation: Any, path: KeyPath, report: Report) -> None:
    """Reports a key that the mapping may not have."""
    try:
        msgspec.convert(key, annotation)
    except msgspec.ValidationError:
        here = (*path, key)
        if typing.get_origin(fields.bare(annotation)) is typing.Literal:
            report(here, unknown("key", str(key), typing.get_args(fields.bare(annotation)), _name(path) + "."))
        else:
            report(here, f"a name in {_name(path)} must be {fields.allowed(annotation)}, not {shown(key)}")


def _unknown_setting(path: KeyPath, known: Iterable[str]) -> str:
    if path[-1] in RENAMED and len(path) == 1:
        return f"unknown setting {path[-1]!r}; it is now called {RENAMED[str(path[-1])]!r}"
    return unknown("setting", str(path[-1]), known, "".join(f"{one}." for one in path[:-1]))


def got(annotation: Any, value: object) -> str:
    """``, not 99``; empty if a secret may be in the value."""
    return "" if fields.holds_secret(annotation) else f", not {shown(value)}"


def _name(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _detail(error: msgspec.ValidationError) -> str:
    """Where msgspec found the fault, if that is deeper inside the value."""
    message = str(error)
    return f" ({message})" if " - at `$" in message else ""
