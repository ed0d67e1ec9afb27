"""``fleet run`` as a command: flags, the setting runners, metrics, signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.cli.exits import Exit
from coordinator.client import Fleet
from tests.client.backlog import add, context, held, notes, seen
from tests.runner.repositories import Place
from tests.support.fleets import RunningCommand, RunningFleet, samples, scrape
from tests.support.ports import free_port
from tests.support.wait import process_alive, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


USED = json.dumps({"result": "fine", "usage": {"outputTokens": 12, "costUsd": 26}})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needs a command"),
        (("--ttl", "5", "--", "true"), "--ttl must be from 10"),
        (("--stall", "soon", "--", "true"), "--stall: must be a time such as 90s"),
        (("--timeout", "52w1d1s", "--", "true"), "--timeout: must be at most 365d, not 52w1d1s"),
        (("--ttl", "0.1m3s", "--", "true"), "--ttl must be from 10"),
        (("--usage-per-attempt", "cost=lots", "--", "true"), "--usage-per-attempt: 'cost=lots' must be cost=DOLLARS"),
        (("--usage-per-attempt", "time=1h", "--", "true"), "--usage-per-attempt: has cost and tokens"),
        (("--slots", "0", "--", "true"), "--slots must be from 1"),
        (("--preset", "gpt", "--", "true"), "--preset: must be one of claude"),
        (("--yolo", "--", "true"), "--yolo needs a preset"),
        (("--env", "A=b", "--", "true"), "--env: must be the name"),
        (("--priority", "urgent", "--", "true"), "--priority: must be high"),
        (("--verify", "make 'test", "--", "true"), "--verify: No closing quotation"),
        (("--", "x", "{item.title}"), "{item.title} in the command is not known"),
        (("--worktree", ".", "--workspace", ".", "--", "true"), "exclude each other"),
        (("--base", "main", "--", "true"), "--base needs --worktree"),
        (("--instructions", "/no/such", "--", "true"), "--instructions /no/such cannot be read"),
        (("--", "no-such-program", "x"), "no-such-program was not found in the absolute directories of PATH"),
        (("--runner", "docz"), "docs"),
        (("--runner", "docs", "--metrics", "no-port"), "--metrics: must be a port"),
        (
            ("--runner", "docs", "--metrics-target", "/no/such/file.json"),
            "--metrics-target /no/such/file.json: No such",
        ),
    ],
)
def test_wrong_flags_are_named(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text("runners: {docs: {command: ['true']}}")
    monkeypatch.setenv("FLEET_CONFIG", str(config))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cli.run(["run", "--url", "http://127.0.0.1:9", *arguments]) == Exit.USAGE
    assert words in capsys.readouterr().err


async def test_an_entry_of_the_settings(running: RunningFleet, fleet: Fleet, tmp_path: Path) -> None:
    config, agent = tmp_path / "fleet.yaml", tmp_path / "agent.sh"
    agent.write_text(f"#!/bin/sh\ngrep -q 'Be kind.' && echo '{USED}' > $FLEET_RESULT_FILE\n")
    agent.chmod(0o755)
    (tmp_path / "text").write_text("Be kind.")
    entry = {
        "command": [str(agent)],
        "url": running.state.base_url,
        "project": fleet.project,
        "tags": "docs",
        "max_items": 5,
        "usage_per_attempt": "tokens=10",
        "instructions": str(tmp_path / "text"),
        "state_dir": str(tmp_path / "state"),
    }
    config.write_text(json.dumps({"runners": {"docs": entry}}))
    wanted, other = await add(fleet, "wanted", tags="docs") + await add(fleet, "other")
    command = ("run", "--runner", "docs", "--config", str(config), "--max-items", "1", "--min-free", "0")
    with RunningCommand(tmp_path / "run", *command) as runner:
        assert runner.process.wait(60) == Exit.OK, runner.stderr
    assert (await notes(fleet, wanted))["result"] == "fine"
    own = (await seen(fleet, wanted))["usage"]["own"]
    assert (own["tokens"], own["costMicroUsd"]) == (10, 25_000_000)
    assert (await seen(fleet, other))["role"] == "queue"


async def test_a_fleet_that_does_not_answer_is_told(tmp_path: Path) -> None:
    command = ("run", "--url", f"http://127.0.0.1:{free_port()}", "--state-dir", str(tmp_path / "state"), "--", "true")
    with RunningCommand(tmp_path / "run", *command) as runner:
        await wait_until(lambda: "does not answer" in runner.stdout, what="it is told")


async def test_signals_and_metrics(running: RunningFleet, fleet: Fleet, tmp_path: Path) -> None:
    (item,) = await add(fleet, "long")
    port = free_port()
    agent = tmp_path / "agent.sh"
    agent.write_text("#!/bin/sh\ntouch begun\nexec sleep 600\n")
    agent.chmod(0o755)
    command = ["run", "--url", running.state.base_url, "--project", fleet.project, "--workspace", str(tmp_path)]
    command += ["--min-free", "0", "--metrics", str(port), "--state-dir", str(tmp_path / "state"), "--", str(agent)]
    with RunningCommand(tmp_path / "run", *command, "of-the-provider", PROVIDER_KEY="of-the-provider") as runner:
        await wait_until((tmp_path / "begun").exists, what="the command runs")
        found = samples(_get(port, "metrics"))
        assert found["coordinator_run_attempts_running"] == 1
        assert _get(port, "healthz") == b'{"status":"alive"}'
        runner.process.send_signal(signal.SIGTERM)
        await wait_until(lambda: "told to stop" in runner.stdout, what="it heard the signal")
        runner.process.send_signal(signal.SIGTERM)
        assert runner.process.wait(60) == 128 + signal.SIGTERM, runner.stderr
    assert "handed back" in runner.stdout
    assert f"{agent} [masked]" in runner.stdout
    assert "attempts" not in await context(fleet, item)
    assert await held(fleet) == 0


RUNNING, DONE = "coordinator_run_attempts_running", "coordinator_run_attempts_total{outcome=done}"
PATIENT = "touch begun; until [ -e go ]; do sleep 0.05; done"


def runner_of(folder: Path, project: str, *flags: str, **env: str) -> RunningCommand:
    """A runner that does one item, and waits in it for a file ``go``."""
    folder.mkdir()
    command = ("run", *flags, "--project", project, "--workspace", str(folder), "--max-items", "1", "--min-free", "0")
    return RunningCommand(folder / "run", *command, "--", "sh", "-c", PATIENT, **env)


@pytest.mark.parametrize("by_url", [False, True])
async def test_the_fleet_of_its_host_shows_a_runner_that_nobody_has_configured(
    running: RunningFleet, fleet: Fleet, tmp_path: Path, by_url: bool
) -> None:
    await add(fleet, "one")
    data = str(running.data_dir)
    place = ("--url", running.state.base_url) if by_url else ("--data-dir", data)
    flags = (*place, "--state-dir", str(tmp_path / "state"))
    before = scrape(running.port).get(DONE, 0.0)
    with runner_of(tmp_path / "w", fleet.project, *flags, **({"FLEET_DATA_DIR": data} if by_url else {})) as runner:
        await wait_until(lambda: scrape(running.port).get(RUNNING) == 1, what="the fleet shows it")
        (tmp_path / "w" / "go").touch()
        assert runner.process.wait(60) == Exit.OK, runner.stderr
    found = scrape(running.port)
    assert (found.get(RUNNING, 0.0), found[DONE]) == (0, before + 1)


async def test_a_page_is_of_one_runner_alone(running: RunningFleet, fleet: Fleet, tmp_path: Path) -> None:
    """Not of others with its state directory, nor of those before it; and the fleet does not show it, too."""
    target = tmp_path / "target.json"
    flags = ("--data-dir", str(running.data_dir), "--state-dir", str(tmp_path / "state"))
    before = scrape(running.port).get(DONE, 0.0)
    for turn in ("first", "second"):
        await add(fleet, turn)
        with runner_of(tmp_path / turn, fleet.project, *flags, "--metrics-target", str(target)) as runner:
            await wait_until((tmp_path / turn / "begun").exists, what="the command runs")
            (found,) = json.loads(target.read_text())
            page = samples(_get(int(found["targets"][0].rpartition(":")[2]), "metrics"))
            assert (page[RUNNING], page[DONE]) == (1, 0)
            assert not scrape(running.port).get(RUNNING)
            (tmp_path / turn / "go").touch()
            assert runner.process.wait(60) == Exit.OK, runner.stderr
        assert not target.exists()
    assert scrape(running.port).get(DONE, 0.0) == before


STUBBORN = "trap '' INT TERM; echo $$ > begun; while :; do sleep 1; done"


async def test_a_second_signal_ends_all_at_once(running: RunningFleet, fleet: Fleet, tmp_path: Path) -> None:
    (item,) = await add(fleet, "long")
    command = ["run", "--url", running.state.base_url, "--project", fleet.project, "--workspace", str(tmp_path)]
    command += ["--drain", "1h", "--state-dir", str(tmp_path / "state"), "--", "sh", "-c", STUBBORN]
    with RunningCommand(tmp_path / "run", *command) as runner:
        await wait_until((tmp_path / "begun").exists, what="the command runs")
        pid = (tmp_path / "begun").read_text().strip()
        await _signal_twice(runner)
        assert runner.process.wait(10) == Exit.INTERRUPTED, runner.stderr  # SIGKILL comes 15 s after a stop
    assert not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240
    assert await held(fleet) == 0
    assert "attempts" not in await context(fleet, item)


SLOW_GIT = """#!/bin/sh
case "$*" in *{words}*) echo $$ > {begun}; exec sleep 600;; esac
exec {git} "$@"
"""


@pytest.mark.parametrize("words", ["rev-parse", "'worktree add'"], ids=["start", "workspace"])
async def test_a_second_signal_ends_git(
    running: RunningFleet, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    await add(fleet, "long")
    place, begun, git = Place(tmp_path / "place"), tmp_path / "begun", tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(SLOW_GIT.format(words=words, begun=begun, git=shutil.which("git")))
    git.chmod(0o755)
    path = f"{git.parent}{os.pathsep}{os.environ['PATH']}"
    command = ["run", "--url", running.state.base_url, "--project", fleet.project, "--worktree", str(place.path)]
    command += ["--min-free", "0", "--state-dir", str(tmp_path / "state"), "--", "true"]
    with RunningCommand(tmp_path / "run", *command, PATH=path) as runner:
        await wait_until(lambda: begun.exists() and begun.read_text().strip(), what="git runs")
        await _signal_twice(runner)
        assert runner.process.wait(10) == Exit.INTERRUPTED, runner.stderr
    await wait_until(lambda: not process_alive(int(begun.read_text())), what="git has ended")
    assert await held(fleet) == 0


async def test_one_signal_ends_a_wait_for_a_fleet_that_gave_nothing(tmp_path: Path) -> None:
    command = ("run", "--url", f"http://127.0.0.1:{free_port()}", "--state-dir", str(tmp_path / "state"), "--", "true")
    with RunningCommand(tmp_path / "run", *command) as runner:
        await wait_until(lambda: "does not answer" in runner.stdout, what="it is told")
        runner.process.send_signal(signal.SIGINT)
        assert runner.process.wait(10) == Exit.OK, runner.stderr


async def _signal_twice(runner: RunningCommand) -> None:
    runner.process.send_signal(signal.SIGINT)
    await wait_until(lambda: "told to stop" in runner.stdout, what="it heard the signal")
    runner.process.send_signal(signal.SIGINT)


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        return answer.read()
