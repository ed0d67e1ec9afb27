"""What blocks an item, as get_next_status and get_blocked_items show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from coordinator.toolsets.items.contract.reads import BlockedBy
from coordinator.toolsets.items.contract.work import Blocker
from coordinator.toolsets.items.rules.graph import given_threshold
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES

if TYPE_CHECKING:
    from coordinator.toolsets.items.store.reads import BlockerRow


def unsatisfied(rows: Sequence[BlockerRow]) -> list[Blocker]:
    """Those that the item still waits for."""
    return [
        Blocker(
            from_item_id=dashed(row.field[1:]),
            current_role=ROLE_NAMES[row.role],
            required_role=given_threshold(row.mark) or "terminal",
        )
        for row in rows
        if not row.satisfied
    ]


def blocked_by(row: BlockerRow) -> BlockedBy:
    """One of them, satisfied or not."""
    given = given_threshold(row.mark)
    return BlockedBy(
        item_id=dashed(row.field[1:]),
        title=row.title,
        role=ROLE_NAMES[row.role],
        unblock_at=given or UNSET,
        effective_unblock_role=given or "terminal",
        satisfied=row.satisfied,
    )
