"""Why an item cannot go on, or is not the caller's, in the words of this toolset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType, to_builtins

from coordinator.errors import ToolFailure
from coordinator.toolsets.items.rules.dependencies.graph import unsatisfied
from coordinator.toolsets.items.rules.ids import dashed, no_such_item
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.usage.budgets import why_exhausted
from coordinator.toolsets.items.store.agents.take import Reported
from coordinator.toolsets.worker.tools.shown import notes_by_key

_ENDED = {
    "done": "work_done",
    "failed": "work_failed",
    "handed_back": "work_failed with handBack",
    "ask": "work_ask",
}
"""How work on an item ended -> the call by which it did."""
_WAITS = "it waits for {} other item{} now: give it back with work_failed and handBack, it is offered again after them"


def why_not_started(refused: Advanced) -> str:
    """Why an item could not be started yet."""
    if refused.reason == "gate":
        return "it starts as soon as the notes in notesNeeded are written"
    return _waits(len(refused.cascades)) if refused.reason == "dependencies" else _blocked(refused.reason)


def draining(name: str) -> str:
    """Why an agent that is drained by this name is to stop."""
    return f"an operator drains {name!r}: this agent gets no further items until that is ended"


def why_to_stop(drained: str, budget: Mapping[str, Any] | None) -> tuple[bool | UnsetType, str | UnsetType]:
    """Whether an agent that holds an item is to stop, and why.

    Args:
        drained: the name by which it is drained; '': it is not.
        budget: the one that is spent; None: none is.
    """
    why = ([draining(drained)] if drained else []) + ([why_exhausted(budget)] if budget else [])
    return (True, "; ".join(why)) if why else (UNSET, UNSET)


def refusal(reply: Reported, schemas: SchemaConfig) -> ToolFailure:
    """Why a report was not taken."""
    if reply.outcome in ("not_found", "ambiguous"):
        return no_such_item("itemId")
    if reply.outcome == "too_many_notes":
        return ToolFailure("not_ready", "key: the item has 500 notes; write under the key of one of them")
    if reply.outcome == "refused" and isinstance(reply.refused, Advanced):
        return _refused(reply.refused, schemas)
    if reply.outcome == "ended":
        said = (
            f"you have ended your work on this item with {_ENDED[str(reply.refused)]}; call work_next for another one"
        )
        return ToolFailure("not_claim_holder", said, contended_item_id=dashed(reply.id))
    if not reply.id:
        return ToolFailure("not_claim_holder", "you hold no item: call work_next")
    said = "the item is not yours any more: stop, write nothing more about it, and call work_next for another one"
    return ToolFailure("not_claim_holder", said, contended_item_id=dashed(reply.id))


def _refused(entry: Advanced, schemas: SchemaConfig) -> ToolFailure:
    data: dict[str, Any] = {}
    if entry.reason == "gate":
        keys = entry.cascades[0]
        data["notesNeeded"] = to_builtins(notes_by_key(entry.filled, keys, schemas))
        said = f"notes are missing: {', '.join(keys)}. Write each of them with work_note, then repeat this call"
    elif entry.reason == "dependencies":
        data["blockers"] = to_builtins(unsatisfied(entry.cascades))
        said = _waits(len(entry.cascades))
    else:
        said = _blocked(entry.reason)
    return ToolFailure("not_ready", said, data=data)


def _waits(count: int) -> str:
    return _WAITS.format(count, "" if count == 1 else "s")


def _blocked(reason: str) -> str:
    what = "ended" if reason == "terminal" else "blocked"
    return f"it was {what} meanwhile: give it back with work_failed and handBack"
