"""An item: where it stands and who has it, its texts, what it waits for, its children and its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import htpy
from htpy import Node, a, div, h1, h2, nav, noscript, section, span
from msgspec import UNSET, UnsetType

from coordinator.console.acts.buttons import MODULE
from coordinator.console.items.actions import ACTIONS, actions_element, dialogs, edge_button
from coordinator.console.items.cards import (
    HEIGHT,
    again,
    cards,
    label,
    postponed,
    priority,
    standing,
    tags,
    troubles,
    window,
)
from coordinator.console.items.graph import NEIGHBOURS, neighbours_element
from coordinator.console.items.text import texts
from coordinator.console.items.uses import is_kept, obstacle_of, uses
from coordinator.console.parts import ago, chip, item_id, item_link, left, number, plain, role
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element, region_head
from coordinator.store import keys
from coordinator.toolsets.actor import stored_actor, stored_verification
from coordinator.toolsets.items import (
    FACTS,
    FULL,
    ROLE_NAMES,
    STATES,
    Changed,
    DependencyView,
    Field,
    GateStatus,
    ItemContextResult,
    ItemRow,
    Wanted,
    dashed,
    instant,
    no_such_item,
    read_agents_named,
    read_history,
    rows_by_ids,
    to_inner,
)
from coordinator.toolsets.sessions import sessions_of_item

_LINKS = {"waits": "waits for", "blocks": "blocks", "related": "is related to"}
_FACTS: Mapping[str, Callable[[str], Node]] = {
    "type": lambda name: chip(name, title="type"),
    "tags": lambda listed: tags(listed, 20),
    "requires": lambda listed: span[f"needs {plain(listed)}"],
    **dict.fromkeys(("parentId", "container", "resources"), lambda _: None),  # other parts of the page show them
}
"""What is shown otherwise than the table of fields says."""
LONGEST_TEXT = 100
"""Letters of a title that are searched for."""
EDGES = 100
"""Dependencies that a page has."""


async def _context(visit: Visit, **arguments: object) -> ItemContextResult:
    context: ItemContextResult = await visit.tool("items", "get_context", {"itemId": visit.id, **arguments})
    return context


async def _inner(visit: Visit) -> str:
    """The item's full id; whether there is such an item, another region says. Raises ToolFailure."""
    inner = to_inner(visit.id)
    return inner if len(inner) == FULL else (await _context(visit)).item.id.replace("-", "")


async def _head(visit: Visit) -> Rows:
    project = visit.project
    context = await _context(visit, includeAncestors=True)
    inner = context.item.id.replace("-", "")
    now, items = await visit.read(rows_by_ids, [inner])
    if not items:
        raise no_such_item("itemId")
    item = items[0]
    named = [item.holder] if item.holder else []
    known = await visit.read(read_agents_named, named) if named else []
    verified = any(agent.verified for agent in known)
    path, obstacle = context.item.ancestors or [], await obstacle_of(visit, item)
    content = [
        nav(".path", aria_label="Ancestors")[
            [[item_link(project, top.id, plain(top.title)), span(".dim")[" / "]] for top in path], span(".dim")["this"]
        ],
        h1(".title")[plain(item.title)],
        div(".facts")[
            item_id(context.item.id),
            role(ROLE_NAMES[item.role]),
            label(item),
            priority(item.priority),
            *(_fact(field, value) for field in FACTS if (value := getattr(item, field.attribute))),
            *troubles(item),
            span(".dim")["in this role since ", ago(item.role_changed)],
            span(".dim")["created ", ago(item.created)],
        ],
        _claim(project, item, verified),
        _gate(project, context.gate_status, is_kept(item, obstacle)),
        _times(project, item, context),
        await _occurrences(visit, item),
        uses(project, item, obstacle),
        _attempts(context),
    ]
    return Rows([Row(f"item:{context.item.id}", content, "item-head")], again=again(now, items))


def _fact(field: Field, value: str | int) -> Node:
    if field.name in _FACTS:
        return _FACTS[field.name](str(value))
    return span[plain(f"{field.fact} {value}")]


def _claim(project: str, item: ItemRow, verified: bool) -> Node:
    if STATES[item.state] != "held":
        return div(".facts.claim")[standing(project, item, True) or span(".dim")["no agent has a claim on it"]]
    return div(".facts.claim")[
        "claim of ",
        standing(project, item, True) or [plain(item.holder), left(item.expires)],
        chip("verified", title="its identity was verified") if verified else None,
        span(".dim")["since ", ago(item.claimed)],
        span(".dim")["renewed ", ago(item.renewed)] if item.renewed > item.claimed else None,
    ]


