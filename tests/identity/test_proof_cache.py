"""The cache of verified proofs, and what logs reveal about proofs."""

from __future__ import annotations

import time
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.identity import jws
from coordinator.identity.keys import cache
from coordinator.identity.verifiers.jwks import JwksVerifier
from coordinator.identity.verifiers.proof_cache import ProofCache
from coordinator.metrics.throttled import ThrottledWarnings
from tests.identity.conftest import MakeVerifier
from tests.identity.servers import KeyServer
from tests.identity.signing import Json, Signer, jwks

pytestmark = pytest.mark.anyio

GOOD = Signer()
MARK = "remember-me"


@pytest.fixture
def verifier(one_key_server: KeyServer, make_verifier: MakeVerifier) -> JwksVerifier:
    one_key_server.serve(jwks(GOOD))
    return make_verifier(one_key_server.url())


def test_the_oldest_proof_is_evicted_first() -> None:
    proofs, made = ProofCache(most=2), [ProofCache.name(token) for token in ("a", "b", "c")]
    for name in made:
        proofs.keep(name, name)  # type: ignore[arg-type]
    assert [proofs.get(name) is None for name in made] == [True, False, False]
    assert len(proofs) == 2


async def test_no_token_is_kept(verifier: JwksVerifier) -> None:
    token = GOOD.token()
    assert (await verifier.verify(token)).status == "verified"
    (name,) = verifier.proofs.held
    assert name == ProofCache.name(token)
    assert token not in repr(verifier.proofs.held)


async def test_a_proof_is_verified_once(verifier: JwksVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    token = GOOD.token()
    first = await verifier.verify(token)
    monkeypatch.setattr(jws, "read", None)  # a second verification would fail
    assert await verifier.verify(token) is first


_members: Any = st.sampled_from(["alg", "kid", "typ", "cty", "iss", "aud", "sub", "exp", "nbf", "jti", "note"])
_values = st.sampled_from([MARK, [MARK], {MARK: MARK}, 5, None])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=st.dictionaries(_members, _values), claims=st.dictionaries(_members, _values))
async def test_the_content_of_a_bad_token_is_never_revealed(verifier: JwksVerifier, head: Json, claims: Json) -> None:
    token = GOOD.token(head=head, **claims)
    with structlog.testing.capture_logs() as logs:
        outcome = await verifier.verify(token)
    if outcome.status != "verified":
        assert MARK not in repr(outcome)
        assert outcome.failure in ("crypto", "claims", "policy")
    for part in token.split("."):
        assert part not in repr(logs)


def test_frequent_warnings_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr("coordinator.metrics.throttled.time.monotonic", lambda: now)
    warn = ThrottledWarnings()
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            warn("a", "it happened")
        warn("b", "something else happened")
        now += 60
        warn("a", "it happened")
    assert [(line["event"], line["more_of_it"]) for line in logs] == [
        ("it happened", 0),
        ("something else happened", 0),
        ("it happened", 4),
    ]


def test_times_fit_together() -> None:
    """A call must outlive its wait for keys, and a lease its request."""
    assert cache.WAIT_SECONDS < 2.0  # request_deadline_ms
    assert cache.LEASE_SECONDS > 5.0  # a request for keys
    assert cache.COOLDOWN_SECONDS > cache.LEASE_SECONDS
