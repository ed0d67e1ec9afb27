"""How much of budgets is used, for people."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UnsetType

from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.toolsets.items.field_types.usage import MEASURES, BudgetLimits, UsageSum


class Share(NamedTuple):
    """How much of a limit is used."""

    measure: str
    """Of ``MEASURES``."""
    used: int
    limit: int

    @property
    def percent(self) -> int:
        """100 or more: it is spent."""
        return 100 * self.used // self.limit


_Limits = Limits | BudgetLimits | UnsetType | None


def shares_of(limits: _Limits, used: UsageSum | UnsetType) -> list[Share]:
    """How much of each limit of a budget is used; nothing if there is no budget."""
    if limits is None or isinstance(limits, UnsetType):
        return []
    sums = (used.cost_micro_usd, used.tokens, used.wall_ms) if isinstance(used, UsageSum) else (0, 0, 0)
    stated = zip(MEASURES, sums, (limits.cost_micro_usd, limits.tokens, limits.wall_ms), strict=True)
    return [Share(measure, amount, limit) for measure, amount, limit in stated if isinstance(limit, int)]


def share_of(limits: _Limits, used: UsageSum | UnsetType) -> Share | None:
    """Of the limits of a budget the one of which most is used; None: there is no budget."""
    return max(shares_of(limits, used), key=lambda one: one.used / one.limit, default=None)


def by_precedence(budgets: Budgets) -> list[tuple[str, Periods]]:
    """The budgets of agents: of those whose names fit an agent, the first one is its own."""
    return sorted(budgets.agents.items(), key=lambda one: (one[0].endswith("*"), -len(one[0])))


def budget_of_agent(budgets: Budgets | None, agent: str) -> tuple[str, Periods] | None:
    """The budget that the settings give to an agent, and its name there; None: none."""
    for name, periods in by_precedence(budgets) if budgets is not None else ():
        if agent == name if not name.endswith("*") else agent.startswith(name[:-1]):
            return name, periods
    return None
