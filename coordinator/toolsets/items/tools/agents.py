"""get_context of agents: who is here, and what they do (README.md, 'Agents')."""

from __future__ import annotations

from msgspec import UNSET, to_builtins

from coordinator.toolsets import pages
from coordinator.toolsets.items.contract.agents import AgentCounts, AgentDrain, AgentEntry, AgentsResult
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.selection import as_given
from coordinator.toolsets.items.store.agents.presence import Agent, Agents
from coordinator.toolsets.timestamp import iso


def agents_result(found: Agents, offset: int, items: bool) -> AgentsResult:
    """A page of agents, from ``offset`` on; with ``items``, also which item each holds."""
    entries = [agent_entry(agent, items) for agent in found.agents]
    shown = pages.fitting(entries) if entries else 0
    end = offset + shown
    return AgentsResult(
        mode="agents",
        counts=AgentCounts(known=found.known, holding=found.holding, waiting=found.waiting),
        agents=entries[:shown],
        drains=[AgentDrain(name=name, since=iso(since)) for name, since in sorted(found.drains)] or UNSET,
        next_offset=end if end < found.known else UNSET,
        truncated=True if end < found.known else UNSET,
    )


def agent_entry(agent: Agent, items: bool) -> AgentEntry:
    """An agent in results; with ``items``, also the item that it holds."""
    wanted = agent.wanted
    named = items and agent.item != ""
    return AgentEntry(
        id=agent.id,
        kind=agent.kind,
        verified=agent.verified,
        state="holding" if agent.item else "idle" if wanted is None else "waiting",
        draining=True if agent.drained else UNSET,
        capabilities=agent.capabilities or UNSET,
        attempts=agent.attempts or UNSET,
        last_seen_at=iso(agent.seen),
        holding_since=iso(agent.holds_since) if agent.item else UNSET,
        item_id=dashed(agent.item) if named else UNSET,
        claim_expires_at=iso(agent.holds_until) if named else UNSET,
        waiting_since=iso(agent.waits_since) if wanted is not None else UNSET,
        waiting_for=to_builtins(as_given(wanted)) if wanted is not None else UNSET,
    )
