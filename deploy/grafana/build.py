"""Writes the dashboards of ``boards`` as JSON: ``python -m deploy.grafana.build``. The output is checked in.

Needs the development dependencies (grafana-foundation-sdk).
"""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.builders import common, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.common import BigValueGraphMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.boards import ALL
from deploy.grafana.panels import Dashboard, Panel, gauge

HERE = Path(__file__).resolve().parent
DASHBOARDS = HERE / "dashboards"
RUNBOOKS = "https://example.org/runbooks"
"""Where deploy/runbooks is published; the constant of each dashboard can be set when it is imported."""
_SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")


def rendered(dashboard: Dashboard) -> str:
    """A dashboard as JSON."""
    made = (
        build.Dashboard(dashboard.title)
        .uid(dashboard.uid)
        .tags(["fleet-coordinator"])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("utc")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(build.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_choice("fleet", "Fleet", ""))
        .with_variable(_choice("instance", "Host", '{fleet=~"$fleet"}'))
        .with_variable(build.ConstantVariable("runbooks").value(RUNBOOKS))
        .annotation(_deployments())
        .link(
            build.DashboardLink("Fleet")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags(["fleet-coordinator"])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for title, panels in dashboard.rows:
        made = made.with_row(build.Row(title))
        for panel in panels:
            made = made.with_panel(_panel(panel))
    return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(made.build())), indent=1, sort_keys=True) + "\n"


def _choice(label: str, shown: str, among: str) -> build.QueryVariable:
    """A variable for the values of a label. All of them is what matches series without the label, too."""
    return (
        build.QueryVariable(label)
        .label(shown)
        .datasource(_SOURCE)
        .query(f"label_values(coordinator_build_info{among}, {label})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(True)
        .all_value(".*")
        .multi(True)
    )


def _deployments() -> build.AnnotationQuery:
    return (
        build.AnnotationQuery()
        .name("Releases and restarts")
        .datasource(_SOURCE)
        .enable(True)
        .icon_color("blue")
        .expr(f"changes({gauge('coordinator_build_info')}[1m:]) > 0")
    )


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel | heatmap.Panel:
    made: timeseries.Panel | stat.Panel | heatmap.Panel
    if panel.kind == "stat":
        made = stat.Panel().graph_mode(BigValueGraphMode.AREA)
    elif panel.kind == "heat":
        # It can show one fleet only, so there is one for each.
        made = heatmap.Panel().calculate(False).repeat("fleet")
    else:
        made = timeseries.Panel().line_width(1).fill_opacity(8).legend(common.VizLegendOptions().show_legend(True))
    made = (
        made.title(f"{panel.title} ($fleet)" if panel.kind == "heat" else panel.title)
        .description(panel.shows)
        .unit(panel.unit)
        .span(panel.width)
        .height(panel.height)
        .datasource(_SOURCE)
        .links(
            [build.DashboardLink("What to do").type(model.DashboardLinkType.LINK).url(f"${{runbooks}}/{panel.page}.md")]
        )
    )
    for number, (expression, legend) in enumerate(panel.queries):
        # Prometheus has no label `fleet` if it scrapes a single one without it; the name is empty then.
        named = legend if panel.kind == "heat" else f"{{{{fleet}}}} {legend}".strip()
        query = prometheus.Dataquery().expr(expression).legend_format(named).ref_id(chr(ord("A") + number))
        if panel.kind == "heat":
            query = query.format(PromQueryFormat.HEATMAP)
        made = made.with_target(query)
    return made


def main() -> None:
    """Writes all of them."""
    DASHBOARDS.mkdir(exist_ok=True)
    for dashboard in ALL:
        (DASHBOARDS / f"{dashboard.uid}.json").write_text(rendered(dashboard))


if __name__ == "__main__":
    main()
