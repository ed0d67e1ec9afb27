"""Runners in the Helm chart: a Deployment for each entry of the value ``runners``."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.cli.runners.flags import Items, Limits, given, options_of
from tests.deploy.chart import RENDERED_HERE, Rendered, check, newest, render

pytestmark = pytest.mark.skipif(not RENDERED_HERE, reason="helm-python-sdk has no wheel for this platform")

DOCS: dict[str, Any] = {
    "image": "registry.example.org/agents:1",
    "args": ["--tags", "docs", "--slots", "2", "--", "claude"],
    "existingSecret": "docs-agent",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
}
WHOLE = DOCS | {
    "replicas": 3,
    "storage": "50Gi",
    "env": [{"name": "A", "value": "b"}],
    "volumes": [{"name": "repo", "persistentVolumeClaim": {"claimName": "repo"}}],
    "volumeMounts": [{"name": "repo", "mountPath": "/srv/repo"}],
}
CASES: dict[str, Any] = {
    "two": {"runners": {"docs": DOCS, "code": WHOLE}, "service": {"port": 80}},
    "misspelled": {"runners": {"docs": DOCS | {"replica": 2}}},
    "no image": {"runners": {"docs": {"args": ["x"], "resources": {}}}},
    "no name of an object": {"runners": {"Docs_1": DOCS}},
}


@pytest.fixture(scope="module")
def charts() -> dict[str, Rendered]:
    return render(CASES)


def test_each_runner_is_a_deployment(charts: dict[str, Rendered]) -> None:
    chart = charts["two"]
    assert not chart.error
    assert not chart.lint
    for name, runner in (("docs", DOCS), ("code", WHOLE)):
        deployment = chart.one("Deployment", f"fleet-run-{name}")
        check(deployment, newest())
        assert deployment["spec"]["replicas"] == runner.get("replicas", 1)
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["command"] == ["fleet", "run"]
        assert container["args"][-len(runner["args"]) :] == runner["args"]
        assert container["args"][:2] == ["--url", "http://fleet:80"]
        assert container["envFrom"] == [{"secretRef": {"name": "docs-agent"}}]
        assert not {"FLEET_REDIS_URL"} & {one["name"] for one in container["env"]}
        assert spec["securityContext"]["runAsNonRoot"]
        selected = deployment["spec"]["selector"]["matchLabels"]
        assert chart.selected(selected) == {f"fleet-run-{name}"}
        drain = options_of(("true",), given(Items(), Limits()))
        assert spec["terminationGracePeriodSeconds"] > drain.drain + sum(drain.grace)
        mounts = {one["name"] for one in container["volumeMounts"]}
        assert mounts == {one["name"] for one in spec["volumes"]}


def test_prometheus_finds_runners_and_clients_do_not(charts: dict[str, Rendered]) -> None:
    chart = charts["two"]
    runners = {"fleet-run-code", "fleet-run-docs"}
    found = {one["metadata"]["name"]: chart.selected(one["spec"]["selector"]) & runners for one in chart.all("Service")}
    assert found == {"fleet": set(), "fleet-metrics": runners}
    (port,) = chart.one("Service", "fleet-metrics")["spec"]["ports"]
    for name in runners:
        (container,) = chart.pods[name]["spec"]["containers"]
        assert {one["name"]: one["containerPort"] for one in container["ports"]} == {port["targetPort"]: 8421}
        assert container["args"][container["args"].index("--metrics") + 1] == "0.0.0.0:8421"


@pytest.mark.parametrize(
    ("case", "words"), [("misspelled", "replica"), ("no image", "image"), ("no name of an object", "Docs_1")]
)
def test_wrong_values_are_rejected_by_name(charts: dict[str, Rendered], case: str, words: str) -> None:
    assert words in charts[case].error
