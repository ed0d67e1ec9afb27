"""The official conformance suite, against a fixture server behind the product's front."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.transport.everything import everything_app
from tests.transport.live import Live, serving
from tests.transport.nodejs import INSTALL_SECONDS, Node

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + 60)

SUITE = "@modelcontextprotocol/conformance/dist/index.js"
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
EXTENSIONS = "extensions"
"""Stands for a revision: the scenarios of extensions, which belong to none."""
LISTED = tomllib.loads((Path(__file__).parent / "conformance.toml").read_text())

Results = dict[str, dict[str, list[dict[str, Any]]]]
"""Revision -> scenario -> checks."""


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(everything_app) as live:
        yield live


@pytest.fixture(scope="module")
def results(node: Node, live: Live, tmp_path_factory: pytest.TempPathFactory) -> Results:
    # The suite requires the name localhost.
    url = live.url.replace("127.0.0.1", "localhost")
    folders = {version: tmp_path_factory.mktemp(version) for version in (*VERSIONS, EXTENSIONS)}

    def run(version: str) -> dict[str, list[dict[str, Any]]]:
        only = [] if version == EXTENSIONS else ["--spec-version", version]
        node.run(SUITE, ["server", "--url", url, "--suite", "all", *only, "-o", str(folders[version])])
        found = {}
        for checks in folders[version].glob("server-*/checks.json"):
            name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.+", checks.parent.name)
            assert name is not None
            found[name[1]] = json.loads(checks.read_text())
        return found

    # The run with the extensions takes longest, and mostly waits.
    with ThreadPoolExecutor(1) as beside:
        last = beside.submit(run, EXTENSIONS)
        found = {version: run(version) for version in VERSIONS}
        of_revisions = {name for scenarios in found.values() for name in scenarios}
        found[EXTENSIONS] = {name: checks for name, checks in last.result().items() if name not in of_revisions}
    return found


def failures(checks: list[dict[str, Any]], *also: str) -> list[str]:
    return [f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] in ("FAILURE", *also)]


def ran(checks: list[dict[str, Any]]) -> bool:
    """Whether a scenario was not skipped as a whole."""
    return any(check["status"] != "SKIPPED" for check in checks if check["id"] != "wire-schema-valid")


@pytest.mark.parametrize("version", [*VERSIONS, EXTENSIONS])
def test_every_scenario_that_applies_passes(results: Results, version: str) -> None:
    run = {name: checks for name, checks in results[version].items() if name not in LISTED["excluded"]}
    assert len(run) > (8 if version == EXTENSIONS else 20)
    assert all(map(ran, run.values()))
    assert {name: found for name, checks in run.items() if (found := failures(checks))} == {}
    strict = {name: checks for name, checks in run.items() if name not in LISTED["warned"]}
    assert {name: found for name, checks in strict.items() if (found := failures(checks, "WARNING"))} == {}
    passed = [check for checks in run.values() for check in checks if check["status"] == "SUCCESS"]
    print(f"{version}: {len(run)} scenarios, {len(passed)} checks passed")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_all_required_scenarios_of_a_revision_ran(node: Node, results: Results, version: str) -> None:
    frozen = node.directory / "node_modules/@modelcontextprotocol/conformance/requirements" / f"{version}.yaml"
    required = set(YAML(typ="safe").load(frozen)["server"])
    assert required - set(results[version]) - set(LISTED["excluded"]) == set()


def test_the_list_of_exclusions_is_exact(node: Node, results: Results) -> None:
    listing = node.run(SUITE, ["list", "--server"]).stdout
    known = set(re.findall(r"^\s+- (\S+) \[", listing, re.MULTILINE))
    tried = {name for scenarios in results.values() for name in scenarios}
    assert known - tried - set(LISTED["excluded"]) == set(), "neither run nor excluded"
    assert set(LISTED["excluded"]) - known == set(), "excluded, but unknown to the suite"
    assert set(LISTED["warned"]) - known == set(), "listed, but unknown to the suite"
    passing = {
        name
        for name in LISTED["excluded"]
        if any(ran(found) and not failures(found) for scenarios in results.values() if (found := scenarios.get(name)))
    }
    assert passing == set(), "excluded, but passing"
