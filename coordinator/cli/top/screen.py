"""The screen of ``fleet top``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from coordinator.cli.top.readings import Interval
from coordinator.metrics.hot import Hot
from coordinator.processes.fleetfile import Fleet
from coordinator.toolsets.items import MODES
from coordinator.units import money
from coordinator.wording import counted

_TOOLS = 12
_FEWEST_TOOLS = 3
_RESOURCES = 5
_KEY_LENGTH = 22
_BUDGETS = 3
_NEARLY = 0.8
"""The spent share from which on a budget is shown."""
_COUNTED = {
    "coordinator_quarantined_items": "quarantined",
    "coordinator_backoff_items": "in back-off",
    "coordinator_postponed_items": "not ready before a time",
    "coordinator_overdue_items": "overdue",
    "coordinator_agents_waiting": "claims wait for some",
}
"""Gauges of the backlog, and what is said of each that is not 0."""


def screen(
    interval: Interval, fleet: Fleet | None, hot: Sequence[Hot], where: str, console: Console | None = None
) -> RenderableType:
    """All tables, from the callers' view down to its causes; few tools are listed if ``console`` is low."""
    parts: list[RenderableType] = [_pressure(interval)]
    if interval.gauge("coordinator_processes", role="worker"):
        parts.append(_workers(interval))
    if resources := _resources(interval):
        parts.append(resources)
    if hot:
        parts.append(_hot(hot))
    above, most = _headline(interval, fleet, where), _TOOLS
    if console is not None:
        taken = len(console.render_lines(Group(above, *parts), pad=False)) + 1
        most = max(_FEWEST_TOOLS, min(_TOOLS, console.height - taken))
    return Group(above, _tools(interval, most), *parts)


def _headline(interval: Interval, fleet: Fleet | None, where: str) -> Text:
    processes = [
        counted(round(interval.gauge("coordinator_processes", role=role)), name)
        for role, name in (("frontend", "front-end"), ("worker", "worker"))
    ]
    down = [process.slot for process in fleet.processes if not process.ready] if fleet is not None else []
    text = Text(f"{where}   {', '.join(processes)}   ")
    text.append(f"{interval.rate('coordinator_requests_total'):,.0f} calls/s", style="bold")
    text.append(f"   {interval.gauge('coordinator_connections'):,.0f} connections")
    if down:
        text.append(f"   down: {', '.join(down)}", style="bold red")
    return text


def _tools(interval: Interval, most: int) -> Table:
    rates = interval.rates("coordinator_requests_total", "tool")
    busiest = sorted((tool for tool, rate in rates.items() if rate), key=lambda tool: -rates[tool])
    rows = []
    for tool in busiest[:most]:
        outcomes = interval.rates("coordinator_requests_total", "outcome", tool=tool)
        name = "coordinator_request_duration_seconds"
        rows.append(
            (
                tool,
                f"{rates[tool]:,.1f}",
                *(_some(outcomes.get(outcome, 0.0)) for outcome in ("conflict", "shed", "invalid")),
                _some(outcomes.get("error", 0.0) + outcomes.get("internal", 0.0)),
                _time(interval.quantile(name, 0.5, tool=tool)),
                _time(interval.quantile(name, 0.99, tool=tool)),
            )
        )
    return _table(("tool", "calls/s", "conflict", "shed", "invalid", "error", "p50 <=", "p99 <="), rows)


def _pressure(interval: Interval) -> Table:
    shed = interval.rates("coordinator_shed_total", "class")
    claims = interval.rates("coordinator_claims_total", "outcome")
    open_breakers = interval.gauge("coordinator_store_breaker", state="open")
    at_work, limit, waiting = (
        interval.gauge(f"coordinator_{name}") for name in ("calls_at_work", "concurrency_limit", "admission_waiting")
    )
    script = "coordinator_store_script_duration_seconds"
    errors = interval.rates("coordinator_store_errors_total", "kind")
    errors.pop("cancelled", None)  # callers that disconnected, mostly while they waited
    late = _quantile(interval, "coordinator_event_loop_lag_seconds", 0.99)
    rows = [
        ("admission", f"{at_work:.0f} calls at work of {limit:.0f}, {waiting:.0f} wait for room"),
        ("shed/s", _listed(shed)),
        ("claims/s", _listed(claims)),
        ("items", _backlog(interval)),
        *_usage(interval),
        (
            "store",
            f"{sum(interval.rates(f'{script}_count', 'script').values()):,.0f} scripts/s"
            + "".join(f", {time}" for share in (0.5, 0.99) if (time := _quantile(interval, script, share)))
            + (f", breaker open in {open_breakers:.0f}" if open_breakers else "")
            + (f", shards unreachable: {', '.join(away)}" if (away := _shards_away(interval)) else "")
            + (f", slots that no node has: {lost:.0f}" if (lost := _slots_lost(interval)) else "")
            + (f", errors {_listed(errors)}" if any(errors.values()) else ""),
        ),
        ("event loop", f"late by {late}" if late else "not measured"),
    ]
    return _table(("", ""), rows)


def _shards_away(interval: Interval) -> list[str]:
    """The shards of a cluster to which some front-end has no connection."""
    series = interval.series("coordinator_store_shard_away").items()
    return sorted(dict(labels)["shard"] for labels, processes in series if processes)


def _slots_lost(interval: Interval) -> float:
    """How many slots of a cluster no node has, as the front-end says that knows of most."""
    return max(interval.series("coordinator_store_slots_uncovered").values(), default=0)


