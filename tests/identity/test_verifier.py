"""Verification with keys from a real key server: every status, and attacks of RFC 8725."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jwt.algorithms import HMACAlgorithm

from coordinator.identity.callers.credentials import source_of
from coordinator.identity.keys.resolvers import MOST_TRIED
from coordinator.identity.keys.sources import JwksPath, SourceFailed
from coordinator.identity.verifier import Outcome
from coordinator.identity.verifiers.jwks import JwksVerifier
from coordinator.identity.verifiers.noop import NoopVerifier
from coordinator.settings.sections.identity import VerifierSettings
from tests.identity.conftest import MakeVerifier
from tests.identity.servers import KeyServer
from tests.identity.signing import ALGORITHMS, AUDIENCE, ISSUER, Json, Signer, encoded, jwks, plain

pytestmark = pytest.mark.anyio

GOOD = Signer()
STRANGER = Signer("key-1", number=1)
"""Another signer, whose key has the same name."""
RSA = Signer("rsa", "RS256")


@pytest.fixture
def verifier(one_key_server: KeyServer, make_verifier: MakeVerifier) -> JwksVerifier:
    one_key_server.serve(jwks(GOOD, RSA))
    return make_verifier(one_key_server.url())


def said(outcome: Outcome) -> tuple[str, str | None]:
    return outcome.status, outcome.failure


# --- valid tokens


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_every_listed_algorithm_verifies(
    one_key_server: KeyServer, make_verifier: MakeVerifier, algorithm: str
) -> None:
    signer = Signer("k", algorithm)
    one_key_server.serve(jwks(signer))
    ends = int(time.time()) + 3_600
    token = signer.token("somebody", exp=ends, roles=["a"])
    outcome = await make_verifier(one_key_server.url()).verify(token)
    assert outcome == Outcome(
        status="verified",
        verifier="jwks",
        subject="somebody",
        claims={"sub": "somebody", "iss": ISSUER, "aud": AUDIENCE, "exp": ends, "roles": ["a"]},
        expires=ends + 60.0,
        source=outcome.source,
    )
    assert outcome.source == source_of(VerifierSettings(jwks_uri=one_key_server.url()), "jwks_uri")
    assert outcome.metadata == {}


async def test_a_token_ends_within_a_day(verifier: JwksVerifier) -> None:
    for exp, reason in ((None, "has no expiry"), (int(time.time()) + 90_000, "more than 86400 seconds")):
        outcome = await verifier.verify(GOOD.token(exp=exp))
        assert said(outcome) == ("rejected", "claims")
        assert reason in outcome.reason


async def test_a_token_without_subject_identifies_nobody(verifier: JwksVerifier) -> None:
    outcome = await verifier.verify(GOOD.token(None))
    assert (outcome.status, outcome.subject) == ("verified", "")


@pytest.mark.parametrize("token", [None, "", " ", "\n\t "])
async def test_no_token_is_absent(verifier: JwksVerifier, token: str | None) -> None:
    outcome = await verifier.verify(token)
    assert (said(outcome), outcome.reason, outcome.metadata) == (("absent", None), "", {})


async def test_noop_checks_nothing() -> None:
    for token in (None, "", "garbage", GOOD.token()):
        assert await NoopVerifier().verify(token) == Outcome(status="unchecked", verifier="noop")


# --- invalid tokens


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1_000_000_000}, "has expired"),
        ({"nbf": 4_000_000_000}, "not valid yet"),
        ({"iat": 4_000_000_000}, "issued in the future"),
        ({"iss": "https://other.example"}, "expected issuer"),
        ({"iss": None}, "expected issuer"),
        ({"aud": "other"}, "expected audience"),
        ({"aud": ["other", "others"]}, "expected audience"),
        ({"aud": None}, "expected audience"),
        ({"exp": "soon"}, "not a time"),
    ],
)
async def test_bad_claims_are_rejected(verifier: JwksVerifier, claims: Json, reason: str) -> None:
    outcome = await verifier.verify(GOOD.token(**claims))
    assert said(outcome) == ("rejected", "claims")
    assert reason in outcome.reason
    assert outcome.metadata == {"failureKind": "claims"}
    assert (outcome.subject, outcome.claims, outcome.expires) == ("", {}, None)


EDGES = [
    ("exp", -59, True),
    ("exp", -60, True),
    ("exp", -61, False),
    ("nbf", 59, True),
    ("nbf", 60, True),
    ("nbf", 61, False),
    ("iat", 60, True),
    ("iat", 61, False),
]


@pytest.mark.parametrize(("name", "seconds", "good"), EDGES)
async def test_clocks_may_differ_by_a_minute(
    verifier: JwksVerifier, monkeypatch: pytest.MonkeyPatch, name: str, seconds: int, good: bool
) -> None:
    now = int(time.time())
    monkeypatch.setattr(verifier.clock, "now", lambda: float(now))
    times: Json = {"exp": now + 600, name: now + seconds}
    token = GOOD.token(**times)
    for _ in range(2):  # the second time from the cache
        assert said(await verifier.verify(token)) == (("verified", None) if good else ("rejected", "claims"))


async def test_only_a_few_of_many_keys_with_one_name_are_tried(
    one_key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    """Otherwise each made-up token would cost as many verifications as there are keys in the set."""
    same = [Signer("same", number=number) for number in range(MOST_TRIED + 1)]
    one_key_server.serve(jwks(*same))
    verifier = make_verifier(one_key_server.url())
    assert said(await verifier.verify(same[-2].token())) == ("verified", None)
    assert said(await verifier.verify(same[-1].token())) == ("rejected", "crypto")


async def test_the_algorithm_of_ed25519_has_two_names(one_key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    fresh = {**GOOD.jwk, "alg": "Ed25519"}
    for published in (GOOD.jwk, fresh):
        one_key_server.serve({"keys": [published, RSA.jwk]})
        verifier = make_verifier(one_key_server.url())
        for name in ("EdDSA", "Ed25519"):
            assert said(await verifier.verify(GOOD.token(head={"alg": name}))) == ("verified", None)
            assert said(await verifier.verify(STRANGER.token(head={"alg": name}))) == ("rejected", "crypto")
        assert said(await verifier.verify(RSA.token(head={"alg": "Ed25519"}))) == ("rejected", "crypto")
        assert said(await verifier.verify(GOOD.token(head={"alg": "ed25519"}))) == ("rejected", "policy")
    verifier = make_verifier(one_key_server.url(), algorithms=["RS256"])
    assert said(await verifier.verify(GOOD.token(head={"alg": "Ed25519"}))) == ("rejected", "policy")


async def test_a_signature_by_another_key_is_rejected(verifier: JwksVerifier) -> None:
    outcome = await verifier.verify(STRANGER.token())
    assert (said(outcome), outcome.reason) == (("rejected", "crypto"), "the signature of the token is wrong")


async def test_an_unknown_key_is_bad(verifier: JwksVerifier) -> None:
    assert said(await verifier.verify(Signer("key-2").token())) == ("rejected", "crypto")


async def test_an_algorithm_that_is_not_listed_is_refused(
    one_key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    one_key_server.serve(jwks(GOOD, RSA))
    verifier = make_verifier(one_key_server.url(), algorithms=["EdDSA"])
    assert said(await verifier.verify(RSA.token())) == ("rejected", "policy")
    assert said(await verifier.verify(GOOD.token())) == ("verified", None)


async def test_changed_claims_are_refused(verifier: JwksVerifier) -> None:
    head, _, signature = GOOD.token("agent").split(".")
    for subject in ("admin", "agent "):
        _, claims, _ = STRANGER.token(subject).split(".")
        assert said(await verifier.verify(f"{head}.{claims}.{signature}")) == ("rejected", "crypto")


# --- attacks


@pytest.mark.parametrize("name", ["none", "None", "nOnE"])
async def test_no_signature_at_all(verifier: JwksVerifier, name: str) -> None:
    _, claims, signature = GOOD.token().split(".")
    for tail in ("", signature):
        token = f"{encoded({'alg': name, 'kid': 'key-1'})}.{claims}.{tail}"
        assert said(await verifier.verify(token)) == ("rejected", "crypto")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_the_public_key_as_a_shared_secret(verifier: JwksVerifier, algorithm: str) -> None:
    hmac = HMACAlgorithm(getattr(HMACAlgorithm, f"SHA{algorithm[2:]}"))
    for secret in (RSA.pem, RSA.pem.strip(), json.dumps(RSA.jwk).encode(), RSA.jwk["n"].encode(), b""):
        signed = f"{encoded({'alg': algorithm, 'kid': 'rsa'})}.{RSA.token().split('.')[1]}"
        token = f"{signed}.{plain(hmac.sign(signed.encode(), secret))}"
        assert said(await verifier.verify(token)) == ("rejected", "policy")


async def test_a_key_that_the_token_brings_along(verifier: JwksVerifier, one_key_server: KeyServer) -> None:
    one_key_server.serve(jwks(STRANGER), "/evil")
    evil = one_key_server.url("/evil")
    for head in (
        {"jwk": STRANGER.jwk},
        {"jku": evil},
        {"x5u": evil},
        {"x5c": ["AAAA"]},
        {"jwk": STRANGER.jwk, "kid": None},
    ):
        assert (await verifier.verify(STRANGER.token(head=head))).status == "rejected"
    assert one_key_server.count("/evil") == 0


@pytest.mark.parametrize(
    "kid",
    ["../../etc/passwd", "/dev/null", "key-1\x00", "key-1' OR '1'='1", "fc:{!fleet}:jk:x", "%6bey-1", "KEY-1", " key-1",
     "http://evil.example/jwks", "a\r\nSET x y", "k" * 128],
)  # fmt: skip
async def test_key_names_with_special_characters(verifier: JwksVerifier, kid: str) -> None:
    outcome = await verifier.verify(GOOD.token(head={"kid": kid}))
    assert said(outcome) == ("rejected", "crypto")
    assert kid not in outcome.reason


@pytest.mark.parametrize("kind", ["dpop+jwt", "JWE", "secevent+jwt"])
async def test_a_token_of_another_kind(verifier: JwksVerifier, kind: str) -> None:
    assert said(await verifier.verify(GOOD.token(head={"typ": kind}))) == ("rejected", "policy")


async def test_an_access_token_is_one_for_us(verifier: JwksVerifier) -> None:
    assert said(await verifier.verify(GOOD.token(head={"typ": "at+jwt"}))) == ("verified", None)


@pytest.mark.parametrize(
    ("head", "claims"),
    [
        ('{"alg":"EdDSA","kid":"key-1"}', '{"sub":"agent","aud":"fleet","iss":"%s","sub":"admin"}'),
        ('{"alg":"EdDSA","kid":"key-1"}', '{"sub":"agent","aud":"other","aud":"fleet","iss":"%s"}'),
        ('{"alg":"none","kid":"key-1","alg":"EdDSA"}', '{"sub":"agent","aud":"fleet","iss":"%s"}'),
    ],
)
async def test_duplicate_members_are_rejected(verifier: JwksVerifier, head: str, claims: str) -> None:
    assert said(await verifier.verify(GOOD.sign(head, claims % ISSUER))) == ("rejected", "crypto")


async def test_huge_tokens(verifier: JwksVerifier) -> None:
    began = time.perf_counter()
    for token in (GOOD.token(pad="x" * 20_000), "a" * 1_000_000, "." * 1_000_000, f"{'A' * 400_000}." * 3):
        assert said(await verifier.verify(token)) == ("rejected", "crypto")
    assert time.perf_counter() - began < 60.0


@pytest.mark.parametrize("head", [{"crit": ["exp"]}, {"crit": ["b64"], "b64": False}, {"zip": "DEF", "crit": ["zip"]}])
async def test_extensions_that_change_what_is_signed(verifier: JwksVerifier, head: Json) -> None:
    assert said(await verifier.verify(GOOD.token(head=head))) == ("rejected", "crypto")


async def test_a_signature_of_the_wrong_shape(verifier: JwksVerifier) -> None:
    head, claims, signature = GOOD.token().split(".")
    for other in ("AA", "A" * 86 + "AA", plain(b"\0" * 64), plain(b"\xff" * 64), plain(b"x" * 500)):
        assert said(await verifier.verify(f"{head}.{claims}.{other}")) == ("rejected", "crypto")
    assert signature


async def test_a_key_of_another_type_under_the_same_name(
    one_key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    one_key_server.serve(jwks(Signer("k", "RS256")))
    verifier = make_verifier(one_key_server.url())
    outcome = await verifier.verify(Signer("k", "ES256").token())
    assert (said(outcome), outcome.reason) == (
        ("rejected", "crypto"),
        "the key that the token names is for another algorithm",
    )


async def test_a_key_for_encryption_verifies_nothing(one_key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    one_key_server.serve({"keys": [{**GOOD.jwk, "use": "enc"}, RSA.jwk]})
    assert said(await make_verifier(one_key_server.url()).verify(GOOD.token())) == ("rejected", "crypto")


async def test_cached_outcomes_apply_to_one_token_only(verifier: JwksVerifier) -> None:
    good = GOOD.token()
    for _ in range(3):
        assert said(await verifier.verify(good)) == ("verified", None)
        assert said(await verifier.verify(good + "A")) == ("rejected", "crypto")
        assert said(await verifier.verify(good[:-1])) == ("rejected", "crypto")
        assert said(await verifier.verify(" " + good)) == ("rejected", "crypto")


async def test_a_verified_token_ends_when_it_expires(verifier: JwksVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    start = int(time.time())
    token = GOOD.token(exp=start + 10)
    for later, good in ((0, True), (69, True), (71, False)):
        now = float(start + later)
        monkeypatch.setattr(verifier.clock, "now", lambda now=now: now)
        assert said(await verifier.verify(token)) == (("verified", None) if good else ("rejected", "claims"))


async def test_a_verified_token_has_not_begun_when_the_clock_is_set_back(
    verifier: JwksVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = int(time.time())
    token = GOOD.token(nbf=start, exp=start + 1_000)
    for earlier, good in ((0, True), (59, True), (61, False)):
        now = float(start - earlier)
        monkeypatch.setattr(verifier.clock, "now", lambda now=now: now)
        assert said(await verifier.verify(token)) == (("verified", None) if good else ("rejected", "claims"))


# --- tokens that name no key


async def test_a_token_without_kid_uses_the_only_key_that_suits(verifier: JwksVerifier) -> None:
    assert said(await verifier.verify(Signer(None).token())) == ("verified", None)
    assert said(await verifier.verify(Signer(None, "RS256").token())) == ("verified", None)
    assert said(await verifier.verify(Signer(None, "ES256").token())) == ("rejected", "crypto")


async def test_a_token_without_kid_is_refused_if_several_keys_suit(
    one_key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    one_key_server.serve(jwks(GOOD, Signer("key-2", number=1)))
    assert said(await make_verifier(one_key_server.url()).verify(Signer(None).token())) == ("rejected", "crypto")


# --- where keys come from


async def test_keys_from_a_file(make_verifier: MakeVerifier, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks(GOOD)))
    verifier = make_verifier(jwks_path=str(file))
    assert said(await verifier.verify(GOOD.token())) == ("verified", None)


async def test_a_file_that_changes_is_read_again(make_verifier: MakeVerifier, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks(GOOD)))
    verifier = make_verifier(jwks_path=str(file), cooldown=0)
    assert said(await verifier.verify(GOOD.token())) == ("verified", None)
    file.write_text(json.dumps(jwks(RSA)))
    assert said(await verifier.verify(RSA.token())) == ("verified", None)
    assert said(await verifier.verify(GOOD.token())) == ("rejected", "crypto")


@pytest.mark.parametrize("content", [None, "", "{}", '{"keys": []}', "x" * 2_000_000])
async def test_a_file_without_keys(make_verifier: MakeVerifier, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "jwks.json"
    if content is not None:
        file.write_text(content)
    outcome = await make_verifier(jwks_path=str(file)).verify(GOOD.token())
    assert said(outcome) == ("unavailable", "network")
    assert outcome.reason.startswith("the key file ")
    assert str(tmp_path) not in outcome.reason


async def test_a_path_that_is_no_file_is_rejected(make_verifier: MakeVerifier, tmp_path: Path) -> None:
    assert said(await make_verifier(jwks_path=str(tmp_path)).verify(GOOD.token())) == ("unavailable", "network")
    assert said(await make_verifier(jwks_path="/dev/zero").verify(GOOD.token())) == ("unavailable", "network")


async def test_checking_a_non_file_leaks_no_descriptor(tmp_path: Path) -> None:
    source, before = JwksPath(str(tmp_path)), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(SourceFailed, match="Is a directory"):
            await source.load()
    assert len(os.listdir("/proc/self/fd")) <= before  # other threads of this process may close theirs meanwhile


def discovery(server: KeyServer, path: str = "/jwks", issuer: Any = ISSUER) -> Json:
    return {"issuer": issuer, "jwks_uri": server.url(path)}


async def test_keys_and_issuer_from_a_discovery_document(key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    key_server.serve(discovery(key_server), "/openid")
    key_server.serve(jwks(GOOD))
    verifier = make_verifier(oidc_discovery=key_server.url("/openid"), issuer="")
    assert said(await verifier.verify(GOOD.token())) == ("verified", None)
    assert said(await verifier.verify(GOOD.token(iss="https://other.example"))) == ("rejected", "claims")


async def test_a_token_that_was_verified_is_refused_once_its_issuer_is_another(
    key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    key_server.serve(discovery(key_server), "/openid")
    key_server.serve(jwks(GOOD))
    verifier = make_verifier(oidc_discovery=key_server.url("/openid"), issuer="", cooldown=0)
    token = GOOD.token()
    assert said(await verifier.verify(token)) == ("verified", None)
    # Discovery is repeated after a failure.
    unknown = Signer("key-2", number=1).token()
    key_server.serve("", status=410)
    assert said(await verifier.verify(unknown)) == ("unavailable", "network")
    key_server.serve(discovery(key_server, issuer="https://other.example"), "/openid")
    key_server.serve(jwks(GOOD))
    assert said(await verifier.verify(unknown)) == ("rejected", "crypto")
    assert said(await verifier.verify(token)) == ("rejected", "claims")
    assert said(await verifier.verify(GOOD.token(iss="https://other.example"))) == ("verified", None)


async def test_explicit_values_win_over_discovered_ones(key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    key_server.serve(discovery(key_server, "/discovered", "https://discovered.example"), "/openid")
    key_server.serve(jwks(STRANGER), "/discovered")
    key_server.serve(jwks(GOOD))
    openid = key_server.url("/openid")
    both = make_verifier(key_server.url(), oidc_discovery=openid)
    assert said(await both.verify(GOOD.token())) == ("verified", None)
    assert said(await both.verify(STRANGER.token())) == ("rejected", "crypto")
    assert key_server.count("/openid") == key_server.count("/discovered") == 0
    only_keys = make_verifier(key_server.url(), oidc_discovery=openid, issuer="")
    assert said(await only_keys.verify(GOOD.token(iss="https://discovered.example"))) == ("verified", None)
    assert said(await only_keys.verify(GOOD.token())) == ("rejected", "claims")
    assert key_server.count("/discovered") == 0
    only_issuer = make_verifier(oidc_discovery=openid)
    assert said(await only_issuer.verify(STRANGER.token())) == ("verified", None)
    assert said(await only_issuer.verify(STRANGER.token(iss="https://discovered.example"))) == ("rejected", "claims")


async def test_an_issuer_that_is_not_known_yet_is_not_any_issuer(
    key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    key_server.serve(jwks(GOOD))
    key_server.serve("", "/openid", status=503)
    verifier = make_verifier(key_server.url(), oidc_discovery=key_server.url("/openid"), issuer="", cooldown=0)
    assert said(await verifier.verify(GOOD.token())) == ("unavailable", "network")
    key_server.serve(discovery(key_server), "/openid")
    assert said(await verifier.verify(GOOD.token())) == ("verified", None)


@pytest.mark.parametrize(
    "document",
    [{}, [], {"issuer": ISSUER}, {"jwks_uri": "https://a.example"}, {"issuer": "", "jwks_uri": "https://a.example"},
     {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"}, {"issuer": ISSUER, "jwks_uri": 5},
     {"issuer": 5, "jwks_uri": "https://a.example"}, {"issuer": ISSUER, "jwks_uri": "ftp://a.example/jwks"}],
)  # fmt: skip
async def test_unusable_discovery_documents_are_rejected(
    one_key_server: KeyServer, make_verifier: MakeVerifier, document: Any
) -> None:
    one_key_server.serve(document, "/openid")
    verifier = make_verifier(oidc_discovery=one_key_server.url("/openid"), issuer="")
    assert said(await verifier.verify(GOOD.token())) == ("unavailable", "network")


async def test_keys_of_all_sources_count(key_server: KeyServer, make_verifier: MakeVerifier, tmp_path: Path) -> None:
    local, remote, discovered = Signer("local", number=2), Signer("remote", number=3), Signer("discovered", number=4)
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks(local)))
    key_server.serve(jwks(remote))
    key_server.serve(jwks(discovered), "/discovered")
    key_server.serve(discovery(key_server, "/discovered"), "/openid")
    openid = key_server.url("/openid")
    for verifier, signers in (
        (make_verifier(key_server.url(), jwks_path=str(file)), [local, remote]),
        (make_verifier(jwks_path=str(file), oidc_discovery=openid), [local, discovered]),
    ):
        for signer in signers:
            assert said(await verifier.verify(signer.token())) == ("verified", None)
        assert said(await verifier.verify(Signer("nobody").token())) == ("rejected", "crypto")


async def test_a_source_that_is_down_does_not_affect_the_others(
    key_server: KeyServer, make_verifier: MakeVerifier, tmp_path: Path
) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks(GOOD)))
    key_server.serve("", status=500)
    verifier = make_verifier(key_server.url(), jwks_path=str(file))
    outcome = await verifier.verify(GOOD.token())
    assert (said(outcome), outcome.metadata) == (("verified", None), {})
    # A missing key might be among those that cannot be fetched.
    assert said(await verifier.verify(Signer("key-2").token())) == ("unavailable", "network")


# --- anything else


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10_000), to=st.characters(max_codepoint=127))
async def test_a_token_with_one_changed_character_never_verifies(verifier: JwksVerifier, at: int, to: str) -> None:
    token = GOOD.token(exp=int(time.time()) + 3_600)
    at %= len(token)
    changed = token[:at] + to + token[at + 1 :]
    outcome = await verifier.verify(changed)
    assert (outcome.status == "verified") is (changed == token)
    assert outcome.failure != "internal"
