"""Tokens of issuers that publish their keys in did:web documents, on a real server with TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from coordinator.identity.keys import fetch, resolvers, ssrf
from coordinator.identity.keys.cache import KeyCache
from coordinator.identity.keys.resolvers import DidKeyResolver
from coordinator.identity.verifier import Outcome
from coordinator.identity.verifiers.jwks import JwksVerifier
from coordinator.store import Store
from tests.identity.conftest import MakeVerifier, WaitLimit
from tests.identity.servers import KeyServer
from tests.identity.signing import Json, Signer
from tests.support.certificates import self_signed
from tests.support.wait import wait_until
from tests.support.web import silent

pytestmark = pytest.mark.anyio

ONE, TWO, STRANGER = Signer("one"), Signer("two", "ES256"), Signer("one", number=1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def site(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServer]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with KeyServer(certificate) as server:
        yield server


def did_of(site: KeyServer, *path: str) -> str:
    return ":".join((f"did:web:localhost%3A{site.port}", *path))


def publish(site: KeyServer, did: str, *signers: Signer, asserting: bool = True, **more: Any) -> None:
    methods = [
        {"id": f"{did}#{one.kid}", "controller": did, "type": "JsonWebKey", "publicKeyJwk": {**one.jwk, "kid": "own"}}
        for one in signers
    ]
    refs = [method["id"] for method in methods] if asserting else []
    path = "/".join(did.split(":")[3:]) or ".well-known"
    document = {"id": did, "verificationMethod": methods, "assertionMethod": refs, **more}
    site.serve(document, f"/{path}/did.json", type="application/did+json")


def trusting(make_verifier: MakeVerifier, *dids: str, store: Store | None = None, **more: Any) -> JwksVerifier:
    settings = {"did_allowlist": dids, "issuer": "", "did_allow_loopback": True, "cooldown": 0, **more}
    return make_verifier(store=store, **settings)


def said(outcome: Outcome) -> tuple[str, str | None]:
    return outcome.status, outcome.failure


def token(signer: Signer, did: str | None, kid: str | None = None, **claims: Any) -> str:
    head: Json = {} if kid is None else {"kid": kid}
    return signer.token(head=head, iss=did, **claims)


def leave_alone(verifier: JwksVerifier, did: str, seconds: float) -> KeyCache:
    """Backdates the last use of an issuer's keys."""
    resolver = verifier.resolver
    assert isinstance(resolver, DidKeyResolver)
    cache = resolver.known[did]
    assert cache.fetched is not None
    cache.fetched -= seconds
    cache.asked -= seconds
    return cache


async def with_another_key_since(
    site: KeyServer, make_verifier: MakeVerifier, seconds: float, known_token: bool
) -> tuple[JwksVerifier, KeyCache, str]:
    """One that knows a key which was replaced since, and was unused for so long; and a token of that old key.

    Args:
        known_token: whether the token was verified before.
    """
    did = did_of(site, "a")
    publish(site, did, ONE)
    verifier = trusting(make_verifier, did)
    presented = token(ONE, did)
    assert said(await verifier.verify(presented)) == ("verified", None)
    publish(site, did, TWO)
    cache = leave_alone(verifier, did, seconds)
    return verifier, cache, presented if known_token else token(ONE, did, jti="another")


async def test_keys_of_trusted_issuers_verify(site: KeyServer, make_verifier: MakeVerifier) -> None:
    root, worker = did_of(site), did_of(site, "agents", "worker")
    publish(site, root, ONE)
    publish(site, worker, TWO)
    verifier = trusting(make_verifier, root, worker)
    assert said(await verifier.verify(token(ONE, root))) == ("verified", None)
    for kid in ("two", "#two", f"{worker}#two"):
        assert said(await verifier.verify(token(TWO, worker, kid))) == ("verified", None)
    assert said(await verifier.verify(token(STRANGER, root))) == ("rejected", "crypto")
    assert verifier.report() == {"state": "ok", "issuers": 2, "sought": 0}