def _backlog(interval: Interval) -> str:
    """Items by role, and the backlog; one front-end of the fleet counts them every few seconds."""
    counts = {role: interval.gauge("coordinator_items", role=role) for role in ("queue", "work", "review", "blocked")}
    parts = [f"{count:,.0f} {role}" for role, count in counts.items() if count] or ["none open"]
    if away := _shards_away(interval):
        if not any(counts.values()):  # nothing is measured without the shard that has the keys of the fleet
            return f"not known while shards are unreachable: {', '.join(away)}"
        parts.append(f"without shard {', '.join(away)}")
    if oldest := interval.gauge("coordinator_oldest_ready_age_seconds"):
        parts.append(f"oldest ready {timedelta(seconds=round(oldest))}")
    if left := interval.gauge("coordinator_abandoned_items"):
        longest = timedelta(seconds=round(interval.gauge("coordinator_oldest_abandoned_age_seconds")))
        parts.append(f"{left:,.0f} abandoned, the first for {longest}")
    if drains := interval.gauge("coordinator_agent_drains"):
        parts.append(f"{counted(round(drains), 'drain')} of agents")
    parts += [f"{count:,.0f} {words}" for name, words in _COUNTED.items() if (count := interval.gauge(name))]
    return ", ".join(parts)


def _usage(interval: Interval) -> list[tuple[str, str]]:
    """What agents have reported today, and budgets that are spent, or nearly; only what there is."""
    rows = []
    tokens = interval.gauge("coordinator_usage_today_tokens")
    cost = interval.gauge("coordinator_usage_today_cost_micro_usd")
    if tokens or cost:
        rows.append(("usage today", f"{tokens:,.0f} tokens, {money(int(cost))}"))
    shares = {}
    for by, name in (("project", "coordinator_project_budget"), ("agents", "coordinator_agent_budget")):
        for labels, share in interval.series(f"{name}_spent_ratio").items():
            named = dict(labels)
            shares[f"{named[by]} ({named['period']})"] = share
    most = sorted((pair for pair in shares.items() if pair[1] >= _NEARLY), key=lambda pair: -pair[1])
    parts = [f"{name} {share:.0%} spent" for name, share in most[:_BUDGETS]]
    if spent := interval.gauge("coordinator_spent_budgets"):
        parts.append(f"{spent:,.0f} of items spent")
    if parts:
        rows.append(("budgets", ", ".join(parts)))
    return rows


def _resources(interval: Interval) -> Table | None:
    """The fullest of the resources that are in use: what waits for them, then what is held."""
    rows = []
    for labels, capacity in interval.series("coordinator_resource_capacity").items():
        key = dict(labels)["resource"]
        held, shared = (interval.gauge("coordinator_resource_held", resource=key, mode=mode) for mode in MODES)
        waiting = interval.gauge("coordinator_resource_waiting_items", resource=key)
        reserved = interval.gauge("coordinator_resource_reservations", resource=key)
        left = interval.series("coordinator_resource_minute_units_left", resource=key)
        if capacity and (held or shared or waiting or reserved):
            columns = f"{held:.0f}/{capacity:.0f}", *(_number(each) for each in (shared, waiting, reserved))
            longest = timedelta(seconds=round(interval.gauge("coordinator_resource_wait_seconds", resource=key)))
            table = (
                _short(key),
                *columns,
                str(longest) if waiting else "-",
                f"{sum(left.values()):.0f}" if left else "-",
            )
            rows.append(((waiting, held / capacity), table))
    if not rows:
        return None
    rows.sort(key=lambda row: row[0], reverse=True)
    columns = ("resource", "held", "shared", "waiting", "reserved", "longest", "per min. left")
    return _table(columns, (row for _, row in rows[:_RESOURCES]))


def _workers(interval: Interval) -> Table:
    steps = interval.rates("coordinator_steps_total", "outcome")
    rows = [
        ("steps/s", _listed(steps)),
        (
            "steps",
            f"{interval.gauge('coordinator_steps_running'):.0f} running, "
            f"{interval.gauge('coordinator_steps_queued'):.0f} waiting",
        ),
        ("waited", _quantile(interval, "coordinator_step_wait_seconds", 0.99) or "none"),
    ]
    return _table(("", ""), rows)


def _hot(hot: Iterable[Hot]) -> Table:
    rows = [(row.project, row.item, f"{row.losers:.0f}") for row in hot]
    return _table(("project", "contended item", "failed claims, last minute"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=any(columns), header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or not any(columns) else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _short(key: str) -> str:
    """A key, the end of one that is long."""
    return key if len(key) <= _KEY_LENGTH else "…" + key[1 - _KEY_LENGTH :]


def _number(count: float) -> str:
    return f"{count:,.0f}" if count else "-"


def _some(rate: float) -> str:
    return f"{rate:,.1f}" if rate else "-"


def _listed(rates: dict[str, float]) -> str:
    rates_shown = [f"{rate:,.1f} {name}" for name, rate in sorted(rates.items(), key=lambda entry: -entry[1]) if rate]
    return ", ".join(rates_shown) or "none"


def _quantile(interval: Interval, name: str, share: float) -> str:
    """An upper bound of a quantile; empty: nothing happened."""
    seconds = interval.quantile(name, share)
    return "" if math.isnan(seconds) else f"p{share * 100:.0f} <= {_time(seconds)}"


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "-"
    if math.isinf(seconds):
        return "above"
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"
