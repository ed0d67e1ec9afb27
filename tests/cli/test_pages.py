"""The code blocks of all pages, pasted into a shell or a prompt next to a fleet like that of "make up".

tests/lint/test_pages.py sees to it that each block is run here or says why not. The examples of help pages are run,
too.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from coordinator.cli import run as fleet_main
from coordinator.cli.commands import COMMANDS
from coordinator.cli.exits import Exit
from coordinator.identity.callers.token_file import read_tokens
from coordinator.settings import load_settings
from tests.support import pages
from tests.support.fleets import MCP_HEADERS, Http, RunningFleet, call_body, environment, fork_line
from tests.support.programs import needs

_ADDRESS = "127.0.0.1:8420"
_BLOCKS = [block for path in pages.paths() for block in pages.read(path).blocks if not block.not_run]
_MARK = "--- pasted: "
_CHECKED = """\
from mcp.client import Client
call_tool = Client.call_tool
async def checked(*arguments):
    result = await call_tool(*arguments)
    assert not result.is_error, result
    return result

Client.call_tool = checked
"""
"""Pasted first: a refused call raises, even if a page ignores its result."""


def blocks(language: str) -> list[pages.Block]:
    found = [block for block in _BLOCKS if block.language == language]
    assert found, f"no page has a block of {language}"
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """With the settings of `make up`."""
    with running_fleet(tmp_path_factory.mktemp("pages")) as running:
        yield running


@pytest.fixture
def idle_fleet(tmp_path: Path) -> Iterator[RunningFleet]:
    """One for a command that ends it, or waits for claims: those of pasted blocks last 15 minutes."""
    with running_fleet(tmp_path) as running:
        yield running


@contextmanager
def running_fleet(directory: Path) -> Iterator[RunningFleet]:
    settings = {"FLEET_CONFIG": str(pages.ROOT / "config" / "gateway.yaml"), "FLEET_FLOWS_DEMO_TOOLS": "true"}
    with RunningFleet(directory / ".fleet", "--port", "0", "--frontends", "1", "--workers", "1", **settings) as running:
        running.wait_ready()
        yield running


def test_python_can_be_pasted_into_a_prompt(fleet: RunningFleet) -> None:
    """All blocks into one prompt, page by page, each with an empty line after it. The prompt reads line by line."""
    pasted = [_CHECKED, *(f"{block.text}\nprint({_MARK + block.place!r})" for block in blocks("python")), ""]
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input="\n".join(pasted).replace(_ADDRESS, f"127.0.0.1:{fleet.port}"),
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
    )
    shown = f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count(_MARK) == len(blocks("python")), shown
    assert "Traceback" not in shown, shown
    assert "Error:" not in shown, shown


def test_commands_can_be_pasted_into_a_shell(fleet: RunningFleet, tmp_path: Path) -> None:
    """In a checkout whose virtual environment and data directory are those of this test."""
    for name in ("config", "coordinator", "deploy"):
        (tmp_path / name).symlink_to(pages.ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".fleet").symlink_to(fleet.data_dir)
    # The commands themselves are forks: dozens of new interpreters would take most of the time.
    command = tmp_path / "bin" / "fleet"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join(fork_line())} "$@"\n')
    command.chmod(0o755)
    pasted = ['export PATH="$PWD/bin:$PWD/.venv/bin:$PATH" FLEET_DATA_DIR="$PWD/.fleet"']
    for block in blocks("sh"):
        pasted += [f"echo '{_MARK}{block.place}' >&2", block.text]
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail"],
        input="\n".join(pasted).replace(_ADDRESS, f"127.0.0.1:{fleet.port}"),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    shown = f"{done.stdout[-2000:]}\n{done.stderr}"
    assert done.returncode == 0, shown
    assert "'Done: Write notes'" in done.stdout, f"the first use in README completes no item:\n{shown}"


STAYS = ("up", "serve", "worker", "run", "stdio", "top", "demo", "events")
"""Commands that serve, or run for long. tests/cli/test_help.py parses their examples."""
ELSEWHERE = (
    *("cluster status", "project copy", "project move", "project accept", "project pause", "project resume"),
    *("gateway approvals show", "gateway approvals resolve"),
    *(name for name in COMMANDS if "webhooks" in name),
)
"""Need a cluster or a second store, somebody who asks, or a receiver, or keep others from their work: test_cluster.py,
tests/projects, tests/gateway/test_example.py, tests/webhooks/test_fleet.py and tests/client/test_pauses.py run them.
"""


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - {*STAYS, *ELSEWHERE}))
def test_examples_of_help_pages_work(
    words: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In a checkout, one after the other, with the settings of the fleet."""
    fleet: RunningFleet = request.getfixturevalue("idle_fleet" if words in ("drain", "stop") else "fleet")
    (tmp_path / "config").symlink_to(pages.ROOT / "config")
    for name in ("workflows", "gateway", "gateway.yaml"):
        (tmp_path / name).symlink_to(pages.ROOT / "config" / name)
    (tmp_path / "data").symlink_to(fleet.data_dir)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEET_DATA_DIR", str(fleet.data_dir))
    if not words.startswith("items "):  # they ask a front-end, and reading these settings takes most of their time
        monkeypatch.setenv("FLEET_CONFIG", "config/gateway.yaml")
    monkeypatch.setenv("FLEET_ITEM_ID", "")
    for name, text in SOURCES.items():
        Path(name).write_text(text)
    if words == "run gc":
        needs("git")
        subprocess.run(["git", "init", "--quiet"], check=True)
        named = ("-c", "user.name=t", "-c", "user.email=t@t")
        subprocess.run(["git", *named, "commit", "--quiet", "--allow-empty", "--message", "begin"], check=True)
    for line in PREPARED.get(words, ()):
        assert fleet_main(shlex.split(line)[1:]) == Exit.OK, capfd.readouterr().err
    for line in COMMANDS[words].examples:
        line = line.partition(">")[0]
        if words.startswith("flows "):
            line = line.replace(WORKFLOW, workflow(fleet, *BEFORE.get(words, ())))
        if words.startswith("items "):
            line = with_items(line, words)
        if words == "token replace":
            line = line.replace(KEY, read_tokens(Path("tokens.yaml"))[0].tokens[-1].key)
        assert fleet_main(shlex.split(line)[1:]) == Exit.OK, f"{line}: {capfd.readouterr()}"


