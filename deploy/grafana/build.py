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
from deploy.grafana.panels import Dashboard, Panel

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
        .with_variable(
            build.QueryVariable("instance")
            .label("Host")
            .datasource(_SOURCE)
            .query("label_values(coordinator_build_info, instance)")
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .multi(True)
        )
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


def _deployments() -> build.AnnotationQuery:
    return (
        build.AnnotationQuery()
        .name("Releases and restarts")
        .datasource(_SOURCE)
        .enable(True)
        .icon_color("blue")
        .expr("changes(sum(coordinator_build_info)[1m:]) > 0")
    )


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel | heatmap.Panel:
    made: timeseries.Panel | stat.Panel | heatmap.Panel
    if panel.kind == "stat":
        made = stat.Panel().graph_mode(BigValueGraphMode.AREA)
    elif panel.kind == "heat":
        made = heatmap.Panel().calculate(False)
    else:
        made = timeseries.Panel().line_width(1).fill_opacity(8).legend(common.VizLegendOptions().show_legend(True))
    made = (
        made.title(panel.title)
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
        query = prometheus.Dataquery().expr(expression).legend_format(legend or "__auto").ref_id(chr(ord("A") + number))
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
