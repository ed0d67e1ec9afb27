"""The catalogue has every metric that is declared anywhere, and each process those that stand at 0 in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coordinator.metrics_catalogue import CATALOGUE

_ALL = """
import importlib, pkgutil, coordinator, workers
from coordinator.metrics.recording import declared
for package in (coordinator, workers):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(*(metric.name for metric in declared()))
"""
_STARTED = """
import {}
from coordinator.metrics.recording import declared
print(*(metric.name for metric in declared() if metric.starts_in == "{}"))
"""
PROCESSES = {
    "frontend": "coordinator.processes.frontend",
    "worker": "workers.process, workers.run_kinds",
    "runner": "coordinator.cli.runners.command",
}


def printed(code: str) -> list[str]:
    """In a process of its own: this one has imported what tests need, and tests declare metrics."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def test_the_catalogue_has_every_metric_once() -> None:
    assert sorted(printed(_ALL)) == [metric.name for metric in CATALOGUE]


@pytest.mark.parametrize("role", PROCESSES)
def test_a_process_knows_what_stands_at_0_in_it(role: str) -> None:
    wanted = [metric.name for metric in CATALOGUE if metric.starts_in == role]
    assert sorted(printed(_STARTED.format(PROCESSES[role], role))) == wanted
    assert wanted
