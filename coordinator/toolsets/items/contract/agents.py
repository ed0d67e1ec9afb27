"""get_context of agents."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import KINDS, MAX_ID
from coordinator.toolsets.items.contract.base import (
    ClaimExpiresAt,
    Count,
    IsoTime,
    ItemId,
    NextOffset,
    Result,
    Truncated,
)

STATES = ("holding", "waiting", "idle")

AgentId = Annotated[str, Meta(description="The trusted id.", extra_json_schema={"minLength": 1, "maxLength": MAX_ID})]


class AgentEntry(Result, kw_only=True):
    """An agent that claimed, renewed or waited in the last day."""

    id: AgentId
    kind: Annotated[str, Meta(description="What it is.", extra_json_schema={"enum": list(KINDS)})]
    verified: Annotated[bool, Meta(description="Whether its identity was verified.")]
    state: Annotated[
        str,
        Meta(
            description="holding: it has a live claim; else waiting: its claim is parked.",
            extra_json_schema={"enum": list(STATES)},
        ),
    ]
    draining: Annotated[bool, Meta(description="True: an operator drains it, so it claims no more.")] | UnsetType = (
        UNSET
    )
    capabilities: Annotated[list[str], Meta(description="What it can do; absent: it named none.")] | UnsetType = UNSET
    attempts: Annotated[Count, Meta(description="Claims that it left in work or review; absent: none.")] | UnsetType = (
        UNSET
    )
    last_seen_at: Annotated[IsoTime, Meta(description="Last claim, renewal or wait, UTC; within 10 s.")]
    holding_since: Annotated[IsoTime, Meta(description="When it first claimed its item, UTC.")] | UnsetType = UNSET
    item_id: ItemId | UnsetType = UNSET
    claim_expires_at: ClaimExpiresAt | UnsetType = UNSET
    waiting_since: Annotated[IsoTime, Meta(description="When its claim was parked, UTC.")] | UnsetType = UNSET
    waiting_for: Annotated[dict[str, Any], Meta(description="Selector of its parked claim.")] | UnsetType = UNSET


class AgentDrain(Result, kw_only=True):
    """Agents that claim no more: the one of this name, and its slots."""

    name: Annotated[str, Meta(description="An agent's id, or what precedes a '/' in some.")]
    since: Annotated[IsoTime, Meta(description="When the drain began, UTC.")]


class AgentCounts(Result, kw_only=True):
    """Numbers of the whole project."""

    known: Annotated[Count, Meta(description="Agents of the last day, at most 10000.")]
    holding: Annotated[Count, Meta(description="Live claims; an agent has one at most.")]
    waiting: Annotated[Count, Meta(description="Parked claims.")]


class AgentsResult(Result, kw_only=True):
    """Agents, last seen first, and what they do."""

    mode: Annotated[str, Meta(description="As asked for: agents.", extra_json_schema={"enum": ["agents"]})]
    counts: AgentCounts
    agents: Annotated[
        list[AgentEntry],
        Meta(description="With itemId and claimExpiresAt only for callers with the permission items.admin."),
    ]
    drains: Annotated[list[AgentDrain], Meta(description="In force, by name; absent: none.")] | UnsetType = UNSET
    next_offset: NextOffset = UNSET
    truncated: Truncated = UNSET
