"""The page about metrics: the checked-in file matches the generator, and is complete."""

from __future__ import annotations

import re

import pytest

from coordinator.metrics.metric import Metric
from coordinator.metrics_catalogue import CATALOGUE
from deploy.metrics import HERE, PAGE, page
from tests.deploy.alert_rules import alerts

METRICS = [pytest.param(metric, id=metric.name) for metric in CATALOGUE]


def test_checked_in_files_match_the_generator() -> None:
    assert PAGE.read_text() == page(), "run `python -m deploy.metrics` and look at the difference"


def test_names_follow_prometheus_practice() -> None:
    for metric in CATALOGUE:
        assert re.fullmatch(r"coordinator_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets))
        if metric.unit in ("seconds", "bytes"):
            assert re.search(rf"_{metric.unit}(_total)?$", metric.name), metric.name
        for label in metric.dimensions:
            assert label.values or label.limit, f"{metric.name}: {label.name} is not bounded"
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("metric", METRICS)
def test_each_metric_has_a_section_with_all_of_it(metric: Metric) -> None:
    text = PAGE.read_text().split(f"\n## {metric.name}\n")
    assert len(text) == 2
    section = " ".join(text[1].partition("\n## ")[0].split())
    assert " ".join(metric.meaning.split()) in section
    assert f"**Type:** {metric.kind}" in section
    assert f"**Unit:** {metric.unit}" in section
    for label in metric.dimensions:
        assert f"`{label.name}`" in section
        for value in label.values:
            assert value in section
    for bound in metric.buckets:
        assert f"{bound:g}" in section


def test_every_alert_is_listed_with_its_metrics() -> None:
    text = PAGE.read_text()
    for name, rule in alerts().items():
        page_of_alert = str(rule["annotations"]["runbook_url"]).rpartition("/")[2]
        if "coordinator" in rule["expr"].replace('job="coordinator"', ""):
            assert f"[{name}](runbooks/{page_of_alert})" in text, name
        assert (HERE / "runbooks" / page_of_alert).is_file()
