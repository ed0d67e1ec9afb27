"""The Helm chart, rendered by Helm's own engine, with queries on the objects."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "fleet-coordinator"
RELEASE, NAMESPACE = "fleet", "prod"
RENDERED_HERE = importlib.util.find_spec("helm_python") is not None
"""Whether Helm's engine is available for this platform."""

# In a separate process, because Go's runtime changes signal handlers.
_RENDER = """
import json, sys
import helm_python as helm
path, release, namespace, cases = json.load(sys.stdin)
found = {}
with helm.Chart.load(path) as chart:
    for name, values in cases.items():
        try:
            chart.validate_schema(values)
            files = chart.render(values, name=release, namespace=namespace)
        except helm.HelmError as error:
            found[name] = {"error": str(error)}
        else:
            lint = helm.lint(path, values, strict=True, namespace=namespace)
            told = [f"{one['path']}: {one['error']}" for one in lint["messages"] if one["severity"] > 1]
            found[name] = {"files": files, "lint": told + lint["errors"]}
json.dump(found, sys.stdout)
"""


@dataclass
class Rendered:
    """The result of one set of values."""

    objects: list[Any] = field(default_factory=list)
    notes: str = ""
    lint: list[str] = field(default_factory=list)
    error: str = ""

    def all(self, kind: str) -> list[Any]:
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str) -> Any:
        (found,) = (one for one in self.all(kind) if one["metadata"]["name"] == name)
        return found

    @property
    def pods(self) -> dict[str, Any]:
        """Templates of pods, by their Deployment."""
        return {one["metadata"]["name"]: one["spec"]["template"] for one in self.all("Deployment")}

    @property
    def containers(self) -> Iterator[tuple[Any, Any]]:
        """Each container, with its pod's spec."""
        for pod in self.pods.values():
            for container in pod["spec"]["containers"]:
                yield pod["spec"], container

    @property
    def settings_text(self) -> str:
        """The config file of all processes."""
        (config,) = self.all("ConfigMap")
        text: str = config["data"]["fleet.yaml"]
        return text

    @property
    def settings(self) -> Any:
        return YAML(typ="safe").load(self.settings_text)

    def selected(self, labels: Mapping[str, str]) -> set[str]:
        """Deployments whose pods have these labels."""
        return {name for name, pod in self.pods.items() if labels.items() <= pod["metadata"]["labels"].items()}


def render(cases: Mapping[str, Any]) -> dict[str, Rendered]:
    """Renders the chart once for each set of values."""
    done = subprocess.run(
        [sys.executable, "-c", _RENDER],
        input=json.dumps([str(CHART), RELEASE, NAMESPACE, cases]),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name: _rendered(found) for name, found in json.loads(done.stdout).items()}


def _rendered(found: Any) -> Rendered:
    if "error" in found:
        return Rendered(error=found["error"])
    objects: list[Any] = []
    notes = ""
    for path, text in sorted(found["files"].items()):
        if path.endswith("NOTES.txt"):
            notes = text
        else:
            objects += filter(None, YAML(typ="safe").load_all(text))
    return Rendered(objects, notes, found["lint"])


def check(one: Any, version: str) -> None:
    """Checks an object against its schema; unknown fields are errors.

    Args:
        version: the version of Kubernetes.

    Raises:
        Exception: it violates the schema; the message says where.
    """
    _check(json.dumps(one, sort_keys=True), version)


@cache
def _check(text: str, version: str) -> None:
    """Each object only once: it is the same in many charts."""
    one = json.loads(text)
    if one["apiVersion"].startswith("monitoring.coreos.com/"):
        getattr(_operator_models(), one["kind"]).model_validate(one, extra="forbid")
    else:
        _kubernetes().validate(one, version, strict=True)


def newest() -> str:
    """The newest version of Kubernetes with installed schemas."""
    version: str = _kubernetes().latest_version()
    return version


def _kubernetes() -> Any:
    return importlib.import_module("kubernetes_validate")  # it has no types


def _operator_models() -> Any:
    # Imported by name: mypy would read all of its four megabytes.
    return importlib.import_module("cloudcoil.models.prometheus_operator.v1")
