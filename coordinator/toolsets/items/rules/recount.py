"""Recomputes indexes and counters from an item's stored fields, for the audit.

The rules are written a second time here on purpose. ``lua/layout/items.lua`` and its neighbours update indexes and
counters change by change; this module derives them only from the fields. Field letters are those of ``items.lua``;
the record ``w`` comes in hex digits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from coordinator.settings.attempts import LONGEST_BACKOFF_SECONDS, MOST_ATTEMPTS
from coordinator.toolsets.items.rules import resources

CLASSES = "qQ-1p---wWa2x-X-rRA3----tT------bB-4----"
"""The letters of the classes of each role; '-': no item is stored with such a class."""
STATES = 8
READY, HELD, ABANDONED, WAITING, PARENT, _, PARENT_LEFT, APART = range(STATES)
"""Of each role. PARENT and PARENT_LEFT would be ready and abandoned, but have open children. APART is there in shared
scopes only: available items that are not for everybody."""
QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = range(5)
WAITS = 2**42
"""The offset of abandoned items in their index while they wait, and of claims on terminal items in theirs."""
NO_OPEN, OPEN, PERMANENT, ENDED = "0123"
"""What the children of an item are (``lua/parents/children.lua``)."""
MAX_DEPTH = 3
INLINE_BYTES = 64
KEPT_ATTEMPTS = 20
RANK_EPOCH = 1_577_836_800_000
NO_COMPLEXITY = 15
CLASS_SPAN = 2**47
"""How many scores a class has."""
_PLACES = {0: 0, 8: 1, 10: 2, 16: 3, 18: 4, 32: 5}
"""Ready classes by their order in places."""
BAND_SPAN = 2**45
"""How many scores a band has. (A band is one class and priority.)"""
OPEN_ROLES = (0, 1, 2, 4)
"""The roles whose items can be ready."""

Fields = Mapping[str, str]

_DEMANDING = ("rs", "ro", "rh", "rp", "as")
_TIMED = ("nv", "du", "rc", "rn", "oc")
_USAGE = ("us", "ub", "bu", "bx")
_KNOWN = frozenset(
    (
        *("pr", "pa", "rv", "nb", "lv", "lo", "hc", "tk", "an", "am", "rb", "nt", "rq"),
        *("ch", "st"),
        *_DEMANDING,
        *_TIMED,
        *_USAGE,
        *"wtsdgyqku",
    )
)
_TEXTS = frozenset("tsxmoa")
_CACHED = 1_024
"""How many records and scores are kept: the checks of one item read its own many times."""
_RECORD = re.compile(r"\d{13}[osue][v-][a-z0-9_.:/,-]* (\S+ \d{13}| )")
_RANGES = {
    "d": (1, MAX_DEPTH),
    "pr": (0, 2),
    "rv": (1, 1),
    "nb": (1, None),
    "lo": (1, None),
    "hc": (1, None),
    "k": (1, 1),
    "u": (1, 2),
    "tk": (1, None),
    "an": (0, None),
    "am": (0, MOST_ATTEMPTS),
    "rb": (0, LONGEST_BACKOFF_SECONDS),
    "nt": (0, None),
    "nv": (1, None),
    "rn": (1, None),
    "bx": (1, 1),
    "ch": (0, 3),
    "st": (1, 1),
}


class Score(NamedTuple):
    """The parts of an item's score (``lua/layout/classes.lua``)."""

    role: int
    state: int
    priority: int
    complexity: int
    created: int
    """In ms."""

    @property
    def letter(self) -> str:
        """The letter of its class."""
        return CLASSES[self.role * STATES + self.state]


