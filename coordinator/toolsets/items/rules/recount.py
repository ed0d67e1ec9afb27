"""What an item's stored fields mean for all that is derived from them; the audit compares.

Written down a second time on purpose: ``lua/include/item.lua`` and its neighbours keep these
things up to date step by step, this derives them from the fields alone. Field letters as there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

CLASSES = "qwrtbQWRTB123-4"
"""Letters of the classes: five roles ready, held, waiting; '-' stands for a class that cannot be."""
TERMINAL, BLOCKED = 3, 4
MAX_DEPTH = 3
INLINE_BYTES = 64
RANK_EPOCH = 1_577_836_800_000
NO_COMPLEXITY = 255

Fields = Mapping[str, str]

_CLAIM = ("cb", "cx", "cc", "co")
_KNOWN = frozenset(("pr", "lb", "pa", "ca", "ma", "ra", "rv", "nb", "lv", *_CLAIM, *"tskpcdgyqf"))
_TEXTS = frozenset("tsxmo")
_RANGES = {"p": (0, 2), "c": (1, 10), "d": (0, MAX_DEPTH), "pr": (0, 2), "rv": (1, 1), "nb": (1, None), "f": (1, None)}


class Edge(NamedTuple):
    """One edge as the item at one end holds it."""

    code: str
    """B b IS_BLOCKED_BY I i, RELATES_TO R r; capital at the end that it was created from."""
    other: str
    dependency: str
    threshold: int

    @property
    def waits(self) -> bool:
        """Whether the item that holds the edge waits for the other one."""
        return self.code in "bI"

    @property
    def mirrored(self) -> str:
        """The code at the other end."""
        return self.code.swapcase()


def edge(field: str, value: str) -> Edge:
    """The edge behind one field of an item's edge hash."""
    mark = value[32:]
    return Edge(field[:1], field[1:], value[:32], TERMINAL if mark == "-" else int(mark))


def role_of(letter: str) -> int:
    """The role's code. Raises ValueError for a letter that is no class."""
    if len(letter) != 1 or letter == "-":
        raise ValueError(f"'{letter}' is not a class")
    return CLASSES.index(letter) % 5


def satisfied(role: int, threshold: int) -> bool:
    """Whether a blocker of this role lets what it blocks go on; one in BLOCKED never does."""
    return role != BLOCKED and role >= threshold


def rank(fields: Fields) -> int:
    """The score in every index: priority, then complexity, then age."""
    age = int(fields["ca"]) - RANK_EPOCH
    return (int(fields["p"]) << 49) + (int(fields.get("c", NO_COMPLEXITY)) << 41) + age


def scopes(fields: Fields) -> list[str]:
    """Everything, the parent's children, each tag, the type."""
    tags = fields.get("g", "").replace(",", " ").split()
    kind = [f"y{fields['y']}"] if "y" in fields else []
    return ["*", f"p{fields.get('pa', '')}", *(f"g{tag}" for tag in dict.fromkeys(tags)), *kind]


def is_held(fields: Fields) -> bool:
    """Whether the class says that a claim holds the item."""
    return fields["k"].isupper()


def lapsed(fields: Fields) -> bool:
    """Whether an expired claim's record is still on the item, and counted as such."""
    return "cb" in fields and not is_held(fields)


def class_letter(fields: Fields, held: bool) -> str:
    """The class that role, claim and blockers make."""
    role = role_of(fields["k"])
    if held:
        return CLASSES[role + 5]
    return CLASSES[role + 10] if "nb" in fields and role != TERMINAL else CLASSES[role]


def own_problems(fields: Fields, texts: Collection[str], now: int) -> Iterator[str]:
    """What is wrong with an item's fields taken by themselves; ``texts`` are its long ones."""
    try:
        yield from _shape(fields, texts)
        yield from _claim(fields, now)
    except (KeyError, ValueError) as error:
        yield f"cannot be read: {error!r}"


