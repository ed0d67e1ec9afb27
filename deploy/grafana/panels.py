"""What dashboards are made of: panels, and the expressions of their queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

RATE = "$__rate_interval"
HOST = 'instance=~"$instance"'


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
    """The rate of a counter, summed by labels."""
    wanted = ",".join([HOST, *(f'{name}="{value}"' for name, value in labels.items())])
    summed = f"sum by ({by})" if by else "sum"
    return f"{summed} (rate({metric}{{{wanted}}}[{RATE}]))"


def quantile(share: float, metric: str, by: str = "", **labels: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {rate(metric + '_bucket', f'le, {by}' if by else 'le', **labels)})"


def gauge(metric: str, by: str = "", **labels: str) -> str:
    """A gauge, summed by labels."""
    wanted = ",".join([HOST, *(f'{name}="{value}"' for name, value in labels.items())])
    return f"sum by ({by}) ({metric}{{{wanted}}})" if by else f"sum ({metric}{{{wanted}}})"


def share(part: str, whole: str) -> str:
    """The ratio of a part to the whole."""
    return f"{part} / ({whole} > 0)"
