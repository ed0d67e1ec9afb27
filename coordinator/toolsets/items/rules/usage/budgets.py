"""Usage and budgets (README.md, 'Usage and budgets'): checks what callers give, and renders what scripts tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from coordinator.errors import invalid
from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.toolsets.items.field_types.usage import (
    MEASURES,
    MOST_AT_ONCE,
    Budget,
    BudgetLimits,
    ItemUsage,
    SpentBudget,
    Usage,
    UsageSum,
)
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.usage.shares import by_precedence

MAX_MODEL = 200
_NOTHING = "0,0,0,0,0"
Used = tuple[int, int, int, int, int, str]
"""Usage for scripts: input, output and cached tokens, micro-USD, ms, model or ''."""
_UNITS = {"costMicroUsd": "micro-USD", "tokens": "tokens", "wallMs": "ms of work"}


class _Refused(Protocol):
    """A note."""

    @property
    def cost_refused(self) -> int: ...

    @property
    def tokens_refused(self) -> int: ...


def packed(usage: Usage | None, field: str) -> Used | bool:
    """What was used, for scripts; False: nothing.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    if usage is None:
        return False
    model = (usage.model or "").strip()
    if len(model) > MAX_MODEL:
        raise invalid(f"{field}.model", f"must be at most {MAX_MODEL} characters")
    if any(ord(letter) < 32 for letter in model):
        raise invalid(f"{field}.model", "must be one line of text")
    if usage.cached_tokens > usage.input_tokens:
        raise invalid(f"{field}.cachedTokens", "must be at most inputTokens, of which they are a part")
    parts = usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost_micro_usd, usage.wall_ms
    if max(parts) > MOST_AT_ONCE:
        raise invalid(field, f"its numbers must be at most {MOST_AT_ONCE}")
    return (*parts, model) if any(parts) else False


def not_counted(note: _Refused, field: str) -> tuple[int, int] | bool:
    """Micro-USD and tokens that are only told of, for scripts; False: nothing.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    parts = note.cost_refused, note.tokens_refused
    for name, part in zip(("costRefused", "tokensRefused"), parts, strict=True):
        if not 0 <= part <= MOST_AT_ONCE:
            raise invalid(f"{field}.{name}", f"must be from 0 to {MOST_AT_ONCE}")
    return parts if any(parts) else False


def asked(used: Sequence[Used | bool]) -> tuple[object, ...]:
    """What a retry must repeat, as a further argument of its key; nothing if there was no usage."""
    return (list(used),) if any(used) else ()


def limits(budget: Budget | None) -> str:
    """A budget as items store it, '' for none.

    Raises:
        ToolFailure: VALIDATION_ERROR: it has no limit.
    """
    if budget is None:
        return ""
    parts = budget.cost_micro_usd, budget.tokens, budget.wall_ms
    if parts == (None, None, None):
        raise invalid("budget", "needs at least one of costMicroUsd, tokens and wallMs; null removes it")
    return ",".join("" if part is None else str(part) for part in parts)


def shown_limits(stored: str) -> BudgetLimits | UnsetType:
    """The budget of an item in results; UNSET for ''."""
    if not stored:
        return UNSET
    cost, tokens, wall = (int(part) if part else UNSET for part in stored.split(","))
    return BudgetLimits(cost_micro_usd=cost, tokens=tokens, wall_ms=wall)


def shown_sum(parts: Sequence[int]) -> UsageSum:
    """A sum in results."""
    inputs, outputs, cached, cost, wall = parts[:5]
    return UsageSum(
        input_tokens=inputs,
        output_tokens=outputs,
        cached_tokens=cached,
        tokens=inputs + outputs,
        cost_micro_usd=cost,
        wall_ms=wall,
    )


def of_item(own: str | None, below: str | None) -> ItemUsage:
    """What was used for an item and below it, from the sums as they are stored (``lua/usage/sums.lua``)."""
    mine, theirs = sum_parts(own), sum_parts(below)
    both = [one + other for one, other in zip(mine, theirs, strict=True)]
    return ItemUsage(own=shown_sum(mine) if own else UNSET, subtree=shown_sum(both))


def sum_parts(text: str | None) -> list[int]:
    """The numbers of a sum as it is stored; '' and None: nothing."""
    return [int(part) for part in (text or _NOTHING).split(",")]


def spent_budget(spent: Mapping[str, Any]) -> SpentBudget:
    """A spent budget in results, as ``lua/usage/budgets.lua`` tells of it."""
    of_an_item = spent["of"] == "item"
    return SpentBudget(
        scope=spent["of"],
        item_id=dashed(spent["name"]) if of_an_item else UNSET,
        name=UNSET if of_an_item else spent["name"],
        period="day" if spent["day"] else "total",
        measure=MEASURES[spent["measure"] - 1],
        limit=spent["limit"],
        used=spent["used"],
    )


def why_exhausted(spent: Mapping[str, Any]) -> str:
    """A sentence that names a spent budget."""
    measure, name = MEASURES[spent["measure"] - 1], spent["name"]
    agents = f"of the agent{'s' if name.endswith('*') else ''} {name!r}"
    whose = {"item": f"of item {dashed(name)}" if spent["of"] == "item" else "", "agent": agents}
    period = " for today (UTC)" if spent["day"] else ""
    named = whose.get(spent["of"], f"of the project {name!r}")
    return f"the budget {named}{period} is spent: {spent['used']:,} of {spent['limit']:,} {_UNITS[measure]}"


def packed_budgets(budgets: Budgets | None) -> tuple[dict[str, Any], Any]:
    """The settings for scripts (``lua/usage/budgets.lua``): by project, and for all others; None: nothing."""
    if budgets is None:
        return {}, None
    agents = [
        (name.removesuffix("*"), not name.endswith("*"), name, *_periods(periods))
        for name, periods in by_precedence(budgets)
    ]
    by_project = {name: (agents, *_periods(periods)) for name, periods in budgets.projects.items()}
    return by_project, (agents, False, False) if agents else None


def _periods(periods: Periods) -> tuple[list[int] | bool, list[int] | bool]:
    return _limits(periods.day), _limits(periods.total)


def _limits(limits: Limits | None) -> list[int] | bool:
    if limits is None:
        return False
    return [-1 if part is None else part for part in (limits.cost_micro_usd, limits.tokens, limits.wall_ms)]
