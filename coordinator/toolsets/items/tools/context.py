"""get_context: a snapshot of one item, of a session, or of everything."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets import pages
from coordinator.toolsets.caller import HOLDERS
from coordinator.toolsets.items.contract.agents import AgentsResult
from coordinator.toolsets.items.contract.context import (
    AbandonedItem,
    AbandonedItems,
    ActiveClaims,
    ClaimDetail,
    ContextItem,
    FullContextResult,
    GetContext,
    HealthCheckResult,
    ItemContextResult,
    ListedItem,
    RecentTransition,
    SessionResumeResult,
    StalledItem,
    Totals,
    WaitedForItem,
)
from coordinator.toolsets.items.contract.query import ChildCounts
from coordinator.toolsets.items.rules import classes
from coordinator.toolsets.items.rules import context as rules
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.included import wanted as wanted_parts
from coordinator.toolsets.items.rules.resources import shown as shown_resources
from coordinator.toolsets.items.rules.roles import ROLE_CODES, ROLE_NAMES
from coordinator.toolsets.items.rules.times.instants import instant
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.items.store.context import ContextStore, ItemClaim, ListRow
from coordinator.toolsets.items.store.included import Included
from coordinator.toolsets.items.store.measures.items import Left
from coordinator.toolsets.items.store.watched import WatchedItems
from coordinator.toolsets.items.tools.agents import agents_result
from coordinator.toolsets.items.tools.attempts import held_attempts
from coordinator.toolsets.items.tools.included import add_to, rendered
from coordinator.toolsets.items.tools.said import Showing
from coordinator.toolsets.items.tools.shared import ancestors, held_back, names, or_unset, transition
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import RESULT_CHARS, Call, Criticality, Tool
from coordinator.toolsets.waiting.reads import WaitingReads, check, waited
from coordinator.toolsets.waiting.tasks import waiting_read

_SHOWN = Showing(ItemContextResult)
_ACTIVE = ("work", "review")
_WAITS_FOR = ("terminal", "tree_terminal", "unblocked", "changed", "note:")
_DESCRIPTION = (
    "A snapshot in one of four modes. With itemId: the item's note schema, which notes are filled, whether it can "
    "move forward, and who holds its claim; include adds more; waitMs waits for waitFor. With agents: who claimed, "
    "renewed or waited in the last day, with state and capabilities. With since: active items, role transitions "
    "since then (newest first) and stalled items. Without any: active, blocked, stalled and abandoned items and the "
    "number of claims. The last two also count what is held back, and overdue. Active: in work or review; stalled: "
    "lacking required notes of that phase; abandoned: left by an agent whose claim has ended. Lists come best first; "
    "stalledItems shows those of the page's activeItems."
)


class Contexts:
    """Handler of ``get_context``."""

    def __init__(self, store: ContextStore, watched: WatchedItems, waiting: WaitingReads) -> None:
        self._store = store
        self._watched = watched
        self._waiting = waiting

    async def get_context(
        self, call: Call, args: GetContext
    ) -> ItemContextResult | SessionResumeResult | HealthCheckResult | AgentsResult:
        """A snapshot: of agents, of the item if one is given, of a session since a time, else of everything."""
        condition = check(args.wait_ms, args.wait_for, args.after, _WAITS_FOR)
        item = not_blank(args.item_id)
        if condition is not None and (args.agents or not item):
            raise invalid("waitMs", "needs itemId")
        if args.agents:
            return await self._agents(call, args)
        if item and condition is not None:
            return await self._waited(call, args, item, condition)
        if item:
            return await self._item_mode(call, args, item)
        if args.include:
            raise invalid("include", "needs itemId")
        if since := not_blank(args.since):
            return await self._session_resume(call, args, since)
        return await self._health_check(call, args)

    async def _agents(self, call: Call, args: GetContext) -> AgentsResult:
        for name, other in (("itemId", args.item_id), ("since", args.since)):
            if not_blank(other):
                raise invalid("agents", f"goes without {name}")
        limit = args.limit or pages.DEFAULT_LIMIT
        admin = call.caller is not None and HOLDERS in call.caller.permissions
        agents = await self._store.agents(call.project, args.offset, limit)
        return agents_result(agents, args.offset, admin)

    async def _item_mode(self, call: Call, args: GetContext, reference: str) -> ItemContextResult:
        include = wanted_parts(args.include, args.offset)
        item = await self._store.resolve_one(call.project, reference, "itemId")
        context = await self._store.context(call.project, item, args.include_ancestors, include)
        role = ROLE_NAMES[context.role]
        schemas, filled = self._store.schemas.current, context.filled
        schema = schemas.resolve_reported(filled)
        standing = rules.Standing(role, schema, filled, context.blockers)
        shape: type[ItemContextResult] = FullContextResult if "i" in include else ItemContextResult
        result = shape(
            mode="item",
            item=ContextItem(
                id=dashed(item),
                title=context.title,
                role=role,
                tags=or_unset(context.tags),
                depth=context.depth,
                ancestors=ancestors(context.ancestors) if args.include_ancestors else UNSET,
            ),
            schema=standing.entries(),
            gate_status=standing.gate,
            guidance_pointer=standing.guidance,
            skill_pointer=standing.skill or UNSET,
            note_progress=standing.progress,
            claim_detail=_claim_detail(context.claim, context.held) if isinstance(context.claim, ItemClaim) else UNSET,
            attempts=held_attempts(context.attempts, schemas.most_attempts(filled.type, filled.tags)),
            **_SHOWN(context.said, role),
        )
        if isinstance(context.included, Included):
            path = context.ancestors if args.include_ancestors else None
            add_to(result, rendered(context.included, include, schemas, path, args.offset))
        return result

    async def _waited(self, call: Call, args: GetContext, reference: str, condition: str) -> ItemContextResult:
        """The item, as soon as the condition holds."""
        wanted_parts(args.include)
        item = await self._store.resolve_one(call.project, reference, "itemId")
        tree = condition == "tree_terminal"
        if tree and call.notice is not None:
            call.notice.text = partial(self._progress, call.project, item)
        key, changed = f"{item} {condition}", condition == "changed"
        source, milliseconds = self._watched.source, args.wait_ms or 0
        outcome = await self._waiting.wait(call, source, key, milliseconds, changed=changed, after=args.after)
        # Its state is at least as new as the version in ``after``, so a caller that continues there misses nothing.
        result = await self._item_mode(call, args, dashed(item))
        result.waited = WaitedForItem(**msgspec.structs.asdict(waited(outcome)))
        if tree:
            counts = await self._watched.counts(call.project, item)
            result.waited.counts = ChildCounts(**dict(zip(ROLE_NAMES, counts, strict=True)))
        return result

    async def _progress(self, project: str, item: str) -> str:
        counts = await self._watched.counts(project, item)
        return f"{counts[ROLE_CODES['terminal']]} of {sum(counts)} items finished"

    async def _session_resume(self, call: Call, args: GetContext, since: str) -> SessionResumeResult:
        start = max(0, instant(since, "since"))
        by_role, totals = await self._page_of_roles(call, args, *_ACTIVE)
        items, stalled = self._active(args, by_role)
        end = args.offset + (args.limit or pages.DEFAULT_LIMIT)
        rows, more = await self._store.transitions(call.project, start, end + 1)
        changes = [
            RecentTransition(item_id=dashed(row.item), **transition(row.change)) for row in rows[args.offset : end]
        ]
        held = pages.fitting(items, changes, stalled)
        end = args.offset + held
        left = end < totals.active_items
        counts, overdue = await self._store.held_back(call.project)
        return SessionResumeResult(
            mode="session-resume",
            since=since,
            active_items=items[:held],
            recent_transitions=changes[:held],
            stalled_items=_stalled_of(items[:held], stalled),
            held_back=held_back(counts),
            overdue=overdue or UNSET,
            totals=totals if left or args.offset else UNSET,
            next_offset=end if left or end < len(rows) else UNSET,
            truncated=True if left or more else UNSET,
        )

    async def _health_check(self, call: Call, args: GetContext) -> HealthCheckResult:
        by_role, totals = await self._page_of_roles(call, args, *_ACTIVE, "blocked")
        items, stalled = self._active(args, by_role)
        counts: dict[str, int] = {}
        overdue = 0
        try:
            live, expired = await self._store.claims(call.project)
            counts, overdue = await self._store.held_back(call.project)
        except ToolFailure:
            summary = None  # the rest is still useful
        else:
            summary = ActiveClaims(active=live, expired=expired)
        blocked = [_listed(entry, "blocked", args) for entry in by_role["blocked"]]
        abandoned = await self._abandoned(call, args)
        held = pages.fitting(items, blocked, stalled, abandoned.items)
        abandoned.items = abandoned.items[:held]
        end = args.offset + held
        left = end < max(totals.active_items, totals.blocked_items or 0, abandoned.ready + abandoned.blocked)
        return HealthCheckResult(
            mode="health-check",
            active_items=items[:held],
            blocked_items=blocked[:held],
            stalled_items=_stalled_of(items[:held], stalled),
            abandoned=abandoned if abandoned.ready + abandoned.blocked else UNSET,
            held_back=held_back(counts),
            overdue=overdue or UNSET,
            claim_summary=summary or UNSET,
            totals=totals if left or args.offset else UNSET,
            next_offset=end if left else UNSET,
            truncated=True if left else UNSET,
        )

    async def _abandoned(self, call: Call, args: GetContext) -> AbandonedItems:
        """A page of the abandoned items: longest abandoned first, blocked ones last."""
        abandoned = await self._store.abandoned(call.project, args.offset + (args.limit or pages.DEFAULT_LIMIT))
        page = abandoned.items[args.offset :]
        codes = [ROLE_CODES[role] for role in _ACTIVE]
        listed = await self._store.listed(call.project, codes, [left.id for left in page], args.include_ancestors)
        entries = {entry.id: entry for entry in listed}
        return AbandonedItems(
            ready=abandoned.ready,
            blocked=abandoned.waiting,
            items=[_left(left, entry, args) for left in page if (entry := entries.get(left.id))],
        )

    async def _page_of_roles(
        self, call: Call, args: GetContext, *roles: str
    ) -> tuple[dict[str, list[ListRow]], Totals]:
        """A page of the active items, and one of the blocked ones if wanted; best first.

        All roles are read in one run, so that an item that changes its role meanwhile is in one list only.
        """
        letters = [classes.OF_ROLE[role] for role in roles]
        end = args.offset + (args.limit or pages.DEFAULT_LIMIT)
        ranked = await self._store.ranked(call.project, "", "".join(letters), end)
        best = [list(islice(ids, end)) for ids in classes.best_of_each(ranked, letters)]
        left = iter(ranked)
        sizes = [sum(group.size for group in islice(left, len(these))) for these in letters]
        active, blocked = chain.from_iterable(best[: len(_ACTIVE)]), chain.from_iterable(best[len(_ACTIVE) :])
        ids = [*islice(active, args.offset, end), *islice(blocked, args.offset, end)]
        by_role: dict[str, list[ListRow]] = {role: [] for role in roles}
        codes = [ROLE_CODES[role] for role in roles]
        for entry in await self._store.listed(call.project, codes, ids, args.include_ancestors):
            by_role[ROLE_NAMES[entry.role]].append(entry)
        counted = sizes[len(_ACTIVE)] if len(sizes) > len(_ACTIVE) else UNSET
        return by_role, Totals(active_items=sum(sizes[: len(_ACTIVE)]), blocked_items=counted)

    def _active(
        self, args: GetContext, by_role: dict[str, list[ListRow]]
    ) -> tuple[list[ListedItem], list[StalledItem]]:
        schemas = self._store.schemas.current
        items: list[ListedItem] = []
        stalled: list[StalledItem] = []
        for role in _ACTIVE:
            for entry in by_role[role]:
                items.append(_listed(entry, role, args))
                standing = rules.Standing(role, schemas.resolve_reported(entry.filled), entry.filled)
                if standing.missing:
                    stalled.append(_stalled(entry, role, standing, args))
        return items, stalled


def _stalled_of(items: list[ListedItem], stalled: list[StalledItem]) -> list[StalledItem]:
    """The shown active items."""
    ids = {item.id for item in items}
    return [item for item in stalled if item.id in ids]


def tools(store: ContextStore, watched: WatchedItems, waiting: WaitingReads) -> tuple[Tool, ...]:
    handle = Contexts(store, watched, waiting)
    return (
        waiting_read(
            Tool(
                "get_context",
                _DESCRIPTION,
                GetContext,
                (ItemContextResult, FullContextResult, SessionResumeResult, HealthCheckResult, AgentsResult),
                handle.get_context,
                idempotent=True,
                for_claims=lambda claim, args: not args.agents and names(claim, args.item_id),
                criticality=lambda args: Criticality.READ if args.item_id else Criticality.SHEDDABLE,
                result_chars=RESULT_CHARS,
            ),
            lambda args: f"items/{args.item_id}" + ("/tree" if args.wait_for == "tree_terminal" else ""),
        ),
    )


def _listed(entry: ListRow, role: str, args: GetContext) -> ListedItem:
    tags = entry.filled.tags
    return ListedItem(
        id=dashed(entry.id),
        title=entry.title,
        role=role,
        tags=tags if isinstance(tags, str) else None,
        ancestors=ancestors(entry.ancestors) if args.include_ancestors else UNSET,
    )


def _left(left: Left, entry: ListRow, args: GetContext) -> AbandonedItem:
    return AbandonedItem(
        id=dashed(entry.id),
        title=entry.title,
        role=ROLE_NAMES[entry.role],
        since=iso(left.since),
        blocked=left.waits,
        ancestors=ancestors(entry.ancestors) if args.include_ancestors else UNSET,
    )


def _stalled(entry: ListRow, role: str, standing: rules.Standing, args: GetContext) -> StalledItem:
    return StalledItem(
        id=dashed(entry.id),
        title=entry.title,
        role=role,
        missing_notes=[note.key for note in standing.missing],
        guidance_pointer=standing.guidance,
        skill_pointer=standing.skill or UNSET,
        ancestors=ancestors(entry.ancestors) if args.include_ancestors else UNSET,
    )


def _claim_detail(claim: ItemClaim, held: str) -> ClaimDetail:
    """A claim with its holder. No other result names the holder (README.md, 'Disclosure')."""
    return ClaimDetail(
        claimed_by=claim.holder,
        claimed_at=iso(claim.claimed),
        claim_expires_at=iso(claim.expires),
        original_claimed_at=iso(claim.first_claimed),
        is_expired=claim.expired,
        resources=shown_resources(held) or UNSET,
    )