class State(NamedTuple):
    """The record of an item's state (``lua/layout/item_record.lua``); times in ms, 0 for none."""

    score: int
    role_changed: int = 0
    modified: int = 0
    fence: int = 0
    expires: int = 0
    claimed: int = 0
    first: int = 0
    label: str = ""
    entry: str = ""
    holder: str = ""

    def packed(self) -> bytes:
        """Its stored form."""
        score = self.score.to_bytes(7)
        if self == State(self.score):
            return score
        label, entry = self.label.encode(), self.entry.encode()
        times = b"".join(time.to_bytes(6) for time in self[1:7])
        return score + times + len(label).to_bytes(2) + len(entry).to_bytes(1) + label + entry + self.holder.encode()


@lru_cache(_CACHED)
def state_of(record: str) -> State:
    """The state of an item, from its record in hex digits.

    Raises:
        ValueError: it cannot be read.
    """
    raw = bytes.fromhex(record)
    first, last = 46 + int.from_bytes(raw[43:45]), int.from_bytes(raw[45:46])
    texts = (text.decode() for text in (raw[46:first], raw[first : first + last], raw[first + last :]))
    parts: list[Any] = [*(int.from_bytes(raw[at : at + 6]) for at in range(7, 43, 6)), *texts]
    state = State(int.from_bytes(raw[:7]), *parts)
    if state.packed() != raw or bool(state.expires) != bool(state.holder) or (state.holder and not state.fence):
        raise ValueError(f"'{record}' is no record of an item")
    return state


def parsed(record: str) -> Score:
    """The parts of the score in an item's record.

    Raises:
        ValueError: it cannot be read.
    """
    return parts_of(state_of(record).score)


@lru_cache(_CACHED)
def parts_of(score: int) -> Score:
    """The parts of a score.

    Raises:
        ValueError: no item can have this score.
    """
    found = Score(
        score // CLASS_SPAN // STATES,
        score // CLASS_SPAN % STATES,
        score >> 45 & 3,
        score >> 41 & 15,
        score % 2**41 + RANK_EPOCH,
    )
    if not 0 <= score < len(CLASSES) * CLASS_SPAN or found.letter == "-":
        raise ValueError(f"{score} is no score")
    if found.priority > 2 or not (1 <= found.complexity <= 10 or found.complexity == NO_COMPLEXITY):
        raise ValueError(f"{score} has priority {found.priority} and complexity {found.complexity}")
    return found


def claim_of(fields: Fields) -> State | None:
    """The state of an item that has a claim, live or lapsed; else None.

    Raises:
        ValueError: it cannot be read.
    """
    state = state_of(fields["w"])
    return state if state.holder else None


class Edge(NamedTuple):
    """One edge as stored with the item at one end, its holder."""

    code: str
    """BLOCKS: B, b. IS_BLOCKED_BY: I, i. RELATES_TO: R, r. A capital at the end that the edge was created from."""
    other: str
    dependency: str
    threshold: int

    @property
    def waits(self) -> bool:
        """Whether the holder waits for the other item."""
        return self.code in "bI"

    @property
    def mirrored(self) -> str:
        """The code at the other end."""
        return self.code.swapcase()


def edge(field: str, value: str) -> Edge:
    """The edge in one field of an item's edge hash."""
    mark = value[32:]
    return Edge(field[:1], field[1:], value[:32], TERMINAL if mark == "-" else int(mark))


def satisfied(role: int, threshold: int) -> bool:
    """Whether a blocker in this role no longer blocks; one in role blocked always does."""
    return role != BLOCKED and role >= threshold


PLACED = ("w", "pa", "g", "y", "rq", "as")
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
    kinds = "RA" if by_due(fields) else "R"
    return [*of_parent, *by_name, *(f"{kind}{set_of(fields)} {scope}" for kind in kinds for scope in own)]


def by_due(fields: Fields) -> bool:
    """Whether the item ranks by when it is due, while it is available."""
    return fields.get("as", "").startswith("due")


def set_of(fields: Fields) -> str:
    """The set of an item that is not for everybody (``lua/selection/apart.lua``)."""
    required = fields.get("rq", "")
    return f"{required}|{fields['as']}" if "as" in fields else required