def _shape(fields: Fields, texts: Collection[str]) -> Iterator[str]:
    role = role_of(fields["k"])
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
    if "pr" in fields and role != BLOCKED:
        yield "has a previous role without being blocked"
    created, modified = int(fields["ca"]), int(fields.get("ma", fields["ca"]))
    if not RANK_EPOCH < created <= modified:
        yield "was modified before it was created"
    if created > int(fields.get("ra", fields["ca"])):
        yield "changed its role before it was created"
    int(fields["p"]), int(fields["d"]), int(fields.get("lv", "0"))


def _claim(fields: Fields, now: int) -> Iterator[str]:
    there = [name for name in _CLAIM if name in fields]
    if not there:
        if is_held(fields):
            yield "is held by nobody"
        return
    if len(there) < len(_CLAIM) or "f" not in fields:
        yield f"has only {', '.join(there)} of a claim"
        return
    if not int(fields["co"]) <= int(fields["cc"]) <= int(fields["cx"]):
        yield "has claim times in the wrong order"
    if not is_held(fields) and int(fields["cx"]) > now:
        yield "has a live claim that does not hold it"


def claim_problems(item: str, fields: Fields, lease: str | bool, held_by_agent: str | bool) -> Iterator[str]:
    """The item's class, lease and agent entry against its claim; False stands for a missing one."""
    held = is_held(fields)
    if class_letter(fields, held) != fields["k"]:
        yield f"is in class {fields['k']}, should be in {class_letter(fields, held)}"
    expires = str(lease).partition(".")[0] if held else False
    if lease is False if held else lease is not False:
        yield "is held without a lease" if held else "has a lease without being held"
    elif held and expires != fields["cx"]:
        yield f"has a lease until {expires}, but its claim ends at {fields['cx']}"
    if "cb" in fields and held_by_agent != item:
        yield "is claimed by an agent that holds another item or none"


def depth_problems(fields: Fields, parent_depth: str | bool) -> Iterator[str]:
    """The depth against the parent's; False where no parent exists."""
    if "pa" in fields and parent_depth is False:
        yield f"is below {fields['pa']}, which does not exist"
        return
    depth = int(parent_depth) + 1 if "pa" in fields else 0
    if int(fields["d"]) != depth:
        yield f"has depth {fields['d']}, should have {depth}"


def rank_problems(fields: Fields, scope: str, score: str | bool) -> Iterator[str]:
    """The item's entry in the index of one of its scopes; False where it is missing."""
    if score is False:
        yield f"is missing in {scope}:{fields['k']}"
    elif float(score) != rank(fields):
        yield f"has rank {float(score):.0f} in {scope}, should have {rank(fields)}"


def blocker_problems(fields: Fields, waits_for: Iterable[tuple[Edge, str | bool]]) -> Iterator[str]:
    """Whether ``nb`` counts the blockers that are not satisfied: (edge, the blocker's class or False)."""
    unsatisfied = sum(
        isinstance(letter, str) and not satisfied(role_of(letter), found.threshold) for found, letter in waits_for
    )
    if int(fields.get("nb", "0")) != unsatisfied:
        yield f"counts {fields.get('nb', '0')} unsatisfied blockers, but has {unsatisfied}"


def edge_problems(
    item: str, field: str, value: str, here: Sequence[str | bool], there: Sequence[str | bool],
    mirrored: str | bool, dependency: str | bool,
) -> Iterator[str]:  # fmt: skip
    """One edge against its other end: class and level of both items, the edge as kept there, its ends by id."""
    found = edge(field, value)
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
    """The mark that gates read against its note: item, key and role as kept there, bytes of the body."""
    if note[0] is False:
        yield f"marks a note {key} that does not exist"
    elif list(note) != [item, key, mark[32:33]]:
        yield f"marks the note {key} as {item}, {mark[32:33]}, but it is {', '.join(map(str, note))}"
    elif mark[33:] == "1" and not size:
        yield f"marks the note {key} as filled, but it is empty"
