"""Reasons for which scripts reject an element of a batch -> sentences for callers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coordinator.errors import ToolFailure
from coordinator.toolsets.items.fields import LETTERED
from coordinator.toolsets.items.rules.resources import for_people

_SHOWN = 5
"""How many notes the suggested call shows."""
_REFUSED = "refused "
ALL_PHASES = "all phases"
"""Whose notes completion requires."""

_BUSY = "busy "
_CHANGED = "changed "

_ITEM = {
    "not_found": "no such item",
    "ambiguous": "id prefix is ambiguous: more than one item begins with it; give more digits",
    "parent_not_found": "parentId: no such item",
    "parent_ambiguous": "parentId: id prefix is ambiguous; give more digits",
    "too_deep": "depth would exceed the maximum of 3",
    "too_many_below": "parentId: more than 700 items below it would change their depth; move them in parts",
    "parent_cycle": "parentId: an item cannot move below itself or one of its descendants",
    "too_many_requirements": "requires: a project can have at most 500 different sets of required capabilities",
    "due_of_template": "dueAt: of a template it counts from each occurrence: give + and a duration, as in +2h, or null",
    "budget_not_raised": "budget: raising or removing a limit needs the permission 'items.budget'",
    "budget_not_left": "parentId: the budget of an item above would no longer count what was used for this item; "
    "moving it out of there needs the permission 'items.budget'",
    "id_taken": "the generated id exists already; try again",
    "self": "A dependency cannot reference the same item on both sides",
    "cycle": "the dependency would close a cycle of items that wait for each other",
    "too_many_edges": "an item can have at most 600 dependencies",
    "too_many_notes": "an item can have at most 500 notes; write under an existing key, or delete some first",
    "not_asked": "key: it is kept for the answer to the item's last question, and the item is not blocked by that one",
    "note_changed": "the note was changed meanwhile: read it, merge the two, and give its new modifiedAt",
    "duplicate": "a dependency of this type between these items exists already",
}
_TRANSITION = {
    "terminal": "item is already terminal; use 'reopen' to move it back to queue",
    "not_terminal": "only a terminal item can be reopened",
    "blocked": "item is blocked; use 'resume' first",
    "already_blocked": "item is already blocked",
    "not_blocked": "only a blocked item can be resumed",
    "not_on_offer": "it is no new work: a claim starts what is in queue, and what another agent has left",
    "stale_fence": "fenceToken is not that of the item's present claim: the claim was lost",
}


def gate_refusal(item: str, keys: Sequence[str], phases: Sequence[str], of: str) -> str:
    """The sentence for a closed gate: the missing notes, and the call that fills them.

    Args:
        item: the item's UUID.
        phases: the phase of each key.
        of: whose notes are required, as in ``queue phase``.
    """
    notes = [{"itemId": item, "key": key, "role": role, "body": "..."} for key, role in zip(keys, phases, strict=True)]
    call = msgspec.json.encode({"operation": "upsert", "notes": notes[:_SHOWN]}).decode()
    rest = f", and the other {len(notes) - _SHOWN} in the same way" if len(notes) > _SHOWN else ""
    return (
        f"Gate check failed: required notes not filled for {of}: {', '.join(keys)}. "
        f"Fill them with manage_notes {call}{rest}"
    )


def refused_id(problem: ToolFailure) -> str:
    """Sent to a script instead of the id of an element that is rejected already, to record the reason."""
    return f"?{_REFUSED}{problem.message}"


def refused(reason: str) -> str:
    """The sentence for a rejected item or edge."""
    if reason.startswith(_BUSY):
        return f"resources: {busy(reason.removeprefix(_BUSY))}, or when that has ended"
    if reason.startswith(_CHANGED):
        return f"{LETTERED[reason.removeprefix(_CHANGED)].name}: somebody else has changed it meanwhile"
    return reason.removeprefix(_REFUSED) if reason.startswith(_REFUSED) else _ITEM[reason]


def busy(text: str) -> str:
    """The sentence for what a live claim would have to take; ``text`` as ``lua/resources/demands.lua`` has demands."""
    return f"resource_busy: the claim on the item has to hold {for_people(text)}, which is not free; try again later"


def not_applicable(reason: str, trigger: str) -> str:
    """The sentence for a trigger that is not possible now."""
    return f"Cannot apply '{trigger}': {_TRANSITION.get(reason) or _ITEM[reason]}"
