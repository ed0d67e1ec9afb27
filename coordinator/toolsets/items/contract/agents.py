"""get_context of agents."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from coordinator.toolsets.actor import KINDS, MAX_ID
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base

STATES = ("holding", "waiting", "idle")

AgentId = Annotated[str, doc("The trusted id.", published={"minLength": 1, "maxLength": MAX_ID})]


class AgentEntry(base.Result, kw_only=True):
    """An agent that claimed, renewed or waited in the last day."""

    id: AgentId
    kind: Annotated[str, doc("What it is.", enum=KINDS)]
    verified: Annotated[bool, doc("Whether its identity was verified.")]
    state: Annotated[str, doc("holding: it has a live claim; else waiting: its claim is parked.", enum=STATES)]
    draining: Annotated[bool, doc("True: an operator drains it, so it claims no more.")] | UnsetType = UNSET
    capabilities: Annotated[list[str], doc("What it can do; absent: it named none.")] | UnsetType = UNSET
    attempts: Annotated[base.Count, doc("Claims that it left in work or review; absent: none.")] | UnsetType = UNSET
    last_seen_at: Annotated[base.IsoTime, doc("Last claim, renewal or wait, UTC; within 10 s.")]
    holding_since: Annotated[base.IsoTime, doc("When it first claimed its item, UTC.")] | UnsetType = UNSET
    item_id: base.ItemId | UnsetType = UNSET
    claim_expires_at: base.ClaimExpiresAt | UnsetType = UNSET
    waiting_since: Annotated[base.IsoTime, doc("When its claim was parked, UTC.")] | UnsetType = UNSET
    waiting_for: Annotated[dict[str, Any], doc("Selector of its parked claim.")] | UnsetType = UNSET


class AgentDrain(base.Result, kw_only=True):
    """Agents that claim no more: the one of this name, and its slots."""

    name: Annotated[str, doc("An agent's id, or what precedes a '/' in some.")]
    since: Annotated[base.IsoTime, doc("When the drain began, UTC.")]


class AgentCounts(base.Result, kw_only=True):
    """Numbers of the whole project."""

    known: Annotated[base.Count, doc("Agents of the last day, at most 10000.")]
    holding: Annotated[base.Count, doc("Live claims; an agent has one at most.")]
    waiting: Annotated[base.Count, doc("Parked claims.")]


class AgentsResult(base.Result, kw_only=True):
    """Agents, last seen first, and what they do."""

    mode: Annotated[str, doc("As asked for: agents.", enum=["agents"])]
    counts: AgentCounts
    agents: Annotated[
        list[AgentEntry], doc("With itemId and claimExpiresAt only for callers with the permission items.admin.")
    ]
    drains: Annotated[list[AgentDrain], doc("In force, by name; absent: none.")] | UnsetType = UNSET
    next_offset: base.NextOffset = UNSET
    truncated: base.Truncated = UNSET