def apart(fields: Fields) -> bool:
    """Whether the item is available, but not for everybody."""
    return ("rq" in fields or "as" in fields) and available(fields)


def available(fields: Fields) -> bool:
    """Whether agents are offered the item."""
    score = parsed(fields["w"])
    return score.role != TERMINAL and score.state in (READY, ABANDONED)


def member_of(fields: Fields) -> str:
    """The entry of an item's set among those with further conditions; '' for none."""
    score = parsed(fields["w"])
    return chr(48 + score.role * STATES + score.state) + set_of(fields) if "as" in fields and available(fields) else ""


def place_of(score: float, item: str) -> float:
    """The place of an item among the best ones of sets, as in ``lua/layout/classes.lua``."""
    kind, rank = divmod(score, CLASS_SPAN)
    return (_PLACES[int(kind)] * CLASS_SPAN + rank) * 8 + int(item[0], 16) // 2


def set_problems(fields: Fields, item: str, best: str | bool) -> Iterator[str]:
    """Compares the entry of an item's set (False: missing), the place of its best item, with the item."""
    if member_of(fields) and (best is False or float(best) > place_of(state_of(fields["w"]).score, item)):
        yield f"is in the set {set_of(fields)}, whose best item is at {best or 'none'}"


def is_held(fields: Fields) -> bool:
    """Whether the item is in a class held by a claim."""
    return parsed(fields["w"]).state == HELD


def lapsed(fields: Fields) -> bool:
    """Whether the record of an expired claim is still on the item (and counted as lapsed)."""
    return claim_of(fields) is not None and not is_held(fields)


def abandoned(fields: Fields) -> bool:
    """Whether the item is abandoned: unheld, and left in the middle.

    In work: it was claimed before, and no cascade or reopening took it there since. In review: the lapsed claim was
    placed after it came there. In both: it was resumed from quarantine, and not claimed since.
    """
    score, state = parsed(fields["w"]), state_of(fields["w"])
    if score.state == HELD:
        return False
    if score.role == WORK:
        return state.fence > 0 and fields.get("u") != "1"
    if score.role != REVIEW:
        return False
    since = state.role_changed or score.created
    return fields.get("u") == "2" or (bool(state.holder) and state.fence >= since)


def _kept_back(fields: Fields) -> bool:
    """Whether something other than its children keeps the item from being offered."""
    role = parsed(fields["w"]).role
    return "nt" in fields or (role != TERMINAL and not fields.keys().isdisjoint(("nb", "bx", "st")))


def _waits_for_children(fields: Fields) -> bool:
    """Whether its children keep the item from being offered."""
    return fields.get("ch") in (OPEN, PERMANENT) and parsed(fields["w"]).role in (QUEUE, WORK)


def class_letter(fields: Fields) -> str:
    """The class that follows from role, claim, blockers and children."""
    score, left = parsed(fields["w"]), abandoned(fields)
    offered = left or (score.role == WORK and fields.get("ch") == ENDED)
    if score.state == HELD or _kept_back(fields):
        state = HELD if score.state == HELD else WAITING
    elif _waits_for_children(fields):
        state = PARENT_LEFT if left else PARENT
    else:
        state = ABANDONED if offered else READY
    return score._replace(state=state).letter


_AMONG_ABANDONED = ("those that are free", "those that wait", "parents after their children")


def abandoned_problems(fields: Fields, since: str | bool) -> Iterator[str]:
    """Compares the item's entry among the abandoned ones (False: missing) with its fields."""
    left = abandoned(fields)
    listed = left or parsed(fields["w"]).state == ABANDONED
    waits = _kept_back(fields) or _waits_for_children(fields)
    place = 0 if left and not waits else 1 if left else 2
    if since is False:
        if listed:
            yield "is missing among the abandoned items"
    elif not listed:
        yield "is listed among the abandoned items, but is not abandoned"
    elif float(since) // WAITS != place:
        yield f"is listed as abandoned at {float(since):.0f}, should be among {_AMONG_ABANDONED[place]}"


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
    for name in sorted(set(fields) - _KNOWN):
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
    if is_open and claim.expires > now and (missing := resources.lacking(fields.get("rh", ""), fields.get("rs", ""))):
        yield f"has a live claim that lacks {missing} of what it demands"


