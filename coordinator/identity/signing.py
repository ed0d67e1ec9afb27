"""Whose call it is: the actors that arguments name, held against the caller that the front door knows.

Wherever a tool's arguments have room for an actor, a known caller stands there if nobody else
does, and nobody else may: the identity that ownership and idempotency count on is then that of
his credential.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, inspect

from coordinator.errors import ToolFailure
from coordinator.toolsets.actor import KINDS, Actor, CallerActor
from coordinator.toolsets.caller import Caller

_put = msgspec.structs.force_setattr
_LISTS = (inspect.ListType, inspect.VarTupleType)


class _Room(NamedTuple):
    """Where in a struct actors can stand."""

    actors: tuple[tuple[str, str], ...]
    """Fields that hold one: attribute and JSON name."""
    parts: tuple[tuple[str, str, bool, _Room], ...]
    """Fields that hold structs with room for one: attribute, JSON name, whether it is a list, and the room."""


_rooms: dict[type, _Room | None] = {}
"""By the struct of a tool's arguments; there are as many as tools."""


def sign(arguments: Any, caller: Caller) -> None:
    """Puts the caller where no actor is named.

    Raises:
        ToolFailure: ``actor_mismatch``: an actor is named who is not the caller.
    """
    struct = type(arguments)
    try:
        room = _rooms[struct]
    except KeyError:
        room = _rooms[struct] = _within(inspect.type_info(struct), frozenset())
    if room is not None:
        _sign(room, arguments, caller, "")


def _sign(room: _Room, struct: Any, caller: Caller, path: str) -> None:
    for attribute, name in room.actors:
        found = getattr(struct, attribute)
        if found is None or found is UNSET:
            _put(struct, attribute, CallerActor(caller.id, caller.kind))
        else:
            if found.id and found.id != caller.id:
                raise ToolFailure(
                    "actor_mismatch", f"{path}{name}.id: must be absent or the caller's own, {caller.id!r}"
                )
            _put(struct, attribute, CallerActor(caller.id, _kind(found.kind, caller), found.parent, found.proof))
    for attribute, name, many, inner in room.parts:
        found = getattr(struct, attribute)
        if found is None or found is UNSET:
            continue
        if not many:
            _sign(inner, found, caller, f"{path}{name}.")
            continue
        for number, part in enumerate(found):
            _sign(inner, part, caller, f"{path}{name}[{number}].")


def _kind(given: str, caller: Caller) -> str:
    """The kind as it is told; that of the caller where nothing is."""
    return given if given in KINDS else given.lower() or caller.kind


def _within(info: inspect.Type, above: frozenset[type]) -> _Room | None:
    """The room in a struct; None if it has none. Structs that hold themselves are looked at once."""
    if not isinstance(info, inspect.StructType) or info.cls in above:
        return None
    actors: list[tuple[str, str]] = []
    parts: list[tuple[str, str, bool, _Room]] = []
    for field in info.fields:
        for option in _options(field.type):
            many = isinstance(option, _LISTS)
            for inner in _options(option.item_type) if isinstance(option, _LISTS) else (option,):
                if isinstance(inner, inspect.StructType) and inner.cls is Actor and not many:
                    actors.append((field.name, field.encode_name))
                elif (room := _within(inner, above | {info.cls})) is not None:
                    parts.append((field.name, field.encode_name, many, room))
    return _Room(tuple(actors), tuple(parts)) if actors or parts else None


def _options(info: inspect.Type) -> Iterator[inspect.Type]:
    """The alternatives of a type, without what is said about them."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        for one in info.types:
            yield from _options(one)
    else:
        yield info
