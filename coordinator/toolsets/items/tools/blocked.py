"""get_blocked_items: what is blocked, and by what."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.toolsets import pages
from coordinator.toolsets.items.contract.blocked import BlockedBy, BlockedItem, GetBlockedItems, GetBlockedItemsResult
from coordinator.toolsets.items.rules import classes
from coordinator.toolsets.items.rules.dependencies import graph
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.items.store.blocked import Blocked, BlockedStore, BlockerRow
from coordinator.toolsets.items.tools.said import Showing
from coordinator.toolsets.items.tools.shared import ancestors
from coordinator.toolsets.tool import RESULT_CHARS, Call, Criticality, Tool

BLOCKED_PER_ROLE = 500
LISTED_BLOCKERS = 20
"""How many blockers of an item an answer lists."""

_DETAILED, _SHORT = Showing(BlockedItem), Showing(BlockedItem, "summary", "tags")
_DESCRIPTION = (
    "All items that are blocked: explicitly (role blocked), and those in queue, work or review that wait for an "
    "unsatisfied dependency. blockedBy lists satisfied dependencies too; blockerCount counts the unsatisfied ones. "
    "Up to 500 items of a role, best first."
)


class BlockedItems:
    """The handler of ``get_blocked_items``."""

    def __init__(self, store: BlockedStore) -> None:
        self._store = store

    async def get_blocked_items(self, call: Call, args: GetBlockedItems) -> GetBlockedItemsResult:
        """The blocked items, best first, with their blockers."""
        above = not_blank(args.parent_id)
        parent = await self._store.resolve_one(call.project, above, "parentId") if above else ""
        # All roles are read in one run, so that a blocked item that changes its role meanwhile is not missed.
        ranked = await self._store.ranked(
            call.project, parent, "".join(classes.MAYBE_BLOCKED.values()), BLOCKED_PER_ROLE
        )
        truncated = any(group.cut for group in ranked)
        shown: dict[str, list[BlockedItem]] = {role: [] for role in classes.MAYBE_BLOCKED}
        for ids in classes.best_of_each(ranked, classes.MAYBE_BLOCKED.values()):
            found, complete = await self._store.blocked(
                call.project, ids, BLOCKED_PER_ROLE, args.include_item_details, args.include_ancestors
            )
            truncated |= not complete
            for entry in found:
                shown[ROLE_NAMES[entry.role]].append(_blocked(entry, args))
        items = [entry for entries in shown.values() for entry in entries]
        page = items[args.offset : args.offset + args.limit]
        page = page[: pages.fitting(page)]
        end = args.offset + len(page)
        return GetBlockedItemsResult(
            blocked_items=page,
            total=len(items),
            next_offset=end if end < len(items) else UNSET,
            truncated=True if truncated else UNSET,
        )


def tools(store: BlockedStore) -> tuple[Tool, ...]:
    handle = BlockedItems(store)
    return (
        Tool(
            "get_blocked_items",
            _DESCRIPTION,
            GetBlockedItems,
            (GetBlockedItemsResult,),
            handle.get_blocked_items,
            read_only=True,
            idempotent=True,
            criticality=Criticality.SHEDDABLE,
            result_chars=RESULT_CHARS,
        ),
    )


def _blocked(entry: Blocked, args: GetBlockedItems) -> BlockedItem:
    role = ROLE_NAMES[entry.role]
    more = {"summary": "", **_DETAILED(entry.said, role)} if args.include_item_details else _SHORT(entry.said, role)
    rows = [_blocked_by(row) for row in entry.blockers]
    listed = rows
    if len(rows) > LISTED_BLOCKERS:
        listed = sorted(rows, key=lambda row: row.satisfied)[:LISTED_BLOCKERS]
    return BlockedItem(
        item_id=dashed(entry.id),
        role=role,
        block_type="explicit" if role == "blocked" else "dependency",
        blocked_by=listed,
        blocked_by_total=len(rows) if len(rows) > len(listed) else UNSET,
        blocker_count=sum(not row.satisfied for row in rows),
        ancestors=ancestors(entry.ancestors) if args.include_ancestors else UNSET,
        **{"complexity": None, **more},
    )


def _blocked_by(row: BlockerRow) -> BlockedBy:
    """One blocker of an item, satisfied or not."""
    given = graph.given_threshold(row.mark)
    return BlockedBy(
        item_id=dashed(row.field[1:]),
        title=row.title,
        role=ROLE_NAMES[row.role],
        unblock_at=given or UNSET,
        effective_unblock_role=given or "terminal",
        satisfied=row.satisfied,
    )