_ENDED = TERMINAL * STATES * CLASS_SPAN
COUNTED_CHILDREN = (("-inf", str(_ENDED - 1)), (str(_ENDED), str(_ENDED + STATES * CLASS_SPAN - 1)),
                    (str(_ENDED + STATES * CLASS_SPAN), "+inf"))  # fmt: skip
"""The ranges of scores in which children are counted: open, terminal, open."""


def children_problems(fields: Fields, early: int, ended: int, late: int) -> Iterator[str]:
    """Compares what the item says of its children with how many there are, by ``COUNTED_CHILDREN``."""
    says, open_ones = fields.get("ch", ""), early + late
    if (says == OPEN) != (open_ones > 0) or (says == PERMANENT and not ended):
        yield f"says {says or 'nothing'} of its children, of which {open_ones} are open and {ended} are not"
    if says == ENDED and parsed(fields["w"]).role not in (WORK, BLOCKED):
        yield "is offered after its children without being in work"


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
    elif is_held(fields) and float(lease) != claim.expires + (WAITS if parsed(fields["w"]).role == TERMINAL else 0):
        yield f"has a lease until {float(lease):.0f}, but its claim ends at {claim.expires}"
    elif not is_held(fields) and lease is not False:
        yield "has a lease without being held"


def depth_problems(fields: Fields, parent: Sequence[str | bool]) -> Iterator[str]:
    """Compares the depth with the parent's: its record (False: there is no such parent) and its depth (False: 0)."""
    if "pa" in fields and parent[0] is False:
        yield f"is below {fields['pa']}, which does not exist"
        return
    depth = int(parent[1]) + 1 if "pa" in fields else 0
    if int(fields.get("d", "0")) != depth:
        yield f"has depth {fields.get('d', '0')}, should have {depth}"


def rank_problems(fields: Fields, scope: str, score: str | bool) -> Iterator[str]:
    """Compares the item's score with that in the index of one of its scopes (False: missing)."""
    expected = state_of(fields["w"]).score
    parts = parsed(fields["w"])
    if scope.startswith("R") and by_due(fields):
        due = int(fields["du"]) - RANK_EPOCH
        expected += max(0, min(due, 2**41 - 1)) - expected % BAND_SPAN
    elif apart(fields) and not scope.startswith(("R", "A")):
        expected += (APART - parts.state) * CLASS_SPAN
    if score is False:
        yield f"is missing in {scope}"
    elif float(score) != expected:
        yield f"has score {float(score):.0f} in {scope}, should have {expected}"


def bands(role: int) -> list[int]:
    """The bands of a role's classes of ready items and of parents, one per class and priority."""
    states = [READY, ABANDONED, PARENT, PARENT_LEFT]
    classes = [role * STATES + state for state in states if CLASSES[role * STATES + state] != "-"]
    return [band for first in classes for band in range(first * 4, first * 4 + 3)]


_ALL_BANDS = [band for role in OPEN_ROLES for band in sorted(bands(role))]


def bound_of(item: str, band: int) -> str:
    """The member (of ``beneath``) that is an item's bound in a band."""
    return item + chr(48 + _ALL_BANDS.index(band))


def bound_problems(role: int, firsts: Sequence[Sequence[str]], bounds: Sequence[str | bool]) -> Iterator[str]:
    """Compares an item's bounds of one role with the best ready items below it.

    Args:
        firsts: the first entry (member, score) per band: of the children, then of the children's own bounds.
        bounds: by band; False: missing.
    """
    for band, bound, *found in zip(bands(role), bounds, firsts[: len(bounds)], firsts[len(bounds) :], strict=True):
        best = min((float(first[1]) for first in found if first), default=None)
        if best is None or (bound is not False and float(bound) <= best):
            continue
        yield f"has bound {bound or 'none'} in band {band}, but {best:.0f} is ready below it"


