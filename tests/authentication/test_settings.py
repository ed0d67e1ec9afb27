"""Which settings of authentication fit together, and which addresses may be listened on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from coordinator.processes.reload import Rereader
from coordinator.settings import Settings, SettingsError, load_settings
from coordinator.settings.effective_auth import auth_mode, auth_verifier, is_loopback, resource_url
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.identity import ActorAuthentication
from tests.authentication.support import KEYS
from tests.support.fleets import ROOT

REQUIRED = "auth: {mode: required, tokens: tokens.yaml}\n"


def load(folder: Path, text: str, **flags: Any) -> Settings:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return load_settings(flags, {}, path).settings


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        (Settings(), "none"),
        (Settings(auth=Auth(tokens="t")), "optional"),
        (Settings(auth=Auth(verifier=KEYS)), "optional"),
        (Settings(actor_authentication=ActorAuthentication(verifier=KEYS)), "optional"),
        (Settings(auth=Auth(tokens="t", mode="none")), "none"),
        (Settings(auth=Auth(tokens="t", mode="required")), "required"),
    ],
)
def test_the_mode_follows_from_what_is_configured(settings: Settings, mode: str) -> None:
    assert auth_mode(settings) == mode


def test_the_verifier_of_actors_is_the_default_for_bearers() -> None:
    actors = ActorAuthentication(verifier=KEYS)
    assert auth_verifier(Settings(actor_authentication=actors)) == KEYS
    other = load_settings({}, {}).settings.auth
    assert other.verifier is None
    assert auth_verifier(Settings()) is None


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_authentication_needs_a_source_of_valid_tokens(tmp_path: Path, mode: str) -> None:
    with pytest.raises(SettingsError, match=r":2: auth\.mode is .*so valid tokens must be defined"):
        load(tmp_path, f"auth:\n  mode: {mode}\n")


def test_a_verifier_of_bearers_must_verify(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"auth\.verifier\.type must be jwks"):
        load(tmp_path, "auth: {tokens: t, verifier: {jwks_path: keys.json}}\n")
    with pytest.raises(SettingsError, match=r"auth\.verifier\.algorithms is needed"):
        load(tmp_path, "auth: {verifier: {type: jwks, jwks_path: keys.json}}\n")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "0", "127.1", "2130706433"])
def test_an_open_fleet_may_not_be_reachable_from_outside(tmp_path: Path, host: str) -> None:
    for text in ("{}\n", "auth: {mode: optional, tokens: t}\n"):
        with pytest.raises(SettingsError, match=r"can be reached from other machines.*--insecure-no-auth"):
            load(tmp_path, text, host=host)
        assert load(tmp_path, text, host=host, insecure_no_auth=True).host == host
    assert load(tmp_path, REQUIRED, host=host).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_an_open_fleet_may_listen_on_loopback(tmp_path: Path, host: str) -> None:
    assert is_loopback(host)
    assert load(tmp_path, "{}\n", host=host).host == host


def test_the_line_of_the_address_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"fleet\.yaml:2: host 0\.0\.0\.0 can be reached"):
        load(tmp_path, "port: 1\nhost: 0.0.0.0\n")


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    text = "auth: {tokens: t.yaml, verifier: {type: jwks, jwks_path: k.json, algorithms: [EdDSA]}}\n"
    auth = load(tmp_path, text).auth
    assert auth.tokens == str(tmp_path / "t.yaml")
    assert auth.verifier is not None
    assert auth.verifier.jwks_path == str(tmp_path / "k.json")
    assert load_settings({}, {"FLEET_AUTH_TOKENS": "t.yaml"}).settings.auth.tokens == str(Path.cwd() / "t.yaml")


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "http://127.0.0.1:8420"),
        ({"host": "0.0.0.0", "port": 1}, "http://127.0.0.1:1"),
        ({"host": "::"}, "http://[::1]:8420"),
        ({"auth": Auth(resource="https://fleet.example.org/")}, "https://fleet.example.org"),
    ],
)
def test_the_url_that_clients_know(changes: dict[str, Any], url: str) -> None:
    assert resource_url(Settings(**changes)) == url


def test_the_ports_differ(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r":1: admin_port \(8420\) must differ from port"):
        load(tmp_path, "admin_port: 8420\n")


def test_a_reload_cannot_loosen_what_a_restart_would_forbid(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("host: 0.0.0.0\n" + REQUIRED)
    reader = Rereader(load_settings({}, {}, path))
    # Fine for the next start, but the running processes listen on every address.
    path.write_text("host: 127.0.0.1\nauth: {mode: none}\n")
    outcome = reader.read()
    assert outcome.settings is None
    assert "this needs a restart: host 0.0.0.0 can be reached" in outcome.problem
    path.write_text("host: 127.0.0.1\n" + REQUIRED)
    outcome = reader.read()
    assert outcome.settings is not None
    assert outcome.restart == ("host",)


REJECT = "actor_authentication: {degraded_mode_policy: reject}\n"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("projects: [alpha]\n", "port: 1\n", "projects is no longer set, which would make it open to any name"),
        (REQUIRED, "port: 1\n", "auth.mode is no longer set, which would make it none"),
        (REQUIRED, "auth: {tokens: tokens.yaml}\n", "auth.mode is no longer set, which would make it optional"),
        (REJECT, "port: 1\n", "degraded_mode_policy is no longer set, which would make it accept-cached"),
        (REQUIRED + REJECT, REQUIRED, "degraded_mode_policy is no longer set"),
        (REQUIRED, "", "is empty now"),
        ("auth: {tokens: tokens.yaml}\n", "# nothing\n", "is empty now"),
        (REQUIRED, REQUIRED.replace("required", "optional"), ""),
        (REJECT, REJECT.replace("reject", "accept-cached"), ""),
        ("auth: {mode: optional, tokens: tokens.yaml}\n", "port: 1\n", ""),
        ("", "", ""),
    ],
)
def test_a_missing_setting_never_loosens_security(tmp_path: Path, before: str, after: str, problem: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(before)
    reader = Rereader(load_settings({}, {}, path))
    path.write_text(after)
    for _ in range(2):
        outcome = reader.read()
        assert (outcome.settings is None) == bool(problem)
        assert problem in outcome.problem


def test_later_loosening_is_compared_with_the_last_reload(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("port: 1\n")
    reader = Rereader(load_settings({}, {}, path))
    path.write_text(REQUIRED)
    assert reader.read().settings is not None
    path.write_text("port: 1\n")
    assert reader.read().settings is None


def test_a_pipe_is_not_reloaded(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(REQUIRED)
    reader = Rereader(load_settings({}, {}, path))
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in reader.read().problem


@pytest.mark.parametrize("before", sorted((ROOT / "config" / "rollout").glob("*.yaml")), ids=lambda path: path.name)
def test_every_stage_of_the_roll_out_leads_to_every_other(tmp_path: Path, before: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(before.read_text())
    reader = Rereader(load_settings({}, {}, path))
    for after in sorted(before.parent.glob("*.yaml")):
        for stage in (after, before):
            path.write_text(stage.read_text())
            assert reader.read().problem == "", stage.name
