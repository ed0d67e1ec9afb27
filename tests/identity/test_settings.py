"""The section actor_authentication: names, defaults, rules, and where values come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.settings import LoadedSettings, Settings, SettingsError, load_settings, needing_restart, taken_over
from coordinator.settings.sections.identity import POLICIES, ActorAuthentication, VerifierSettings

PREFIX = "FLEET_ACTOR_AUTHENTICATION_"
SOUND = {"type": "jwks", "jwks_uri": "https://id.example/jwks", "algorithms": ["EdDSA"]}


def load(tmp_path: Path, text: str, **env: str) -> LoadedSettings:
    file = tmp_path / "fleet.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings({}, env, file)


def section(tmp_path: Path, env: dict[str, str] | None = None, /, **verifier: Any) -> ActorAuthentication:
    text = msgspec.json.encode({"actor_authentication": {"verifier": verifier}}).decode()
    return load(tmp_path, text, **(env or {})).settings.actor_authentication


def problems(tmp_path: Path, text: str, **env: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text, **env)
    return caught.value.problems


def refused(tmp_path: Path, **verifier: Any) -> str:
    text = msgspec.json.encode({"actor_authentication": {"verifier": verifier}}).decode()
    return " ".join(problems(tmp_path, text))


def test_by_default_no_actor_is_verified_and_all_are_trusted() -> None:
    assert msgspec.json.decode(msgspec.json.encode(Settings().actor_authentication)) == {
        "enabled": False,
        "degraded_mode_policy": "accept-cached",
        "verifier": {
            "type": "noop",
            "oidc_discovery": "",
            "jwks_uri": "",
            "jwks_path": "",
            "issuer": "",
            "audience": "",
            "algorithms": [],
            "cache_ttl_seconds": 300,
            "longest_seconds": 86400,
            "stale_on_error": True,
            "require_sub_match": True,
            "did_allowlist": [],
            "did_pattern": "",
            "did_strict_relationship": True,
            "did_loose_kid_match": True,
            "did_allow_loopback": False,
        },
    }


def test_all_of_it_can_be_written_in_the_file(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        """\
actor_authentication:
  enabled: true
  degraded_mode_policy: reject
  verifier:
    type: jwks
    oidc_discovery: "https://provider.example/.well-known/openid-configuration"
    jwks_uri: "https://provider.example/.well-known/jwks.json"
    jwks_path: ".agents/jwks.json"
    issuer: "https://provider.example"
    audience: "fleet"
    algorithms: ["EdDSA", "RS256"]
    cache_ttl_seconds: 60
    stale_on_error: false
    require_sub_match: false
