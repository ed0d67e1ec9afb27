"""Dockerfile, compose file and systemd units are linted, and their commands are run."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sysconfig
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from coordinator.cli.exits import Exit
from coordinator.processes.supervision.supervisor import KILL_SECONDS
from coordinator.runner.options import Options
from coordinator.settings import Settings
from coordinator.store.link.address import parse
from coordinator.store.link.connection import FRESH
from tests.support.fleets import fleet_command

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
RUNNER = DEPLOY / "systemd" / "fleet-run@.service"
UNITS = sorted(set((DEPLOY / "systemd").glob("*.service")) - {RUNNER})
"""Those of the fleet's own processes."""
DRAIN_SECONDS = Settings().drain_seconds


def understood(command: list[str]) -> bool:
    """Whether ``fleet`` knows the command and all its flags: only the invalid last value is rejected."""
    done = fleet_command(*command, "--log-level", "nonsense")
    return done.returncode == 2 and "log_level" in done.stderr and "flag --log-level" in done.stderr


def instructions(name: str) -> list[str]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    return re.findall(rf"^\s*{name}\s+(.+)$", text, re.MULTILINE)


def compose() -> Any:
    return YAML(typ="safe").load(DEPLOY / "docker" / "compose.yml")


def test_the_images_commands_are_known() -> None:
    (entry,), commands = instructions("ENTRYPOINT"), instructions("CMD")
    assert json.loads(entry) == ["fleet"]
    assert understood(json.loads(commands[-1]))
    settings = dict(pair.split("=", 1) for line in instructions("ENV") for pair in shlex.split(line))
    known = {f"FLEET_{name.upper()}" for name in Settings.__struct_fields__}
    assert {name for name in settings if name.startswith("FLEET_")} <= known


def test_the_image_copies_existing_files_and_is_not_root() -> None:
    for line in instructions("COPY"):
        if "--from" not in line:
            *sources, _ = line.split()
            assert all((ROOT / source).exists() for source in sources), line
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for line in instructions("COPY") if "--from" not in line for source in line.split()[:-1]}
    assert copied <= allowed
    assert instructions("USER")[-1] == "10001"
    # Front-ends and workers need different health checks: workers have no port by default.
    assert not instructions("HEALTHCHECK")


