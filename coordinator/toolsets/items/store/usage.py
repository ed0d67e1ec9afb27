"""Sums of usage of a project, for people and for metrics."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coordinator.store import Script, Store, keys
from coordinator.toolsets.items.contract.usage import BudgetLimits, UsageSum
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.usage import shown_limits, shown_sum
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.timestamp import iso

GROUPS = {"item": "i", "agent": "a", "model": "m", "day": "d"}
"""What usage is summed by, and how ``read_usage.lua`` names it."""
DAY_MS = 86_400_000
OTHERS = "\1"
_NOTHING = "0,0,0,0,0"


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
    total: UsageSum
    rows: list[UsageRow]
    """The greatest first; days: the last first."""
    count: int
    """How many rows there are, also without those that were not asked for; of items at most 1,000."""


class _Item(NamedTuple):
    id: str
    title: str
    role: int
    own: str
    below: str
    budget: str
    spent: bool


_READ = Script(LIBRARY, "read_usage", tuple[int, str, list[_Item], list[tuple[str, str]]])
_MOMENT = Script(LIBRARY, "read_moment", list[list[str]])


async def usage_entries(store: Store, project: str) -> dict[str, str]:
    """The sums by day, model and agent as they are stored (``lua/modules/usage.lua``). Raises as ``Store.run``."""
    (flat,) = await store.run(_MOMENT, project, msgspec.msgpack.encode([("HGETALL", keys.usage.suffix)]))
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def read_usage(store: Store, project: str, by: str, limit: int) -> UsageReport:
    """The usage of a project, the greatest sums first. Raises ToolFailure as ``Store.run`` says.

    Args:
        by: of ``GROUPS``.
    """
    now, total, items, named = await store.run(_READ, project, GROUPS[by], max(limit, 1))
    rows = [_item(one) for one in items] or [_named(by, name, entry, now) for name, entry in named]
    if by == "day":
        rows.sort(key=lambda row: row.name, reverse=True)
    elif by != "item":
        rows.sort(key=lambda row: (-row.sum.cost_micro_usd, -row.sum.tokens, -row.sum.wall_ms, row.name))
    return UsageReport(by=by, total=shown_sum(_parts(total)), rows=rows[:limit], count=len(rows))


def _parts(text: str) -> list[int]:
    return [int(part) for part in (text or _NOTHING).split(",")]


def _item(one: _Item) -> UsageRow:
    own, below = _parts(one.own), _parts(one.below)
    return UsageRow(
        name=dashed(one.id),
        sum=shown_sum([mine + theirs for mine, theirs in zip(own, below, strict=True)]),
        title=one.title,
        role=ROLE_NAMES[one.role],
        own=shown_sum(own),
        budget=shown_limits(one.budget or False),
        budget_spent=True if one.spent else UNSET,
    )


def _named(by: str, name: str, entry: str, now: int) -> UsageRow:
    if by == "day":
        return UsageRow(name=iso(int(name) * DAY_MS)[:10], sum=shown_sum(_parts(entry)))
    shown = "(others)" if name == OTHERS else name
    if by == "model":
        return UsageRow(name=shown, sum=shown_sum(_parts(entry)))
    total, _, last = entry.partition(" ")
    day, _, of_day = last.partition(":")
    today: Any = shown_sum(_parts(of_day)) if int(day) == now // DAY_MS else UNSET
    return UsageRow(name=shown, sum=shown_sum(_parts(total)), today=today)
