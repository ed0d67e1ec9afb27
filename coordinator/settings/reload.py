"""Decides which settings a running process takes over from a changed file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coordinator.settings.effective_auth import auth_mode
from coordinator.settings.fields import bare, fields_of, is_struct
from coordinator.settings.load import Loaded
from coordinator.settings.model import Settings

S = TypeVar("S", bound=Struct)


def taken_over(running: S, fresh: S) -> S:
    """The running settings, with the fresh values of those that a running process takes over."""
    return _mixed(running, fresh, {field.path for field in fields_of(type(running)) if field.reload}, ())


def needing_restart(running: Struct, fresh: Struct) -> tuple[str, ...]:
    """The names of changed settings that take effect only at the next start."""
    return tuple(
        field.name
        for field in fields_of(type(running))
        if not field.reload and field.value_in(running) != field.value_in(fresh)
    )


def config_version(settings: Settings) -> str:
    """A short hash of the settings that a reload can change: equal in front-ends that apply the same rules."""
    shown = {field.name: field.value_in(settings) for field in fields_of(Settings) if field.reload}
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()[:12]


def settings_digest(settings: Settings) -> str:
    """A short hash of the settings, equal for processes that run with the same ones."""
    # Without the store's URL, which holds a secret, and differs between a supervisor and its children.
    shown = msgspec.structs.replace(settings, redis_url="")
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()[:12]


def loosened_by_omission(before: Loaded[Settings], now: Loaded[Settings]) -> Iterator[str]:
    """Security settings that would become looser only because they are no longer stated: a sentence about each.

    A file that is being written, or has lost a part, looks as if these settings were removed on purpose. So to
    loosen a running process, the operator has to state the new value.
    """
    if before.lines and not now.lines:
        yield f"{now.config} is empty now; a restart would go back to the defaults"
    held = before.settings
    for name, strict, is_now in (
        ("auth.mode", auth_mode(held) == "required", auth_mode(now.settings)),
        (
            "actor_authentication.degraded_mode_policy",
            held.actor_authentication.policy == "reject",
            now.settings.actor_authentication.policy,
        ),
        ("projects", bool(held.projects), "open to any name"),
    ):
        if strict and before.sources[name] != "default" and now.sources[name] == "default":
            yield f"{name} is no longer set, which would make it {is_now}: set it explicitly if that is intended"


def _mixed(running: S, fresh: S, reloaded: set[tuple[str, ...]], path: tuple[str, ...]) -> S:
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(running):
        here = (*path, field.encode_name)
        if is_struct(bare(field.type)):
            changes[field.name] = _mixed(getattr(running, field.name), getattr(fresh, field.name), reloaded, here)
        elif here in reloaded:
            changes[field.name] = getattr(fresh, field.name)
    return msgspec.structs.replace(running, **changes)
