"""Real clients in TypeScript: the official client in each of its modes, and the MCP Inspector's CLI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleets import program_line
from tests.transport.clients import CALLS, hit_rate, old
from tests.transport.live import Live, serving
from tests.transport.nodejs import INSTALL_SECONDS, Node
from tests.transport.rig import make_app

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + 60)

INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(make_app) as live:
        yield live


@pytest.mark.parametrize("era", [*map(old, ("auto", "legacy")), "2026-07-28"])
def test_the_official_client(node: Node, live: Live, era: str) -> None:
    # The fast path declines wrong arguments and an unknown tool.
    with hit_rate(live, besides=2):
        done = node.run(node.own("client.mjs"), [live.url, era, str(CALLS)])
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    assert saw["server"]["name"] == "fleet-coordinator"
    assert {"add", "echo", "fail"} <= set(saw["tools"])
    assert saw["wrong"] == 0
    assert saw["failed"]["error"]["code"] == "already_claimed"
    assert saw["refused"]["error"]["code"] == "VALIDATION_ERROR"
    assert saw["unknown"]["code"] == -32602
    assert "nope" in saw["unknown"]["message"]


def inspect(node: Node, *arguments: str, stdio: bool = False) -> Any:
    target = ["--", *program_line("tests.transport.stdio_rig")] if stdio else []
    done = node.run(INSPECTOR, ["--cli", *arguments, "--format", "json", "-q", *target])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]


@pytest.mark.parametrize("era", ["modern", old("legacy")])
def test_the_inspector_over_http(node: Node, live: Live, era: str) -> None:
    connect = [live.url, "--transport", "http", "--protocol-era", era]
    listed = inspect(node, *connect, "--method", "tools/list", "--strict")
    assert {"add", "echo", "fail"} <= {tool["name"] for tool in listed["tools"]}
    add = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "left=3"]
    assert inspect(node, *connect, *add)["structuredContent"] == {"sum": 4}
    with hit_rate(live):
        load = inspect(node, *connect, *add, "--load", "--load-requests", str(CALLS), "--load-concurrency", "4")
    assert (load["ok"], load["errors"], load["toolErrors"]) == (CALLS, 0, 0)


@pytest.mark.parametrize("era", ["modern", old("legacy")])
def test_the_inspector_over_stdio(node: Node, era: str) -> None:
    # A busy machine takes its time to start the server.
    connect = ["--protocol-era", era, "--cwd", str(ROOT), "--connect-timeout", "100000"]
    add = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "left=3"]
    assert inspect(node, *connect, *add, stdio=True)["structuredContent"] == {"sum": 4}


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((Path(__file__).parent / "node" / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    unpinned = [name for name, package in lock["packages"].items() if name and "integrity" not in package]
    assert [name for name in unpinned if not lock["packages"][name].get("link")] == []
