"""Refusals of the fleet, with the names of a command's arguments."""

from __future__ import annotations

import re

_PATH = re.compile(r"(?:\w+(?:\[\d+\])?\.)*(\w+)(?:\[\d+\])?: ")
_WITHIN = re.compile(r"(?:\w+(?:\[\d+\])?\.)*(resources|budget)(?:\[\d+\])?\.\w+: ")
"""A part of a field that is one argument."""
_NAMES = {
    # The command line names ids itself where they are malformed; other refusals quote them.
    "id": "",
    "itemId": "",
    "parentId": "--parent: ",
    "ancestorId": "--ancestor: ",
    "maxAttempts": "--max-attempts: ",
    "notBefore": "--not-before: ",
    "dueAt": "--due: ",
    "timeZone": "--time-zone: ",
    "fenceToken": "--fence: ",
    "unblockAt": "--unblock-at: ",
    **{
        same: f"--{same}: "
        for same in (
            "budget",
            "title",
            "complexity",
            "cron",
            "description",
            "detail",
            "requires",
            "resources",
            "result",
            "summary",
            "tags",
            "type",
        )
    },
}


def as_typed(message: str) -> str:
    """A refusal that begins with the field of a tool, with the argument that a person typed instead."""
    if part := _WITHIN.match(message):
        return f"--{part[1]}: {message[part.end() :]}"
    if (path := _PATH.match(message)) is None:
        return message
    return _NAMES.get(path[1], f"{path[1]}: ") + message[path.end() :]
