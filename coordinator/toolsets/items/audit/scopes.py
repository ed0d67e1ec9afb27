"""Recomputes in which sets of the ranked index an item is, and where."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.store.record_layout import CLASS_SIZE, PRIORITY_SIZE, RANK_EPOCH, STATES
from coordinator.toolsets.items.audit.states import available
from coordinator.toolsets.items.rules.classes import ABANDONED, APART, BLOCKED, QUEUE, READY, REVIEW, WORK
from coordinator.toolsets.items.rules.records import Fields, parsed, state_of

_PLACES = {
    role * STATES + state: place
    for place, (role, state) in enumerate(
        ((QUEUE, READY), (WORK, READY), (WORK, ABANDONED), (REVIEW, READY), (REVIEW, ABANDONED), (BLOCKED, READY))
    )
}
"""Ready classes by their order in places."""
PLACED = ("w", "pa", "g", "y", "rq", "to", "as")
"""The fields that say to which scopes an item belongs."""


def scopes(fields: Fields) -> list[str]:
    """The scopes that an item belongs to: its parent's children, those of any parent, each tag, the type.

    If it is available and not for everybody, also those of its set.
    """
    tags = fields.get("g", "").replace(",", " ").split()
    kind = [f"y{fields['y']}"] if "y" in fields else []
    of_parent = [f"p{fields['pa']}", "c"] if "pa" in fields else ["p"]
    by_name = [*(f"g{tag}" for tag in dict.fromkeys(tags)), *kind]
    if not apart(fields):
        return [*of_parent, *by_name]
    own = ["*", *([f"p{fields['pa']}"] if "pa" in fields else []), *by_name]
    assigned = ["@"] if "to" in fields else []
    kinds = "RA" if assigned or by_due(fields) else "R"
    return [*of_parent, *by_name, *assigned, *(f"{kind}{set_of(fields)} {scope}" for kind in kinds for scope in own)]


def by_due(fields: Fields) -> bool:
    """Whether the item ranks by when it is due, while it is available."""
    return fields.get("as", "").startswith("due")


def set_of(fields: Fields) -> str:
    """The set of an item that is not for everybody (``lua/selection/apart.lua``)."""
    if "to" in fields:
        return f"@{len(fields['to'].encode())}:{fields['to']}"
    required = fields.get("rq", "")
    return f"{required}|{fields['as']}" if "as" in fields else required


def apart(fields: Fields) -> bool:
    """Whether the item is available, but not for everybody."""
    return not fields.keys().isdisjoint(("rq", "to", "as")) and available(fields)


def member_of(fields: Fields) -> str:
    """The entry of an item's set among those with further conditions; '' for none."""
    score = parsed(fields["w"])
    listed = "as" in fields and "to" not in fields and available(fields)
    return chr(48 + score.role * STATES + score.state) + set_of(fields) if listed else ""


def place_of(score: float, item: str) -> float:
    """The place of an item among the best ones of sets, as in ``lua/layout/classes.lua``."""
    kind, rank = divmod(score, CLASS_SIZE)
    return (_PLACES[int(kind)] * CLASS_SIZE + rank) * 8 + int(item[0], 16) // 2


def set_problems(fields: Fields, item: str, best: str | bool) -> Iterator[str]:
    """Compares the entry of an item's set (False: missing), the place of its best item, with the item."""
    if ("to" in fields) != (fields.get("as", "").split(",")[-1] == "@"):
        yield f"is {'' if 'to' in fields else 'not '}assigned, but its set is {fields.get('as', '')!r}"
    if member_of(fields) and (best is False or float(best) > place_of(state_of(fields["w"]).score, item)):
        yield f"is in the set {set_of(fields)}, whose best item is at {best or 'none'}"


def rank_problems(fields: Fields, scope: str, score: str | bool) -> Iterator[str]:
    """Compares the item's score with that in the index of one of its scopes (False: missing)."""
    expected = state_of(fields["w"]).score
    parts = parsed(fields["w"])
    if scope.startswith("R") and by_due(fields):
        due = int(fields["du"]) - RANK_EPOCH
        expected += max(0, min(due, 2**41 - 1)) - expected % PRIORITY_SIZE
    elif apart(fields) and not scope.startswith(("R", "A", "@")):
        expected += (APART - parts.state) * CLASS_SIZE
    if score is False:
        yield f"is missing in {scope}"
    elif float(score) != expected:
        yield f"has score {float(score):.0f} in {scope}, should have {expected}"
