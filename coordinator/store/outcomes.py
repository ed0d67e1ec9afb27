"""How calls of scripts end, as metrics count them."""

from __future__ import annotations

import asyncio

from coordinator.errors import ToolFailure
from coordinator.store.cluster.places import Undecided
from coordinator.store.errors import ScriptFailure

OUTCOMES = (
    "ok",
    "new",
    "replay",
    "refused",
    "mismatch",
    "unavailable",
    "changed",
    "full",
    "over_capacity",
    "cancelled",
    "stopped",
    "defect",
)
"""ok: a call without a request id. Calls with one are new (the id was not known), replay (it was known) or mismatch (it
was used before with other arguments). cancelled: the caller has left; stopped: this process itself wants no result any
more."""

LEFT = "the caller has left"
"""The reason that cancels the task of a call whose caller has left. MCP's SDK, which cancels requests when clients
leave or withdraw them, gives one, too; whatever cancels tasks for reasons of our own gives none."""

WITHOUT_REPLY = frozenset({"cancelled", "stopped"})
"""Those that tell nothing about the store."""

_FAILURES = {
    "store_unavailable": "unavailable",
    "store_changed": "changed",
    "layout_unknown": "changed",
    "store_full": "full",
    "over_capacity": "over_capacity",
}


def outcome_of(error: BaseException) -> str:
    """The outcome of a call that raised this."""
    if isinstance(error, ScriptFailure):
        return "mismatch" if error.code == "REQUEST_ID_REUSED" else "refused"
    if isinstance(error, Undecided):
        return "refused"
    if isinstance(error, ToolFailure):
        return _FAILURES.get(error.code, "refused")
    if isinstance(error, asyncio.CancelledError):
        return "cancelled" if any(error.args) else "stopped"
    return "defect"
