"""The examples of authentication are valid, and `fleet config check` explains them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cli.config.check import explained
from coordinator.settings import load_settings
from coordinator.settings.effective_auth import auth_mode
from tests.authentication.support import Tokens
from tests.support.fleets import ROOT

EXAMPLES = ROOT / "config" / "authentication"
MODES = {"1-optional.yaml": "optional", "2-required.yaml": "required", "3-oauth.yaml": "required"}


def test_every_example_is_tested() -> None:
    assert sorted(file.name for file in EXAMPLES.glob("*.yaml")) == sorted(MODES)


@pytest.mark.parametrize("name", MODES)
def test_an_example_is_valid(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    for shown in (text, text.replace("# tokens:", "tokens:")):
        path.write_text(shown, encoding="utf-8")
        assert auth_mode(load_settings({}, {}, path).settings) == MODES[name]


def meaning(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return "\n".join(explained(load_settings({}, {}, path)))


def test_a_check_reports_who_may_call(tmp_path: Path, tokens: Tokens) -> None:
    path = tmp_path / "fleet.yaml"
    assert "none: anybody who reaches the port may call" in meaning(path, "{}\n")
    tokens.add("a")
    tokens.add("b", seconds=-1)
    said = meaning(path, "auth: {tokens: tokens.yaml, default_permissions: []}\n")
    assert "  optional: a bearer token identifies its caller" in said
    assert f"tokens are looked up in {tokens.path}, which has 2, 1 of them expired" in said
    assert "permits nothing" in said
    assert "Notices" not in said
    keys = "verifier: {type: jwks, jwks_path: keys.json, algorithms: [EdDSA], audience: fleet}"
    said = meaning(path, f"admin_port: 9\nauth: {{mode: required, resource: 'https://f.example', {keys}}}\n")
    assert "keys of auth.verifier, and must be for fleet or https://f.example" in said
    assert "/metrics and /readyz are on port 9 only" in said


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ("auth: {mode: none, tokens: t}", "auth.mode is none, so the tokens and the verifier of auth are ignored"),
        ("host: 0.0.0.0\ninsecure_no_auth: true", "insecure_no_auth: whoever reaches 0.0.0.0 can do everything"),
        ("auth: {tokens: none.yaml}", "no fleet starts with this: cannot read the token file"),
        (
            "host: 0.0.0.0\nauth: {mode: required, verifier: "
            "{type: jwks, jwks_path: k.json, algorithms: [EdDSA], audience: a}}",
            "auth.resource is not set, so remote clients get the address http://127.0.0.1:8420",
        ),
        ("actor_authentication: {degraded_mode_policy: reject}", "no agent can claim anything"),
    ],
)
def test_a_check_warns_of_likely_mistakes(tmp_path: Path, text: str, notice: str) -> None:
    assert f"  {notice}" in meaning(tmp_path / "fleet.yaml", text + "\n").partition("Notices")[2]


def test_a_bearer_token_replaces_a_proof(tmp_path: Path, tokens: Tokens) -> None:
    tokens.add("a")
    text = "actor_authentication: {degraded_mode_policy: reject}\nauth: {tokens: tokens.yaml}\n"
    assert "no agent can claim anything" not in meaning(tmp_path / "fleet.yaml", text)
