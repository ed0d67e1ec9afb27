"""What dashboards are made of: panels, and the expressions of their queries.

Each query is of the fleets that are chosen on the board, and has a series, or several, for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

RATE = "$__rate_interval"
SELECTED = 'fleet=~"$fleet",instance=~"$instance"'
"""The fleets and hosts that are chosen on the board."""


class Panel(NamedTuple):
    """One panel; ``queries`` are expressions and their legends."""

    title: str
    shows: str
    unit: str
    queries: Sequence[tuple[str, str]]
    page: str
    """Its runbook."""
    kind: str = "lines"
    width: int = 8
    height: int = 7


class Dashboard(NamedTuple):
    """Rows of panels."""

    uid: str
    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]


def rate(metric: str, by: str = "", **labels: str) -> str:
    """The rate of a counter, summed by fleet and labels."""
    return f"sum by ({_and_fleet(by)}) (rate({_of(metric, labels)}[{RATE}]))"


def quantile(share: float, metric: str, by: str = "", **labels: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {rate(metric + '_bucket', f'le, {by}' if by else 'le', **labels)})"


def gauge(metric: str, by: str = "", **labels: str) -> str:
    """A gauge, summed by fleet and labels."""
    return f"sum by ({_and_fleet(by)}) ({_of(metric, labels)})"


def most(metric: str, by: str = "", **labels: str) -> str:
    """A gauge that one process of a fleet measures, or the largest value of any of them."""
    return f"max by ({_and_fleet(by)}) ({_of(metric, labels)})"


def share(part: str, whole: str) -> str:
    """The ratio of a part to the whole."""
    return f"{part} / ({whole} > 0)"


def _of(metric: str, labels: Mapping[str, str]) -> str:
    wanted = ",".join([SELECTED, *(f'{name}="{value}"' for name, value in labels.items())])
    return f"{metric}{{{wanted}}}"


def _and_fleet(by: str) -> str:
    """No sum or maximum is one over several fleets."""
    return f"fleet, {by}" if by else "fleet"
