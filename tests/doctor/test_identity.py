"""``fleet doctor identity``: its checks, its findings, and what it must not print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator import cli
from coordinator.identity.keys import fetch
from tests.identity.servers import KeyServer
from tests.identity.signing import AUDIENCE, ISSUER, Json, Signer, jwks
from tests.support.fleets import PATIENT
from tests.support.ports import free_port
from tests.support.web import silent

GOOD = Signer()
Out = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def key_server() -> Iterator[KeyServer]:
    with KeyServer() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FLEET_REDIS_URL", "FLEET_CONFIG", "DEGRADED_MODE_POLICY", "AGENT_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLEET_DATA_DIR", str(tmp_path / "data"))
    for name, value in PATIENT.items():
        monkeypatch.setenv(name, value)


def examined(
    tmp_path: Path, capsys: Out, *arguments: str, policy: str = "reject", **verifier: Any
) -> tuple[int, list[Json]]:
    """The exit code and the findings."""
    settings = {"type": "jwks", "algorithms": ["EdDSA"], "issuer": ISSUER, "audience": AUDIENCE, **verifier}
    section = {"degraded_mode_policy": policy, "verifier": settings}
    file = tmp_path / "fleet.yaml"
    file.write_text(json.dumps({"actor_authentication": section}))
    code = cli.run(["doctor", "identity", "--config", str(file), "--format", "json", *arguments])
    told = capsys.readouterr()
    assert told.err == ""
    return code, json.loads(told.out)


def about(findings: list[Json], subject: str) -> list[Json]:
    return [one for one in findings if one["what"].startswith(subject)]


def test_sources_that_work(key_server: KeyServer, tmp_path: Path, capsys: Out) -> None:
    key_server.serve(jwks(GOOD))
    key_server.serve({"issuer": ISSUER, "jwks_uri": key_server.url()}, "/openid")
    (tmp_path / "keys.json").write_text(json.dumps(jwks(Signer("local", number=1))))
    code, findings = examined(
        tmp_path, capsys, jwks_path="keys.json", oidc_discovery=key_server.url("/openid"), issuer=""
    )
    assert code == 0
    (found,) = about(findings, "oidc_discovery")
    assert found["said"].startswith(f"1 key (key-1) of {ISSUER}, in ")
    (found,) = about(findings, "jwks_path")
    assert found["said"].startswith("1 key (local), in ")


@pytest.mark.parametrize(
    ("route", "text", "advice"),
    [
        ({"status": 404}, "status 404", "check the path"),
        ({"status": 301, "headers": {"location": "/x"}}, "redirects are not followed", "configure the address"),
        ({"type": "text/html"}, "content type other than application/json or application/jwk-set+json", ""),
        ({"body": '{"keys": []}'}, "without a usable key", "usable are keys of RSA"),
    ],
)  # fmt: skip
def test_a_source_that_fails_is_explained(
    key_server: KeyServer, tmp_path: Path, capsys: Out, route: Json, text: str, advice: str
) -> None:
    key_server.serve(jwks(GOOD))
    key_server.misbehave("answer", **route)
    code, findings = examined(tmp_path, capsys, jwks_uri=key_server.url())
    assert code == 1
    (found,) = about(findings, "jwks_uri")
    assert found["verdict"] == "fails"
    assert text in found["said"]
    assert advice in found.get("advice", "")


def test_a_server_that_cannot_be_reached_is_explained(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, findings = examined(tmp_path, capsys, jwks_uri="http://keys.invalid/jwks")
    (found,) = about(findings, "jwks_uri")
    assert found["said"] == "the key server cannot be connected to (its name does not resolve)"
    assert found["advice"].startswith("check the host name")
    monkeypatch.setattr(fetch, "CONNECT_SECONDS", 0.2)
    port = free_port()
    with silent("127.0.0.1", port):
        _, findings = examined(tmp_path, capsys, jwks_uri=f"http://127.0.0.1:{port}/jwks")
    (found,) = about(findings, "jwks_uri")
    assert found["said"].startswith("the key server cannot be connected to within")
    assert found["advice"].startswith("is a firewall in between?")


def test_keys_without_an_accepted_algorithm_warn(key_server: KeyServer, tmp_path: Path, capsys: Out) -> None:
    key_server.serve(jwks(Signer("rsa", "RS256")))
    code, findings = examined(tmp_path, capsys, jwks_uri=key_server.url())
    assert code == 1
    assert [found["verdict"] for found in about(findings, "jwks_uri")] == ["ok", "fails"]


def test_a_clock_that_differs(key_server: KeyServer, tmp_path: Path, capsys: Out) -> None:
    key_server.serve(jwks(GOOD), headers={"date": "Sun, 06 Nov 1994 08:49:37 GMT"})
    key_server.misbehave("answer", headers={"date": "Sun, 06 Nov 1994 08:49:37 GMT"})
    _, findings = examined(tmp_path, capsys, jwks_uri=key_server.url())
    assert "its clock differs" in about(findings, "jwks_uri")[1]["said"]


def test_a_token_is_judged_and_not_printed(key_server: KeyServer, tmp_path: Path, capsys: Out, redis_url: str) -> None:
    key_server.serve(jwks(GOOD))
    file = tmp_path / "token"
    judged: list[Json] = []
    for subject, actor, code, verdicts in (
        ("agent", "", 0, ["note", "ok", "ok"]),
        ("agent", "other", 1, ["note", "ok", "fails"]),
    ):
        token = GOOD.token(subject)
        file.write_text(token + "\n")
        arguments = ["--token", str(file), "--redis-url", redis_url, *(["--actor", actor] if actor else [])]
        ended, findings = examined(tmp_path, capsys, *arguments, jwks_uri=key_server.url())
        judged = about(findings, "token") + about(findings, "policy")
        assert (ended, [found["verdict"] for found in judged]) == (code, verdicts)
        assert token.rpartition(".")[2] not in json.dumps(findings)
    assert "accept" not in judged[-1]["said"]


def test_a_bad_token_fails(key_server: KeyServer, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    key_server.serve(jwks(GOOD))
    file = tmp_path / "token"
    file.write_text(Signer(number=1).token())
    code, findings = examined(tmp_path, capsys, "--token", str(file), jwks_uri=key_server.url())
    assert code == 1
    assert about(findings, "token")[-1]["said"] == "rejected/crypto: the signature of the token is wrong"
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        _, findings = examined(tmp_path, capsys, "--token", "-", jwks_uri=key_server.url())
    assert about(findings, "token")[-1]["said"] == "rejected/crypto: the signature of the token is wrong"


def test_a_missing_token_file_is_reported(tmp_path: Path, capsys: Out) -> None:
    assert cli.run(["doctor", "identity", "--token", str(tmp_path / "nothing")]) == 2
    assert "cannot read the token from" in capsys.readouterr().err


def test_did_issuers(tmp_path: Path, capsys: Out) -> None:
    did: Json = {"did_allowlist": ["did:web:localhost"], "did_pattern": "did:web:agents.invalid:*", "issuer": ""}
    code, findings = examined(tmp_path, capsys, "--issuer", "did:web:agents.invalid:a", **did)
    assert code == 1
    local, unknown = about(findings, "did ")
    assert local["said"] == "the issuer's host must be a public name, not an address"
    assert unknown["said"] == "the key server has a name that does not resolve"
    assert unknown["advice"].startswith("check the host name")


def test_a_fleet_without_verifier_has_nothing_to_try(tmp_path: Path, capsys: Out) -> None:
    code, findings = examined(tmp_path, capsys, type="noop", policy="accept-cached")
    assert code == 0
    assert about(findings, "actor_authentication.verifier")[0]["said"] == "is noop, so there is nothing to try"
    assert not about(findings, "did")
    _, findings = examined(tmp_path, capsys, "--issuer", "did:web:agents.invalid:a", type="noop")
    (said,) = about(findings, "did")
    assert (said["verdict"], "--issuer" in said["said"]) == ("warns", True)


def test_a_failure_without_advice_is_reported(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "keys.json").write_text('{"keys": 1}')
    code, findings = examined(tmp_path, capsys, jwks_path="keys.json")
    (found,) = about(findings, "jwks_path")
    assert (code, found["verdict"]) == (1, "fails")
    assert found["said"] == "the key file gave no key set: 'keys' is not a list"


def test_the_text_format_is_readable(key_server: KeyServer, tmp_path: Path, capsys: Out) -> None:
    key_server.serve("", status=404)
    examined(tmp_path, capsys, jwks_uri=key_server.url())
    cli.run(["doctor", "identity", "--config", str(tmp_path / "fleet.yaml")])
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(f"fails  jwks_uri {key_server.url()}: "))
    assert lines[at + 1] == "       check the path"
