"""Spent budgets of a project, and what is held back, by them and else: why agents get nothing."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple

from msgspec import UnsetType

from coordinator.client.held_back import described
from coordinator.console.parts import number, plain
from coordinator.console.uses import amount
from coordinator.console.view import Visit
from coordinator.settings.sections.budgets import Periods
from coordinator.store import keys
from coordinator.toolsets.items import (
    ROLE_NAMES,
    HeldBack,
    ItemRow,
    Share,
    UsageReport,
    UsageSum,
    budget_of_agent,
    count_held_back,
    last_days,
    read_usage,
    rows_by_ids,
    share_of,
    shown_limits,
    stored_sum,
)

SECONDS = 4
"""How long sums of usage are given to further tabs."""
MOST = 50
"""Of items and agents with spent budgets, that are named."""
MOST_AGENTS = 1_000
"""Agents that are looked at for budgets."""
_OFFERED = ("queue", "work", "review")
_REASONS = dict(zip(HeldBack.__struct_fields__, HeldBack.__struct_encode_fields__, strict=True))
"""By attribute, as in answers."""


class Spent(NamedTuple):
    of: Literal["project", "agent", "item"]
    name: str
    """Of the project or agent; the id of the item (inner form)."""
    share: Share
    today: bool
    """Whether it is that of a day."""
    item: ItemRow | None = None

    @property
    def text(self) -> str:
        used, limit = (amount(self.share.measure, value) for value in (self.share.used, self.share.limit))
        return f"{used} of {limit}{' for today (UTC)' if self.today else ''}"


class Held(NamedTuple):
    spent: tuple[Spent, ...]
    """The project's first."""
    more: bool
    """Whether further items have spent budgets."""
    counts: dict[str, int]
    """Items that are held back, as ``heldBack`` of an agent without capabilities."""
    offered: bool
    """Whether there is an item that is not held back, for any agent."""

    def of(self, kind: Literal["project", "agent", "item"]) -> list[Spent]:
        return [budget for budget in self.spent if budget.of == kind]

    @property
    def project(self) -> Spent | None:
        """The spent budget of the project: nobody gets anything."""
        return next(iter(self.of("project")), None)

    @property
    def words(self) -> str:
        """What is held back, in words; empty: nothing."""
        return described(self.counts)


NOTHING = Held((), False, {}, True)


def project_budgets(visit: Visit) -> Periods | None:
    budgets = visit.reads.config.budgets
    return budgets.projects.get(visit.project) if budgets is not None else None


async def usage_report(visit: Visit, by: str, limit: int) -> UsageReport:
    """Sums of usage, read for all tabs together. Raises ToolFailure."""
    reads, project = visit.reads, visit.project

    async def read() -> UsageReport:
        return await reads.admitted(project, lambda: read_usage(reads.store, project, by, limit))

    return await reads.shared(("usage", project, by, limit), read, SECONDS)


async def held(visit: Visit) -> Held:
    """What keeps agents of the project from items, read for all tabs together. Raises ToolFailure."""
    return await visit.reads.shared(("held", visit.project), lambda: _held(visit))


async def spent_budgets(visit: Visit) -> tuple[tuple[Spent, ...], bool]:
    """The spent budgets of the project, of its agents and of open items, read for all tabs together; and whether
    further items have some. Raises ToolFailure.
    """
    return await visit.reads.shared(("spent", visit.project), lambda: _spent(visit))


async def _held(visit: Visit) -> Held:
    reads, project = visit.reads, visit.project
    terms = reads.config.terms(project)
    (spent, more), (counts, _), *offers = await asyncio.gather(
        spent_budgets(visit),
        reads.admitted(project, lambda: count_held_back(reads.store, terms, project)),
        *(reads.tool(visit.viewer, project, "items", "get_next_item", {"role": role}) for role in _OFFERED),
    )
    named = {_REASONS[why]: count for why, count in counts.items()}
    return Held(spent, more, named, any(offer.recommendations for offer in offers))


async def _spent(visit: Visit) -> tuple[tuple[Spent, ...], bool]:
    own, agents, (items, more) = await asyncio.gather(_of_project(visit), _of_agents(visit), _of_items(visit))
    return (*own, *agents, *items), more


async def _of_project(visit: Visit) -> list[Spent]:
    if (periods := project_budgets(visit)) is None:
        return []
    report = await usage_report(visit, "day", 1)
    return _of_periods("project", visit.project, periods, last_days(report, 1)[0][1], report.total)


async def _of_agents(visit: Visit) -> list[Spent]:
    budgets, spent = visit.reads.config.budgets, list[Spent]()
    if budgets is None or not budgets.agents:
        return []
    for agent in (await usage_report(visit, "agent", MOST_AGENTS)).rows:
        if agent.name and (budget := budget_of_agent(budgets, agent.name)) is not None:
            spent += _of_periods("agent", agent.name, budget[1], agent.today, agent.sum)
    return spent[:MOST]


def _of_periods(
    of: Literal["project", "agent"], name: str, periods: Periods, today: UsageSum | UnsetType, total: UsageSum
) -> list[Spent]:
    """The budget of these two that is spent, that in all before that of today."""
    shares = (share_of(periods.total, total), False), (share_of(periods.day, today), True)
    over = [Spent(of, name, share, day) for share, day in shares if share is not None and share.percent >= 100]
    return over[:1]


async def _of_items(visit: Visit) -> tuple[list[Spent], bool]:
    reads, project = visit.reads, visit.project
    key = keys.spent_budgets.key(project)
    cursor, ids = await reads.admitted(project, lambda: reads.store.command("SSCAN", key, "0", "COUNT", MOST))
    if not ids:
        return [], False
    first = sorted(item.decode() for item in ids)[:MOST]
    _, rows = await reads.admitted(project, lambda: rows_by_ids(reads.store, project, first))
    over = list[Spent]()
    for row in rows:
        share = share_of(shown_limits(row.budget), stored_sum(row.usage, row.used_below))
        if share is not None and ROLE_NAMES[row.role] != "terminal":
            over.append(Spent("item", row.id, share, False, row))
    return over, len(ids) > MOST or cursor != b"0"


def whose(budget: Spent) -> str:
    if budget.item is not None:
        return f"the budget of \u201c{plain(budget.item.title)}\u201d"
    return "the budget of the project" if budget.of == "project" else f"the budget of {plain(budget.name)}"


def raising(budget: Spent) -> str:
    """What raises the budget of a project or an agent."""
    where = f"projects.{budget.name}" if budget.of == "project" else "agents"
    return f"budgets.{where}.{'day' if budget.today else 'total'}"


def counted(held: Held) -> str:
    """How many spent budgets there are."""
    return number(len(held.spent), held.more)
