"""Agents: who holds what since when, and who waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import htpy
from htpy import Node, a, div, span
from msgspec import UNSET

from coordinator.console.acts.buttons import MODULE
from coordinator.console.acts.operating import agent_drain_button, end_claim_button
from coordinator.console.numbers.spent import Held, held, whose
from coordinator.console.parts import agent_link, ago, chip, item_id, item_link, left, number, plain, short, spaced
from coordinator.console.tables import cell, choices, pager, region_table, search_form
from coordinator.console.uses import share_chip, used
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, region_head
from coordinator.toolsets.items import (
    Agent,
    AgentList,
    ItemRow,
    agent_sums,
    as_given,
    budget_of_agent,
    dashed,
    list_agents,
    share_of,
)

SECONDS = 5
"""Waits begin and end without an event."""
_COLUMNS = ("agent", "does", "since", "renewed", "claim", "failed attempts", "seen")
_LISTS = {"seen": "all, last seen first", "holding": "holding, longest first", "waiting": "waiting, longest first"}
_EMPTY: dict[AgentList, str] = {
    "seen": "No agent has claimed or waited here in the last day.",
    "holding": "No agent holds an item now.",
    "waiting": "No agent waits for an item now.",
}


def _list(visit: Visit) -> AgentList:
    name = visit.query.get("list", "")
    return cast(AgentList, name) if name in _LISTS else "seen"


async def _agents(visit: Visit) -> Rows:
    agents = await visit.read(list_agents, _list(visit), visit.query.get("agent", "").strip(), visit.offset)
    why = await held(visit)
    rows = [
        Row(f"agent:{agent.id}", list(_cells(visit, agent, item, _used(visit, agent, entry or "", agents.now), why)))
        for agent, item, entry in zip(agents.agents, agents.items, agents.used, strict=True)
    ]
    counts = f"{number(agents.known)} agents, {number(agents.holding)} live claims, {number(agents.waiting)} waiting"
    nothing = span(".chip.warning")[f"Nothing is offered: {why.words}"] if why.words and not why.offered else None
    head = [span(".dim")[counts], nothing, pager(visit, len(rows), agents.total, agents.more)]
    return Rows(rows, agents.total, visit.offset, agents.more, head)


def _used(visit: Visit, agent: Agent, entry: str, now: int) -> Node:
    """What it has used today, and how much of its budgets is spent; nothing if it has neither."""
    total, today = agent_sums(entry, now) if entry else (UNSET, UNSET)
    _, periods = budget_of_agent(visit.reads.config.budgets, agent.id) or ("", None)
    text = used(today) if today else ""
    shares = [(share_of(periods.day, today), "of today"), (share_of(periods.total, total), "in all")] if periods else []
    parts = [[share_chip(share), f" {when} "] for share, when in shares if share is not None and share.used]
    return div(".dim")[f"used {text} today " if text else None, parts] if text or parts else None


def _cells(visit: Visit, agent: Agent, item: ItemRow | Literal[False], used_now: Node, why: Held) -> Iterator[Node]:
    project = visit.project
    if not visit.viewer.sees_holders:
        item = False
    yield cell("agent")[
        spaced(
            agent_link(project, agent.id),
            span(".chip", title="kind of actor")[agent.kind],
            chip("verified", title="its identity was proved") if agent.verified else None,
            chip("drained", "warning", f"as {agent.drained}: it is to claim no more") if agent.drained else None,
            *(chip(name, title="capability") for name in agent.capabilities),
            agent_drain_button(visit, agent.id, agent.drained),
        ),
        used_now,
    ]
    yield cell("does")[list(_doing(project, agent, item, why))]
    since = agent.holds_since or agent.waits_since
    yield cell("since")[ago(since) if since else None]
    renewed = item and agent.item and item.renewed > item.claimed
    yield cell("renewed")[ago(item.renewed) if item and renewed else None]
    held = item if item and agent.holds_until else None
    yield cell("claim")[left(agent.holds_until) if held else None, " ", end_claim_button(visit, held) if held else None]
    yield cell("failed attempts", ".number")[number(agent.attempts)]
    yield cell("seen")[ago(agent.seen) if agent.seen else "long ago"]


def _doing(project: str, agent: Agent, item: ItemRow | Literal[False], why: Held) -> Iterator[Node]:
    if item:
        yield div[item_link(project, dashed(item.id), plain(item.title)), " ", item_id(dashed(item.id))]
        if item.attempts:
            yield div[chip(f"failed {number(item.attempts)} times", "warning", "attempts with this item so far")]
    if agent.wanted is not None:
        yield div["waits for ", plain(", ".join(_words(agent.wanted)) or "any item")]
    elif not item:
        yield span(".dim")["holds an item" if agent.holds_since else "idle"]
    if not item and not agent.holds_since and (reason := _why(agent, why)):
        yield div(".dim")[reason]


def _why(agent: Agent, why: Held) -> str:
    """Why an agent gets nothing, as far as that does not depend on what it asks for."""
    if agent.drained:
        return "it is drained"
    spent = why.project or next((budget for budget in why.of("agent") if budget.name == agent.id), None)
    if spent is not None:
        return f"{whose(spent)} is spent: {spent.text}"
    return f"nothing is offered: {why.words}" if why.words and not why.offered else ""


def _words(wanted: Mapping[str, Any]) -> Iterator[str]:
    selector = as_given(wanted)
    parts = {
        "{} priority": selector.priority,
        "in {}": selector.role,
        "type {}": selector.type,
        "tagged {}": (selector.tags or "").replace(",", " or "),
        "complexity up to {}": selector.complexity_max,
        "assigned to {}": selector.assignee,
        "children of {}": short(selector.parent_id or ""),
        "below {}": short(selector.ancestor_id or ""),
        "created after {}": selector.created_after,
        "created before {}": selector.created_before,
        "role changed after {}": selector.role_changed_after,
        "role changed before {}": selector.role_changed_before,
        "{} first": selector.order_by,
    }
    return (words.format(value) for words, value in parts.items() if value)


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    name, which = visit.query.get("agent", ""), _list(visit)
    empty: Node = _EMPTY[which]
    if name:
        empty = [f"No agent here has “{plain(name)}” in its name. ", a(href=visit.url(agent=None))["Show all"]]
    return [
        search_form(
            visit, "agent", "part of a name", {"list": visit.query.get("list")}, choices(visit, "list", _LISTS, "seen")
        ),
        region_head("agents", regions, htpy.div(".list-head")),
        region_table(visit, "agents", regions, _COLUMNS, empty, ("failed attempts",)),
    ]


VIEW = View(
    "agents",
    "Agents",
    _body,
    {"agents": Region(_agents, ("items",), htpy.tr, seconds=SECONDS, personal=True)},
    needs=("items",),
    query=("agent", "list"),
    modules=(MODULE,),
)