async def test_untrusted_issuers_are_not_contacted(site: KeyServer, make_verifier: MakeVerifier) -> None:
    known, stranger = did_of(site, "known"), did_of(site, "stranger")
    publish(site, stranger, ONE)
    verifier = trusting(make_verifier, known)
    for issuer in (stranger, known + ":x", known.upper(), "https://issuer.example", "did:key:z6Mk"):
        assert said(await verifier.verify(token(ONE, issuer))) == ("rejected", "policy")
    assert said(await verifier.verify(token(ONE, None))) == ("rejected", "claims")
    assert site.count("/stranger/did.json") == 0


async def test_a_pattern_trusts_matching_issuers(site: KeyServer, make_verifier: MakeVerifier) -> None:
    first, second, deeper = did_of(site, "agents", "a"), did_of(site, "agents", "b"), did_of(site, "agents", "b", "c")
    for did in (first, second, deeper):
        publish(site, did, ONE)
    verifier = trusting(make_verifier, did_pattern=did_of(site, "agents", "*"))
    assert said(await verifier.verify(token(ONE, first))) == ("verified", None)
    assert said(await verifier.verify(token(ONE, second))) == ("verified", None)
    assert said(await verifier.verify(token(ONE, deeper))) == ("rejected", "policy")


async def test_an_issuer_s_key_verifies_no_other_issuer(site: KeyServer, make_verifier: MakeVerifier) -> None:
    mine, other = did_of(site, "mine"), did_of(site, "other")
    publish(site, mine, ONE)
    publish(site, other, STRANGER)
    verifier = trusting(make_verifier, mine, other)
    assert said(await verifier.verify(token(ONE, mine))) == ("verified", None)
    assert said(await verifier.verify(token(ONE, other))) == ("rejected", "crypto")
    assert said(await verifier.verify(token(ONE, other, f"{mine}#one"))) == ("rejected", "crypto")


@pytest.mark.parametrize("change", [{"id": "did:web:evil.example"}, {"id": None}])
async def test_the_document_must_be_the_issuer_s(site: KeyServer, make_verifier: MakeVerifier, change: Json) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE, **change)
    assert said(await trusting(make_verifier, did).verify(token(ONE, did))) == ("rejected", "policy")


async def test_only_keys_that_sign_assertions_count_unless_told_otherwise(
    site: KeyServer, make_verifier: MakeVerifier
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE, asserting=False)
    assert said(await trusting(make_verifier, did).verify(token(ONE, did))) == ("unavailable", "network")
    loose = trusting(make_verifier, did, did_strict_relationship=False)
    assert said(await loose.verify(token(ONE, did))) == ("verified", None)


