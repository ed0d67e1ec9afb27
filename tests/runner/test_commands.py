"""Commands that cannot be started are refused before an item is claimed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.cli.exits import Exit
from coordinator.client import Fleet
from coordinator.runner import commands
from coordinator.runner.commands import CannotStart
from coordinator.runner.options import Options
from coordinator.runner.protocols import Workspaces
from coordinator.runner.workspaces import Directories, Hooks
from coordinator.runner.workspaces.hooks import NONE
from tests.client.backlog import add, held, notes, seen
from tests.runner.repositories import Place
from tests.support.fleets import RunningFleet, fleet_command

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

SCRIPTS = {
    "good": "#!/bin/sh\n",
    "by-env": "#!/usr/bin/env sh\n",
    "by-env-s": "#! /usr/bin/env -S sh -e\n",
    "lines": "#!/bin/sh\r\n",
    "interpreter": "#!/no/such -x\n",
    "of-env": "#!/usr/bin/env no-such-program\n",
    "text": "echo hello\n",
    "empty": "",
}


def write(where: Path) -> None:
    """Writes scripts of all kinds."""
    for name, text in SCRIPTS.items():
        (where / name).write_text(text)
        (where / name).chmod(0o755)
    (where / "plain").write_text(SCRIPTS["good"])
    (where / "plain").chmod(0o644)
    (where / "folder").mkdir()
    (where / "folder" / "file").touch()
    (where / "link").symlink_to("good")
    (where / "broken").symlink_to("nowhere")


def refusal(spaces: Workspaces, program: str, verify: str = "", path: str = "") -> str:
    """Why it is refused; empty: it is not."""
    options = Options(
        command=(program, "x"),
        state=Path("/no/such"),
        verify=(verify,) if verify else (),
        environment={"PATH": path or os.environ["PATH"]},
    )
    try:
        commands.check(options, spaces)
    except CannotStart as error:
        return str(error)
    return ""


REFUSED = [
    ("/no/such", "the command /no/such does not exist"),
    ("./no-such", "the command ./no-such does not exist in {where}"),
    ("good/x", "the command good/x does not exist in {where}"),
    ("./folder", "the command ./folder is a directory"),
    ("./plain", "the command ./plain is not executable"),
]
OF_DIRECTORIES = [
    ("{folder}/../good/../folder", "is a directory"),
    ("{workspace}/no-such", "the command {workspace}/no-such does not exist"),
    ("./broken", "the command ./broken does not exist"),
    ("./lines", r"names the interpreter '/bin/sh\r', which does not exist"),
    ("./interpreter", "names the interpreter '/no/such', which does not exist"),
    ("./of-env", "names the interpreter 'no-such-program', which was not found in the directories of PATH"),
    ("./text", "is neither a program nor a script"),
    ("./empty", "is neither a program nor a script"),
    ("/dev/null", "is not executable"),
]
STARTED = ["./good", "./by-env", "./by-env-s", "./link", "{workspace}/good", "{item.id}/good", sys.executable]


@pytest.mark.parametrize(("program", "words"), REFUSED + OF_DIRECTORIES)
def test_programs_in_a_directory_that_cannot_be_started(tmp_path: Path, program: str, words: str) -> None:
    write(tmp_path)
    program = program.replace("{folder}", f"{tmp_path}/folder")
    assert words.replace("{where}", str(tmp_path)) in refusal(Directories(str(tmp_path)), program)


@pytest.mark.parametrize(("program", "words"), [*REFUSED, OF_DIRECTORIES[4]])
async def test_programs_in_a_worktree_that_cannot_be_started(tmp_path: Path, program: str, words: str) -> None:
    spaces = await _worktrees(tmp_path)
    assert words.replace("{where}", "main") in refusal(spaces, program)


@pytest.mark.parametrize("program", STARTED)
async def test_programs_that_can_be_started(tmp_path: Path, program: str) -> None:
    (tmp_path / "directory").mkdir()
    write(tmp_path / "directory")
    spaces: list[Workspaces] = [Directories(str(tmp_path / "directory")), await _worktrees(tmp_path)]
    assert [refusal(one, program) for one in spaces] == ["", ""]


async def test_what_is_not_known_yet_is_not_refused(tmp_path: Path) -> None:
    where = str(tmp_path)
    assert not refusal(Directories(where, Hooks(before="touch agent")), "./agent")
    assert not refusal(Directories(f"{where}/{{item.id}}"), "./agent")
    assert not refusal(Directories(where, Hooks(after="./made", teardown="./made")), "/bin/true", verify="./made")
    assert not refusal(Directories(where), "/bin/true", verify=f"{where}/made")
    assert not refusal(Directories(where), "/bin/true", verify="here", path="relative:/bin")
    spaces = (await _worktrees(tmp_path, hooks=Hooks(setup="touch agent"))), Directories(where, Hooks(setup="x=1 y"))
    assert not any(refusal(one, "./agent") for one in spaces)
    assert refusal(spaces[1], "/no/such")


@pytest.mark.parametrize("option", ["setup", "before", "after", "teardown"])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program x", "no-such-program was not found in the directories of PATH"),
        ("/no/such --x=1", "/no/such does not exist"),
        ("/tmp", "/tmp is a directory"),
        ("if true", "the shell cannot read it:"),
        ("make 'x", "the shell cannot read it:"),
        ("umask 022", ""),
        ("true --x=1", ""),
        ("X=1 no-such", ""),
        ("no-such-program || true", ""),
        ("~/no/such", ""),
        ("[ -d / ]", ""),
    ],
)
def test_hooks_are_checked(tmp_path: Path, option: str, command: str, words: str) -> None:
    hooks = replace(NONE, **{option: command})  # type: ignore[arg-type]
    found = refusal(Directories(str(tmp_path), hooks), "/bin/true")
    assert found.startswith(f"--{option}: {words}") if words else not found


@pytest.mark.parametrize("verify", ["no-such-check", "/no/such"])
def test_the_verification_is_checked(tmp_path: Path, verify: str) -> None:
    assert refusal(Directories(str(tmp_path)), "/bin/true", verify=verify).startswith(f"--verify: {verify} ")


async def test_nothing_is_claimed(running: RunningFleet, fleet: Fleet, tmp_path: Path) -> None:
    (item,) = await add(fleet, "one")
    where = ("--url", running.state.base_url, "--project", fleet.project, "--state-dir", str(tmp_path / "state"))
    ended = fleet_command("run", *where, "--workspace", str(tmp_path), "--", "./no-such")
    assert ended.returncode == Exit.USAGE
    assert f"the command ./no-such does not exist in {tmp_path}" in ended.stderr
    assert (await seen(fleet, item))["role"] == "queue"
    assert not await notes(fleet, item)
    assert await held(fleet) == 0


@pytest.mark.parametrize(
    ("entry", "arguments", "words"),
    [
        ({"command": ["/no/such"]}, (), "runner docs: the command /no/such does not exist"),
        ({"command": ["no-such"]}, (), "runner docs: the command no-such was not found"),
        ({"command": ["true"], "verify": "/no/such"}, (), "runners.docs.verify: /no/such does not exist"),
        ({"command": ["true"], "before": "/no/such"}, (), "runners.docs.before: /no/such does not exist"),
        ({"command": ["true"]}, ("--verify", "/no/such"), "fleet: --verify: /no/such does not exist"),
        ({"command": ["true"]}, ("--", "/no/such"), "fleet: the command /no/such does not exist"),
        ({"preset": "claude"}, (), "runner docs: the command claude was not found"),
    ],
)
def test_entries_of_the_settings_are_named(
    entry: dict[str, object],
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text(json.dumps({"runners": {"docs": {**entry, "state_dir": str(tmp_path / "state")}}}))
    monkeypatch.setenv("FLEET_CONFIG", str(config))
    if "preset" in entry:
        monkeypatch.setenv("PATH", "/no/such")
    assert cli.run(["run", "--runner", "docs", "--url", "http://127.0.0.1:9", *arguments]) == Exit.USAGE
    assert words in capsys.readouterr().err


async def _worktrees(top: Path, **given: object) -> Workspaces:
    place = Place(top / "place")
    write(place.path)
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message", "scripts")
    spaces = place.worktrees(**given)
    await spaces.start()
    return spaces
