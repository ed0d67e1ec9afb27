"""The number of series in one host's /metrics: Prometheus stores them for every host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.metrics import SLOT, Label, Metric, Recording, SharedCells, process
from coordinator.metrics_catalogue import CATALOGUE
from coordinator.processes.frontend import start_metrics
from deploy.metrics import PAGE
from tests.support.contracts import toolsets
from tests.support.counts import recorded_in
from tests.support.fleets import MCP_HEADERS, Http, RunningFleet, once

MOST = 7_800
PROCESSES = 20
"""As on a big host: the highest number of slots in metrics by slot."""
SETTINGS_KNOWN = 4
"""Versions of the settings within the life of a fleet."""
TOOLSETS = toolsets()
TOOLS = [(toolset.name, tool.name) for toolset in TOOLSETS.values() for tool in toolset.tools]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(
        tmp_path_factory.mktemp("series") / "data", "--port", "0", "--frontends", "1", "--workers", "1"
    ) as fleet:
        fleet.wait_ready()
        yield fleet


def call(client: Http, toolset: str, tool: str, arguments: Any, **more: Any) -> None:
    """A call whose answer does not matter."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, **more},
    }
    client.connection.request("POST", f"/mcp/{toolset}", msgspec.json.encode(message), MCP_HEADERS)
    response = client.connection.getresponse()
    assert response.status == 200, response.read()
    response.read()


def possible(metric: Metric[Any], label: Label, allowed: set[str]) -> list[str]:
    """The values that a label can have in the metrics of one host."""
    if label == SLOT:
        return [f"slot-{number}" for number in range(PROCESSES)]
    if label.name in ("hash", "version", "python"):
        return [f"v{number}" for number in range(SETTINGS_KNOWN)]
    if label.name == "transport":
        return ["fast", "sdk"]  # the numbers of stdio are its own process's
    if label.values:
        return list(label.values)
    return sorted(allowed) or [f"value-{number}" for number in range(label.limit)]


def use_everything(recording: Recording) -> None:
    """Makes every series that a process can make."""
    names = [name for _, name in TOOLS]
    # In a process of its own: other tests of this one may have loaded further scripts. A host has workers too.
    code = "import coordinator.processes.frontend, workers.process; from coordinator.store import Script; "
    code += "print(*(script.name for script in Script.registered()))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    with recorded_in(recording):
        start_metrics(names, shown.split())
        process.note_build("1")
    for metric in CATALOGUE:
        family = recording.of(metric)
        for values in product(*map(possible, [metric] * len(metric.dimensions), metric.dimensions, family.allowed)):
            family[values]


def test_the_series_of_one_host_are_bounded(fleet: RunningFleet) -> None:
    with Http(fleet.port) as client:
        for toolset, tool in TOOLS:
            # The fast path and the complete server, with valid and invalid arguments.
            call(client, toolset, tool, {})
            call(client, toolset, tool, {}, task={"ttl": 1})
            for arguments in TOOLSETS[toolset].examples.get(tool, ()):
                call(client, toolset, tool, {**arguments, **({"waitMs": 1} if "waitMs" in arguments else {})})
    text = lines(fleet)
    for _, tool in TOOLS:
        assert any(f'tool="{tool}"' in line for line in text), tool
    assert 1_000 < len(text) < MOST
    directory = Path(fleet.data_dir) / "run" / "metrics"
    recording = Recording(SharedCells(directory, "series-0"), "series-0")
    try:
        use_everything(recording)
        found = lines(fleet)
    finally:
        recording.close()
    by_metric: dict[str, int] = {}
    for line in found:
        name = next(metric.name for metric in CATALOGUE[::-1] if line.startswith(metric.name))
        by_metric[name] = by_metric.get(name, 0) + 1
    assert len(by_metric) == len(CATALOGUE)
    biggest = sorted(by_metric.items(), key=lambda entry: -entry[1])[:6]
    assert len(text) < len(found) < MOST, (len(found), biggest)
    assert f"fewer than {MOST:,} series" in PAGE.read_text()


def lines(fleet: RunningFleet) -> list[str]:
    """The series of the host."""
    status, body = once(fleet.port, "/metrics")
    assert status == 200
    return [line for line in body.decode().splitlines() if line and not line.startswith("#")]