@pytest.mark.parametrize("kid", ["renamed", None])
@pytest.mark.parametrize("loose", [True, False])
async def test_the_loose_rule_accepts_the_only_key_under_any_name(
    site: KeyServer, make_verifier: MakeVerifier, kid: str | None, loose: bool
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    verifier = trusting(make_verifier, did, did_loose_kid_match=loose)
    unnamed = Signer(kid).token(iss=did)
    assert said(await verifier.verify(unnamed)) == (("verified", None) if loose else ("rejected", "crypto"))
    publish(site, did, ONE, Signer("three", number=3))
    other = trusting(make_verifier, did, did_loose_kid_match=loose)
    assert said(await other.verify(unnamed)) == ("rejected", "crypto")


async def test_a_rotated_key_is_found_before_the_loose_rule_applies(
    site: KeyServer, make_verifier: MakeVerifier
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    verifier = trusting(make_verifier, did)
    assert said(await verifier.verify(token(ONE, did))) == ("verified", None)
    new = Signer("new", number=3)
    publish(site, did, new)
    assert said(await verifier.verify(token(new, did))) == ("verified", None)
    assert said(await verifier.verify(token(ONE, did))) == ("rejected", "crypto")


async def test_issuers_that_are_down_keep_their_keys(site: KeyServer, make_verifier: MakeVerifier) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    verifier = trusting(make_verifier, did)
    assert said(await verifier.verify(token(ONE, did))) == ("verified", None)
    site.kill()
    leave_alone(verifier, did, 900)
    outcome = await verifier.verify(token(ONE, did, sub="another"))
    assert outcome.metadata["verifiedFromCache"] == "true"
    assert int(outcome.metadata["cacheAgeSeconds"]) >= 900


@pytest.mark.parametrize("known_token", [True, False])
async def test_keys_are_renewed_while_they_are_used(
    site: KeyServer, make_verifier: MakeVerifier, known_token: bool
) -> None:
    verifier, known, presented = await with_another_key_since(site, make_verifier, 270, known_token)
    assert said(await verifier.verify(presented)) == ("verified", None)
    await wait_until(lambda: known.age < 270, what="the keys to be renewed")
    assert said(await verifier.verify(presented)) == ("rejected", "crypto")


@pytest.mark.parametrize("known_token", [True, False])
async def test_a_key_withdrawn_while_unused_verifies_nothing(
    site: KeyServer, make_verifier: MakeVerifier, known_token: bool
) -> None:
    verifier, _, presented = await with_another_key_since(site, make_verifier, 900, known_token)
    assert said(await verifier.verify(presented)) == ("rejected", "crypto")


async def test_a_hanging_site_delays_callers_once_after_a_pause(
    site: KeyServer, make_verifier: MakeVerifier, wait_limit: WaitLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    verifier = trusting(make_verifier, did)
    assert said(await verifier.verify(token(ONE, did))) == ("verified", None)
    monkeypatch.setattr(fetch, "TOTAL_SECONDS", 100.0)
    site.misbehave("hang", "/a/did.json")
    leave_alone(verifier, did, 900)
    wait_limit(0.2)
    outcome = await verifier.verify(token(ONE, did))
    assert outcome.metadata["verifiedFromCache"] == "true"
    wait_limit(0.0)
    assert said(await verifier.verify(token(ONE, did))) == ("verified", None)


@pytest.mark.parametrize("stale_on_error", [True, False])
async def test_unused_issuers_are_not_reported_as_stale(
    site: KeyServer, make_verifier: MakeVerifier, stale_on_error: bool
) -> None:
    used, unused = did_of(site, "used"), did_of(site, "unused")
    publish(site, used, ONE)
    publish(site, unused, TWO)
    verifier = trusting(make_verifier, used, unused, stale_on_error=stale_on_error)
    for presented in (token(ONE, used), token(TWO, unused)):
        assert said(await verifier.verify(presented)) == ("verified", None)
    leave_alone(verifier, unused, 9_000)
    assert verifier.report() == {"state": "ok", "issuers": 2, "sought": 0}
    assert verifier.resolver.ages()["did"] < 9_000
    site.kill()
    await verifier.verify(token(TWO, unused))
    assert verifier.report()["state"] == ("stale" if stale_on_error else "unavailable")
    for did in (used, unused):
        leave_alone(verifier, did, 9_000)
    assert (verifier.report()["state"], verifier.resolver.ages()) == ("ok", {"did": 0.0})


@pytest.mark.parametrize("mode", ["hang", "drop", "redirect", "404", "html"])
async def test_unavailable_documents(
    site: KeyServer, make_verifier: MakeVerifier, wait_limit: WaitLimit, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    changes: dict[str, Json] = {
        "redirect": {"status": 301, "headers": {"location": "/.well-known/did.json"}},
        "404": {"status": 404},
        "html": {"type": "text/html"},
    }
    change = changes.get(mode, {})
    site.misbehave(mode if not change else "answer", "/a/did.json", **change)
    verifier = trusting(make_verifier, did)
    if mode == "hang":
        # The request to the site times out much later than calls do.
        monkeypatch.setattr(fetch, "TOTAL_SECONDS", 100.0)
        wait_limit(1.0)
    began = time.perf_counter()
    assert said(await verifier.verify(token(ONE, did))) == ("unavailable", "network")
    assert time.perf_counter() - began < 30.0


async def test_loopback_is_contacted_only_if_allowed(site: KeyServer, make_verifier: MakeVerifier) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    verifier = trusting(make_verifier, did, did_allow_loopback=False)
    assert said(await verifier.verify(token(ONE, did))) == ("rejected", "policy")
    assert site.count("/a/did.json") == 0


async def test_a_name_that_resolves_to_a_private_address_is_not_asked(
    site: KeyServer, make_verifier: MakeVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = f"did:web:inside.example%3A{site.port}:a"
    publish(site, did, ONE)

    async def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", ("93.184.216.34", 0)), (0, 0, 0, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    outcome = await trusting(make_verifier, did).verify(token(ONE, did))
    assert said(outcome) == ("unavailable", "network")
    assert outcome.reason == "the key server has an address that is not public"


async def test_an_address_that_does_not_answer_is_skipped(
    site: KeyServer, make_verifier: MakeVerifier, wait_limit: WaitLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)

    async def resolve(*_: Any) -> list[ssrf.Address]:
        return [ip_address("127.0.0.2"), ip_address("127.0.0.1")]

    monkeypatch.setattr(ssrf, "addresses_of", resolve)
    wait_limit(30.0)
    with silent("127.0.0.2", site.port):
        outcome = await trusting(make_verifier, did).verify(token(ONE, did))
    assert said(outcome) == ("verified", None)


async def test_a_certificate_for_another_name_is_not_trusted(
    make_verifier: MakeVerifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = self_signed(tmp_path, "other.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    with KeyServer(other) as site:
        did = did_of(site, "a")
        publish(site, did, ONE)
        outcome = await trusting(make_verifier, did).verify(token(ONE, did))
    assert said(outcome) == ("unavailable", "network")
    assert "certificate is not trusted" in outcome.reason


async def test_made_up_issuers_evict_no_known_issuer(
    site: KeyServer, make_verifier: MakeVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolvers, "MOST_ISSUERS", 4)
    known = did_of(site, "agents", "known")
    publish(site, known, ONE)
    verifier = trusting(make_verifier, did_pattern=did_of(site, "agents", "*"))
    assert said(await verifier.verify(token(ONE, known))) == ("verified", None)
    asked = site.count("/agents/known/did.json")
    made_up = (verifier.verify(token(ONE, did_of(site, "agents", f"x{n}"))) for n in range(30))
    assert {said(outcome) for outcome in await asyncio.gather(*made_up)} == {("unavailable", "network")}
    assert verifier.report()["sought"] <= 4
    assert said(await verifier.verify(token(ONE, known, sub="again"))) == ("verified", None)
    assert site.count("/agents/known/did.json") == asked


async def test_the_least_recently_used_issuer_is_evicted_first(
    site: KeyServer, make_verifier: MakeVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolvers, "MOST_ISSUERS", 3)
    dids = [did_of(site, f"a{n}") for n in range(4)]
    for did in dids:
        publish(site, did, ONE)
    verifier = trusting(make_verifier, *dids)
    for did in (*dids[:3], dids[0], dids[3]):
        assert said(await verifier.verify(token(ONE, did, sub=f"{did} {time.time_ns()}"[-400:]))) == ("verified", None)
    resolver = verifier.resolver
    assert isinstance(resolver, DidKeyResolver)
    assert list(resolver.known) == [dids[2], dids[0], dids[3]]


async def test_issuers_are_asked_once_for_the_whole_fleet(
    site: KeyServer, make_verifier: MakeVerifier, store: Store, fleet_keys: Any
) -> None:
    did = did_of(site, "a")
    publish(site, did, ONE)
    fleet = [trusting(make_verifier, did, store=store, cooldown=None) for _ in range(4)]
    outcomes = await asyncio.gather(*(one.verify(token(ONE, did)) for one in fleet))
    assert {outcome.status for outcome in outcomes} == {"verified"}
    assert site.count("/a/did.json") == 1
    site.kill()
    late = trusting(make_verifier, did, store=store, cooldown=None)
    assert said(await late.verify(token(ONE, did))) == ("verified", None)
