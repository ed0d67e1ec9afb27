"""Sums of usage of a project, for people and for metrics."""

from __future__ import annotations

from datetime import date, timedelta
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coordinator.store import Script, Store, keys
from coordinator.toolsets.items.field_types.usage import BudgetLimits, UsageSum
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.usage.budgets import shown_limits, shown_sum, sum_parts
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.timestamp import iso

GROUPS = {"item": "i", "agent": "a", "model": "m", "day": "d"}
"""What usage is summed by, and how ``read_usage.lua`` names it."""
DAY_MS = 86_400_000
OTHERS = "\1"


class UsageRow(Struct, rename="camel", omit_defaults=True):
    """One sum, and whose it is."""

    name: str
    """The id of an item, an agent ('': nobody), a model ('': unnamed), a day (``2026-01-31``)."""
    sum: UsageSum
    """Of an item with what is below it."""
    title: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    own: UsageSum | UnsetType = UNSET
    """Of the item itself."""
    budget: BudgetLimits | UnsetType = UNSET
    budget_spent: bool | UnsetType = UNSET
    today: UsageSum | UnsetType = UNSET
    """Of an agent."""


class UsageReport(Struct, rename="camel", omit_defaults=True):
    """The usage of a project by item, agent, model or day."""

    by: str
    today: str
    """In UTC, by the store's clock: ``2026-01-31``."""
    total: UsageSum
    rows: list[UsageRow]
    """The greatest first; days: the last first."""
    count: int
    """How many rows there are, also without those that were not asked for; of items at most 1,000."""
    spent_budgets: int = 0
    """Open items whose own budget is spent."""


class _Item(NamedTuple):
    """The sums of an item (``lua/usage/sums.lua``), '' for none."""

    id: str
    title: str
    role: int
    own: str
    below: str
    """Of the items below it."""
    budget: str
    spent: bool
    """Whether the budget is."""


_READ = Script(LIBRARY, "read_usage", tuple[int, str, int, list[_Item], list[tuple[str, str]]])
_MOMENT = Script(LIBRARY, "read_moment", list[list[str]])


async def usage_entries(store: Store, project: str) -> dict[str, str]:
    """The sums by day, model and agent as they are stored (``lua/usage/usage.lua``). Raises as ``Store.run``."""
    (flat,) = await store.run(_MOMENT, project, msgspec.msgpack.encode([("HGETALL", keys.usage.suffix)]))
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def read_usage(store: Store, project: str, by: str, limit: int) -> UsageReport:
    """The usage of a project, the greatest sums first. Raises ToolFailure as ``Store.run`` says.

    Args:
        by: of ``GROUPS``.
    """
    now, total, spent, items, named = await store.run(_READ, project, GROUPS[by], max(limit, 1))
    rows = [_item(item) for item in items] or [_named(by, name, entry, now) for name, entry in named]
    if by == "day":
        rows.sort(key=lambda row: row.name, reverse=True)
    elif by != "item":
        rows.sort(key=lambda row: (-row.sum.cost_micro_usd, -row.sum.tokens, -row.sum.wall_ms, row.name))
    return UsageReport(
        by=by,
        today=_day(now // DAY_MS),
        total=stored_sum(total),
        rows=rows[:limit],
        count=len(rows),
        spent_budgets=spent,
    )


def last_days(found: UsageReport, count: int) -> list[tuple[str, UsageSum]]:
    """The sums of the last days up to today, the first one first, those of days without usage too.

    Args:
        found: the report by day.
    """
    known = {row.name: row.sum for row in found.rows}
    today = date.fromisoformat(found.today)
    names = [(today - timedelta(days=back)).isoformat() for back in range(count - 1, -1, -1)]
    return [(name, known.get(name) or stored_sum("")) for name in names]


def _day(number: int) -> str:
    return iso(number * DAY_MS)[:10]


def stored_sum(text: str, below: str = "") -> UsageSum:
    """A sum as it is stored, '' for nothing, with another one."""
    return shown_sum([one + other for one, other in zip(sum_parts(text), sum_parts(below), strict=True)])


def agent_sums(entry: str, now: int) -> tuple[UsageSum, UsageSum | UnsetType]:
    """An agent's sums in all and of today, from its entry (``lua/usage/sums.lua``) and the store's time in ms."""
    total, _, last = entry.partition(" ")
    day, _, of_day = last.partition(":")
    return stored_sum(total), stored_sum(of_day) if int(day) == now // DAY_MS else UNSET


def _item(item: _Item) -> UsageRow:
    return UsageRow(
        name=dashed(item.id),
        sum=stored_sum(item.own, item.below),
        title=item.title,
        role=ROLE_NAMES[item.role],
        own=stored_sum(item.own),
        budget=shown_limits(item.budget or ""),
        budget_spent=True if item.spent else UNSET,
    )


def _named(by: str, name: str, entry: str, now: int) -> UsageRow:
    if by == "day":
        return UsageRow(name=_day(int(name)), sum=stored_sum(entry))
    shown = "(others)" if name == OTHERS else name
    if by == "model":
        return UsageRow(name=shown, sum=stored_sum(entry))
    total, today = agent_sums(entry, now)
    return UsageRow(name=shown, sum=total, today=today)
