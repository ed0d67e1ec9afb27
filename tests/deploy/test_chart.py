"""The Helm chart: renders many sets of values, checks them against schemas, and runs the pods' commands."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from coordinator.metrics_catalogue import CATALOGUE
from coordinator.processes.supervision.supervisor import KILL_SECONDS
from coordinator.settings import SettingsError, load_settings
from coordinator.transport.http.health import PROBES
from tests.deploy.chart import CHART, NAMESPACE, RELEASE, RENDERED_HERE, Rendered, check, newest, render
from tests.support.fleets import RunningCommand, samples
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.skipif(not RENDERED_HERE, reason="helm-python-sdk has no wheel for this platform")

AGENTS = [{"podSelector": {"matchLabels": {"fleet": "agent"}}}]
PROMETHEUS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
CASES: dict[str, Any] = {
    "defaults": {},
    "fixed": {"frontend": {"autoscaling": {"enabled": False}, "replicas": 3, "processes": 1}},
    "both": {"frontend": {"autoscaling": {"targetSaturation": "0.6"}}},
    "saturation": {"frontend": {"autoscaling": {"targetCPU": 0, "targetSaturation": "750m"}}},
    "redis": {"redis": {"existingSecret": "store", "urlKey": "address", "passwordKey": "password"}},
    "monitored": {"serviceMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}}},
    "alerts": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {
            "enabled": True,
            "labels": {"role": "alerts"},
            "runbooks": "https://docs.example.org/fleet/",
        },
    },
    "closed": {"networkPolicy": {"enabled": True}},
    "closed except to Prometheus": {
        "serviceMonitor": {"enabled": True},
        "networkPolicy": {"enabled": True, "clientsFrom": AGENTS, "adminFrom": PROMETHEUS},
    },
    "tokens": {
        "auth": {"existingSecret": "tokens"},
        "allowedHosts": ["fleet.example.org"],
        "config": {"auth": {"resource": "https://fleet.example.org", "default_permissions": ["items.read"]}},
        "service": {"type": "LoadBalancer", "port": 80},
    },
    "tokens for some": {"auth": {"existingSecret": "tokens"}, "config": {"auth": {"mode": "optional"}}},
    "jwts": {
        "config": {
            "auth": {
                "mode": "required",
                "resource": "https://fleet.example.org",
                "verifier": {
                    "type": "jwks",
                    "oidc_discovery": "https://login.example.org/.well-known/openid-configuration",
                    "algorithms": ["RS256"],
                },
            }
        }
    },
    "extras": {
        "image": {"repository": "registry.example.org/fleet", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "drainSeconds": 120,
        "config": {"max_body_bytes": 8388608, "toolsets": ["items"], "steps": {"slots": 64}, "log_level": "debug"},
        "extraEnv": [{"name": "SEARCH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "search", "key": "token"}}}],
        "extraVolumes": [{"name": "workflows", "configMap": {"name": "workflows"}}],
        "extraVolumeMounts": [{"name": "workflows", "mountPath": "/srv/workflows", "readOnly": True}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "fleet", "operator": "Exists", "effect": "NoSchedule"}],
    },
    "budgets": {
        "frontend": {"podDisruptionBudget": {"minAvailable": "50%"}},
        "worker": {"podDisruptionBudget": {"maxUnavailable": "25%"}},
    },
}
REFUSED: dict[str, tuple[Any, str]] = {
    "a misspelled value": ({"frontends": {"replicas": 3}}, "frontends"),
    "a misspelled value within another": ({"frontend": {"autoscaling": {"targetCpu": 5}}}, "targetCpu"),
    "no secret with the store's URL": ({"redis": {"existingSecret": ""}}, "existingSecret"),
    "alerts without scraping": ({"prometheusRule": {"enabled": True}}, r"needs serviceMonitor\.enabled"),
    "a monitor without access": (
        {"serviceMonitor": {"enabled": True}, "networkPolicy": {"enabled": True}},
        r"networkPolicy\.adminFrom has to name where Prometheus runs",
    ),
    "no time to drain": ({"drainSeconds": 0}, "drainSeconds"),
    "scaling without a metric": (
        {"frontend": {"autoscaling": {"targetSaturation": "", "targetCPU": 0}}},
        "autoscaling",
    ),
    "a reserved port": ({"config": {"port": 9000}}, r"config\.port is set by the chart"),
    "a reserved drain time": (
        {"config": {"drain_seconds": 9}},
        r"config\.drain_seconds is set by the chart: use drainSeconds",
    ),
    "a public store URL": ({"config": {"redis_url": "redis://x"}}, "use redis.existingSecret"),
    "a public queue URL": ({"config": {"steps": {"queue_url": "redis://x"}}}, "FLEET_STEPS_QUEUE_URL"),
    "public signing keys": ({"config": {"signing": {"keys": ["a:0"]}}}, "FLEET_SIGNING_KEYS"),
}
KUBERNETES = (re.findall(r"kubeVersion: \">=(\d+\.\d+)", (CHART / "Chart.yaml").read_text())[0], newest())


@pytest.fixture(scope="module")
def charts() -> dict[str, Rendered]:
    return render({**CASES, **{name: values for name, (values, _) in REFUSED.items()}})


@pytest.fixture(params=sorted(CASES))
def chart(request: pytest.FixtureRequest, charts: dict[str, Rendered]) -> Rendered:
    rendered = charts[request.param]
    assert not rendered.error, rendered.error
    return rendered


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_invalid_values_are_rejected_by_name(charts: dict[str, Rendered], name: str) -> None:
    assert re.search(REFUSED[name][1], charts[name].error), charts[name].error


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_fits_its_schema(chart: Rendered, version: str) -> None:
    assert not chart.lint
    for one in chart.objects:
        check(one, version)
    names = [(one["kind"], one["metadata"]["name"]) for one in chart.objects]
    assert len(names) == len(set(names))


def test_the_schemas_reject_misspelled_fields(charts: dict[str, Rendered]) -> None:
    """Otherwise the check above could not fail."""
    pod = deepcopy(charts["defaults"].one("Deployment", "fleet-worker"))
    pod["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(Exception, match="readinesProbe"):
        check(pod, KUBERNETES[0])
    monitor = deepcopy(charts["monitored"].one("ServiceMonitor", "fleet"))
    monitor["spec"]["endpoints"][0]["intervall"] = "15s"
    with pytest.raises(Exception, match="intervall"):
        check(monitor, KUBERNETES[0])


def test_probes_use_served_paths_and_open_ports(chart: Rendered) -> None:
    settings = chart.settings
    own = {"serve": settings["admin_port"], "worker": settings["worker_port"]}
    for _, container in chart.containers:
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probed = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
        # The clients' port accepts only the names of the Service, but a kubelet probes by address.
        assert {ports[probe["port"]] for probe in probed.values()} == {own[container["args"][0]]}
        assert {name: probe["path"] for name, probe in probed.items()} == {
            "startup": "/healthz",
            "liveness": "/healthz",
            "readiness": "/readyz",
        }
        assert {probe["path"] for probe in probed.values()} <= PROBES
        if container["args"] == ["serve"]:
            assert ports["mcp"] == settings["port"]


def test_front_ends_scale_by_metrics_that_exist(charts: dict[str, Rendered]) -> None:
    gauges = {metric.name for metric in CATALOGUE if metric.kind == "gauge"}
    wanted = {
        # With a metric that no adapter serves, the autoscaler would never scale down.
        "defaults": {"cpu"},
        "both": {"coordinator_saturation", "cpu"},
        "saturation": {"coordinator_saturation"},
    }
    for case, names in wanted.items():
        (scaler,) = charts[case].all("HorizontalPodAutoscaler")
        target = charts[case].one(scaler["spec"]["scaleTargetRef"]["kind"], scaler["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "an upgrade would undo the autoscaler's changes"
        found = set()
        for metric in scaler["spec"]["metrics"]:
            if metric["type"] == "Pods":
                assert metric["pods"]["metric"]["name"] in gauges
                found.add(metric["pods"]["metric"]["name"])
            else:
                (container,) = target["spec"]["template"]["spec"]["containers"]
                assert container["resources"]["requests"]["cpu"], "utilisation needs a request"
                found.add(metric["resource"]["name"])
        assert found == names
        assert 1 < scaler["spec"]["minReplicas"] <= scaler["spec"]["maxReplicas"]
    fixed = charts["fixed"]
    assert not fixed.all("HorizontalPodAutoscaler")
    assert fixed.one("Deployment", "fleet-frontend")["spec"]["replicas"] == 3


def test_selectors_find_pods_and_ports(chart: Rendered) -> None:
    for deployment in chart.all("Deployment"):
        assert chart.selected(deployment["spec"]["selector"]["matchLabels"]) == {deployment["metadata"]["name"]}
    budgets = [chart.selected(one["spec"]["selector"]["matchLabels"]) for one in chart.all("PodDisruptionBudget")]
    assert sorted(map(sorted, budgets)) == [["fleet-frontend"], ["fleet-worker"]]
    wanted = {RELEASE: {"fleet-frontend"}, f"{RELEASE}-metrics": {"fleet-frontend", "fleet-worker"}}
    for service in chart.all("Service"):
        found = chart.selected(service["spec"]["selector"])
        assert found == wanted.pop(service["metadata"]["name"])
        for port in service["spec"]["ports"]:
            for name in found:
                (container,) = chart.pods[name]["spec"]["containers"]
                assert port["targetPort"] in {one["name"] for one in container["ports"]}
    assert not wanted


def test_disruption_budgets_allow_node_drains(charts: dict[str, Rendered]) -> None:
    for case, deployment, wanted in (
        ("defaults", "fleet-frontend", {"maxUnavailable": 1}),
        ("budgets", "fleet-frontend", {"minAvailable": "50%"}),
        ("budgets", "fleet-worker", {"maxUnavailable": "25%"}),
    ):
        spec = charts[case].one("PodDisruptionBudget", deployment)["spec"]
        assert {key: spec[key] for key in ("minAvailable", "maxUnavailable") if key in spec} == wanted
        assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_prometheus_finds_every_pod_under_the_labels_of_the_alerts(charts: dict[str, Rendered]) -> None:
    assert not charts["defaults"].all("ServiceMonitor")
    chart = charts["monitored"]
    (monitor,) = chart.all("ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    labels = monitor["spec"]["selector"]["matchLabels"]
    (service,) = (one for one in chart.all("Service") if labels.items() <= one["metadata"]["labels"].items())
    assert chart.selected(service["spec"]["selector"]) == set(chart.pods)
    assert service["spec"]["publishNotReadyAddresses"], "unready pods must be scraped too"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["path"] in PROBES
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["interval"] == "30s"
    given = {rule["targetLabel"]: rule["replacement"] for rule in endpoint["relabelings"]}
    alerts = (CHART.parents[1] / "prometheus" / "alerts.yml").read_text()
    assert {given["job"]} == set(re.findall(r'up\{job="([^"]+)"\}', alerts))
    assert given["fleet"] == f"{NAMESPACE}/{RELEASE}"


def test_alerts_are_for_this_release_only(charts: dict[str, Rendered], tmp_path: Path) -> None:
    assert not charts["monitored"].all("PrometheusRule")
    (found,) = charts["alerts"].all("PrometheusRule")
    assert found["metadata"]["labels"]["role"] == "alerts"
    labels = {"namespace": NAMESPACE, "fleet": f"{NAMESPACE}/{RELEASE}"}
    mine = f'fleet="{NAMESPACE}/{RELEASE}",'
    yaml = YAML(typ="safe")
    files = [yaml.load(CHART.parents[1] / "prometheus" / name) for name in ("recording.yml", "alerts.yml")]
    groups = [group for file in files for group in file["groups"]]
    assert [group["name"] for group in found["spec"]["groups"]] == [group["name"] for group in groups]
    for group, made in zip(groups, found["spec"]["groups"], strict=True):
        for rule, scoped in zip(group["rules"], made["rules"], strict=True):
            metrics = re.findall(r"coordinator[_:][a-z0-9_:]+|\bup\b", rule["expr"])
            assert metrics
            assert scoped["expr"].count(mine) + scoped["expr"].count(mine.rstrip(",") + "}") == len(metrics)
            plain = scoped["expr"].replace(mine, "").replace("{" + mine.rstrip(",") + "}", "")
            assert plain == rule["expr"]
            assert scoped["labels"] == rule.get("labels", {}) | labels
            if "alert" in rule:
                page = rule["annotations"]["runbook_url"].rpartition("/")[2]
                told = rule["annotations"] | {"runbook_url": f"https://docs.example.org/fleet/{page}"}
                assert scoped["annotations"] == told
    if shutil.which("promtool") is not None:
        file = tmp_path / "rules.json"
        file.write_text(json.dumps(found["spec"]))
        subprocess.run(["promtool", "check", "rules", str(file)], check=True, capture_output=True, timeout=60)


def test_network_policies_restrict_access_to_pods(charts: dict[str, Rendered]) -> None:
    assert not charts["defaults"].all("NetworkPolicy")
    mcp, admin = ({"port": name, "protocol": "TCP"} for name in ("mcp", "admin"))
    for case, wanted in (
        # A rule without `from` allows everybody, so an empty list must produce no rule.
        ("closed", [{"ports": [mcp]}]),
        ("closed except to Prometheus", [{"ports": [mcp], "from": AGENTS}, {"ports": [admin], "from": PROMETHEUS}]),
    ):
        chart = charts[case]
        (policy,) = chart.all("NetworkPolicy")
        assert chart.selected(policy["spec"]["podSelector"]["matchLabels"]) == set(chart.pods)
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        assert policy["spec"]["ingress"] == wanted


def test_secrets_come_from_secrets_only(charts: dict[str, Rendered]) -> None:
    for case, secret, keys in (
        ("defaults", "fleet-redis", {"FLEET_REDIS_URL": "url"}),
        ("redis", "store", {"FLEET_REDIS_URL": "address", "FLEET_REDIS_PASSWORD": "password"}),
    ):
        for _, container in charts[case].containers:
            variables = {one["name"]: one for one in container["env"]}
            for name, key in keys.items():
                assert variables[name]["valueFrom"]["secretKeyRef"] == {"name": secret, "key": key}
            assert ("FLEET_REDIS_PASSWORD" in variables) == (case == "redis")
    for chart in (charts[case] for case in CASES):
        assert not chart.all("Secret")
        assert not {"redis_url", "signing"} & chart.settings.keys()
        for _, container in chart.containers:
            written = {one["name"] for one in container["env"] if "value" in one}
            assert written <= {"FLEET_CONFIG", "FLEET_DATA_DIR"}


def test_tokens_are_mounted_at_the_configured_path(charts: dict[str, Rendered]) -> None:
    chart = charts["tokens"]
    path = Path(chart.settings["auth"]["tokens"])
    for spec, container in chart.containers:
        (volume,) = (one for one in spec["volumes"] if one.get("secret", {}).get("secretName") == "tokens")
        (mount,) = (one for one in container["volumeMounts"] if one["name"] == volume["name"])
        assert Path(mount["mountPath"]) == path.parent
        assert volume["secret"]["defaultMode"] == 0o400
        assert mount["readOnly"]


def test_pods_have_minimal_privileges(chart: Rendered) -> None:
    for spec, container in chart.containers:
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
        assert container["resources"]["limits"]["memory"]
        # All writes go to mounts.
        mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
        volumes = {one["name"]: one for one in spec["volumes"]}
        assert {one["name"] for one in mounts.values()} == volumes.keys()
        variables = {one["name"]: one.get("value") for one in container["env"]}
        assert "emptyDir" in volumes[mounts[variables["FLEET_DATA_DIR"]]["name"]]
        assert "emptyDir" in volumes[mounts["/tmp"]["name"]]
        config = Path(variables["FLEET_CONFIG"] or "")
        assert (
            volumes[mounts[str(config.parent)]["name"]]["configMap"]["name"]
            == chart.all("ConfigMap")[0]["metadata"]["name"]
        )


def test_pods_have_the_time_to_drain(chart: Rendered) -> None:
    drain = chart.settings["drain_seconds"]
    for spec, container in chart.containers:
        before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
        needed = int(before[1]) + drain + KILL_SECONDS
        assert spec["terminationGracePeriodSeconds"] > needed
        if container["args"] == ["serve"]:
            assert before == ["sleep", "5"]


def test_a_changed_config_restarts_the_pods(charts: dict[str, Rendered]) -> None:
    def sums(case: str) -> set[str]:
        return {pod["metadata"]["annotations"]["checksum/config"] for pod in charts[case].pods.values()}

    assert sums("defaults") == sums("both") != sums("extras")
    assert len(sums("extras")) == 1


def test_values_reach_the_settings(charts: dict[str, Rendered]) -> None:
    extras = charts["extras"].settings
    assert extras["max_body_bytes"] == 8388608
    assert extras["steps"] == {"slots": 64}
    assert extras["drain_seconds"] == 120
    assert charts["fixed"].settings["frontends"] == 1
    assert charts["tokens"].settings["auth"] == {
        "mode": "required",
        "tokens": "/etc/fleet-tokens/tokens.yaml",
        "resource": "https://fleet.example.org",
        "default_permissions": ["items.read"],
    }
    assert "fleet.example.org" in charts["tokens"].settings["allowed_hosts"]
    assert charts["tokens for some"].settings["auth"]["tokens"] == "/etc/fleet-tokens/tokens.yaml"
    for case, is_open in (("defaults", True), ("tokens for some", True), ("tokens", False), ("jwts", False)):
        assert ("insecure_no_auth" in charts[case].settings) == is_open
        assert ("can do everything" in charts[case].notes) == is_open
        port = 80 if case == "tokens" else 8420
        assert f"port-forward service/fleet 8420:{port}\n" in charts[case].notes


def test_values_reach_the_pods(charts: dict[str, Rendered]) -> None:
    given = CASES["extras"]
    for spec, container in charts["extras"].containers:
        assert container["image"] == "registry.example.org/fleet:1.2.3"
        assert container["imagePullPolicy"] == "Always"
        for name in ("imagePullSecrets", "nodeSelector", "tolerations"):
            assert spec[name] == given[name]
        assert given["extraEnv"][0] in container["env"]
        assert given["extraVolumes"][0] in spec["volumes"]
        assert given["extraVolumeMounts"][0] in container["volumeMounts"]
    (service,) = (one for one in charts["tokens"].all("Service") if one["metadata"]["name"] == RELEASE)
    assert (service["spec"]["type"], service["spec"]["ports"][0]["port"]) == ("LoadBalancer", 80)


def test_the_settings_are_valid(chart: Rendered, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(chart.settings_text)
    loaded = load_settings({}, {"FLEET_REDIS_URL": "redis://elsewhere", "FLEET_DATA_DIR": "/var/lib/fleet"}, file)
    assert loaded.settings.host == "0.0.0.0"
    assert loaded.settings.drain_seconds == chart.settings["drain_seconds"]


def test_service_variables_of_kubernetes_are_disabled(charts: dict[str, Rendered]) -> None:
    """A Service called fleet would set FLEET_PORT=tcp://..., and nothing would start."""
    with pytest.raises(SettingsError, match="FLEET_PORT"):
        load_settings({}, {"FLEET_PORT": "tcp://10.0.0.1:8420"})
    assert all(spec["enableServiceLinks"] is False for spec, _ in charts["defaults"].containers)


