"""Recomputes what holds items back, and the indexes of their times."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.toolsets.items.rules.classes import BLOCKED, REVIEW, TERMINAL, WORK
from coordinator.toolsets.items.rules.records import Fields, parsed

_QUARANTINED, _TEMPLATE = 0, 1
_RESTORED = 4_102_444_800_000
"""Until when items are held back that are being restored."""

Entry = str | bool
"""The score of an item in an index; False: it is not there."""


def _at(entry: Entry) -> int:
    return 0 if entry is False else int(float(entry))


def held_back_problems(
    fields: Fields, retry: Entry, backoff: Entry, postponed: Entry, quarantined: Entry
) -> Iterator[str]:
    """Compares the item's entries among those held back until a time, in back-off, not ready before a time and in
    quarantine with its fields."""
    role, until, not_before = parsed(fields["w"]).role, int(fields.get("nt", "-1")), int(fields.get("nv", "0"))
    timed = until > _TEMPLATE
    if until == _QUARANTINED and role != BLOCKED:
        yield "is quarantined without being blocked"
    if (quarantined is not False) != (until == _QUARANTINED):
        told = "" if until == _QUARANTINED else "not "
        yield f"is {told}quarantined, but {'' if quarantined is not False else 'not '}listed so"
    if _at(retry) != (until if timed else 0):
        yield f"is held back until {max(until, 0)}, but listed until {_at(retry)}"
    if timed and role == TERMINAL:
        yield "is held back until a time, but terminal"
    if backoff is not False and not (timed and _at(backoff) <= until and role in (WORK, REVIEW)):
        yield f"is listed in back-off until {_at(backoff)}, but is not"
    if postponed is not False and not (timed and _at(postponed) == not_before <= until):
        yield f"is listed as not ready before {_at(postponed)}, but is not"
    if timed and until != _RESTORED and until != max(_at(backoff), _at(postponed)):
        yield f"is held back until {until}, but neither in back-off nor by its notBefore"


def time_problems(fields: Fields, due: Entry, recurring: Entry) -> Iterator[str]:
    """Compares the item's entries among those that are due and those that recur with its fields."""
    role, until = parsed(fields["w"]).role, int(fields.get("nt", "-1"))
    stated = fields.get("du", "0")
    if _at(due) != (int(stated) if stated.isdecimal() and role != TERMINAL else 0):
        yield f"is due at {stated}, but listed at {_at(due)}"
    makes = "rc" in fields and role not in (BLOCKED, TERMINAL)
    if (recurring is not False) != makes and until != _RESTORED:
        yield f"is {'' if makes else 'not '}a template that makes items, but {'not ' if makes else ''}listed so"
    if ("rc" in fields) != ("rn" in fields):
        yield "is a template without the time up to which it has made items, or the other way round"
    if "rc" in fields and role != TERMINAL and until not in (_QUARANTINED, _TEMPLATE, _RESTORED):
        yield "is a template, but not held back as such"
    if until == _TEMPLATE and "rc" not in fields:
        yield "is held back as a template, but is none"
