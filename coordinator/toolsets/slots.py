"""Slots: one identity can act as several agents, each named ``<id>/<suffix>``.

A slot is an actor of its own: it holds a claim, has request ids, and can be drained. Permissions are those of the
identity that it belongs to.
"""

from __future__ import annotations

import re

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.caller import Caller

_SUFFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SUFFIX_RULE = "1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"
"""What a suffix may be, in words."""


def acts_as(name: str, owner: str) -> bool:
    if not owner or not name.startswith(owner):
        return False
    return name == owner or (name[len(owner)] == "/" and _SUFFIX.fullmatch(name, len(owner) + 1) is not None)


def slot_of(name: str, caller: Caller, field: str) -> str:
    """Whom a caller acts as that names a slot of its own, in full or by ``/`` and the suffix, or nothing.

    Raises:
        ToolFailure: as ``check_slot``.
    """
    name = caller.id + name if name.startswith("/") else name
    if name and name != caller.id:
        check_slot(name, caller, field)
    return name or caller.id


def check_slot(name: str, caller: Caller, field: str) -> None:
    """Rejects another id than that of a slot of the caller.

    Raises:
        ToolFailure: ``actor_mismatch``, or VALIDATION_ERROR for a malformed suffix.
    """
    if acts_as(name, caller.id):
        if name not in caller.taken:
            return
        raise ToolFailure("actor_mismatch", f"{field}: {name!r} is another caller; choose another suffix")
    if name.startswith(f"{caller.id}/"):
        raise invalid(field, f"after {caller.id + '/'!r}, must be {SUFFIX_RULE}")
    raise ToolFailure(
        "actor_mismatch", f"{field}: must be absent or the caller's own, {caller.id!r}, also with '/' and a suffix"
    )
