"""get_next_item and get_next_status: what to do next."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.toolsets.items.contract.next import (
    BlockedStatus,
    GetNextItem,
    GetNextItemResult,
    GetNextStatus,
    ReadyStatus,
    Recommendation,
    TerminalStatus,
)
from coordinator.toolsets.items.rules.dependencies import graph
from coordinator.toolsets.items.rules.ids import FULL, dashed
from coordinator.toolsets.items.rules.next import held_back, next_status
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.selection import OFFERED, recommended
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.items.store.next import Next, NextStore
from coordinator.toolsets.items.tools.said import Showing
from coordinator.toolsets.items.tools.shared import ancestors
from coordinator.toolsets.items.tools.shared import held_back as counted
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Call, Complete, Completed, Criticality, Tool

_DETAILED, _SHORT = Showing(Recommendation), Showing(Recommendation, "summary", "tags", "parent_id")
_ITEM = (
    "The best items to work on: in the given role, waiting for no dependency, and neither claimed nor below a "
    "claimed item (unless parentId or ancestorId names that item or one below it). To find and claim the best item "
    "in one step, use claim_item with a selector instead."
)
_STATUS = (
    "What an item's next transition would be, without making it: Ready with nextRole and trigger, Blocked with the "
    "unsatisfied blockers or a suggestion, or Terminal. Does not check required notes; get_context does."
)


class Recommendations:
    """The handlers of ``get_next_item`` and ``get_next_status``."""

    def __init__(self, store: NextStore) -> None:
        self._store = store

    async def get_next_item(self, call: Call, args: GetNextItem) -> GetNextItemResult:
        """The best items to work on."""
        below, above = not_blank(args.parent_id), not_blank(args.ancestor_id)
        parent = await self._store.resolve_one(call.project, below, "parentId") if below else ""
        ancestor = await self._store.resolve_one(call.project, above, "ancestorId") if above else ""
        wanted = recommended(args, parent, ancestor)
        items = await self._store.next(call.project, wanted, args.limit, args.include_claimed, args.include_ancestors)
        result = GetNextItemResult(recommendations=[_recommended(item, args) for item in items], total=len(items))
        if not items:
            if not not_blank(args.role):
                wanted.role = OFFERED
            result.held_back = counted(await self._store.held_back(call.project, wanted))
        return result

    async def get_next_status(self, call: Call, args: GetNextStatus) -> ReadyStatus | BlockedStatus | TerminalStatus:
        """What an item's next transition would be."""
        item = await self._store.resolve_one(call.project, args.item_id, "itemId")
        status = await self._store.status(call.project, item)
        schema = self._store.schemas.current.resolve_reported(status.schema)
        following = next_status(ROLE_NAMES[status.role], status.returns, schema, graph.unsatisfied(status.blockers))
        if isinstance(following, ReadyStatus) and (status.template or status.not_before > status.now):
            return held_back(following.current_role, "" if status.template else iso(status.not_before))
        return following


def tools(store: NextStore) -> tuple[Tool, ...]:
    handle = Recommendations(store)
    return (
        Tool(
            "get_next_item",
            _ITEM,
            GetNextItem,
            (GetNextItemResult,),
            handle.get_next_item,
            read_only=True,
            idempotent=True,
            criticality=Criticality.NORMAL,
        ),
        Tool(
            "get_next_status",
            _STATUS,
            GetNextStatus,
            (ReadyStatus, BlockedStatus, TerminalStatus),
            handle.get_next_status,
            read_only=True,
            idempotent=True,
        ),
    )


def completion(store: NextStore) -> Complete:
    async def complete(call: Call, typed: str) -> Completed:
        digits = typed.replace("-", "").lower()
        if len(digits) > FULL or digits.strip("0123456789abcdef"):
            return Completed([])
        ids = await store.like(call.project, digits)
        return Completed([dashed(one) for one in ids.values], ids.more)

    return complete


def _recommended(item: Next, args: GetNextItem) -> Recommendation:
    role = ROLE_NAMES[item.role]
    more = {"summary": "", **_DETAILED(item.said, role)} if args.include_details else _SHORT(item.said, role)
    return Recommendation(
        item_id=dashed(item.id),
        role=role,
        is_claimed=item.claimed if args.include_claimed else UNSET,
        ancestors=ancestors(item.ancestors) if args.include_ancestors else UNSET,
        **{"complexity": None, **more},
    )
