"""The sections about workflows and the keys of their tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.settings import SettingsError, load_settings
from tests.support.fleets import fleet_command

KEY = "k-1:" + "ab" * 32


def test_folders_may_be_one_or_several_and_are_relative_to_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "conf" / "fleet.yaml"
    path.parent.mkdir()
    path.write_text("workflows:\n  sessions: here\n  navigator: [a, /b, ~/c]\n  min_checkpoint_response_seconds: 0\n")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    section = load_settings({}, {}, path).settings.workflows
    assert section.sessions == (f"{path.parent}/here",)
    assert section.navigator == (f"{path.parent}/a", "/b", "/home/me/c")
    assert section.min_checkpoint_response_seconds == 0
    env = {
        "FLEET_SESSION_WORKFLOWS": "x,/y",
        "FLEET_NAVIGATOR_WORKFLOWS": "z",
        "FLEET_MIN_CHECKPOINT_RESPONSE_SECONDS": "7",
    }
    section = load_settings({}, env, path).settings.workflows
    assert section.sessions == (f"{tmp_path}/x", "/y")
    assert section.navigator == (f"{tmp_path}/z",)
    assert section.min_checkpoint_response_seconds == 7
    assert load_settings({}, {}).settings.workflows.sessions == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workflows: {sessions: 3}", "workflows.sessions must be a directory path, or a list of them, not 3"),
        ("workflows: {navigator: [1]}", "workflows.navigator.0 must be text"),
        ("workflows: {min_checkpoint_response_seconds: -1}", "must be an integer from 0 to 3600"),
        ("workflows: {session: x}", "did you mean 'workflows.sessions'?"),
        ("signing: {keys: [short]}", "signing.keys.0 must be a key: an id of up to 32"),
        (f"signing: {{keys: '{KEY}'}}", "signing.keys must be"),
    ],
)
def test_wrong_values_are_reported(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {}, path)
    assert said in str(caught.value)


def test_keys_are_taken_and_never_shown(tmp_path: Path) -> None:
    loaded = load_settings({}, {"FLEET_SIGNING_KEYS": f"{KEY},old:{'CD' * 32}"})
    assert [key.partition(":")[0] for key in loaded.settings.signing.keys] == ["k-1", "old"]
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {"FLEET_SIGNING_KEYS": KEY[:-1]})
    assert "ab" * 10 not in str(caught.value)
    path = tmp_path / "fleet.yaml"
    path.write_text(f"signing: {{keys: ['{KEY[:-1]}', 'x']}}")
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {}, path)
    assert "ab" * 10 not in str(caught.value)


def test_no_command_prints_a_key(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"signing: {{keys: ['{KEY}']}}")
    for command in (("config", "check", str(path)), ("config", "show", "--config", str(path))):
        done = fleet_command(*command)
        assert done.returncode == 0, done.stderr
        assert "signing.keys" in done.stdout
        assert "ab" * 10 not in done.stdout
