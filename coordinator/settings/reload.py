"""Which settings a running process takes over, and what becomes of the others."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coordinator.settings.fields import Field, bare, fields_of, is_struct
from coordinator.settings.model import Settings

S = TypeVar("S", bound=Struct)


def taken_over(running: S, fresh: S) -> S:
    """The running settings with what a process takes over from fresh ones."""
    return _mixed(running, fresh, {field.path for field in fields_of(type(running)) if field.reload}, ())


def needing_restart(running: Struct, fresh: Struct) -> tuple[str, ...]:
    """Names of settings that have changed and stay as they are until the next start."""
    return tuple(
        field.name
        for field in fields_of(type(running))
        if not field.reload and _value(running, field) != _value(fresh, field)
    )


def config_version(settings: Settings) -> str:
    """A short hash of what a reload can change: equal in front-ends whose tools go by the same rules."""
    shown = {field.name: _value(settings, field) for field in fields_of(Settings) if field.reload}
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()[:12]


def _mixed(running: S, fresh: S, reloaded: set[tuple[str, ...]], path: tuple[str, ...]) -> S:
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(running):
        here = (*path, field.encode_name)
        if is_struct(bare(field.type)):
            changes[field.name] = _mixed(getattr(running, field.name), getattr(fresh, field.name), reloaded, here)
        elif here in reloaded:
            changes[field.name] = getattr(fresh, field.name)
    return msgspec.structs.replace(running, **changes)


def _value(settings: Struct, field: Field) -> object:
    value: object = settings
    for name in field.path:
        value = getattr(value, name)
    return value
