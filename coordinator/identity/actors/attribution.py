"""Sets the actors in a call's arguments to the authenticated caller.

An actor that is missing becomes the caller; one that is given must be the caller or one of its slots
(``toolsets/slots.py``). So ownership and idempotency depend on the identity of the credential.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, inspect

from coordinator.toolsets.actor import KINDS, Actor, CallerActor
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.slots import check_slot

_put = msgspec.structs.force_setattr
_LISTS = (inspect.ListType, inspect.VarTupleType)


class _Places(NamedTuple):
    """Where in a struct actors may be named."""

    actors: tuple[tuple[str, str], ...]
    """Fields that hold an actor: attribute and JSON name."""
    parts: tuple[tuple[str, str, bool, _Places], ...]
    """Fields with structs that may name actors: attribute, JSON name, whether it is a list, and the places in them."""


_known: dict[type, _Places | None] = {}
"""By the type of a tool's arguments."""


def attribute_call(arguments: Any, caller: Caller) -> None:
    """Puts the caller into the arguments of a tool wherever an actor may be named.

    Raises:
        ToolFailure: ``actor_mismatch``: an actor is named that is not the caller; VALIDATION_ERROR: a malformed slot.
    """
    struct = type(arguments)
    try:
        places = _known[struct]
    except KeyError:
        places = _known[struct] = _places_in(inspect.type_info(struct), frozenset())
    if places is not None:
        _attribute(places, arguments, caller, "")


def _attribute(places: _Places, struct: Any, caller: Caller, path: str) -> None:
    for field, name in places.actors:
        found = getattr(struct, field)
        if found is None or found is UNSET:
            _put(struct, field, CallerActor(caller.id, caller.kind))
        else:
            # A caller need not know its own id to act as a slot.
            given = caller.id + found.id if found.id.startswith("/") else found.id or caller.id
            if given != caller.id:
                check_slot(given, caller, f"{path}{name}.id")
            _put(struct, field, CallerActor(given, _kind(found.kind, caller), found.parent, found.proof))
    for field, name, many, inner in places.parts:
        found = getattr(struct, field)
        if found is None or found is UNSET:
            continue
        if not many:
            _attribute(inner, found, caller, f"{path}{name}.")
            continue
        for number, part in enumerate(found):
            _attribute(inner, part, caller, f"{path}{name}[{number}].")


def _kind(given: str, caller: Caller) -> str:
    """The given kind, in lower case if it is not one of ``KINDS``; else that of the caller."""
    return given if given in KINDS else given.lower() or caller.kind


def _places_in(info: inspect.Type, above: frozenset[type]) -> _Places | None:
    """Where in a struct actors may be named; None: nowhere. A struct that contains itself is looked at once."""
    if not isinstance(info, inspect.StructType) or info.cls in above:
        return None
    actors: list[tuple[str, str]] = []
    parts: list[tuple[str, str, bool, _Places]] = []
    for field in info.fields:
        for option in _options(field.type):
            many = isinstance(option, _LISTS)
            for inner in _options(option.item_type) if isinstance(option, _LISTS) else (option,):
                if isinstance(inner, inspect.StructType) and inner.cls is Actor and not many:
                    actors.append((field.name, field.encode_name))
                elif (places := _places_in(inner, above | {info.cls})) is not None:
                    parts.append((field.name, field.encode_name, many, places))
    return _Places(tuple(actors), tuple(parts)) if actors or parts else None


def _options(info: inspect.Type) -> Iterator[inspect.Type]:
    """The alternatives of a type, without their ``Meta``."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        for one in info.types:
            yield from _options(one)
    else:
        yield info
