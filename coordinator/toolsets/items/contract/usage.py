"""Usage, as agents report it, its sums, and budgets."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.settings.budgets import MOST
from coordinator.toolsets.canonical import meant
from coordinator.toolsets.items.contract.base import Arguments, Count, Result

MOST_AT_ONCE = 10**12
"""Of each number in one report."""
MEASURES = ("costMicroUsd", "tokens", "wallMs")
"""What a budget limits, in the order in which scripts have it."""
SCOPES = ("item", "agent", "project")

_Part = Annotated[int, Meta(ge=0, le=MOST_AT_ONCE)]
_Limit = Annotated[Annotated[int, Meta(ge=1, le=MOST)] | None, Meta(description="Null: no limit.")]


class Usage(Arguments, kw_only=True):
    """What was used since the last report."""

    input_tokens: Annotated[_Part, Meta(description="With those from a cache.")] = 0
    output_tokens: Annotated[_Part, Meta(description="Produced.")] = 0
    cached_tokens: Annotated[_Part, Meta(description="inputTokens from a cache.")] = 0
    cost_micro_usd: Annotated[_Part, Meta(description="Millionths of a US dollar.")] = 0
    wall_ms: Annotated[_Part, Meta(description="Time worked.")] = 0
    model: Annotated[str | None, Meta(description="Which model.", extra_json_schema={"maxLength": 200})] = None


GivenUsage = Annotated[Usage | None, Meta(description="Used since the last report; added on success.", extra=meant({}))]


class Budget(Arguments, kw_only=True):
    """Limits on what is used for an item and everything below it."""

    cost_micro_usd: _Limit = None
    tokens: _Limit = None
    wall_ms: _Limit = None


class BudgetLimits(Result, kw_only=True):
    """The same in results; absent: no limit."""

    cost_micro_usd: Annotated[Count, Meta(description="Millionths of a US dollar.")] | UnsetType = UNSET
    tokens: Annotated[Count, Meta(description="Input and output.")] | UnsetType = UNSET
    wall_ms: Annotated[Count, Meta(description="Milliseconds of work.")] | UnsetType = UNSET


class UsageSum(Result, kw_only=True):
    """A sum of usage."""

    input_tokens: Annotated[Count, Meta(description="Those from a cache included.")]
    output_tokens: Annotated[Count, Meta(description="Produced.")]
    cached_tokens: Annotated[Count, Meta(description="From a cache.")]
    tokens: Annotated[Count, Meta(description="inputTokens + outputTokens.")]
    cost_micro_usd: Annotated[Count, Meta(description="Millionths of a US dollar.")]
    wall_ms: Annotated[Count, Meta(description="Milliseconds of work.")]


class ItemUsage(Result, kw_only=True):
    """What was used for an item."""

    own: Annotated[UsageSum, Meta(description="For the item itself.")] | UnsetType = UNSET
    subtree: Annotated[UsageSum, Meta(description="With everything below it, deleted items too.")]


class SpentBudget(Result, kw_only=True):
    """A budget that is spent."""

    scope: Annotated[str, Meta(description="Whose it is.", extra_json_schema={"enum": list(SCOPES)})]
    item_id: Annotated[str, Meta(description="Of scope item: the item that has it.")] | UnsetType = UNSET
    name: Annotated[str, Meta(description="Else: as in the settings.")] | UnsetType = UNSET
    period: Annotated[str, Meta(description="day: in UTC.", extra_json_schema={"enum": ["day", "total"]})]
    measure: Annotated[str, Meta(description="Which limit.", extra_json_schema={"enum": list(MEASURES)})]
    limit: Annotated[Count, Meta(description="What may be used.")]
    used: Annotated[Count, Meta(description="What was used.")]
