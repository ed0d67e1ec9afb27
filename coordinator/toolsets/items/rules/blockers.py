"""What blocks an item, as get_next_status, advance_item and get_blocked_items show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET

from coordinator.toolsets.items.contract.reads import BlockedBy
from coordinator.toolsets.items.contract.work import Blocker
from coordinator.toolsets.items.rules.graph import given_threshold
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES

if TYPE_CHECKING:
    from coordinator.toolsets.items.store.reads import BlockerRow


def unsatisfied(found: Iterable[tuple[str, int, int]]) -> list[Blocker]:
    """The blockers that an item still waits for, from a script's rows (id, role, role that it must reach)."""
    return [
        Blocker(from_item_id=dashed(blocker), current_role=ROLE_NAMES[role], required_role=ROLE_NAMES[needed])
        for blocker, role, needed in found
    ]


def blocked_by(row: BlockerRow) -> BlockedBy:
    """One blocker of an item, satisfied or not."""
    given = given_threshold(row.mark)
    return BlockedBy(
        item_id=dashed(row.field[1:]),
        title=row.title,
        role=ROLE_NAMES[row.role],
        unblock_at=given or UNSET,
        effective_unblock_role=given or "terminal",
        satisfied=row.satisfied,
    )
