"""``fleet run`` as a command: flags, the setting runners, metrics, signals."""

from __future__ import annotations

import json
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.cli.exits import Exit
from coordinator.client import Fleet
from tests.client.backlog import add, context, held, notes, seen
from tests.support.fleets import RunningCommand, RunningFleet, samples
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


USED = json.dumps({"result": "fine", "usage": {"outputTokens": 12, "costUsd": 26}})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needs a command"),
        (("--ttl", "5", "--", "true"), "--ttl must be from 10"),
        (("--stall", "soon", "--", "true"), "--stall: must be a time such as 90s"),
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
        assert runner.process.wait(60) == Exit.OK, runner.stderr
    assert "handed back" in runner.stdout
    assert f"{agent} [masked]" in runner.stdout
    assert "attempts" not in await context(fleet, item)
    assert await held(fleet) == 0


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        return answer.read()
