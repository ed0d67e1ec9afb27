"""``fleet config show`` and ``fleet config example``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.settings import Settings, example_yaml
from coordinator.settings.fields import fields_of


@pytest.fixture(autouse=True)
def no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)


def test_output_to_a_pipe_is_plain_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("workers: 3\nallowed_hosts: [a, b]\n")
    monkeypatch.setenv("FLEET_LOG_LEVEL", "debug")
    assert cli.run(["config", "show", "--config", str(path), "--port", "99"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(fields_of(Settings))
    assert "port = 99  (flag --port)" in lines
    assert "log_level = debug  (environment FLEET_LOG_LEVEL)" in lines
    assert f"workers = 3  (file {path}:1)" in lines
    assert f'allowed_hosts = ["a","b"]  (file {path}:2)' in lines
    assert 'redis_url = ""  (default)' in lines


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("workers: 3\n")
    assert cli.run(["config", "show", "--config", str(path), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["config"] == str(path)
    assert report["settings"]["workers"] == {"value": 3, "source": f"file {path}:1", "unit": "processes"}
    assert report["settings"]["host"] == {"value": "127.0.0.1", "source": "default"}
    assert list(report["settings"]) == [field.name for field in fields_of(Settings)]


@pytest.mark.parametrize("format", ["plain", "json", "table"])
def test_passwords_are_masked(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "show", "--format", format, "--redis-url", "redis://me:hunter2@h:1/0"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "redis://me:***@h:1/0" in out


def test_a_terminal_gets_a_table() -> None:
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator", "config", "show", "--workers", "5"],
        stdout=theirs,
        env=environment | {"COLUMNS": "160", "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass  # Linux reports the end of a terminal as an error
    finally:
        os.close(ours)
    assert process.wait(60) == 0
    text = shown.decode()
    assert "Setting" in text
    assert "From" in text
    assert "\x1b[" in text
    assert any(line.split()[:3] == ["workers", "5", "processes"] for line in text.splitlines())


def test_example_is_the_config_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "example"]) == 0
    assert capsys.readouterr().out == example_yaml()
