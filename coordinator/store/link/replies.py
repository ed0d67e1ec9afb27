"""Turns error replies of the server into exceptions that callers can act on. No other module parses them."""

from __future__ import annotations

import re
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.store.errors import ScriptFailure, ServerError
from coordinator.store.scripts import Script

RETRY_MS = 500
"""The retry delay while the store cannot serve; callers add their own jitter."""

_UNAVAILABLE = {
    "LOADING": "is loading its data",
    "MASTERDOWN": "is a replica without a primary",
    "READONLY": "is no longer the primary",
    "MISCONF": "cannot write to its disk",
    "CLUSTERDOWN": "is a cluster that is down",
    "TRYAGAIN": "is moving the project to another shard",
    "ASK": "is moving the project to another shard",
    "MOVED": "has moved the project to another shard",
    "NOREPLICAS": "has too few replicas to take writes",
    "BUSY": "is busy with a long script",
    "UNKILLABLE": "is busy with a long script",
    "NOAUTH": "no longer accepts this connection",
    "NOPERM": "does not permit this process what it needs",
}
# The wording of servers when a script may not run one of its commands; the code is ERR then.
_DENIED = re.compile(r"ACL failure in script|The user executing the script")
# If a command or error() fails inside a script, the server appends the place. It does not for a returned error.
_PLACE = re.compile(r" script: .*@user_function:\s?\d+\.$")


def unavailable(why: str) -> ToolFailure:
    """The store does not serve; ``why`` completes "the store ..."."""
    return ToolFailure("store_unavailable", f"the store {why}", retry_after_ms=RETRY_MS)


def unready(why: str) -> ToolFailure:
    """The store answers, but this process does not serve from it; ``why`` is a sentence."""
    return ToolFailure("store_unavailable", why, retry_after_ms=RETRY_MS)


def changed(why: str) -> ToolFailure:
    """The store is not the one that the fleet had, so nothing was sent to it; ``why`` is a sentence for operators,
    too."""
    return ToolFailure("store_changed", f"{why}; nothing was sent", retry_after_ms=4 * RETRY_MS)


def mapping(reply: Any) -> dict[Any, Any]:
    """A reply that is a map in RESP 3, and a list of keys and values in RESP 2."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def lacks_function(error: Exception) -> bool:
    """Whether the server lacks the function that was called. (There is no error code for that.)"""
    return str(error).removeprefix("ERR ") == "Function not found"


def is_fenced(error: Exception) -> bool:
    """Whether a function has refused a fenced project (``fences/known.py``)."""
    return str(error).startswith("FENCED ")


def library_exists(error: Exception) -> bool:
    """Whether a library was not loaded because another one, its other variant, has the same functions."""
    return "already exists" in str(error)


def wants_again(error: Exception, script: Script[Any]) -> bool:
    """Whether the script has settled only a part of the debts of earlier calls, and has to be called again."""
    return str(error) == "FLEET UNSETTLED" and "UNSETTLED" in script.errors


def failure(error: ServerError, script: Script[Any] | None = None) -> Exception:
    """The exception that an error reply means.

    Returns:
        ScriptFailure for a code that the script declares. ToolFailure ``store_full`` or ``store_unavailable`` for
        problems of the server. Everything else is a defect: a ServerError that says where in the script it happened.
    """
    text = str(error)
    if text.startswith("FLEET ") and script is not None:
        code, _, detail = _PLACE.sub("", text[6:]).partition(" ")
        if code in script.errors:
            return ScriptFailure(code, detail)
        return ServerError(f"script {script.name}: error code {code} is not in its header: {text}")
    code = "NOPERM" if _DENIED.search(text) else error.code
    if code == "OOM":
        return ToolFailure("store_full", "the store is out of memory and takes no writes", retry_after_ms=10 * RETRY_MS)
    if code in _UNAVAILABLE:
        return unavailable(_UNAVAILABLE[code])
    return ServerError(script.explain(text)) if script is not None else error
