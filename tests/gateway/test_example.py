"""The example configuration: a release of the sample repository, from build to announcement."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli.commands import COMMANDS
from tests.gateway.fleet import GatewayFleet, link
from tests.support.fleets import ROOT, RunningFleet, fleet_command
from tests.support.programs import needs

_APPROVAL = "hr_4be1f1d7a6c6a2b0"
"""The approval in the examples of help pages."""


class Example(GatewayFleet):
    """The example in its own directory, as ``make up`` serves it."""

    def __init__(self, directory: Path) -> None:
        config = directory / "config"
        config.mkdir()
        shutil.copytree(ROOT / "config" / "gateway", config / "gateway")
        shutil.copy(ROOT / "config" / "gateway.yaml", config)
        (directory / ".fleet").mkdir()
        self._agents = []
        self.sample = directory / ".fleet" / "sample"
        programs = Path(sys.executable).parent
        self.fleet = RunningFleet(
            directory / ".fleet" / "data", "--port", "0", "--config", str(config / "gateway.yaml"), "--workers", "1",
            PATH=f"{programs}:{os.environ['PATH']}",
        )  # fmt: skip

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.sample, capture_output=True, text=True, check=True
        ).stdout.strip()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    needs("git")
    example = Example(tmp_path_factory.mktemp("example"))
    try:
        example.fleet.wait_ready()
        yield example
    finally:
        example.clean_up()


def test_it_is_valid() -> None:
    done = fleet_command("gateway", "check", str(ROOT / "config" / "gateway.yaml"))
    assert done.stdout.startswith("sound: 1 workflow, 6 capabilities"), done.stdout
    assert "0 warnings" in done.stdout


def test_a_release_goes_through(example: Example) -> None:
    agent, data = example.agent(), str(example.fleet.data_dir)
    at = agent.start("release_pipeline", version="1.2.0")
    assert at["state"] == "testing"
    assert at["context"] == {"runs": 0, "tag": "v1.2.0", "commit": example.git("rev-parse", "HEAD")}
    # Break the tests, and repair them.
    module = example.sample / "numbers_in_words.py"
    sound = module.read_text()
    module.write_text(sound.replace("forty", "fourty"))
    at = agent("workflow.submit", **link(at, "run_tests"))
    assert (at["state"], at["context"]["testsPassed"]) == ("broken", False)
    assert "fourty-two" in at["context"]["report"]
    module.write_text(sound)
    at = agent("workflow.submit", **link(at, "retry"))
    at = agent("workflow.submit", **link(at, "run_tests"))
    assert (at["state"], at["context"]["runs"]) == ("reviewing", 2)
    assert "4 passed" in at["context"]["report"]
    (asked,) = at["pendingHuman"]
    assert agent.refused("workflow.submit", **link(at, "approve"))["error"]["code"] == "ACTOR_MISMATCH"
    # By the examples of the help pages.
    shown: list[str] = []
    for line in (*COMMANDS["gateway approvals show"].examples, COMMANDS["gateway approvals resolve"].examples[0]):
        words = line.replace(_APPROVAL, asked["requestId"]).replace("./data", data).split()[1:]
        resolved = fleet_command(*words, FLEET_DATA_DIR=data)
        assert resolved.returncode == 0, resolved
        shown.append(resolved.stdout)
    assert "is in state 'released' now" in shown[-1]
    end = agent.get(at)
    assert (end["terminal"], end["outcome"]) == (True, "success")
    assert example.git("tag", "-l", "--format=%(refname:short) %(contents:subject)") == (
        "v1.2.0 Approved and released by the fleet"
    )
    # Repeating the release fails because the tag exists.
    again = agent.start("release_pipeline", version="1.2.0")
    again = agent("workflow.submit", **link(again, "run_tests"))
    question = again["pendingHuman"][0]["requestId"]
    refused = fleet_command("gateway", "approvals", "resolve", question, "approve", "--data-dir", data)
    assert "already exists" in refused.stderr
    assert agent.get(again)["lastFailure"]["transition"] == "tag"


def test_its_capabilities_can_be_called(example: Example) -> None:
    agent = example.agent()
    agent.start("proxy_default", capability="sample.create", arguments={})
    log = agent.start("proxy_default", capability="git.log", count=5)["context"]["lastResult"]
    assert "Say numbers in words" in log["stdout"]
    shown = agent.start("proxy_default", capability="git.show", commit="HEAD")["context"]["lastResult"]
    assert "numbers_in_words.py" in shown["stdout"]
    for wrong in ("--output=/tmp/x", "-x", "a b", ""):
        refused = agent.refused(
            "workflow.start", definitionId="proxy_default", input={"capability": "git.show", "commit": wrong}
        )
        assert refused["error"]["code"] == "INPUT_SCHEMA_VIOLATION"
    tested = agent.start("proxy_default", capability="tests.run", arguments={})["context"]["lastResult"]
    assert tested["success"] is True
    found = agent.start("proxy_default", capability="backlog.next", limit=3)["context"]["lastResult"]
    assert "recommendations" in found
    reviewed = agent.start("proxy_default", capability="backlog.review", arguments={})["context"]["lastResult"]
    assert set(reviewed["steps"]) == {"look", "all", "blocked", "done"}


def test_without_pytest_unittest_takes_over(tmp_path: Path) -> None:
    needs("git")
    made = tmp_path / "sample"
    done = subprocess.run(
        ["sh", str(ROOT / "config" / "gateway" / "sample.sh"), str(made)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"created": True}
    again = subprocess.run(
        ["sh", str(ROOT / "config" / "gateway" / "sample.sh"), str(made)], capture_output=True, text=True, check=True
    )
    assert json.loads(again.stdout) == {"created": False}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sample"]
    unittest = [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
    tested = subprocess.run(unittest, cwd=made, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
