"""A key server for each test, verifiers on it, and no keys left in the fleet's partition."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
import redis

from coordinator.identity.keys import cache
from coordinator.identity.verifiers.build import build_verifier
from coordinator.identity.verifiers.jwks import JwksVerifier
from coordinator.settings.sections.identity import VerifierSettings
from coordinator.store import Store, keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.identity.servers import KeyServer
from tests.identity.signing import ALGORITHMS, AUDIENCE, ISSUER
from tests.support import leaks

MakeVerifier = Callable[..., JwksVerifier]
WaitLimit = Callable[[float], None]


@pytest.fixture(scope="module")
def one_key_server() -> Iterator[KeyServer]:
    with KeyServer() as server:
        yield server


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    """A key server of the test's own, so that it can be killed and its requests counted."""
    with KeyServer() as server:
        yield server


@pytest.fixture
def wait_limit(monkeypatch: pytest.MonkeyPatch) -> WaitLimit:
    """``wait_limit(seconds)``: how long calls wait for a key server from now on."""
    return lambda seconds: monkeypatch.setattr(cache, "WAIT_SECONDS", seconds)


@pytest.fixture
async def make_verifier(wait_limit: WaitLimit) -> AsyncIterator[MakeVerifier]:
    """``make_verifier(url, store=None, cooldown=None, **settings)``; closed after the test.

    Its calls wait long enough for the key server on a busy machine.
    """
    made: list[JwksVerifier] = []
    wait_limit(60.0)

    def make(url: str = "", store: Store | None = None, cooldown: float | None = None, **more: Any) -> JwksVerifier:
        settings = {
            "type": "jwks",
            "jwks_uri": url,
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "algorithms": ALGORITHMS,
            **more,
        }
        verifier = build_verifier(msgspec.convert(settings, VerifierSettings), store, cooldown)
        assert isinstance(verifier, JwksVerifier)
        made.append(verifier)
        return verifier

    yield make
    for verifier in made:
        await verifier.aclose()


@pytest.fixture
def fleet_keys(redis_url: str) -> Iterator[redis.Redis]:
    """The fleet's partition, empty before and after the test, and without leaks at its end."""
    with contextlib.closing(redis_client(parse(redis_url))) as client:
        leaks.delete_keys(client, keys.FLEET)
        yield client
        complaints = leaks.leaked_keys(client, keys.FLEET)
        leaks.delete_keys(client, keys.FLEET)
    assert not complaints, complaints