""",
    ).settings.actor_authentication
    assert found.verifier.sources == ("oidc_discovery", "jwks_uri", "jwks_path")
    assert found.verifier.algorithms == ("EdDSA", "RS256")
    assert (found.enabled, found.policy, found.verifier.cache_ttl_seconds) == (True, "reject", 60)


# --- the policy


@pytest.mark.parametrize(
    "text", ["reject", "REJECT", "Accept-Cached", "accept_cached", "ACCEPT_SELF_REPORTED", "accept-self_reported"]
)
def test_a_policy_may_be_spelled_in_several_ways(tmp_path: Path, text: str) -> None:
    expected = text.lower().replace("_", "-")
    written = f"actor_authentication: {{degraded_mode_policy: {text}}}"
    assert load(tmp_path, written).settings.actor_authentication.policy == expected
    assert load(tmp_path, "", DEGRADED_MODE_POLICY=text).settings.actor_authentication.policy == expected


@pytest.mark.parametrize("text", ["", "rejected", "accept", "accept cached", "off", "true", " reject", "reject\n"])
def test_any_other_policy_stops_the_start(tmp_path: Path, text: str) -> None:
    allowed = "must be one of accept-cached, accept-self-reported, reject"
    written = msgspec.json.encode({"actor_authentication": {"degraded_mode_policy": text}}).decode()
    (said,) = problems(tmp_path, written)
    assert f"fleet.yaml:1: actor_authentication.degraded_mode_policy {allowed}" in said
    (said,) = problems(tmp_path, "", DEGRADED_MODE_POLICY=text)
    assert said.startswith(f"environment DEGRADED_MODE_POLICY: actor_authentication.degraded_mode_policy {allowed}")
    (said,) = problems(tmp_path, "", **{PREFIX + "DEGRADED_MODE_POLICY": text})
    assert said.startswith(f"environment {PREFIX}DEGRADED_MODE_POLICY: ")


@pytest.mark.parametrize("variable", ["DEGRADED_MODE_POLICY", PREFIX + "DEGRADED_MODE_POLICY"])
def test_the_environment_wins_over_the_file(tmp_path: Path, variable: str) -> None:
    written = "actor_authentication: {degraded_mode_policy: reject}"
    loaded = load(tmp_path, written, **{variable: "accept-self-reported"})
    assert loaded.settings.actor_authentication.policy == "accept-self-reported"
    assert loaded.sources["actor_authentication.degraded_mode_policy"] == f"environment {variable}"


def test_overridden_values_are_still_checked(tmp_path: Path) -> None:
    written = "actor_authentication: {degraded_mode_policy: rejekt}"
    assert "must be one of" in problems(tmp_path, written, DEGRADED_MODE_POLICY="reject")[0]


def test_conflicting_variables_are_rejected(tmp_path: Path) -> None:
    twin = PREFIX + "DEGRADED_MODE_POLICY"
    agreed = load(tmp_path, "", **{"DEGRADED_MODE_POLICY": "reject", twin: "reject"})
    assert agreed.settings.actor_authentication.policy == "reject"
    (said,) = problems(tmp_path, "", **{"DEGRADED_MODE_POLICY": "reject", twin: "accept-cached"})
    assert "DEGRADED_MODE_POLICY" in said
    assert "say different things" in said


# --- the verifier


@pytest.mark.parametrize(
    ("verifier", "said"),
    [
        ({"type": "jwt"}, "verifier.type must be one of noop, jwks"),
        ({"type": "JWKS"}, "verifier.type must be one of noop, jwks"),
        ({"type": None}, "verifier.type must be one of noop, jwks"),
        ({"type": "jwks"}, "keys must come from somewhere: give one or more of oidc_discovery, jwks_uri, jwks_path"),
        ({"type": "jwks", "algorithms": ["EdDSA"]}, "keys must come from somewhere"),
        ({**SOUND, "algorithms": []}, "verifier.algorithms is needed with type jwks"),
        ({"type": "jwks", "jwks_uri": "https://id.example/jwks"}, "verifier.algorithms is needed with type jwks"),
        ({**SOUND, "algorithms": ["HS256"]}, "one of EdDSA, ES256, ES384, ES512, RS256, RS384, RS512"),
        ({**SOUND, "algorithms": ["EdDSA", "none"]}, "one of EdDSA, ES256, ES384, ES512, RS256, RS384, RS512"),
        ({**SOUND, "algorithms": ["eddsa"]}, "one of EdDSA"),
        ({**SOUND, "algorithms": "EdDSA"}, "must be a list"),
        ({**SOUND, "jwks_uri": "id.example/jwks"}, "empty or an https:// (or http://) URL"),
        ({**SOUND, "jwks_uri": "file:///etc/passwd"}, "empty or an https:// (or http://) URL"),
        ({**SOUND, "jwks_uri": "https://user:secret@id.example/jwks"}, "without a user name"),
        ({**SOUND, "jwks_uri": "https://id.example/a b"}, "empty or an https:// (or http://) URL"),
        ({**SOUND, "oidc_discovery": "https://id.example/#x"}, "empty or an https:// (or http://) URL"),
        ({**SOUND, "cache_ttl_seconds": 0}, "an integer from 1 to 86400"),
        ({**SOUND, "cache_ttl_seconds": "5m"}, "an integer from 1 to 86400"),
        ({**SOUND, "stale_on_error": "yes"}, "true or false"),
        ({**SOUND, "require_sub_match": 1}, "true or false"),
        ({**SOUND, "jwks_url": "https://id.example"}, "did you mean 'actor_authentication.verifier.jwks_uri'"),
        ({**SOUND, "did_allowlist": ["did:web:a.example"]}, "did_allowlist cannot be together with jwks_uri"),
        ({**SOUND, "did_pattern": "did:web:a.example:*"}, "did_pattern cannot be together with jwks_uri"),
        ({"did_allowlist": ["did:key:z6Mk"]}, "a did:web identifier"),
        ({"did_allowlist": ["did:web:a.example:*"]}, "a did:web identifier"),
        ({"did_pattern": "did:web:*"}, "must name a host"),
        ({"did_pattern": "did:web:*:agents"}, "must name a host"),
        ({"did_pattern": "did:web:a*.*:agents"}, "must name a host"),
        ({"did_pattern": "did:web:a.example:**"}, "must be a did:web identifier in which '*' stands for"),
        ({"did_pattern": "did:web:a.example/x"}, "must name a host"),
        ({"did_pattern": "https://a.example/*"}, "must be a did:web identifier in which"),
    ],
)  # fmt: skip
def test_a_wrong_verifier_stops_the_start(tmp_path: Path, verifier: dict[str, Any], said: str) -> None:
    found = refused(tmp_path, **verifier)
    assert said in found
    assert "fleet.yaml:1: " in found


@pytest.mark.parametrize(
    "verifier",
    [
        {"jwks_uri": "https://id.example/jwks"},
        {"jwks_path": "keys.json", "algorithms": ["EdDSA"]},
        {"did_pattern": "did:web:a.example:*"},
    ],
)
def test_unused_keys_stop_the_start(tmp_path: Path, verifier: dict[str, Any]) -> None:
    assert "verifier.type is missing beside" in refused(tmp_path, **verifier)
    assert section(tmp_path, **verifier, type="noop").verifier.type == "noop"  # said in so many words


@pytest.mark.parametrize(
    "pattern", ["did:web:a.example:*", "did:web:*.a.example:x:*", "did:web:a.example%3A8443:*", "did:web:a.example%3A*"]
)
def test_patterns_that_name_a_host(tmp_path: Path, pattern: str) -> None:
    found = section(tmp_path, type="jwks", did_pattern=pattern, algorithms=["EdDSA"])
    assert found.verifier.sources == ("did_pattern",)


@pytest.mark.parametrize(
    "text", ["actor_authentication: []", "actor_authentication: {verifier: jwks}", "actor_authentication: true"]
)
def test_a_section_that_is_no_mapping_stops_the_start(tmp_path: Path, text: str) -> None:
    assert "must be a mapping" in problems(tmp_path, text)[0]


def test_the_old_name_of_the_section_stops_the_start(tmp_path: Path) -> None:
    assert "now called 'actor_authentication'" in problems(tmp_path, "auditing: {enabled: true}")[0]


def test_every_setting_has_a_variable(tmp_path: Path) -> None:
    env = {
        PREFIX + "ENABLED": "true",
        PREFIX + "VERIFIER_TYPE": "jwks",
        PREFIX + "VERIFIER_JWKS_URI": "https://id.example/jwks",
        PREFIX + "VERIFIER_ALGORITHMS": "EdDSA, RS256",
        PREFIX + "VERIFIER_STALE_ON_ERROR": "false",
    }
    found = load(tmp_path, "", **env).settings.actor_authentication
    assert (found.enabled, found.verifier.algorithms, found.verifier.stale_on_error) == (
        True,
        ("EdDSA", "RS256"),
        False,
    )


def test_a_key_file_is_found_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = {"type": "jwks", "jwks_path": "keys/jwks.json", "algorithms": ["EdDSA"]}
    beside = str(tmp_path / "keys" / "jwks.json")
    assert section(tmp_path, **verifier).verifier.jwks_path == beside
    assert section(tmp_path, {"AGENT_CONFIG_DIR": "/agents"}, **verifier).verifier.jwks_path == "/agents/keys/jwks.json"
    absolute = section(tmp_path, {"AGENT_CONFIG_DIR": "/agents"}, **{**verifier, "jwks_path": "/etc/jwks.json"})
    assert absolute.verifier.jwks_path == "/etc/jwks.json"
    monkeypatch.chdir("/")
    env = {PREFIX + "VERIFIER_JWKS_PATH": "keys/jwks.json"}
    rest = {name: value for name, value in verifier.items() if name != "jwks_path"}
    assert section(tmp_path, env, **rest).verifier.jwks_path == "/keys/jwks.json"


def test_all_of_it_takes_effect_without_a_restart() -> None:
    fresh = msgspec.structs.replace(
        Settings(),
        actor_authentication=ActorAuthentication(
            enabled=True,
            degraded_mode_policy="reject",
            verifier=msgspec.convert({**SOUND, "issuer": "https://id.example"}, VerifierSettings),
        ),
    )
    assert needing_restart(Settings(), fresh) == ()
    assert taken_over(Settings(), fresh) == fresh


@given(st.text() | st.sampled_from(POLICIES) | st.from_regex(r"(?i)(accept[-_]cached|reject|accept)x?", fullmatch=True))
def test_accepted_spellings_of_policies_are_policies(text: str) -> None:
    try:
        found = msgspec.convert({"degraded_mode_policy": text}, ActorAuthentication)
    except msgspec.ValidationError:
        assert text.lower().replace("_", "-") not in POLICIES
    else:
        assert found.policy == text.lower().replace("_", "-")
