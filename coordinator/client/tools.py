"""Which toolset has a tool, and where its arguments name who acts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from coordinator.client.errors import error_of

_KNOWN = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, dict[str, str]])
"""Toolset -> tool -> what the contract says of it: whether it takes ``requestId`` and ``actor``, ``actor`` in each
element of an argument (``notes[].actor``), and ``once`` if a repeated call has a second effect. The file is made from
the contracts (``UPDATE_CONTRACT=1 pytest tests/toolsets -k recorded``), because nothing here imports the server."""
_OWNERS: dict[str, list[str]] = {}
_FACTS: dict[str, list[str]] = {}
for _toolset, _tools in _KNOWN.items():
    for _tool, _said in _tools.items():
        _OWNERS.setdefault(_tool, []).append(_toolset)
        _FACTS[_tool] = _said.split()

TOLD_BY_HEADER = frozenset(("worker",))
"""Toolsets whose tools are told who acts by the header ``Fleet-Agent``."""


def toolset_of(tool: str) -> str:
    """The toolset of a tool; empty, that is what the fleet serves at ``/mcp``, for one that is not known here."""
    owners = _OWNERS.get(tool, ("",))
    if len(owners) > 1:
        raise error_of("VALIDATION_ERROR", f"toolset: must be given for {tool!r}; allowed: {', '.join(owners)}")
    return owners[0]


def takes_request_id(tool: str) -> bool:
    """Whether a tool takes ``requestId``, by which a repeated call is known."""
    return "requestId" in _FACTS.get(tool, ())


def repeatable(toolset: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call that may have been carried out can be made again, without a second effect."""
    return "requestId" in arguments or (toolset != "" and "once" not in _FACTS.get(tool, ()))


def signed(tool: str, arguments: Mapping[str, Any], actor: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments with actor (None: whom the token names) and requestId, if the tool takes them and they are missing."""
    signature: dict[str, Any] = {}
    if takes_request_id(tool) and "requestId" not in arguments:
        signature["requestId"] = str(uuid4())
    if actor is None:
        return {**signature, **arguments}
    for fact in _FACTS.get(tool, ()):
        part = fact.removesuffix("[].actor")
        if fact == "actor":
            signature["actor"] = actor
        elif part != fact and isinstance(elements := arguments.get(part), list):
            signed_ones = [{"actor": actor, **item} if isinstance(item, Mapping) else item for item in elements]
            arguments = {**arguments, part: signed_ones}
    return {**signature, **arguments}
