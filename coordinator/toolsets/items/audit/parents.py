"""Recomputes what items say of their parents and children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.store.record_layout import CLASS_SIZE, STATES
from coordinator.toolsets.items.audit.states import ENDED, OPEN, PERMANENT
from coordinator.toolsets.items.rules.classes import BLOCKED, TERMINAL, WORK
from coordinator.toolsets.items.rules.records import Fields, parsed

_ENDED = TERMINAL * STATES * CLASS_SIZE
COUNTED_CHILDREN = (("-inf", str(_ENDED - 1)), (str(_ENDED), str(_ENDED + STATES * CLASS_SIZE - 1)),
                    (str(_ENDED + STATES * CLASS_SIZE), "+inf"))  # fmt: skip
"""The ranges of scores in which children are counted: open, terminal, open."""


def children_problems(fields: Fields, early: int, ended: int, late: int) -> Iterator[str]:
    """Compares what the item says of its children with how many there are, by ``COUNTED_CHILDREN``."""
    says, open_ones = fields.get("ch", ""), early + late
    if (says == OPEN) != (open_ones > 0) or (says == PERMANENT and not ended):
        yield f"says {says or 'nothing'} of its children, of which {open_ones} are open and {ended} are not"
    if says == ENDED and parsed(fields["w"]).role not in (WORK, BLOCKED):
        yield "is offered after its children without being in work"


def depth_problems(fields: Fields, parent: Sequence[str | bool]) -> Iterator[str]:
    """Compares the depth with the parent's: its record (False: there is no such parent) and its depth (False: 0)."""
    if "pa" in fields and parent[0] is False:
        yield f"is below {fields['pa']}, which does not exist"
        return
    depth = int(parent[1]) + 1 if "pa" in fields else 0
    if int(fields.get("d", "0")) != depth:
        yield f"has depth {fields.get('d', '0')}, should have {depth}"
