"""Writes the page about all metrics: ``python -m deploy.metrics``. The output is checked in."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from coordinator.metrics import SLOT, Label, Metric
from coordinator.metrics_catalogue import CATALOGUE
from deploy.grafana.boards import ALL
from deploy.grafana.panels import Dashboard, Panel

HERE = Path(__file__).resolve().parent
PAGE = HERE / "metrics.md"
RULES = HERE / "prometheus"
_NAME = re.compile(r"coordinator[a-z0-9_:]*")
_HEAD = """\
# Metrics

The metrics that `/metrics` of a host serves, for all of its processes together. Written by `python -m deploy.metrics`
from `coordinator/metrics_catalogue.py`, the dashboards and the alerts.

One host always has fewer than 7,800 series. Labels have few values: those listed, or a bounded number after which
further ones count as `other`. No label is ever the id of an item, request or agent. Counters continue where a
killed process stopped. Panels are named with their dashboard; alerts link to their runbooks.

| Metric | Type | Panels | Alerts |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page."""
    panels = {metric.name: list(_panels(metric)) for metric in CATALOGUE}
    alerts = _alerts()
    rows = [
        f"| [{metric.name}](#{metric.name}) | {metric.kind} | {len(panels[metric.name]) or ''} "
        f"| {len(alerts[metric.name]) or ''} |"
        for metric in CATALOGUE
    ]
    sections = [_section(metric, panels[metric.name], alerts[metric.name]) for metric in CATALOGUE]
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _section(metric: Metric[Any], panels: Iterable[tuple[Dashboard, Panel]], alerts: Iterable[str]) -> str:
    merged = f"; of several processes the {_together(metric.merge)}"
    if any(label.limit for label in metric.dimensions if label != SLOT):
        merged += f"; `other` is the {_together(metric.together)}"
    lines = [
        f"## {metric.name}",
        "",
        metric.meaning,
        "",
        f"- **Type:** {metric.kind}{merged if metric.kind == 'gauge' else ''}",
        f"- **Unit:** {metric.unit}",
    ]
    if metric.dimensions:
        lines.append(f"- **Labels:** {'; '.join(map(_label, metric.dimensions))}")
    if metric.buckets:
        lines.append(f"- **Buckets:** {', '.join(f'{bound:g}' for bound in metric.buckets)}")
    shown = [f"{panel.title} ({dashboard.title.removeprefix('Fleet: ')})" for dashboard, panel in panels]
    lines.append(f"- **Panels:** {'; '.join(shown) or 'none'}")
    lines.append(f"- **Alerts:** {', '.join(f'[{alert}](runbooks/{alert_page(alert)})' for alert in alerts) or 'none'}")
    return "\n".join(map(_wrapped, lines)) + "\n"


def _together(how: str) -> str:
    return "sum" if how == "sum" else "largest"


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line,
        120,
        subsequent_indent="  " if line.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _label(label: Label) -> str:
    if label.values:
        return f"`{label.name}` ({', '.join(label.values)})"
    return f"`{label.name}` (at most {label.limit} values)"


def _panels(metric: Metric[Any]) -> Iterator[tuple[Dashboard, Panel]]:
    for dashboard in ALL:
        for _, panels in dashboard.rows:
            for panel in panels:
                if any(metric.name in _metrics(query) for query, _ in panel.queries):
                    yield dashboard, panel


@functools.cache
def _rules() -> list[dict[str, Any]]:
    groups = [
        group for file in ("recording.yml", "alerts.yml") for group in YAML(typ="safe").load(RULES / file)["groups"]
    ]
    return [rule for group in groups for rule in group["rules"]]


def alert_page(alert: str) -> str:
    """The file of an alert's page."""
    (url,) = [rule["annotations"]["runbook_url"] for rule in _rules() if rule.get("alert") == alert]
    return str(url).rpartition("/")[2]


def _alerts() -> dict[str, list[str]]:
    """The alerts that use each metric, directly or through a recording rule."""
    found: dict[str, list[str]] = {metric.name: [] for metric in CATALOGUE}
    recorded: dict[str, set[str]] = {}
    for rule in _rules():
        names = set()
        for word in _NAME.findall(rule["expr"]):
            names |= recorded.get(word, set()) or _metrics(word)
        if "record" in rule:
            recorded[rule["record"]] = names
            continue
        for name in sorted(names):
            found[name].append(rule["alert"])
    return found


def _metrics(expression: str) -> set[str]:
    """The metrics of the catalogue that an expression names."""
    names = set(_NAME.findall(expression))
    names |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    return names & {metric.name for metric in CATALOGUE}


def main() -> None:
    """Writes it."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
