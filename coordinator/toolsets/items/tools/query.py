"""query_items: one item, a search, the overviews."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import UNSET

from coordinator.errors import invalid
from coordinator.toolsets.items.contract import query
from coordinator.toolsets.items.contract.transitions import ItemTransition
from coordinator.toolsets.items.rules import query as rules
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES, one_of
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.values import names_in, not_blank, with_traits
from coordinator.toolsets.items.store.query import Counts, QueryStore, Root, ShortView, View
from coordinator.toolsets.items.tools.attempts import attempt_counts, attempts
from coordinator.toolsets.items.tools.said import Showing
from coordinator.toolsets.items.tools.shared import ancestors, names, transition
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import RESULT_CHARS, Call, Criticality, Tool

DEFAULT_ROOTS = 20
_FULL, _FOUND = Showing(query.FullItem), Showing(query.FoundItem)

_DESCRIPTION = (
    "Read work items. get: one item in full, without its claim. search: a page of short items that match all given "
    "filters, and the total. overview: with itemId the item in full, how many children it has by role, and the "
    "newest 200 (or limit) of them; without it the newest roots, and how many children these have by role and claim. "
    "A search is fast at any number of items if it has, beside role, priority and created bounds, at most one of "
    "parentId, type, depth 0 and a single tag, and sorts by createdAt, priority or complexity. Any other looks at "
    "each item that passes the narrowest of these filters (or, with an open role, the due bounds); its offset plus "
    "limit is at most 10,000."
)


class Queries:
    """Handler of the tool that shows items."""

    def __init__(self, items: QueryStore) -> None:
        self._items = items

    async def query_items(
        self, call: Call, args: query.QueryItems
    ) -> query.FullItem | query.SearchResult | query.ItemOverview | query.RootsOverview:
        operation = one_of(args.operation, query.OPERATIONS, "operation")
        if operation == "get":
            return await self._get(call, args)
        return await (self._search(call, args) if operation == "search" else self._overview(call, args))

    async def _get(self, call: Call, args: query.QueryItems) -> query.FullItem:
        if not args.id:
            raise invalid("id", "is required for operation get")
        item = await self._items.resolve_one(call.project, args.id, "id")
        view, path = await self._items.read(call.project, item, args.include_ancestors)
        result = full(view, query.FullItem, self._items.schemas.current)
        if args.include_ancestors:
            result.ancestors = ancestors(path)
        return result

    async def _search(self, call: Call, args: query.QueryItems) -> query.SearchResult:
        parent = not_blank(args.parent_id)
        if parent:
            parent = await self._items.resolve_one(call.project, parent, "parentId")
        search = rules.search(args, parent)
        page = await self._items.search(call.project, search)
        if parent and not page.total:
            await self._items.expect(call.project, parent, "parentId")
        schemas = self._items.schemas.current
        items = [query.FoundItem(**_short(row), **_details(row, schemas)) for row in page.rows]
        if args.include_ancestors:
            for item, path in zip(items, page.ancestors, strict=True):
                item.ancestors = ancestors(path)
        for item, claimed in zip(items, page.claimed, strict=False):
            item.is_claimed = claimed
        return query.SearchResult(
            items=items,
            total=page.total,
            returned=len(items),
            limit=search.limit,
            offset=search.offset,
            notice=rules.notice(args),
        )

    async def _overview(self, call: Call, args: query.QueryItems) -> query.ItemOverview | query.RootsOverview:
        if item := not_blank(args.item_id):
            inner = await self._items.resolve_one(call.project, item, "itemId")
            view, counts, children = await self._items.overview_item(
                call.project, inner, rules.limit(args, query.MAX_LIMIT)
            )
            return query.ItemOverview(
                item=full(view, query.FullItem, self._items.schemas.current),
                child_counts=_counts(counts),
                children=[query.ShortItem(**_short(row)) for row in children],
                notice=rules.notice(args),
            )
        roots = await self._items.overview(call.project, rules.limit(args, DEFAULT_ROOTS), args.include_children)
        items = [_root(root, args.include_children) for root in roots]
        return query.RootsOverview(items=items, total=len(roots), notice=rules.notice(args))


def tools(items: QueryStore) -> tuple[Tool, ...]:
    handle = Queries(items)
    return (
        Tool(
            "query_items",
            _DESCRIPTION,
            query.QueryItems,
            (query.FullItem, query.SearchResult, query.ItemOverview, query.RootsOverview),
            handle.query_items,
            read_only=True,
            idempotent=True,
            waits=rules.may_take_long,
            for_claims=lambda claim, args: args.operation.lower() == "get" and names(claim, args.id),
            criticality=lambda args: Criticality.READ if args.operation == "get" else Criticality.SHEDDABLE,
            result_chars=RESULT_CHARS,
        ),
    )


def _short(row: ShortView) -> dict[str, Any]:
    role = ROLE_NAMES[row.role]
    fields = _FOUND(row.said, role)
    fields["id"], fields["role"], fields["depth"] = dashed(row.id), role, row.depth
    return fields


def _details(row: ShortView, schemas: SchemaConfig) -> dict[str, Any]:
    if row.attempts is None:
        return {}
    most = schemas.most_attempts(row.said.get("y"), row.said.get("g"))
    return {"attempts": attempt_counts(row.attempts, most), "abandoned": row.abandoned or UNSET}


def _counts(counts: Counts) -> query.ChildCounts:
    return query.ChildCounts(**dict(zip(ROLE_NAMES, counts, strict=True)))


def _traits(row: ShortView) -> dict[str, Any]:
    return {"traits": names_in(row.said["q"])} if "q" in row.said else {}


def _root(root: Root, children: bool) -> query.RootItem:
    active, expired, unclaimed = root.claims
    children_shown = [
        query.ChildItem(**_short(row), **_traits(row), child_counts=_counts(counts)) for row, counts in root.children
    ]
    return query.RootItem(
        **_short(root.row),
        **_traits(root.row),
        child_counts=_counts(root.counts),
        claim_summary=query.ChildClaims(active=active, expired=expired, unclaimed=unclaimed),
        children=children_shown if children else UNSET,
    )


F = TypeVar("F", bound=query.FullItem)


def full(view: View, shape: type[F], schemas: SchemaConfig) -> F:
    role, texts = ROLE_NAMES[view.role], view.said
    traits = texts["q"].split(",") if "q" in texts else []
    fields = {"summary": "", "complexity": None, "requires_verification": False, **_FULL(texts, role)}
    return shape(
        id=dashed(view.id),
        role=role,
        previous_role=UNSET if view.previous_role is False else ROLE_NAMES[view.previous_role],
        depth=view.depth,
        properties=with_traits(texts.get("o"), traits) or UNSET,
        attempts=attempts(view.attempts, schemas.most_attempts(texts.get("y"), texts.get("g"))),
        abandoned=view.abandoned or UNSET,
        created_at=iso(view.created),
        modified_at=iso(view.modified),
        role_changed_at=iso(view.role_changed),
        transitions=[ItemTransition(**transition(row)) for row in view.transitions] or UNSET,
        **fields,
    )
