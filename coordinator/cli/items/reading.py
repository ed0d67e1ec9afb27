"""``fleet items list``, ``ready``, ``show``, ``tree``, ``search``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.connection import HERE, Connection
from coordinator.cli.items.arguments import AsJson, Id, Role, given, item
from coordinator.cli.items.calls import PAGE, full_id, pages
from coordinator.cli.items.options import ANY, EVERYTHING, Filters, Selector
from coordinator.cli.items.tables import item_line, item_page
from coordinator.cli.terminal import print_as, print_json
from coordinator.client import Fleet
from coordinator.client.held_back import described
from coordinator.wording import counted, printable

_MOST = 100_000
_PARTS = ("notesTotal", "notesLeft", "resultsTotal", "resultsLeft", "nextOffset")
"""What an answer says of notes and results that it has left out."""
_PARALLEL = 8

Sort = Literal["title", "priority", "complexity", "createdAt", "modifiedAt", "dueAt"]
Limit = Annotated[int, Parameter(help="At most so many. [1 to 100000]")]


def show_list(
    *,
    role: Annotated[Role | None, Parameter(help="Only in this role; by default all but terminal.")] = None,
    all: Annotated[bool, Parameter(help="Terminal ones, too.")] = False,
    filters: Filters = EVERYTHING,
    claims: Annotated[
        Literal["claimed", "unclaimed", "expired"] | None, Parameter(help="Only with, without or past a claim.")
    ] = None,
    sort: Annotated[Sort | None, Parameter(help="Sort by this; default: newest first.")] = None,
    limit: Limit = 50,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    order = {"sortBy": sort, "sortOrder": "asc" if sort in ("title", "dueAt") else None} if sort else {}
    search = {**filters.given(), **given(role=role, claimStatus=claims, **order)}
    _found(at, search, limit, json, terminal=all or role is not None)


def search(
    text: Annotated[str, Parameter(help="What title or summary contains, in any case.")],
    *,
    role: Annotated[Role | None, Parameter(help="Only in this role.")] = None,
    filters: Filters = EVERYTHING,
    limit: Limit = 50,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    _found(at, {**filters.given(), **given(query=text, role=role)}, limit, json, terminal=True)


def ready(
    *,
    selector: Selector = ANY,
    capabilities: Annotated[
        str | None, Parameter(name=("--capabilities", "--capability"), help="What the agent can do, after commas.")
    ] = None,
    limit: Annotated[int, Parameter(help="At most so many. [1 to 20]")] = 20,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    check_range("--limit", limit, 1, 20)
    arguments = {**selector.given(), "parents": "after_children", "limit": limit, "includeDetails": True}
    if capabilities is not None:
        arguments["capabilities"] = [name.strip() for name in capabilities.split(",")]
    answer = at.run(lambda fleet: fleet.call("get_next_item", arguments))
    if json:
        print_json(answer)
        return
    for entry in answer["recommendations"]:
        print(item_line(entry))
    if not answer["recommendations"]:
        why = described(answer.get("heldBack"))
        print(f"fleet: nothing is ready{f': {why}' if why else _hint(answer)}", file=sys.stderr)
    elif len(answer["recommendations"]) == limit:
        print(f"fleet: the best {limit}; there may be more", file=sys.stderr)


def show(
    id: Id = ".",
    *,
    history: Annotated[bool, Parameter(help="With its last 10 transitions.")] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    async def read(fleet: Fleet) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        context = await fleet.call("get_context", {"itemId": item(id), "include": ["item", "notes", "results"]})
        read = {"itemId": context["item"]["id"]}
        page = {name: context.pop(name) for name in _PARTS if name in context}
        while "nextOffset" in page:
            more = {**read, "include": ["notes", "results"], "offset": page["nextOffset"]}
            page = await fleet.call("get_context", more)
            context["notes"] += page["notes"]
            context["results"] += page["results"]
        edges: list[dict[str, Any]] = []
        page = {"nextOffset": 0}
        while "nextOffset" in page:
            query = {**read, "includeItemInfo": True, "limit": PAGE, "offset": page["nextOffset"]}
            page = await fleet.call("query_dependencies", query)
            edges += page["dependencies"]
        return context, edges

    context, edges = at.run(read)
    print_as({**context, "dependencies": edges}, item_page(context, edges, everything=history), json)


def tree(
    id: Annotated[str | None, Parameter(help="The item at its top; without it, the roots and what is below.")] = None,
    *,
    depth: Annotated[int, Parameter(help="How many levels below it. [0 to 3]")] = 3,
    limit: Limit = 500,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    check_range("--depth", depth, 0, 3)
    check_range("--limit", limit, 1, _MOST)
    details = {"includeDetails": True}

    async def read(fleet: Fleet) -> tuple[list[dict[str, Any]], bool]:
        if id is None:
            roots, cut = await _children(fleet, {**details, "depth": 0}, limit)
        else:
            top = await fleet.call("query_items", {"operation": "get", "id": await full_id(fleet, item(id))})
            roots, cut = [top], False
        room, level = limit - len(roots), roots
        for _ in range(depth):
            level, more = await _below(fleet, level, details, room)
            cut, room = cut or more, room - len(level)
            if not level or room <= 0:
                break
        return roots, cut or room < 0

    roots, cut = at.run(read)
    if json:
        print_json({"items": roots, "truncated": cut})
    else:
        _print_tree(roots, 0)
    if cut:
        print(f"fleet: more than {counted(limit, 'item')}; --limit shows more", file=sys.stderr)


async def _below(
    fleet: Fleet, level: list[dict[str, Any]], details: dict[str, Any], room: int
) -> tuple[list[dict[str, Any]], bool]:
    """The children of all items of a level, which are put into these as ``children``; and whether some are left out."""
    gate = asyncio.Semaphore(_PARALLEL)

    async def fill(parent: dict[str, Any]) -> bool:
        async with gate:
            parent["children"], cut = await _children(fleet, {**details, "parentId": parent["id"]}, max(room, 0))
            return cut

    cuts = await asyncio.gather(*map(fill, level))
    return [child for parent in level for child in parent["children"]], any(cuts)


async def _children(fleet: Fleet, search: dict[str, Any], most: int) -> tuple[list[dict[str, Any]], bool]:
    items: list[dict[str, Any]] = []
    total = 0
    async for page in pages(fleet, {**search, "sortBy": "createdAt", "sortOrder": "asc"}, most):
        items += page["items"]
        total = page["total"]
    return items, total > len(items)


def _print_tree(items: list[dict[str, Any]], indent: int) -> None:
    for below in items:
        print(item_line(below, indent))
        _print_tree(below.get("children", []), indent + 1)


def _found(at: Connection, filters: dict[str, Any], limit: int, json: bool, *, terminal: bool) -> None:
    """Prints what a search finds; ``terminal``: terminal items, too."""
    check_range("--limit", limit, 1, _MOST)
    filters = {**filters, "includeDetails": True}

    async def read(fleet: Fleet) -> tuple[list[dict[str, Any]], int, str]:
        items: list[dict[str, Any]] = []
        total, hint = 0, ""
        # No search leaves a role out, so each of the others is asked for.
        for role in (None,) if terminal else ("work", "review", "blocked", "queue"):
            async for page in _pages_of(fleet, filters, role, limit):
                items += page["items"]
                hint = hint or _hint(page)
            total += page["total"]
        if not terminal and not items:
            ended = await fleet.call("query_items", {**filters, "operation": "search", "role": "terminal", "limit": 1})
            if ended["total"]:
                hint = f" are open; --all shows {ended['total']} that ended"
        return items, total, hint

    items, total, hint = at.run(read)
    if json:
        print_json({"items": items[:limit], "total": total})
    else:
        for item in items[:limit]:
            print(item_line(item))
    if not items:
        print(f"fleet: no items{hint}", file=sys.stderr)
    elif total > limit:
        print(f"fleet: {limit} of {total} items; --limit shows more", file=sys.stderr)


def _pages_of(fleet: Fleet, filters: dict[str, Any], role: str | None, limit: int) -> AsyncIterator[dict[str, Any]]:
    return pages(fleet, filters if role is None else {**filters, "role": role}, limit)


def _hint(answer: dict[str, Any]) -> str:
    """What the fleet says about a project that nobody has written to."""
    return f": {printable(answer['hint'])}" if answer.get("hint") else ""
