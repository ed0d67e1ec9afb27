"""Checks the fields of an item by themselves: which there are, their ranges, and what they say together."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from coordinator.toolsets.items.audit.resources import lacking
from coordinator.toolsets.items.audit.states import claim_of, is_held
from coordinator.toolsets.items.fields import FIELDS, Field, Kind
from coordinator.toolsets.items.rules.classes import BLOCKED, HELD, TERMINAL
from coordinator.toolsets.items.rules.records import Fields, parsed, state_of

MAX_DEPTH = 3
INLINE_BYTES = 64
KEPT_ATTEMPTS = 20
_BESIDE = frozenset("xmo")
_TEXTS = _BESIDE | {"t", "s", "a"}
_IN_RECORD = frozenset(("", "p", "c", "lb"))
_STATE: dict[str, tuple[int, int | None] | None] = {
    **dict.fromkeys(("w", "lv", "ro", "rh", "rp", "as", "ub")),
    "d": (1, MAX_DEPTH),
    "pr": (0, 2),
    "nb": (1, None),
    "lo": (1, None),
    "hc": (1, None),
    "k": (1, 1),
    "u": (1, 2),
    "tk": (1, None),
    "an": (0, None),
    "nt": (0, None),
    "rn": (1, None),
    "ch": (0, 3),
}
"""What scripts keep of an item besides what it says, and the range of each number."""


def _range(field: Field) -> tuple[int, int | None] | None:
    if field.kind is Kind.NUMBER:
        return field.least, field.most
    return {Kind.YES: (1, 1), Kind.TIME: (1, None)}.get(field.kind)


_KNOWN = _STATE | {field.letter: _range(field) for field in FIELDS if field.letter not in _IN_RECORD | _BESIDE}
_RANGES = {name: bounds for name, bounds in _KNOWN.items() if bounds}


def own_problems(fields: Fields, texts: Collection[str], now: int) -> Iterator[str]:
    """The problems of an item's own fields.

    Args:
        texts: the names of its long texts.

    Raises:
        KeyError: a field is missing.
        ValueError: one cannot be read.
    """
    yield from _shape(fields, texts)
    yield from _claim(fields, now)


def _shape(fields: Fields, texts: Collection[str]) -> Iterator[str]:
    score = parsed(fields["w"])
    for name in sorted(set(fields) - _KNOWN.keys()):
        yield f"has a field {name} that means nothing"
    for name, (least, most) in _RANGES.items():
        if name in fields and not (least <= int(fields[name]) and (most is None or int(fields[name]) <= most)):
            yield f"has {name} = {fields[name]}, out of its range"
    for name in sorted(set(texts) - _TEXTS):
        yield f"has a long text {name} that means nothing"
    for name in "ts":
        if name in fields and name in texts:
            yield f"has the text {name} twice, short and long"
        if name in fields and not 0 < len(fields[name].encode()) <= INLINE_BYTES:
            yield f"has a short text {name} of {len(fields[name].encode())} bytes"
    if "t" not in fields and "t" not in texts:
        yield "has no title"
    if "rh" in fields and (score.state != HELD or score.role == TERMINAL):
        yield "holds resources without a claim, or in role terminal"
    if "lo" in fields and score.state != HELD:
        yield "counts failed claims without being held"
    if "pr" in fields and score.role != BLOCKED:
        yield "has a previous role without being blocked"
    state = state_of(fields["w"])
    if 0 < state.modified < score.created:
        yield "was modified before it was created"
    if 0 < state.role_changed < score.created:
        yield "changed its role before it was created"
    int(fields.get("lv", "0"))


def _claim(fields: Fields, now: int) -> Iterator[str]:
    claim = claim_of(fields)
    if "k" in fields and not is_held(fields) and "bx" not in fields:
        yield "is put aside without being held or having spent its budget"
    if claim is None:
        if is_held(fields):
            yield "is held by nobody"
        return
    if not claim.first <= claim.claimed <= claim.expires:
        yield "has claim times in the wrong order"
    if not is_held(fields) and claim.expires > now:
        yield "has a live claim that does not hold it"
    is_open = parsed(fields["w"]).role != TERMINAL
    if is_open and claim.expires > now and (missing := lacking(fields.get("rh", ""), fields.get("rs", ""))):
        yield f"has a live claim that lacks {missing} of what it demands"


def attempt_problems(fields: Fields, text: str | bool) -> Iterator[str]:
    """Compares the number of attempts with their list (JSON; False: missing)."""
    if (text is False) != ("an" not in fields):
        yield f"counts {fields.get('an', 'no')} attempts, and has {'no' if text is False else 'a'} list of them"
    if isinstance(text, str):
        listed = msgspec.json.decode(text, type=list[tuple[int, int, str, str, str, str]])
        if not 0 < len(listed) <= KEPT_ATTEMPTS:
            yield f"lists {len(listed)} attempts"
        if len(listed) < min(int(fields.get("an", "0")), KEPT_ATTEMPTS):
            yield f"counts {fields['an']} attempts, but lists {len(listed)}"
        if any(began > until for began, until, *_ in listed):
            yield "has an attempt that ended before it began"