def ask(port: int, path: str, host: str) -> tuple[int, bytes]:
    """The answer to a kubelet, Prometheus or client that uses another host name."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": host})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.fixture
def ports() -> list[int]:
    return [free_port() for _ in range(3)]


def test_pods_run_and_answer_all_probes_and_clients(
    charts: dict[str, Rendered], tmp_path: Path, redis_url: str, ports: list[int]
) -> None:
    """Both containers' commands with the chart's settings, except addresses and ports."""
    chart = charts["defaults"]
    file = tmp_path / "fleet.yaml"
    file.write_text(chart.settings_text)
    mcp, admin, worker = ports
    here = {
        "FLEET_CONFIG": str(file),
        "FLEET_REDIS_URL": redis_url,
        "FLEET_HOST": "127.0.0.1",
        "FLEET_PORT": str(mcp),
        "FLEET_ADMIN_PORT": str(admin),
        "FLEET_WORKER_PORT": str(worker),
    }
    (service,) = (one for one in chart.all("Service") if one["metadata"]["name"] == RELEASE)
    names = [
        RELEASE,
        f"{RELEASE}.{NAMESPACE}",
        f"{RELEASE}.{NAMESPACE}.svc",
        f"{RELEASE}.{NAMESPACE}.svc.cluster.local",
    ]
    running = []
    try:
        for _, container in chart.containers:
            (command,) = container["args"]
            running.append(
                RunningCommand(tmp_path / command, command, **here, FLEET_DATA_DIR=str(tmp_path / f"{command}-data"))
            )
        for one in running:
            one.wait_ready()
        for _, container in chart.containers:
            port = {"serve": admin, "worker": worker}[container["args"][0]]
            for probe in ("startup", "liveness", "readiness"):
                status, body = ask(port, container[f"{probe}Probe"]["httpGet"]["path"], "10.1.2.3:8421")
                assert status == 200, body
        for name in names:
            # It is accepted, and gets an error about its request.
            assert ask(mcp, "/mcp", f"{name}:{service['spec']['ports'][0]['port']}")[0] == 405
        assert ask(mcp, "/mcp", "evil.example")[0] == 421
        frontend = samples(ask(admin, "/metrics", "10.1.2.3:8421")[1])
        assert frontend["coordinator_processes{role=frontend}"] == chart.settings["frontends"]
        assert samples(ask(worker, "/metrics", "10.1.2.3:8421")[1])["coordinator_processes{role=worker}"] == 1
        # An autoscaler needs it even before the first call.
        wait_until_sync(
            lambda: "coordinator_saturation" in samples(ask(admin, "/metrics", "10.1.2.3:8421")[1]), what="saturation"
        )
    finally:
        for one in running:
            one.clean_up()


def test_every_value_is_described() -> None:
    """Misspelled values are rejected, so the schema has to have all of them."""
    schema = YAML(typ="safe").load((CHART / "values.schema.json").read_text())
    values = YAML(typ="safe").load((CHART / "values.yaml").read_text())
    used = set(re.findall(r"\.Values\.([A-Za-z.]+)", "".join(one.read_text() for one in CHART.glob("templates/*"))))
    for name in used:
        found, known = values, schema
        for part in name.split("."):
            assert part in found, f"values.yaml has no {name}"
            assert known.get("$ref") or part in known["properties"], f"the schema has no {name}"
            found, known = found[part], known["properties"][part]
    assert values.keys() <= schema["properties"].keys()