def _times(project: str, item: ItemRow, context: ItemContextResult) -> Node:
    how, due = context.recurs, item.due_at
    if not (item.not_before or due or how or item.recurrence_of):
        return None
    return div(".facts.times")[
        span["not before ", (left if postponed(item) else ago)(int(item.not_before))] if item.not_before else None,
        span["due ", (ago if item.overdue else left)(int(due))] if due.isdecimal() else None,
        span[f"due {context.due_at} after each occurrence"] if due.startswith("+") else None,
        span[f"recurs {plain(how.cron)} {plain(how.time_zone)}", _next(how.next_at)] if how else None,
        span["occurrence of ", item_link(project, dashed(item.recurrence_of), "the template")]
        if item.recurrence_of
        else None,
    ]


async def _occurrences(visit: Visit, item: ItemRow) -> Node:
    """How many occurrences of a template are open, and where they are: items with its title below the same parent."""
    if not item.recurs:
        return None
    reads, key = visit.reads, keys.occurrences.key(visit.project)
    count = int(await reads.admitted(visit.project, lambda: reads.store.command("HGET", key, item.id)) or 0)
    query = {"text": item.title[:LONGEST_TEXT], **({"below": item.parent_id} if item.parent_id else {})}
    return div(".facts")[
        span[f"{number(count)} of its occurrences {'is' if count == 1 else 'are'} open"],
        a(href=f"{path_of('board', visit.project)}?{urlencode(query)}")["items with its title"],
    ]


def _next(at: str | UnsetType) -> Node:
    return [", next ", left(instant(at, "nextAt"))] if at else None


def _gate(project: str, gate: GateStatus, kept: bool) -> Node:
    lacks = [span(".chip.warning")[plain(key)] for key in gate.missing]
    waits = gate.blockers or []
    return div(".facts.gate")[
        span(".ready")["can move forward"] if gate.can_advance and not kept else None,
        [f"lacks notes of phase {gate.phase}: ", lacks] if lacks else None,
        [
            "waits for ",
            [
                [item_link(project, wait.from_item_id, ""), f" to be in {_word(wait.required_role)} "]
                for wait in waits[:10]
            ],
            f"and {len(waits) - 9} more" if len(waits) > 9 else None,
        ]
        if waits
        else None,
    ]


def _attempts(context: ItemContextResult) -> Node:
    attempts = context.attempts
    if attempts is UNSET or not attempts.last:
        return None
    return htpy.details(".attempts")[
        htpy.summary[f"{attempts.count} failed attempts" + (f" of {attempts.max}" if attempts.max else "")],
        htpy.ul[
            (
                htpy.li[
                    plain(old.claimed_by), " ", ago(instant(old.until, "until")), ": ", old.ended.replace("_", " "),
                    f", {old.reason.replace('_', ' ')}" if old.reason else None,
                    [": ", plain(old.detail)] if old.detail else None,
                ]
                for old in attempts.last
            )
        ],
    ]  # fmt: skip


async def _links(visit: Visit) -> Rows:
    arguments = {"itemId": visit.id, "includeItemInfo": True, "limit": EDGES}
    edges = await visit.tool("items", "query_dependencies", arguments)
    own = await _inner(visit)
    counts = edges.counts
    head = f"waits for {counts.incoming}, blocks {counts.outgoing}" + (
        f", related to {counts.relates_to}" if counts.relates_to else ""
    )
    if edges.total:
        head += f": the first {EDGES} of {number(edges.total)}"
    return Rows([_edge(visit, edge, dashed(own)) for edge in edges.dependencies], head=head)


def _edge(visit: Visit, edge: DependencyView, own: str) -> Row:
    incoming = edge.to_item_id == own
    other, info = (edge.from_item_id, edge.from_item) if incoming else (edge.to_item_id, edge.to_item)
    kind = "related" if edge.type == "RELATES_TO" else "waits" if incoming else "blocks"
    until = edge.effective_unblock_role
    content = [
        span(".dim")[_LINKS[kind]],
        role(info.role) if info else None,
        item_link(visit.project, other, plain(info.title) if info else ""),
        span(".dim")[f"until it is in {_word(until)}"] if until not in (UNSET, "terminal") else None,
        edge_button(visit, edge.id, info.title if info else other),
    ]
    # Two items may be related both ways.
    return Row(f"{kind}{'from' if incoming else 'to'}:{other}", content, "line")