def bound_belongs(member: str, score: str, parent: str, above: str | bool, aside: str | bool) -> bool:
    """Whether a bound belongs to the set of ``parent`` ('' for roots), and has a score of the right band.

    A bound that was put aside has a score of the held class, and its item says so (``aside``).

    Args:
        above: the parent that the item itself names.
    """
    band, item = int(float(score)) // BAND_SPAN, member[:32]
    ready = {bound_of(item, number): number for role in OPEN_ROLES for number in bands(role)}.get(member)
    stands = ready is not None and (band == ready or (band == ready + 4 and bool(aside)))
    return stands and (above or "") == parent


def blocker_problems(fields: Fields, waits_for: Iterable[tuple[Edge, str | bool]]) -> Iterator[str]:
    """Compares ``nb`` with the number of unsatisfied blockers: (edge, the blocker's record; False: missing)."""
    unsatisfied = sum(
        isinstance(record, str) and not satisfied(parsed(record).role, found.threshold) for found, record in waits_for
    )
    if int(fields.get("nb", "0")) != unsatisfied:
        yield f"counts {fields.get('nb', '0')} unsatisfied blockers, but has {unsatisfied}"


def agent_problems(agent: str, record: str | bool, seen: str | bool) -> Iterator[str]:
    """Compares the record of an agent with when it was last seen (False: missing)."""
    if record is False and seen is False:
        return  # forgotten meanwhile
    if record is False or seen is False:
        yield f"knows {agent}, but not {'who it is' if record is False else 'when it was seen'}"
    elif _RECORD.fullmatch(str(record)) is None:
        yield f"has a record of {agent} that cannot be read: {record}"
    elif int(str(record)[:13]) != int(float(seen)):
        yield f"has seen {agent} at {str(record)[:13]} and at {float(seen):.0f}"


def edge_problems(
    item: str, found: Edge, value: str, here: Sequence[str | bool], there: Sequence[str | bool],
    mirrored: str | bool, dependency: str | bool,
) -> Iterator[str]:  # fmt: skip
    """Compares an edge with its other end.

    Args:
        value: the stored value of the edge.
        here, there: record and level of the holder and of the other item.
        mirrored: the value of the edge as stored with the other item; False: missing.
        dependency: the ends that the dependency's id leads to; False: missing.
    """
    field = found.code + found.other
    if here[0] is False or there[0] is False:
        yield f"has an edge {field} from or to an item that does not exist"
        return
    if mirrored != value:
        yield f"has an edge {field} that is {mirrored or 'missing'} at its other end, should be {value}"
    near, far = (item, found.other) if found.code.isupper() else (found.other, item)
    ends = f"{found.code.upper()}{near}{far}"
    if dependency != ends:
        yield f"has an edge {field} whose id leads to {dependency or 'nothing'}, should lead to {ends}"
    if found.waits and int(here[1] or 0) <= int(there[1] or 0):
        yield f"has level {int(here[1] or 0)}, not above {int(there[1] or 0)} of {found.other}, which blocks it"


def note_problems(item: str, key: str, mark: str, note: Sequence[str | bool], size: int) -> Iterator[str]:
    """Compares the entry of a note, which gates read, with the note itself.

    Args:
        note: item, key and role in the note; False: missing.
        size: the bytes of its body.
    """
    if note[0] is False:
        yield f"marks a note {key} that does not exist"
    elif list(note) != [item, key, mark[32:33]]:
        yield f"marks the note {key} as {item}, {mark[32:33]}, but it is {', '.join(map(str, note))}"
    elif mark[33:] != ("1" if size else "0"):
        yield f"marks the note {key} as {'empty, but it is filled' if size else 'filled, but it is empty'}"
