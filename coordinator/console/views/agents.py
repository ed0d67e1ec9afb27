"""Agents: who holds what since when, and who waits for what."""

from __future__ import annotations

from collections.abc import Mapping

import htpy
from htpy import Node, span, table, tbody, td, th, thead, tr

from coordinator.console.parts import agent_link, ago, item_id, left, number, plain
from coordinator.console.view import MOST_ROWS, Asked, Region, Rendered, Row, Rows, View, path_of, region_element
from coordinator.toolsets.items.store.agents import Agent, read_agents


async def _agents(asked: Asked) -> Rows:
    found = await asked.reads.admitted(
        asked.project, lambda: read_agents(asked.reads.store, asked.project, asked.offset, MOST_ROWS)
    )
    rows = [Row(f"agent:{one.id}", _cells(asked.project, one)) for one in found.agents]
    return Rows(rows, found.known, asked.offset)


def _cells(project: str, agent: Agent) -> Node:
    doing: Node = span(".dim")["idle"]
    if agent.item:
        doing = [htpy.a(href=path_of("item", project, agent.item))["holds"], " ", item_id(agent.item)]
    elif agent.waits_since:
        doing = span[f"waits for {_wanted(agent)}"]
    since = agent.holds_since or agent.waits_since
    return [
        td[
            agent_link(project, agent.id),
            " ",
            span(".chip")[agent.kind],
            " ",
            span(".chip")["verified"] if agent.verified else None,
        ],
        td[doing],
        td[ago(since) if since else None],
        td[left(agent.holds_until) if agent.holds_until else None],
        td(".number")[number(agent.attempts)],
        td[ago(agent.seen)],
        td[span(".chip")["drained"] if agent.drained else None],
    ]


def _wanted(agent: Agent) -> str:
    wanted = agent.wanted or {}
    return ", ".join(f"{name} {plain(str(value))}" for name, value in sorted(wanted.items())) or "any item"


async def _body(asked: Asked, found: Mapping[str, Rendered]) -> Node:
    heads = ("agent", "does", "since", "claim", "failed attempts", "seen", "")
    return table[
        thead[tr[(th(scope="col")[head] for head in heads)]],
        region_element(asked, "agents", found, tbody, "No agent has claimed or waited here in the last day."),
    ]


VIEW = View(
    "agents",
    "Agents",
    _body,
    {"agents": Region(_agents, ("items",), htpy.tr)},
    needs=("items",),
    query=("agent",),
)
