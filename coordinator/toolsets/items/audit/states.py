"""Recomputes in which class an item is: what follows from its role, claim, blockers and children."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.toolsets.items.rules import classes
from coordinator.toolsets.items.rules.records import Fields, RecordState, parsed, state_of

NO_OPEN, OPEN, PERMANENT, ENDED = "0123"
"""What the children of an item are (``lua/parents/children.lua``)."""
WAITS = 2**42
"""The offset of abandoned items in their index while they wait, and of claims on terminal items in theirs."""


def claim_of(fields: Fields) -> RecordState | None:
    """The state of an item that has a claim, live or lapsed; else None.

    Raises:
        ValueError: it cannot be read.
    """
    state = state_of(fields["w"])
    return state if state.holder else None


def is_held(fields: Fields) -> bool:
    """Whether the item is in a class held by a claim."""
    return parsed(fields["w"]).state == classes.HELD


def lapsed(fields: Fields) -> bool:
    """Whether the record of an expired claim is still on the item (and counted as lapsed)."""
    return claim_of(fields) is not None and not is_held(fields)


def available(fields: Fields) -> bool:
    """Whether agents are offered the item."""
    score = parsed(fields["w"])
    return score.role != classes.TERMINAL and score.state in (classes.READY, classes.ABANDONED)


def abandoned(fields: Fields) -> bool:
    """Whether the item is abandoned: unheld, and left in the middle.

    In work: it was claimed before, and no cascade or reopening took it there since. In review: the lapsed claim was
    placed after it came there. In both: it was resumed from quarantine, and not claimed since.
    """
    score, state = parsed(fields["w"]), state_of(fields["w"])
    if score.state == classes.HELD:
        return False
    if score.role == classes.WORK:
        return state.fence > 0 and fields.get("u") != "1"
    if score.role != classes.REVIEW:
        return False
    since = state.role_changed or score.created
    return fields.get("u") == "2" or (bool(state.holder) and state.fence >= since)


def _kept_back(fields: Fields) -> bool:
    """Whether something other than its children keeps the item from being offered."""
    role = parsed(fields["w"]).role
    return "nt" in fields or (role != classes.TERMINAL and not fields.keys().isdisjoint(("nb", "bx", "st")))


def _waits_for_children(fields: Fields) -> bool:
    """Whether its children keep the item from being offered."""
    return fields.get("ch") in (OPEN, PERMANENT) and parsed(fields["w"]).role in (classes.QUEUE, classes.WORK)


def class_letter(fields: Fields) -> str:
    """The class that follows from role, claim, blockers and children."""
    score, left = parsed(fields["w"]), abandoned(fields)
    offered = left or (score.role == classes.WORK and fields.get("ch") == ENDED)
    if score.state == classes.HELD or _kept_back(fields):
        state = classes.HELD if score.state == classes.HELD else classes.WAITING
    elif _waits_for_children(fields):
        state = classes.PARENT_LEFT if left else classes.PARENT
    else:
        state = classes.ABANDONED if offered else classes.READY
    return score._replace(state=state).letter


_AMONG_ABANDONED = ("those that are free", "those that wait", "parents after their children")


def abandoned_problems(fields: Fields, since: str | bool) -> Iterator[str]:
    """Compares the item's entry among the abandoned ones (False: missing) with its fields."""
    left = abandoned(fields)
    listed = left or parsed(fields["w"]).state == classes.ABANDONED
    waits = _kept_back(fields) or _waits_for_children(fields)
    place = 0 if left and not waits else 1 if left else 2
    if since is False:
        if listed:
            yield "is missing among the abandoned items"
    elif not listed:
        yield "is listed among the abandoned items, but is not abandoned"
    elif float(since) // WAITS != place:
        yield f"is listed as abandoned at {float(since):.0f}, should be among {_AMONG_ABANDONED[place]}"


def claim_problems(item: str, fields: Fields, lease: str | bool, held_by_agent: str | bool) -> Iterator[str]:
    """Compares the item's class, and its agent's lease and entry (False: missing), with its claim."""
    claim, letter = claim_of(fields), parsed(fields["w"]).letter
    if class_letter(fields) != letter:
        yield f"is in class {letter}, should be in {class_letter(fields)}"
    if claim is None:
        return
    if held_by_agent != item:
        yield "is claimed by an agent that holds another item or none"
    elif is_held(fields) and lease is False:
        yield "is held without a lease"
    elif is_held(fields) and float(lease) != claim.expires + (
        WAITS if parsed(fields["w"]).role == classes.TERMINAL else 0
    ):
        yield f"has a lease until {float(lease):.0f}, but its claim ends at {claim.expires}"
    elif not is_held(fields) and lease is not False:
        yield "has a lease without being held"
