"""Usage, as agents report it, its sums, and budgets."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.settings.sections.budgets import MOST
from coordinator.toolsets.canonical import meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base

MOST_AT_ONCE = 10**12
"""Of each number in one report."""
MEASURES = ("costMicroUsd", "tokens", "wallMs")
"""What a budget limits, in the order in which scripts have it."""
SCOPES = ("item", "agent", "project")

_Part = Annotated[int, Meta(ge=0, le=MOST_AT_ONCE)]
_Limit = Annotated[Annotated[int, Meta(ge=1, le=MOST)] | None, doc("Null: no limit.")]


class Usage(base.Arguments, kw_only=True):
    """What was used since the last report."""

    input_tokens: Annotated[_Part, doc("With those from a cache.")] = 0
    output_tokens: Annotated[_Part, doc("Produced.")] = 0
    cached_tokens: Annotated[_Part, doc("inputTokens from a cache.")] = 0
    cost_micro_usd: Annotated[_Part, doc("Millionths of a US dollar.")] = 0
    wall_ms: Annotated[_Part, doc("Time worked.")] = 0
    model: Annotated[str | None, doc("Which model.", published={"maxLength": 200})] = None


GivenUsage = Annotated[Usage | None, doc("Used since the last report; added on success.", extra=meant({}))]


class Budget(base.Arguments, kw_only=True):
    """Limits on what is used for an item and everything below it."""

    cost_micro_usd: _Limit = None
    tokens: _Limit = None
    wall_ms: _Limit = None


class BudgetLimits(base.Result, kw_only=True):
    """The same in results; absent: no limit."""

    cost_micro_usd: Annotated[base.Count, doc("Millionths of a US dollar.")] | UnsetType = UNSET
    tokens: Annotated[base.Count, doc("Input and output.")] | UnsetType = UNSET
    wall_ms: Annotated[base.Count, doc("Milliseconds of work.")] | UnsetType = UNSET


class UsageSum(base.Result, kw_only=True):
    """A sum of usage."""

    input_tokens: Annotated[base.Count, doc("Those from a cache included.")]
    output_tokens: Annotated[base.Count, doc("Produced.")]
    cached_tokens: Annotated[base.Count, doc("From a cache.")]
    tokens: Annotated[base.Count, doc("inputTokens + outputTokens.")]
    cost_micro_usd: Annotated[base.Count, doc("Millionths of a US dollar.")]
    wall_ms: Annotated[base.Count, doc("Milliseconds of work.")]


class ItemUsage(base.Result, kw_only=True):
    """What was used for an item."""

    own: Annotated[UsageSum, doc("For the item itself.")] | UnsetType = UNSET
    subtree: Annotated[UsageSum, doc("With everything below it, deleted items too.")]


class SpentBudget(base.Result, kw_only=True):
    """A budget that is spent."""

    scope: Annotated[str, doc("Whose it is.", enum=SCOPES)]
    item_id: Annotated[str, doc("Of scope item: the item that has it.")] | UnsetType = UNSET
    name: Annotated[str, doc("Else: as in the settings.")] | UnsetType = UNSET
    period: Annotated[str, doc("day: in UTC.", enum=["day", "total"])]
    measure: Annotated[str, doc("Which limit.", enum=MEASURES)]
    limit: Annotated[base.Count, doc("What may be used.")]
    used: Annotated[base.Count, doc("What was used.")]
