"""Usage: what agents have used, by item, agent, model and day; which budgets are spent; who has which resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import htpy
from htpy import Node, a, code, div, section, span, tr, ul
from msgspec import UnsetType

from coordinator.console.charts import bars
from coordinator.console.numbers.spent import project_budgets, usage_report
from coordinator.console.parts import agent_link, chip, holder_link, item_id, item_link, number, plain, role
from coordinator.console.tables import cell, choices, pager, region_table, search_form, table_part
from coordinator.console.uses import amount, bar, short_number
from coordinator.console.view import MOST_ROWS, Region, Rendered, Row, Rows, View, Visit, region_element, region_head
from coordinator.settings.sections.budgets import Periods
from coordinator.toolsets.items import (
    GROUPS,
    ResourceRow,
    Share,
    UsageRow,
    UsageSum,
    Use,
    budget_of_agent,
    dashed,
    last_days,
    read_resources,
    share_of,
    shares_of,
)
from coordinator.units import clock, money

SECONDS = 5
"""How often all of it is read: reports of usage alone are no events."""
DAYS = 30
"""Of the chart."""
_MOST = 1_000
"""Items that are looked through for a text, and agents for budgets."""
_BUDGETED = 20
"""Agents with budgets that are listed."""
_BY = {"item": "by item", "agent": "by agent", "model": "by model", "day": "by day"}
_COLUMNS = ("cost", "tokens", "in", "cached", "out", "time")
_UNNAMED = {"agent": "no agent named", "model": "no model named"}
_NONE = (
    "No agent has reported usage here. Agents do so in the calls with which they claim, note, advance and release; "
    "runners report what they read in the output of claude, codex, gemini and others."
)


def _by(visit: Visit) -> str:
    group = visit.query.get("by", "")
    return group if group in GROUPS else "item"


# --- sums and days ---


async def _totals(visit: Visit) -> Rows:
    report = await usage_report(visit, "day", DAYS)
    if not report.count:
        return Rows([])
    days = last_days(report, DAYS)
    total, (_, today) = report.total, days[-1]
    measure = "costMicroUsd" if total.cost_micro_usd else "tokens" if total.tokens else "wallMs"
    values = [_value(measure, of_day) for _, of_day in days]
    words = {"costMicroUsd": "cost", "tokens": "tokens", "wallMs": "time worked"}[measure]
    label = f"{words} per day: {amount(measure, values[-1])} today, at most {amount(measure, max(values))}"
    span_of = f"{days[0][0]} to {days[-1][0]}"
    return Rows([
        _tile("today", "today, in UTC", today),
        _tile("total", "in all", total),
        Row("spent", [
            div(".name")["spent budgets of items"],
            div(".figure.bad" if report.spent_budgets else ".figure")[number(report.spent_budgets)],
        ], "card"),
        Row("days", [div(".name")[f"{words} per day"], bars(values, f"{label}, {span_of}"), div(".tile-note")[span_of]],
            "card days"),
    ])  # fmt: skip


def _value(measure: str, usage: UsageSum) -> int:
    return {"costMicroUsd": usage.cost_micro_usd, "tokens": usage.tokens, "wallMs": usage.wall_ms}[measure]


def _tile(key: str, name: str, sum: UsageSum) -> Row:
    figure = money(sum.cost_micro_usd) if sum.cost_micro_usd else f"{short_number(sum.tokens)} tokens"
    more = [f"{number(sum.tokens)} tokens"] if sum.cost_micro_usd else []
    more += [f"{clock(sum.wall_ms)} h of work"] if sum.wall_ms else []
    return Row(key, [div(".name")[name], div(".figure")[figure], div(".tile-note")[", ".join(more)]], "card")


# --- usage by something ---


async def _usage(visit: Visit) -> Rows:
    by, text = _by(visit), visit.query.get("text", "").strip().lower()
    end = visit.offset + MOST_ROWS
    report = await usage_report(visit, by, _MOST if text else min(_MOST, end + 1))
    rows = report.rows
    if text:
        rows = [row for row in rows if text in row.name.lower() or text in (row.title or "").lower()]
    more = by == "item" and not text and end < len(rows) < _MOST  # no more were read
    total = len(rows) if text or by == "item" else report.count
    window = rows[visit.offset : end]
    counted = f"{number(total, more)} {by}{'s' * (total != 1)}{', each with what is below it' if by == 'item' else ''}"
    head = [span(".dim")[counted] if window else None, pager(visit, len(window), total, more)]
    cells = [Row(f"{by}:{row.name}", list(_cells(visit, by, row))) for row in window]
    return Rows(cells, total, visit.offset, more, head)


def _cells(visit: Visit, by: str, row: UsageRow) -> Iterator[Node]:
    yield cell(by)[_name(visit, by, row)]
    yield from _sums(row.sum)


def _name(visit: Visit, by: str, row: UsageRow) -> Node:
    if by == "item":
        share = share_of(row.budget, row.sum)
        return [
            item_link(visit.project, row.name, plain(row.title or "")), " ", item_id(row.name), " ",
            role(row.role) if row.role else None, [" ", _bar(share)] if share else None,
        ]  # fmt: skip
    if by == "day":
        return code[row.name]
    if not row.name or row.name.startswith("(others"):
        return span(".dim")[row.name or _UNNAMED[by]]
    return agent_link(visit.project, row.name) if by == "agent" else plain(row.name)


def _sums(sum: UsageSum) -> Iterator[Node]:
    yield cell("cost", ".number")[money(sum.cost_micro_usd)]
    for name, count in (
        ("tokens", sum.tokens), ("in", sum.input_tokens), ("cached", sum.cached_tokens), ("out", sum.output_tokens)
    ):  # fmt: skip
        yield cell(name, ".number")[number(count)]
    yield cell("time", ".number")[clock(sum.wall_ms)]


# --- budgets ---


async def _budgets(visit: Visit) -> Rows:
    own, budgets = project_budgets(visit), visit.reads.config.budgets
    rows = list[Row]()
    if own is not None:
        days = await usage_report(visit, "day", DAYS)
        rows += _periods("the project", span["the project"], own, last_days(days, 1)[0][1], days.total)
    if budgets is None or not budgets.agents:
        return Rows(rows)
    report = await usage_report(visit, "agent", _MOST)
    listed = list[tuple[float, list[Row]]]()
    for agent in report.rows:
        budget = budget_of_agent(budgets, agent.name) if agent.name and not agent.name.startswith("(others") else None
        if budget is None:
            continue
        name, periods = budget
        shares = [*shares_of(periods.day, agent.today), *shares_of(periods.total, agent.sum)]
        who = [
            agent_link(visit.project, agent.name),
            span(".dim")[f" budget of {plain(name)}"] if name != agent.name else None,
        ]
        most = max(share.used / share.limit for share in shares)
        listed.append((most, list(_periods(f"agent:{agent.name}", who, periods, agent.today, agent.sum))))
    listed.sort(key=lambda entry: -entry[0])
    rows += [row for _, part in listed[:_BUDGETED] for row in part]
    more = f"the {_BUDGETED} of {number(len(listed))} agents that have used most of theirs"
    return Rows(rows, head=span(".dim")[more] if len(listed) > _BUDGETED else None)


def _periods(
    key: str, who: Node, periods: Periods, today: UsageSum | UnsetType, total: UsageSum | UnsetType
) -> Iterator[Row]:
    for when, limits, amounts in (("per day", periods.day, today), ("in all", periods.total, total)):
        for share in shares_of(limits, amounts):
            yield Row(f"{key}:{when}:{share.measure}", [
                cell("whose")[who],
                cell("period")[when],
                cell("used", ".number")[amount(share.measure, share.used)],
                cell("share")[_bar(share)],
            ])  # fmt: skip


def _bar(share: Share) -> Node:
    said = chip("spent", "trouble", "no new claims") if share.percent >= 100 else None
    return span(".budget")[bar(share), f" {share.percent} % of {amount(share.measure, share.limit)} ", said]


# --- resources ---


async def _resources(visit: Visit) -> Rows:
    resources = await visit.read(read_resources, visit.reads.config.terms(visit.project))
    cut = resources.looked < resources.live
    rows = [Row(f"resource:{row.key}", list(_resource(visit, row, cut))) for row in resources.rows]
    total = number(resources.total, resources.more)
    remarks = [
        f"the first {number(len(rows))} of {total}" if len(rows) < resources.total else "",
        f"of {number(resources.live)} claims, {number(resources.looked)} were looked at" if cut and rows else "",
    ]
    return Rows(rows, head=span(".dim")[", ".join(filter(None, remarks))])


def _resource(visit: Visit, row: ResourceRow, cut: bool) -> Iterator[Node]:
    yield cell("resource")[code[plain(row.key)], [" ", chip("busy", "warning")] if row.waiting else None]
    yield cell("held", ".number")[f"{number(row.exclusive)} of {number(row.capacity)}"]
    yield cell("shared", ".number")[number(row.shared) if row.shared else None]
    yield cell("per minute", ".number")[
        f"{max(0, int(row.left))} left of {number(row.per_minute)}" if row.per_minute else None
    ]
    yield cell("demanded by", ".number")[number(row.demanded)]
    yield cell("waiting", ".number")[span(".bad" if row.waiting else "")[number(row.waiting)]]
    yield cell("held by")[
        ul(".users")[
            (_use(visit, use) for use in row.holders),
            htpy.li(".dim")[f"and {number(row.holding - len(row.holders), cut)} more"]
            if row.holding > len(row.holders)
            else None,
            (_use(visit, use) for use in row.reserved),
        ]
        if row.holders or row.reserved
        else None
    ]


def _use(visit: Visit, use: Use) -> Node:
    item = item_link(visit.project, dashed(use.id), plain(use.title))
    if not use.agent:
        return htpy.li[chip("reserved", title="callers passed it over for long: it is next"), " ", item]
    return htpy.li[item, " ", holder_link(visit, use.agent)]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    by, text, budgets = _by(visit), visit.query.get("text", ""), visit.reads.config.budgets
    whole = replace(visit, query={})  # of what no filter is about
    empty: Node = _NONE
    if text:
        empty = [f"Nothing here has \u201c{plain(text)}\u201d in its name. ", a(href=visit.url(text=None))["Show all"]]
    no_budgets: Node = ["Neither the project nor its agents have one: the setting ", code["budgets"], " gives them."]
    return [
        region_element(whole, "totals", regions, ul, class_="cards usage", aria_label="Sums"),
        section(".fleet-part", aria_label="Sums by what they are of")[
            choices(visit, "by", _BY, "item"),
            search_form(visit, "text", "part of a name", {"by": visit.query.get("by")}),
            region_head("usage", regions, div(".list-head")),
            region_table(visit, "usage", regions, (by, *_COLUMNS), empty, _COLUMNS),
        ],
        table_part(
            whole, regions, "budgets", "Budgets", ("whose", "period", "used", "share"),
            "No agent with a budget has used anything." if budgets is not None and budgets.agents else no_budgets,
            ("used",),
        ),
        table_part(
            whole, regions, "resources", "Resources",
            ("resource", "held", "shared", "per minute", "demanded by", "waiting", "held by"),
            ["No open item demands any: items, schemas and traits do with ", code["resources"], "."],
            ("held", "shared", "per minute", "demanded by", "waiting"),
        ),
    ]  # fmt: skip


VIEW = View(
    "usage",
    "Usage",
    _body,
    {
        "totals": Region(_totals, (), htpy.li, seconds=SECONDS),
        "usage": Region(_usage, (), tr, seconds=SECONDS),
        "budgets": Region(_budgets, (), tr, seconds=SECONDS),
        "resources": Region(_resources, ("items",), tr, seconds=SECONDS),
    },
    needs=("items",),
    query=("by", "text"),
)
