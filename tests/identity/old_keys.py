"""Keys that were fetched long ago."""

from __future__ import annotations

from coordinator.identity.keys.cache import KeyCache
from coordinator.identity.keys.resolvers import StaticKeyResolver
from coordinator.identity.verifiers.jwks import JwksVerifier


def only_cache(verifier: JwksVerifier) -> KeyCache:
    resolver = verifier.resolver
    assert isinstance(resolver, StaticKeyResolver)
    (only,) = resolver.caches
    return only


def grow_old(verifier: JwksVerifier, seconds: float) -> None:
    """Backdates the fetch of the keys."""
    aging = only_cache(verifier)
    assert aging.fetched is not None
    aging.fetched -= seconds
    aging.next_ask = 0.0