def test_the_dockerfile_is_linted() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run(
        [hadolint, "--no-color", "--failure-threshold", "info", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_runs_known_commands() -> None:
    services = compose()["services"]
    ours = {name: service for name, service in services.items() if "build" in service}
    assert ours.keys() == {"frontend", "worker"}
    for service in ours.values():
        assert understood(service["command"])
        assert service["restart"] == "unless-stopped"
        assert int(service["stop_grace_period"].removesuffix("s")) > DRAIN_SECONDS + KILL_SECONDS
        environment: dict[str, Any] = {name: str(value) for name, value in service["environment"].items()}
        shown = fleet_command("config", "show", **environment, FLEET_HOST="0.0.0.0")
        assert shown.returncode == 0, shown.stderr


def test_the_compose_file_pins_images_and_publishes_on_loopback_only() -> None:
    services = compose()["services"]
    for name, service in services.items():
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / "docker" / source).exists(), volume
    assert "appendonly" in " ".join(services["redis"]["command"])
    assert "noeviction" in services["redis"]["command"]


def test_the_compose_file_of_a_cluster_changes_services_of_the_other_and_joins_all_nodes() -> None:
    cluster = YAML(typ="safe").load(DEPLOY / "docker" / "cluster.yml")["services"]
    nodes = [name for name in cluster if name.startswith("redis")]
    assert set(cluster) - set(nodes) - {"cluster"} <= set(compose()["services"])
    addresses = [cluster[name]["networks"]["default"]["ipv4_address"] for name in nodes]
    joined = cluster["cluster"]["command"][-1]
    assert all(f"{address}:6379" in joined for address in addresses)
    assert len(set(addresses)) == len(nodes) == 6
    assert set(cluster["cluster"]["depends_on"]) == set(nodes)
    environment = cluster["frontend"]["environment"]
    address = parse(environment["FLEET_REDIS_URL"])
    assert {host for host, _ in address.nodes} <= set(nodes)
    words = cluster["redis-1"]["command"]
    limit = int(words[words.index("--cluster-node-timeout") + 1])
    assert FRESH * int(environment["FLEET_REDIS_TIMEOUT_MS"]) < limit


def test_prometheus_scrapes_every_container_of_the_compose_file() -> None:
    """By address, on the operators' ports: the clients' port accepts only the names of clients."""
    (job,) = YAML(typ="safe").load(DEPLOY / "docker" / "prometheus.yml")["scrape_configs"]
    assert job["job_name"] == "coordinator"
    (found,) = job["dns_sd_configs"]
    services = compose()["services"]
    assert set(found["names"]) == {name for name, service in services.items() if "build" in service}
    assert found["type"] == "A"
    for name, variable in (("frontend", "FLEET_ADMIN_PORT"), ("worker", "FLEET_WORKER_PORT")):
        assert services[name]["environment"][variable] == str(found["port"])
        assert f"127.0.0.1:{found['port']}/healthz" in services[name]["healthcheck"]["test"][-1]


def test_units_of_a_host_share_a_metrics_directory() -> None:
    """The front-ends' /metrics covers all processes with their data directory."""
    directories = set()
    for unit in UNITS:
        text = unit.read_text()
        directories |= set(re.findall(r"--data-dir %S/(\S+)", text))
        assert set(re.findall(r"^StateDirectory=(\S+)", text, re.MULTILINE)) == directories
    assert len(directories) == 1


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_run_known_commands(unit: Path) -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(unit)
    service = parsed["Service"]
    program, *command = shlex.split(service["ExecStart"].replace("%S", "/var/lib"))
    assert program == "/opt/fleet/bin/fleet"
    given = [word for word in command if word not in ("--config", "/etc/fleet/fleet.yaml")]
    assert understood(given)
    assert int(service["TimeoutStopSec"]) > DRAIN_SECONDS + KILL_SECONDS
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    _verify(unit)


def test_the_unit_of_runners_takes_an_entry_of_the_settings(tmp_path: Path) -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(RUNNER)
    service = parsed["Service"]
    line = service["ExecStart"].replace("%S", str(tmp_path)).replace("%t", str(tmp_path)).replace("%i", "docs")
    config = tmp_path / "fleet.yaml"
    config.write_text("runners: {docs: {command: ['true'], workspace: /nowhere, url: 'http://127.0.0.1:9'}}")
    program, *command = shlex.split(line.replace("/etc/fleet/fleet.yaml", str(config)))
    assert program == "/opt/fleet/bin/fleet"
    done = fleet_command(*command)
    assert "runners.docs.workspace /nowhere" in done.stderr, done.stderr
    assert f"RestartPreventExitStatus={int(Exit.USAGE)}" in RUNNER.read_text()
    assert int(service["TimeoutStopSec"]) > 30 + sum(Options(command=(), state=tmp_path).grace)
    _verify(RUNNER)


def test_prometheus_finds_the_pages_of_runners_that_units_start() -> None:
    """As shipped: what the unit has the runner write is what Prometheus reads, and nothing is left there afterwards."""
    unit = RUNNER.read_text()
    (target,) = re.findall(r"^ExecStart=.* --metrics-target (\S+)$", unit, re.MULTILINE)
    assert re.findall(r"^ExecStopPost=/bin/rm -f (\S+)$", unit, re.MULTILINE) == [target]
    assert "RuntimeDirectory=fleet-run\nRuntimeDirectoryMode=0755\n" in unit
    config = YAML(typ="safe").load(DEPLOY / "prometheus" / "prometheus.yml")
    jobs = {one["job_name"]: one for one in config["scrape_configs"]}
    (found,) = jobs["runners"]["file_sd_configs"]
    (pattern,) = found["files"]
    assert re.fullmatch(r"[^*]*\*[^/]*\.json", pattern), "Prometheus allows one * in the last part"
    assert fnmatch(target.replace("%t", "/run").replace("%i", "docs"), pattern)
    assert jobs["runners"]["relabel_configs"][0]["target_label"] == "fleet"


def _verify(unit: Path) -> None:
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        # Programs that are not installed here are not a fault of the unit.
        faults = [line for line in done.stderr.splitlines() if unit.name in line and "not executable" not in line]
        assert not faults, done.stderr