def _word(code: object) -> str:
    return "done" if code == "terminal" else str(code)


async def _children(visit: Visit) -> Rows:
    page, offset = await window(visit, Wanted(parent=await _inner(visit)))
    total, head = page.total or 0, None
    if total:
        arguments = {"operation": "overview", "itemId": visit.id, "limit": 1}
        counts = (await visit.tool("items", "query_items", arguments)).child_counts
        head = [[role(name, number(getattr(counts, name))), " "] for name in ROLE_NAMES if getattr(counts, name)]
    rows = await cards(visit, page.rows, with_role=True)
    return Rows(rows, total, offset, head=head, again=again(page.now, page.rows))


async def _history(visit: Visit) -> Rows:
    item, start = await _inner(visit), visit.query.get("history", "")
    page = await visit.read(read_history, item, start)
    entries = [
        Row(f"entry:{entry}", _change(change), "line") for change, entry in zip(page.changes, page.entries, strict=True)
    ]
    head = [
        a(href=visit.url(history=page.next))["older"] if page.next else None,
        " ",
        a(href=visit.url(history=None))["newest"] if start else None,
        span(".dim")["older ones are not kept any more"] if page.trimmed else None,
    ]
    return Rows(entries, head=head)


def _change(change: Changed) -> Node:
    actor, verification = stored_actor(change.actor), stored_verification(change.verification)
    return [
        ago(change.at),
        role(ROLE_NAMES[change.from_role]),
        span(".dim")[change.trigger.replace("_", " ")],
        role(ROLE_NAMES[change.to_role]),
        plain(actor.id) if actor else span(".dim")["no one named"],
        chip(actor.kind) if actor else None,
        chip("verified") if verification and verification.status == "verified" else None,
        span(".said")[plain(change.summary)] if change.summary else None,
    ]


async def _sessions(visit: Visit) -> Rows:
    if not visit.viewer.reads("sessions"):
        return Rows([])
    sessions = await visit.read(sessions_of_item, await _inner(visit))
    return Rows([
        Row(
            f"session:{session.id}",
            [
                a(href=path_of("session", visit.project, session.id))[plain(session.workflow)],
                span[plain(session.activity)],
                chip("waits for an answer", "warning") if session.checkpoint else None,
                chip("completed") if session.completed else None,
                plain(session.agent),
                ago(session.changed_at),
            ],
            "line",
        )
        for session in sessions
    ])  # fmt: skip


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    def part(name: str, title: str, container: htpy.Element, empty: Node, class_: str = "lines") -> Node:
        return section(".part", aria_label=title)[
            h2[title, " ", region_head(name, regions, span(".dim"))],
            region_element(visit, name, regions, container, empty, class_=class_, aria_label=title),
        ]

    end = regions["children"].offset + len(regions["children"].rows)
    return [
        region_element(visit, "head", regions, div),
        actions_element(visit, regions),
        dialogs(visit),
        div(".item-parts")[
            div[
                region_element(visit, "texts", regions, div, "It has neither a description nor notes.", class_="texts"),
                part("history", "History", htpy.ol, "It has always been in its role."),
            ],
            div[
                part("links", "Dependencies", htpy.ul, "It waits for nothing, and nothing waits for it."),
                await neighbours_element(visit, "neighbours", regions),
                part("children", "Children", htpy.ol, "It has none.", "window few"),
                noscript[a(href=visit.url(offset=str(end)))[f"from {number(end + 1)} on"]]
                if end < regions["children"].total
                else None,
                part("sessions", "Sessions", htpy.ul, "No session is bound to it.")
                if visit.viewer.reads("sessions")
                else None,
            ],
        ],
    ]


VIEW = View(
    "item",
    "Item",
    _body,
    {
        "head": Region(_head, ("items",), section),
        "actions": ACTIONS,
        "texts": Region(texts, ("items",), section, personal=True, own=True),
        "links": Region(_links, ("items",), personal=True),
        "neighbours": NEIGHBOURS,
        "children": Region(_children, ("items",), height=HEIGHT),
        "history": Region(_history, ("items",), own=True),
        "sessions": Region(_sessions, ("sessions",), personal=True),
    },
    needs=("items",),
    takes_id=True,
    query=("history", "notes"),
    modules=("list.js", "graph.js", MODULE),
    titled=False,
)