WORKFLOW = "1764131594123"
"""The workflow of the examples."""
KEY = "0a1b2c3d4e5f"
"""The key of the examples."""
BEFORE = {"flows resume": ("pause",), "flows retry": ("cancel",)}
"""What is done to a workflow before."""
PREPARED = {
    "agents undrain": COMMANDS["agents drain"].examples,
    "token list": COMMANDS["token create"].examples,
    "token replace": COMMANDS["token create"].examples,
    "token revoke": COMMANDS["token create"].examples,
}
"""What has to be done before, too."""


ITEMS = ("550e8400", "6ba7b810")
"""The items of the examples."""
ITEMS_BEFORE = {
    **dict.fromkeys(("items answer", "items resume", "items retry"), "block"),
    "items reopen": "done",
    "items watch": "done",
    "items release": "claim",
    "items end-claim": "claim",
    "items edit": "start",
}


def with_items(line: str, words: str) -> str:
    """An example of ``fleet items`` with ids of new items, to which has been done what it needs."""
    new = [added() for _ in ITEMS]
    os.environ["FLEET_ITEM_ID"] = new[0]
    for one, other in zip(ITEMS, new, strict=True):
        line = line.replace(one, other)
        if words in ITEMS_BEFORE and other in line:
            assert fleet_main(["items", ITEMS_BEFORE[words], other]) == Exit.OK
    if words == "items dep rm":
        assert fleet_main(["items", "dep", "add", *new]) == Exit.OK
    Path("answer.md").write_text("Yes.")
    return line


SOURCES = {
    "TODO.md": "- [ ] A task\n",
    "issues.jsonl": '{"id": "a-1", "title": "An issue"}\n',
    "release.md": "# Release\n- [ ] A task\n",
    "release.yaml": "title: Release\nchildren: [A task]\n",
}
"""Files of the examples of imports and plans."""


def added() -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert fleet_main(shlex.split("items add x --tags api --json")) == Exit.OK
    return str(msgspec.json.decode(said.getvalue())["id"])


def workflow(fleet: RunningFleet, *commands: str) -> str:
    """The id of a new workflow that takes long."""
    step = {"name": "s", "tool": "sleep", "args": {"ms": 1}, "delay_ms": 600_000, "done": True}
    with Http(fleet.port) as client:
        client.connection.request(
            "POST", "/mcp/flows", call_body("workflow_create", {"name": "long", "flow": {"start": step}}), MCP_HEADERS
        )
        answer = msgspec.json.decode(client.connection.getresponse().read())["result"]
    assert not answer.get("isError"), answer
    found = str(answer["structuredContent"]["id"])
    for command in commands:
        assert fleet_main(["flows", command, found]) == Exit.OK
    return found


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.place)
def test_settings_are_valid(block: pages.Block, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(block.text)
    load_settings({}, {}, file)
