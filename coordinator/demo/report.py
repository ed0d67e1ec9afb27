"""What a run showed: for programs as JSON, for people as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator.demo.agents import Agents
from coordinator.demo.board import Board
from coordinator.wording import counted

_SHOWN = 20
_TALLIES = ("items_done", "steps", "steps_done", "seconds", "claims", "renewals", "most_claimed", "expiries")


def facts(
    board: Board, agents: Agents, differences: Sequence[str], failures: Sequence[str], **more: Any
) -> dict[str, Any]:
    """One run.

    Args:
        differences: what the audit found: items that were not done once, indexes and counters that do not agree with
            the items.
        failures: what else went wrong: agents that ended, work that stood still.
    """
    return {
        "ok": not failures and not differences,
        **more,
        **{name: getattr(board, name) for name in _TALLIES},
        "latency": {tool: latency(samples) for tool, samples in agents.latencies.items()},
        "unanswered": agents.unanswered,
        "outcomes": agents.outcomes,
        "crashes": agents.crashes,
        "differences": differences,
        "failures": failures,
    }


def latency(samples: Sequence[float]) -> dict[str, float]:
    """Percentiles of milliseconds by nearest rank. Those of claims include the wait for an item."""
    ordered = sorted(samples)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "worst": 1.0}
    ranks = {name: round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2) for name, share in shares.items()}
    return {"calls": len(ordered), **ranks}


def text(report: Mapping[str, Any]) -> Iterator[str]:
    many = f" in {report['trees']} trees" if report["trees"] > 1 else ""
    rate = report["steps_done"] / (report["seconds"] or 1)
    yield (
        f"{report['steps_done']} of {report['steps']} steps{many} done by {counted(report['size'], 'agent')} "
        f"in {report['seconds']:.1f} s: {rate:.0f} items/s"
    )
    yield ""
    yield f"{'milliseconds':<22}{'calls':>8}{'p50':>9}{'p95':>9}{'p99':>9}{'worst':>9}"
    for tool, row in sorted(report["latency"].items()):
        yield f"{tool:<22}{row['calls']:>8}{row['p50']:>9.1f}{row['p95']:>9.1f}{row['p99']:>9.1f}{row['worst']:>9.1f}"
    yield ""
    most = report["most_claimed"]
    yield f"claims      {report['claims']} won, {report['renewals']} renewed; {most} at a time at most"
    yield f"jobs        {_each(report['outcomes'])}"
    crashed, expired = counted(len(report["crashes"]), "agent"), counted(report["expiries"], "claim")
    yield f"crashes     {crashed} crashed over an item, {expired} expired"
    yield f"unanswered  {_each(report['unanswered'])}"
    if report["kills"]:
        yield f"chaos       {counted(report['kills'], 'front-end')} killed"
    yield ""
    if report["ok"]:
        yield f"audit passed: all {report['items']} items were done once; indexes and counters agree with the items"
        return
    differences = report["differences"]
    yield from (f"FAILED      {failure}" for failure in report["failures"])
    yield from (f"DIFFERENCE  {difference}" for difference in differences[:_SHOWN])
    if len(differences) > _SHOWN:
        yield f"            and {len(differences) - _SHOWN} more"
    yield (
        f"audit failed: {report['items_done']} of {report['items']} items are done; "
        f"{counted(len(differences), 'difference')}, {counted(len(report['failures']), 'failure')}"
    )


def _each(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1])) or "none"
