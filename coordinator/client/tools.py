"""Which toolset has a tool, and where its arguments name who acts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import msgspec

from coordinator.client.errors import error_of

_KNOWN = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, dict[str, str]])
"""Toolset -> tool -> what the contract says of it: whether it takes ``requestId`` and ``actor``, ``actor`` in each
element of an argument (``notes[].actor``), and ``once`` if a repeated call has a second effect. The file is made from
the contracts (``UPDATE_CONTRACT=1 pytest tests/toolsets -k recorded``), because nothing here imports the server."""


class _Facts(NamedTuple):
    """What the contract says of a tool."""

    request_id: bool = False
    actor: bool = False
    once: bool = False
    elements: tuple[str, ...] = ()
    """The arguments whose elements name the actor."""

    @classmethod
    def of(cls, words: list[str]) -> _Facts:
        elements = (word.removesuffix("[].actor") for word in words if word.endswith("[].actor"))
        return cls("requestId" in words, "actor" in words, "once" in words, tuple(elements))


_TOOLSETS: dict[str, str] = {}
"""Tool -> its toolset, or several after commas."""
_FACTS: dict[str, _Facts] = {}
for _toolset, _tools in _KNOWN.items():
    for _tool, _said in _tools.items():
        _TOOLSETS[_tool] = f"{_TOOLSETS[_tool]}, {_toolset}" if _tool in _TOOLSETS else _toolset
        _FACTS[_tool] = _Facts.of(_said.split())
_UNKNOWN = _Facts()

TOLD_BY_HEADER = frozenset(("worker",))
"""Toolsets whose tools are told who acts by the header ``Fleet-Agent``."""


def toolset_of(tool: str) -> str:
    """The toolset of a tool; empty, that is what the fleet serves at ``/mcp``, for one that is not known here."""
    toolset = _TOOLSETS.get(tool, "")
    if "," in toolset:
        raise error_of("VALIDATION_ERROR", f"toolset: must be given for {tool!r}; allowed: {toolset}")
    return toolset


class _RequestIds:
    """Of a process: their first three quarters are random, and the same for all; 12 digits count."""

    random: ClassVar[str]
    numbers: ClassVar[Iterator[int]]

    @classmethod
    def renew(cls) -> None:
        """Another random part, which a child process needs."""
        cls.random, cls.numbers = f"{uuid4()}"[:24], count(10**11)


_RequestIds.renew()
os.register_at_fork(after_in_child=_RequestIds.renew)


def new_request_id() -> str:
    """A UUID (RFC 9562). A wholly random one costs ten times as much, for each call."""
    return f"{_RequestIds.random}{next(_RequestIds.numbers)}"


def takes_request_id(tool: str) -> bool:
    """Whether a tool takes ``requestId``, by which a repeated call is known."""
    return _FACTS.get(tool, _UNKNOWN).request_id


def repeatable(toolset: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call that may have been carried out can be made again, without a second effect."""
    return "requestId" in arguments or (toolset != "" and not _FACTS.get(tool, _UNKNOWN).once)


def signed(tool: str, arguments: Mapping[str, Any], actor: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments with actor (None: whom the token names) and requestId, if the tool takes them and they are missing."""
    facts = _FACTS.get(tool, _UNKNOWN)
    signature: dict[str, Any] = {}
    if facts.request_id and "requestId" not in arguments:
        signature["requestId"] = new_request_id()
    if actor is None:
        return {**signature, **arguments}
    if facts.actor:
        signature["actor"] = actor
    signature |= arguments
    for part in facts.elements:
        if isinstance(elements := arguments.get(part), list):
            signature[part] = [{"actor": actor, **one} if isinstance(one, Mapping) else one for one in elements]
    return signature
