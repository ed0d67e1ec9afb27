"""Paths in settings: where relative ones start, home directories, and invalid paths."""

from __future__ import annotations

import pwd
import re
from pathlib import Path

import pytest

from coordinator.settings import SettingsError, load_settings


def test_data_dir_default_is_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    data_dir = Path(load_settings({}, {}).settings.data_dir)
    assert data_dir.is_absolute()
    assert data_dir.name == "fleet-coordinator"


def test_a_user_without_a_home_must_name_a_data_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container whose user id has no entry in the list of users."""

    def unlisted(_: object) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unlisted)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match=r"data_dir is not set.*--data-dir or FLEET_DATA_DIR"):
        load_settings({}, {})
    assert load_settings({}, {"FLEET_DATA_DIR": str(tmp_path)}).settings.data_dir == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings({}, {}).settings.data_dir.startswith(f"{tmp_path}/")


def test_a_relative_data_dir_starts_at_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    path = folder / "fleet.yaml"
    path.write_text("data_dir: state\n")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert load_settings({}, {}, path).settings.data_dir == str(folder / "state")
    assert load_settings({}, {"FLEET_DATA_DIR": "state"}, path).settings.data_dir == str(here / "state")
    assert load_settings({"data_dir": "./state"}, {}, path).settings.data_dir == str(here / "state")


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings({"data_dir": "~/d"}, {}).settings.data_dir == str(tmp_path / "d")
    (tmp_path / "fleet.yaml").write_text("port: 7\n")
    assert load_settings({}, {"FLEET_CONFIG": "~/fleet.yaml"}).settings.port == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data_dir: ~absent/x", "data_dir must be a path, not '~absent/x': ~absent is nobody's home here"),
        ('data_dir: "a\\0b"', "data_dir must be a path, not 'a\\x00b': no file can have this name"),
        ("auth: {tokens: ~absent/x}", "auth.tokens must be a path, not '~absent/x'"),
        (
            "auth: {verifier: {type: jwks, algorithms: [RS256], audience: a, jwks_path: ~absent/x}}",
            "auth.verifier.jwks_path must be a path",
        ),
        (
            "actor_authentication: {verifier: {type: jwks, algorithms: [RS256], audience: a, jwks_path: ~absent/x}}",
            "actor_authentication.verifier.jwks_path must be a path",
        ),
        ("workflows: {navigator: [a, ~absent/x]}", "workflows.navigator must be a path, not '~absent/x'"),
        ("gateway: {include: ~absent/x}", "gateway.include must be a path, not '~absent/x'"),
        ("gateway: {audit: {path: ~absent/x}}", "gateway.audit.path must be a path, not '~absent/x'"),
    ],
)
def test_an_impossible_path_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(f"port: 1\n{text}\n")
    with pytest.raises(SettingsError, match="^" + re.escape(f"{file}:2: {words}")):
        load_settings({}, {}, file)


def test_an_impossible_path_is_rejected_from_every_source() -> None:
    for flags, env, config, words in (
        ({"data_dir": "~absent"}, {}, None, "flag --data-dir: data_dir must be a path, not '~absent'"),
        ({}, {"FLEET_DATA_DIR": "~absent"}, None, "environment FLEET_DATA_DIR: data_dir must be a path, not '~absent'"),
        ({}, {"AGENT_CONFIG_DIR": "~absent"}, None, "environment AGENT_CONFIG_DIR must be a path, not '~absent'"),
        ({}, {}, Path("~absent/fleet.yaml"), "the config file must be a path, not '~absent/fleet.yaml'"),
    ):
        with pytest.raises(SettingsError, match=f"^{re.escape(words)}: ~absent is nobody's home here$"):
            load_settings(flags, env, config)


def test_text_that_is_not_utf_8_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, env, words in (
        ({"data_dir": "/x\udcff"}, {}, "flag --data-dir: data_dir must be text in UTF-8, not '/x\\udcff'"),
        ({}, {"FLEET_REDIS_URL": "unix:///\udcff"}, "environment FLEET_REDIS_URL: redis_url must be text in UTF-8"),
    ):
        with pytest.raises(SettingsError, match=f"^{re.escape(words)}$"):
            load_settings(flags, env)
    odd = tmp_path / "\udcff"
    odd.mkdir()
    monkeypatch.chdir(odd)
    with pytest.raises(SettingsError, match=r"^flag --data-dir: data_dir must be a path in UTF-8, not '/"):
        load_settings({"data_dir": "data"}, {})
    assert load_settings({"data_dir": "/data"}, {}).settings.data_dir == "/data"
