"""Reasons with which scripts refuse an element of a batch -> sentences for callers."""

from __future__ import annotations

_ITEM = {
    "not_found": "no such item",
    "ambiguous": "id prefix is ambiguous: more than one item begins with it; give more digits",
    "parent_not_found": "parentId: no such item",
    "parent_ambiguous": "parentId: id prefix is ambiguous; give more digits",
    "too_deep": "depth would exceed the maximum of 3",
    "too_many_below": "parentId: more than 700 items below it would come to another depth; move them in parts",
    "parent_cycle": "parentId: an item cannot move below itself or one of its descendants",
    "id_taken": "the generated id exists already; try again",
    "self": "A dependency cannot reference the same item on both sides",
    "cycle": "the dependency would close a cycle of items that wait for each other",
    "too_many_edges": "an item can have at most 600 dependencies",
    "too_many_notes": "an item can have at most 500 notes; write under a key that is there, or delete some first",
    "duplicate": "a dependency of this type between these items exists already",
}
_TRANSITION = {
    "terminal": "item is already terminal; use 'reopen' to move it back to queue",
    "not_terminal": "only a terminal item can be reopened",
    "blocked": "item is blocked; use 'resume' first",
    "already_blocked": "item is already blocked",
    "not_blocked": "only a blocked item can be resumed",
    "no_previous_role": "item was created as blocked and has no role to return to; use 'cancel'",
    "stale_fence": "fenceToken is not that of the item's present claim: the claim was lost",
}


def refused(reason: str) -> str:
    """The sentence for a refused item or edge."""
    return _ITEM[reason]


def not_applicable(reason: str, trigger: str) -> str:
    """The sentence for a trigger that an item cannot take now."""
    return f"Cannot apply '{trigger}': {_TRANSITION.get(reason) or _ITEM[reason]}"
