"""Finds the keys that may have signed a token: among a fixed set of sources, or in its issuer's own document."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coordinator.identity import jws
from coordinator.identity.clock import FleetClock
from coordinator.identity.jws import BadToken
from coordinator.identity.keys import did
from coordinator.identity.keys.cache import KeyCache
from coordinator.identity.keys.copies import KeyCopies
from coordinator.identity.keys.fetch import Fetcher
from coordinator.identity.keys.keyset import KeySet, VerifyKey
from coordinator.identity.keys.sources import DidDocument, JwksPath, JwksUri, OidcDiscovery, Source
from coordinator.settings.sections.identity import VerifierSettings

MOST_TRIED = 8
"""How many keys of one name are tried on a signature."""
MOST_ISSUERS = 256
UNKNOWN_SECONDS = 60.0
MOST_UNKNOWN = 4_096
"""For how many key names it is remembered that they are unknown."""


class CandidateKey(NamedTuple):
    """A key that may have signed a token."""

    cache: KeyCache
    keys: KeySet
    key: VerifyKey


class KeyResolver(Protocol):
    """Finds the keys that may have signed a token."""

    max_kid: int
    """Characters of the longest ``kid`` that can name a key."""

    @property
    def issuer(self) -> str | None:
        """The issuer that tokens must have, if the sources name one; None: not known yet."""

    async def start(self) -> None:
        """Begins to keep keys fresh; see ``Verifier.start``."""

    async def resolve(self, kid: str | None, algorithm: str, claims: Mapping[str, Any]) -> Sequence[CandidateKey]:
        """The keys that may have signed a token; at least one.

        Raises:
            BadToken: crypto: there is none. network: it is unknown whether there is one. policy, claims: the
                issuer is not trusted.
        """

    def used(self, cache: KeyCache) -> None:
        """A key of this cache has verified a token again, without ``resolve``."""

    def ages(self) -> dict[str, float]:
        """The age of the oldest keys of each kind of source, in seconds."""

    def report(self) -> dict[str, Any]:
        """The sources and their state, for /readyz."""

    async def aclose(self) -> None:
        """Ends what runs in the background."""


class UnknownKeys:
    """A negative cache: the names of keys that no source has. They are not asked for again for a minute."""

    def __init__(self) -> None:
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def __contains__(self, name: tuple[str, str]) -> bool:
        until = self._until.get(name)
        return until is not None and time.monotonic() < until

    def add(self, name: tuple[str, str]) -> None:
        self._until[name] = time.monotonic() + UNKNOWN_SECONDS
        self._until.move_to_end(name)
        if len(self._until) > MOST_UNKNOWN:
            self._until.popitem(last=False)


class StaticKeyResolver:
    """Keys of fixed sources, merged.

    Args:
        caches: one per source.
        issued_by: the one of them that names the issuer; None: none does.
    """

    max_kid = jws.MAX_KID

    def __init__(self, caches: Sequence[KeyCache], issued_by: KeyCache | None) -> None:
        self.caches = tuple(caches)
        """The keys of each source."""
        self._issued_by = issued_by
        self._unknown = UnknownKeys()

    @property
    def issuer(self) -> str | None:
        """The issuer in the discovery document; empty: there is no such source; None: not known yet."""
        if self._issued_by is None:
            return ""
        return (self._issued_by.issuer or None) if self._issued_by.answers else None

    async def start(self) -> None:
        await asyncio.gather(*(cache.start() for cache in self.caches))

    async def resolve(self, kid: str | None, algorithm: str, claims: Mapping[str, Any]) -> Sequence[CandidateKey]:
        """The keys of this name in all sources; for a token that names no key, the only suitable one."""
        began = time.monotonic()
        await _renew_left_alone(self.caches)
        found = self._look(kid, algorithm)
        if not found:
            _refuse_known(self.caches, kid, algorithm)
            name = ("", kid or "")
            if name not in self._unknown:
                await _ask(self.caches, lambda: bool(self._look(kid, algorithm)), began)
                found = self._look(kid, algorithm)
            if not found:
                _refuse_known(self.caches, kid, algorithm)
                raise _absence(self.caches, self._unknown, name, began)
        if self.issuer is None and self._issued_by is not None:
            await self._issued_by.ask()
        return found

    def used(self, cache: KeyCache) -> None:
        """Nothing to do: each cache renews itself, used or not."""

    def ages(self) -> dict[str, float]:
        return ages(self.caches)

    def report(self) -> dict[str, Any]:
        return {"state": state(self.caches), "sources": [described(cache) for cache in self.caches]}

    async def aclose(self) -> None:
        await asyncio.gather(*(cache.aclose() for cache in self.caches))

    def _look(self, kid: str | None, algorithm: str) -> list[CandidateKey]:
        caches = [cache for cache in self.caches if cache.answers]
        if kid is None:
            suiting = [
                CandidateKey(cache, cache.keys, key) for cache in caches for key in cache.keys.suiting(algorithm)
            ]
            return suiting if len(suiting) == 1 else []
        named = [CandidateKey(cache, cache.keys, key) for cache in caches for key in cache.keys.named(kid, algorithm)]
        return named[:MOST_TRIED]


class DidKeyResolver:
    """Keys of issuers that publish them in did:web documents.

    Issuers whose documents were found are kept apart from those whose documents are still sought, so that made-up
    issuers cannot displace real ones. Keys are renewed as long as they are used.

    Args:
        new_cache: makes the cache of an issuer's keys. Raises BadToken.
        loose: whether a token with an unknown 'kid' may use the issuer's only suitable key.
    """

    max_kid = jws.MAX_KID_URL

    def __init__(self, trust: did.Trust, new_cache: Callable[[str], KeyCache], loose: bool) -> None:
        self._trust = trust
        self._new_cache = new_cache
        self._loose = loose
        self.known: OrderedDict[str, KeyCache] = OrderedDict()
        """The keys of issuers whose documents were found, the least recently used first."""
        self._sought: OrderedDict[str, KeyCache] = OrderedDict()
        self._unknown = UnknownKeys()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def issuer(self) -> str:
        """Any: ``resolve`` checks first whether the issuer is trusted."""
        return ""

    async def start(self) -> None:
        """Nothing to do: documents are fetched when an issuer first appears."""

    async def resolve(self, kid: str | None, algorithm: str, claims: Mapping[str, Any]) -> Sequence[CandidateKey]:
        """The key of this name in the issuer's document; by the loose rule, its only suitable key."""
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or not issuer:
            raise BadToken("claims", "the token names no issuer ('iss')")
        if issuer not in self._trust:
            raise BadToken("policy", "the issuer is not one of those that are trusted")
        began = time.monotonic()
        cache = await self._cache_of(issuer)
        self.used(cache)
        await _renew_left_alone([cache])
        name = did.fragment(kid, issuer) if kid else None
        if kid and name is None:
            raise BadToken("crypto", "'kid' of the token names a key of another issuer")
        found = self._named(cache, name, algorithm)
        if not found:
            _refuse_known([cache], name, algorithm)
            searched = (issuer, name or "")
            if searched not in self._unknown:
                await _ask([cache], lambda: bool(self._named(cache, name, algorithm)), began)
                self._settle(issuer, cache)
                found = self._named(cache, name, algorithm)
            found = found or self._only(cache, algorithm)
            if not found:
                _refuse_known([cache], name, algorithm)
                raise _absence([cache], self._unknown, searched, began)
        return found

    def used(self, cache: KeyCache) -> None:
        """Renews the keys if they are near the end of their time to live."""
        cache.renew_if_due()

    def ages(self) -> dict[str, float]:
        """The documents that are known and in use."""
        return {"did": 0.0, **ages(self._in_use())}

    def report(self) -> dict[str, Any]:
        """The number of known issuers and their overall state, but not their names."""
        return {"state": state(self._in_use()), "issuers": len(self.known), "sought": len(self._sought)}

    async def aclose(self) -> None:
        await asyncio.gather(*(cache.aclose() for cache in (*self.known.values(), *self._sought.values())))
        if self._closing:
            await asyncio.wait(self._closing)

    def _in_use(self) -> list[KeyCache]:
        """The known issuers whose keys are used. Unused keys are not renewed, and their age is no problem."""
        return [cache for cache in self.known.values() if not cache.left_alone]

    async def _cache_of(self, issuer: str) -> KeyCache:
        cache = self.known.get(issuer)
        if cache is not None:
            self.known.move_to_end(issuer)
            return cache
        cache = self._sought.get(issuer)
        if cache is None:
            cache = self._sought[issuer] = self._new_cache(issuer)
            self._bound(self._sought)
            await cache.take_copy()
            self._settle(issuer, cache)
        return cache

    def _settle(self, issuer: str, cache: KeyCache) -> None:
        """Counts an issuer as known once its document was found."""
        if cache.loaded and self._sought.pop(issuer, None) is not None:
            self.known[issuer] = cache
            self._bound(self.known)

    def _bound(self, caches: OrderedDict[str, KeyCache]) -> None:
        if len(caches) > MOST_ISSUERS:
            _, oldest = caches.popitem(last=False)
            closing = asyncio.create_task(oldest.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _named(self, cache: KeyCache, name: str | None, algorithm: str) -> list[CandidateKey]:
        if name is None or not cache.answers:
            return []
        return [CandidateKey(cache, cache.keys, key) for key in cache.keys.named(name, algorithm)]

    def _only(self, cache: KeyCache, algorithm: str) -> list[CandidateKey]:
        """By the loose rule: the only key that can have signed."""
        suiting = cache.keys.suiting(algorithm) if self._loose and cache.answers else []
        return [CandidateKey(cache, cache.keys, suiting[0])] if len(suiting) == 1 else []


def state(caches: Sequence[KeyCache]) -> str:
    """``ok``, ``stale`` (some keys could not be renewed in time) or ``unavailable`` (some source gives nothing)."""
    if not all(cache.answers for cache in caches):
        return "unavailable"
    return "ok" if all(cache.fresh and not cache.trouble for cache in caches) else "stale"


def ages(caches: Iterable[KeyCache]) -> dict[str, float]:
    """The age of the oldest keys of each kind of source, in seconds."""
    found: dict[str, float] = {}
    for cache in caches:
        if cache.loaded:
            found[cache.source.kind] = max(found.get(cache.source.kind, 0.0), cache.age)
    return found


def described(cache: KeyCache) -> dict[str, Any]:
    """One source, for /readyz; without its URL or path, because anybody may read that."""
    found: dict[str, Any] = {"source": cache.source.kind, "keys": len(cache.keys), "fresh": cache.fresh}
    if cache.loaded:
        found["ageSeconds"] = int(cache.age)
    if cache.trouble:
        found["trouble"] = cache.trouble
    return found


async def _renew_left_alone(caches: Sequence[KeyCache]) -> None:
    """Renews keys that nobody has used for a while: old keys count only if newer ones cannot be fetched."""
    asking = [cache for cache in caches if cache.left_alone]
    if asking:
        await asyncio.gather(*(cache.ask() for cache in asking))


async def _ask(caches: Sequence[KeyCache], enough: Callable[[], bool], began: float) -> None:
    """Asks the sources; again if at first only the fleet's copies came, without the key."""
    for _ in range(2):
        asking = [cache for cache in caches if cache.may_ask and not cache.asked_since(began)]
        if not asking:
            return
        await asyncio.gather(*(cache.ask() for cache in asking))
        if enough():
            return


def _refuse_known(caches: Sequence[KeyCache], kid: str | None, algorithm: str) -> None:
    """Rejects a token if the known keys already show that it is invalid, whatever a renewal would return.

    Raises:
        BadToken: crypto.
    """
    caches = [cache for cache in caches if cache.answers]
    if kid is not None and any(cache.keys.knows(kid) for cache in caches):
        raise BadToken("crypto", "the key that the token names is for another algorithm")
    if kid is None and sum(len(cache.keys.suiting(algorithm)) for cache in caches) > 1:
        raise BadToken("crypto", "the token names no key ('kid'), and several could have signed it")


def _absence(caches: Sequence[KeyCache], unknown: UnknownKeys, name: tuple[str, str], began: float) -> BadToken:
    """The error for a call that has found no key; it began at ``began`` of the monotonic clock."""
    if name not in unknown:
        for cache in caches:
            if cache.trouble and cache.trouble_kind == "policy":
                return BadToken("policy", cache.trouble)
        for cache in caches:
            if not cache.sound:
                return BadToken("network", cache.trouble or "the keys are being fetched and are not there yet")
        if all(cache.loaded_since(began) for cache in caches):
            unknown.add(name)
    return BadToken("crypto", "there is no such key ('kid')" if name[1] else "there is no key that could have signed")


def static_sources(settings: VerifierSettings, fetcher: Fetcher) -> list[Source]:
    """The sources that the settings name; DID documents are found by issuer instead."""
    found: list[Source] = []
    # Explicit values win over discovered ones. If both are explicit, there is nothing to discover.
    if settings.oidc_discovery and not (settings.jwks_uri and settings.issuer):
        found.append(OidcDiscovery(settings.oidc_discovery, not settings.jwks_uri, fetcher))
    if settings.jwks_uri:
        found.append(JwksUri(settings.jwks_uri, fetcher))
    if settings.jwks_path:
        found.append(JwksPath(settings.jwks_path))
    return found


def build_key_resolver(
    settings: VerifierSettings, copies: KeyCopies | None, clock: FleetClock, cooldown: float | None
) -> KeyResolver:
    """The resolver for the sources that the settings name.

    Args:
        copies: the fleet's copies of keys; None: the process is alone.
        cooldown: seconds between requests to a source; None: derived from the settings.
    """
    fetcher = Fetcher()

    def cache_of(source: Source) -> KeyCache:
        ttl, stale = settings.cache_ttl_seconds, settings.stale_on_error
        return KeyCache(source, clock, copies, ttl=ttl, stale_on_error=stale, cooldown=cooldown)

    def of_issuer(issuer: str) -> KeyCache:
        strict, loopback = settings.did_strict_relationship, settings.did_allow_loopback
        return cache_of(DidDocument(issuer, strict, loopback, fetcher))

    if settings.did_allowlist or settings.did_pattern:
        trust = did.Trust(settings.did_allowlist, settings.did_pattern)
        return DidKeyResolver(trust, of_issuer, settings.did_loose_kid_match)
    caches = [cache_of(source) for source in static_sources(settings, fetcher)]
    issued_by = next((one for one in caches if one.source.kind == "oidc_discovery" and not settings.issuer), None)
    return StaticKeyResolver(caches, issued_by)
