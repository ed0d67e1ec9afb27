"""How the state of a work item is stored: the one place that lays it out, for Python and Lua.

The state is one field of the item's hash (``w``): all that changes with a claim or a transition, because the price of a
call is that of the fields which it reads and writes. It begins with numbers, most significant byte first, 0 for what
there is not; times are in ms. Then come three texts: status label, entry of the last transition in ``transitions``, and
the trusted id of the claim's agent, up to the end. The first number, the score, gives the item its rank. It alone is
the whole record of an item that was never changed nor claimed, and has no label.

Operations read it by ``item_record.lua`` of the items, those of other toolsets by ``leases.lua``, Python by
``coordinator.toolsets.items.rules.records``. Lua gets the layout as the module ``record_layout``
(``libraries/build.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

NUMBERS = {
    "score": 7,
    "role_changed": 6,
    "modified": 6,
    "fence": 6,
    "expires": 6,
    "claimed": 6,
    "first_claimed": 6,
    "label_bytes": 2,
    "entry_bytes": 1,
}
"""The numbers of a record in their order, and how many bytes each has. ``role_changed`` and ``modified`` are 0 if
that is the item's creation; from ``expires`` on there are times only while there is a claim, live or lapsed."""

# The parts of a score: classes.lua of the items puts them together.
STATES = 8
"""Of each role: a class is a role and a state."""
CLASS_SIZE = 2**47
"""How many scores a class has; of those a priority has ``PRIORITY_SIZE``, and of these a complexity ``GROUP_SIZE``."""
PRIORITY_SIZE = 2**45
GROUP_SIZE = 2**41
RANK_EPOCH = 1_577_836_800_000
"""2020-01-01: leaves 41 bits of milliseconds, 69 years."""
NO_COMPLEXITY = 15
"""Sorts after every real one."""


def for_lua() -> dict[str, int | str]:
    """The constants of the Lua module: where numbers and texts begin, and formats of ``struct``."""
    found: dict[str, int | str] = {}
    at = 1
    for name, size in NUMBERS.items():
        found[f"{name.upper()}_AT"] = at
        at += size
    return found | {
        "TEXTS_AT": at,
        "SCORE_BYTES": NUMBERS["score"],
        "RECORD": _format(NUMBERS),
        "SCORE": _format(("score",)),
        "TIME": _format(("fence",)),
        "TIMES": _format(name for name, size in NUMBERS.items() if size == NUMBERS["fence"]),
        "LENGTHS": _format(("label_bytes", "entry_bytes")),
        "STATES": STATES,
        "CLASS_SIZE": CLASS_SIZE,
        "PRIORITY_SIZE": PRIORITY_SIZE,
        "GROUP_SIZE": GROUP_SIZE,
        "RANK_EPOCH": RANK_EPOCH,
        "NO_COMPLEXITY": NO_COMPLEXITY,
    }


def _format(names: Iterable[str]) -> str:
    return ">" + "".join(f"I{NUMBERS[name]}" for name in names)
