"""The server entries of config/agents/hosts, read by the real hosts that npm has."""

from __future__ import annotations

import asyncio
import http.client
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from coordinator.client import Fleet
from tests.client.backlog import add, notes
from tests.runner import real_agents
from tests.runner.attempts import Bench
from tests.runner.real_agents import program
from tests.support.fleets import ROOT, RunningFleet

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.agents,
    pytest.mark.skipif(not real_agents.INSTALLED, reason=real_agents.REASON),
]
ENTRIES = ROOT / "config" / "agents" / "hosts"
THERE = "http://127.0.0.1:8420"
_OF_A_CONNECTION = ("host", "connection", "accept-encoding")


class Passing:
    """A server in front of a fleet that notes whom requests say that they come from."""

    def __init__(self, url: str) -> None:
        self.named: set[str | None] = set()
        place, passing = urlsplit(url).netloc, self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                passing.named.add(self.headers.get("fleet-agent"))
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                kept = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
                with closing(http.client.HTTPConnection(place, timeout=30)) as there:
                    there.request(self.command, self.path, body, kept)
                    answer = there.getresponse()
                    content = answer.read()
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", "application/json"))
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_DELETE = do_POST  # noqa: N815 (names of the library)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def passing(running: RunningFleet) -> Iterator[Passing]:
    found = Passing(running.state.base_url)
    threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def entry(file: str, url: str) -> str:
    """An entry of the folder for another address, which is all that is changed."""
    text = (ENTRIES / file).read_text()
    assert text.count(THERE) == 1
    return text.replace(THERE, url)


async def ran(*words: str, cwd: Path, env: dict[str, str], said: str = "") -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate(said.encode())
    assert process.returncode == 0, out.decode()
    return out.decode()


@pytest.mark.parametrize(
    ("name", "file", "place", "mark"),
    [
        ("gemini", "gemini-cli.json", ".gemini/settings.json", "Connected"),
        ("opencode", "opencode.json", "opencode.json", "connected"),
    ],
)
async def test_a_host_reaches_the_fleet_by_its_entry(
    passing: Passing, tmp_path: Path, name: str, file: str, place: str, mark: str
) -> None:
    if not os.path.exists(program(name)):  # noqa: ASYNC240
        pytest.skip(f"npm has no {name} that is installed on this system")
    folder = tmp_path / "project"
    (folder / place).parent.mkdir(parents=True)
    (folder / place).write_text(entry(file, passing.url))
    env = real_agents.bare_environment(tmp_path / "home") | {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    assert mark in await ran(program(name), "mcp", "list", cwd=folder, env=env)
    assert passing.named == {f"{name}-1"}


SAID = 'CALL: work_next {"waitMs": 0}\nCALL: work_done {"result": "by itself"}\nSAY: ended'


async def test_claude_works_by_its_entry(
    passing: Passing, running: RunningFleet, real_bench: Bench, named: str, fleet: Fleet
) -> None:
    (item,) = await add(fleet, "first")
    given = entry("claude-code.json", f"{passing.url}/p/{named}")
    words = [program("claude"), "-p", "--allowedTools", "mcp__fleet", "--mcp-config", given]
    out = await ran(*words, cwd=real_bench.place.path, env=real_bench.place.environment, said=SAID)
    assert out.strip() == "ended"
    assert (await notes(fleet, item))["result"] == "by itself"
    assert passing.named == {"claude-1"}


async def test_codex_works_by_its_entry(
    passing: Passing, running: RunningFleet, real_bench: Bench, named: str, fleet: Fleet
) -> None:
    (item,) = await add(fleet, "first")
    config = Path(real_bench.place.environment["CODEX_HOME"]) / "config.toml"
    config.write_text(config.read_text() + entry("codex.toml", f"{passing.url}/p/{named}"))
    words = [program("codex"), "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "-"]
    out = await ran(*words, cwd=real_bench.place.path, env=real_bench.place.environment, said=SAID)
    assert "ended" in out
    assert (await notes(fleet, item))["result"] == "by itself"
    assert passing.named == {"codex-1"}
