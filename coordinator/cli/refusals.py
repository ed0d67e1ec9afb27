"""Refusals of the fleet, with the names of a command's arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from coordinator.settings import AGENT_VARIABLE

_PATH = re.compile(r"(?:\w+(?:\[\d+\])?\.)*(\w+)(?:\[\d+\])?: ")
_WITHIN = re.compile(r"(?:\w+(?:\[\d+\])?\.)*(resources|budget)(?:\[\d+\])?\.\w+: ")
"""A part of a field that is one argument."""
_ACTOR = re.compile(r"(?:\w+(?:\[\d+\])?\.)*(actor)\.\w+: ")
_FLAGS = {
    "actor": ("--agent",),
    "ancestorId": ("--ancestor",),
    "capabilities": ("--capabilities", "--capability"),
    "cron": ("--cron", "--recurs"),
    "detail": ("--detail",),
    "fenceToken": ("--fence",),
    "missed": ("--missed",),
    "overlap": ("--overlap",),
    "reason": ("--reason",),
    "result": ("--result", "--result-json"),
    "summary": ("--reason",),
    "timeZone": ("--time-zone",),
    "title": ("--title",),
    "ttlSeconds": ("--ttl",),
    "unblockAt": ("--unblock-at",),
    "waitMs": ("--wait",),
}
"""Fields of tools -> the flags for them, besides those of the table of fields."""
_IDS = ("id", "itemId")
"""The command line names ids itself where they are malformed; other refusals quote them."""
_ARGUMENTS = {"title": "TITLE", "key": "KEY", "body": "BODY", "query": "TEXT"}
"""Fields -> the arguments for them, of commands that take them without a flag."""

typed: Sequence[str] = ()
"""The command line that runs."""


def as_typed(message: str) -> str:
    """A refusal that begins with the field of a tool, with what a person typed instead: a flag, or an argument.

    Where neither was typed, the refusal is about what the fleet has, and the field stays.
    """
    match = _WITHIN.match(message) or _ACTOR.match(message) or _PATH.match(message)
    if match is None:
        return message
    field, text = match[1], message[match.end() :]
    if field == "actor" and not _given("--agent"):
        return f"{AGENT_VARIABLE}: {text}" if os.environ.get(AGENT_VARIABLE) else f"who acts: {text}"
    if field in _IDS:
        return text
    name = next(filter(_given, _flags(field)), _ARGUMENTS.get(field, field))
    return f"{name}: {text}"


def _flags(field: str) -> tuple[str, ...]:
    from coordinator.toolsets.items import NAMED

    return (*_FLAGS.get(field, ()), *(NAMED[field].options if field in NAMED else ()))


def _given(flag: str) -> bool:
    return any(word == flag or word.startswith(f"{flag}=") for word in typed)
