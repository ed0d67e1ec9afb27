"""What a run showed: for people as text, for programs as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coordinator.cli.demo.agent import Crash
from coordinator.cli.terminal import counted

_SHOWN = 20


class Latency(msgspec.Struct, frozen=True):
    """Answered attempts at one tool; milliseconds as agents saw them."""

    calls: int
    p50: float
    p95: float
    p99: float
    worst: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    ok: bool
    source: str
    notes: tuple[str, ...]
    distributions: int
    requirements: int
    trees: int
    items: int
    items_done: int
    steps: int
    steps_done: int
    project: str
    base_url: str
    agents: int
    agent_processes: int
    seed: str
    seconds: float
    """Server time from the first claim to the last completion."""
    steps_per_second: float
    latency: dict[str, Latency]
    calls: int
    retries: dict[str, int]
    """Reason -> repeated attempts."""
    agent_counts: dict[str, int]
    claims: int
    most_claimed: int
    """The most items that were claimed at a time."""
    expiries: int
    """Claims that ended by time."""
    claims_lost: int
    """Items asked for that another agent had already."""
    claims_in_vain: int
    """Calls that asked for some items and got none of them."""
    polls: int
    """Times that an agent asked for work and there was none for it."""
    crashes: tuple[Crash, ...]
    kills: int
    kills_skipped: int
    differences: tuple[str, ...]
    """What the audit found: items that were not done once, indexes and counters that do not agree with the items."""
    failures: tuple[str, ...]
    """What else went wrong: agents that ended, work that stood still."""


def latency(samples: Sequence[float]) -> Latency:
    """Percentiles by nearest rank."""
    ordered = sorted(samples)

    def rank(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2)

    return Latency(len(ordered), rank(0.5), rank(0.95), rank(0.99), rank(1.0))


def text(report: Report) -> Iterator[str]:
    """The report, line by line."""
    many = f" in {report.trees} trees" if report.trees > 1 else ""
    yield (
        f"{report.steps_done} of {report.steps} steps of {report.distributions} distributions{many} done by "
        f"{counted(report.agents, 'agent')} in {report.seconds:.1f} s: {report.steps_per_second:.0f} items/s"
    )
    yield ""
    yield from _table(report.latency)
    yield ""
    renewed = report.agent_counts.get("renewals", 0)
    yield f"claims      {report.claims} won, {renewed} renewed; {report.most_claimed} at a time at most"
    yield (
        f"contention  {report.claims_lost} items asked for were another agent's already; "
        f"{report.claims_in_vain} calls got none of those they asked for"
    )
    yield f"polls       {counted(report.polls, 'time')} an agent asked for work and got none"
    crashed, expired = counted(len(report.crashes), "agent"), counted(report.expiries, "claim")
    yield f"crashes     {crashed} crashed over an item, {expired} expired"
    retries = ", ".join(
        f"{count} {reason}" for reason, count in sorted(report.retries.items(), key=lambda one: -one[1])
    )
    yield f"retries     {sum(report.retries.values())} of {report.calls} calls{f': {retries}' if retries else ''}"
    if report.kills or report.kills_skipped:
        spared = f"; {counted(report.kills_skipped, 'time')} none was up" if report.kills_skipped else ""
        yield f"chaos       {counted(report.kills, 'front-end')} killed{spared}"
    yield ""
    yield from _verdict(report)


def _table(rows: Mapping[str, Latency]) -> Iterator[str]:
    yield f"{'milliseconds':<22}{'calls':>8}{'p50':>9}{'p95':>9}{'p99':>9}{'worst':>9}"
    for tool, row in sorted(rows.items()):
        yield f"{tool:<22}{row.calls:>8}{row.p50:>9.1f}{row.p95:>9.1f}{row.p99:>9.1f}{row.worst:>9.1f}"


def _verdict(report: Report) -> Iterator[str]:
    if report.ok:
        yield f"audit passed: all {report.items} items were done once; indexes and counters agree with the items"
        return
    for failure in report.failures:
        yield f"FAILED      {failure}"
    yield from (f"DIFFERENCE  {difference}" for difference in report.differences[:_SHOWN])
    if len(report.differences) > _SHOWN:
        yield f"            and {len(report.differences) - _SHOWN} more"
    yield (
        f"audit failed: {report.items_done} of {report.items} items are done; "
        f"{counted(len(report.differences), 'difference')}, {counted(len(report.failures), 'failure')}"
    )
