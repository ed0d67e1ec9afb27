"""Tries the sources of keys, and judges a token."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import msgspec

from coordinator.doctor import actors
from coordinator.doctor.findings import Finding
from coordinator.identity import jws
from coordinator.identity.actors.resolver import Actors
from coordinator.identity.jws import BadToken
from coordinator.identity.keys.copies import KeyCopies
from coordinator.identity.keys.fetch import Fetcher
from coordinator.identity.keys.resolvers import static_sources
from coordinator.identity.keys.sources import DidDocument, Loaded, RemoteSource, Source, SourceFailed
from coordinator.identity.verifiers.build import build_verifier
from coordinator.identity.verifiers.claims import LEEWAY
from coordinator.settings import Settings
from coordinator.settings.effective_auth import auth_mode, auth_verifier
from coordinator.settings.sections.identity import VerifierSettings
from coordinator.store import Store
from coordinator.toolsets.actor import Actor, Distrusted
from coordinator.wording import counted

_MAX_ISSUERS = 20


async def check_sources(settings: Settings, store: Store | None, issuers: tuple[str, ...]) -> AsyncIterator[Finding]:
    """What the settings mean, and whether their sources have keys.

    Args:
        store: with the fleet's copies of keys; None: these are not looked at.
        issuers: of did:web documents to look at, beside those of the settings.
    """
    section = settings.actor_authentication
    for line in actors.explained(section):
        yield Finding("note", "actors", line)
    for line in actors.notices(section, callers=auth_mode(settings) != "none"):
        yield Finding("warns", "actors", line)
    verifiers = [("actor_authentication.verifier", section.verifier)]
    bearers = auth_verifier(settings)
    if bearers is not None and bearers != section.verifier:
        verifiers.append(("auth.verifier", bearers))
    for name, verifier in verifiers:
        if verifier.type == "noop":
            yield Finding("ok", name, "is noop, so there is nothing to try")
            continue
        async for finding in _check_verifier(verifier, store, issuers):
            yield finding
    if issuers and all(verifier.type == "noop" for _, verifier in verifiers):
        yield Finding("warns", "did", "no verifier would fetch keys from the issuers of --issuer, so none was tried")


async def _check_verifier(
    verifier: VerifierSettings, store: Store | None, issuers: tuple[str, ...]
) -> AsyncIterator[Finding]:
    fetcher = Fetcher()
    sources: list[Source] = static_sources(verifier, fetcher)
    named = (*verifier.did_allowlist, *issuers)
    for issuer in named[:_MAX_ISSUERS]:
        try:
            sources.append(DidDocument(issuer, verifier.did_strict_relationship, verifier.did_allow_loopback, fetcher))
        except BadToken as bad:
            yield Finding("fails", f"did {issuer}", bad.reason)
    if len(named) > _MAX_ISSUERS:
        yield Finding("note", "did", f"only the first {_MAX_ISSUERS} of {len(named)} issuers are tried")
    if verifier.did_pattern and not named:
        yield Finding("note", "did", "a pattern names no document to try; --issuer names one")
    for source in sources:
        for finding in await _check_source(source, verifier):
            yield finding
        if store is not None and isinstance(source, RemoteSource):
            yield await _check_copy(source, KeyCopies(store))


async def _check_source(source: Source, verifier: VerifierSettings) -> list[Finding]:
    """Loads the keys of a source now, bypassing the fleet's copy."""
    began = time.perf_counter()
    try:
        loaded = await source.load()
    except SourceFailed as failed:
        return [Finding("fails", source.label, failed.reason, failed.advice)]
    took = round((time.perf_counter() - began) * 1000)
    if loaded is None:
        return []  # unchanged; a new source never says so
    return [Finding("ok", source.label, f"{_key_names(loaded)}, in {took} ms"), *_oddities(source, loaded, verifier)]


def _key_names(loaded: Loaded) -> str:
    found = counted(len(loaded.keys), "key")
    names = [key.kid or "(without kid)" for key in loaded.keys.keys]
    if names:
        found += f" ({', '.join(names[:5])}{' ...' if len(names) > 5 else ''})"
    return found + (f" of {loaded.issuer}" if loaded.issuer else "")


def _oddities(source: Source, loaded: Loaded, verifier: VerifierSettings) -> Iterator[Finding]:
    """Warnings about a source that has keys."""
    if loaded.keys.keys and not any(loaded.keys.suiting(algorithm) for algorithm in verifier.algorithms):
        yield Finding(
            "fails",
            source.label,
            f"none of its keys verifies {' or '.join(verifier.algorithms)}",
            "algorithms must list what the issuer signs with",
        )
    for odd in loaded.keys.skipped[:5]:
        yield Finding("note", source.label, f"left out {odd}")
    if loaded.issuer and verifier.issuer and loaded.issuer != verifier.issuer:
        yield Finding(
            "warns",
            source.label,
            f"names the issuer {loaded.issuer}, but 'issuer' is {verifier.issuer}",
            "tokens must name the configured one",
        )
    if loaded.date is not None and abs(loaded.date - time.time()) > LEEWAY / 2:
        yield Finding(
            "warns",
            source.label,
            f"its clock differs by {loaded.date - time.time():.0f} s from this machine's",
            f"tokens may be taken for expired, or not valid yet, from {LEEWAY} s on",
        )


async def _check_copy(source: RemoteSource, copies: KeyCopies) -> Finding:
    answer = await copies.lease_fetch(source, 0, 0)
    if not answer.fetched:
        return Finding("note", source.label, "the fleet has no copy of these keys yet")
    age = (answer.now - answer.fetched) // 1000
    if answer.trouble:
        return Finding("warns", source.label, f"the fleet's copy is {age} s old; since then: {answer.trouble}")
    return Finding("ok", source.label, f"the fleet's copy is {age} s old")


async def check_token(settings: Settings, store: Store | None, token: str, actor: str) -> AsyncIterator[Finding]:
    """Whether a token verifies, and as whom an actor with it counts.

    Args:
        store: None: the policy is not tried.
        actor: the id of who presents it; empty: its subject.
    """
    section = settings.actor_authentication
    try:
        read = jws.read(token, jws.MAX_KID_URL)
    except BadToken:
        pass  # the verdict says why
    else:
        said = {
            "alg": read.algorithm,
            "kid": read.kid,
            **{k: read.claims.get(k) for k in ("iss", "aud", "sub", "exp", "nbf")},
        }
        yield Finding("note", "token", f"says {msgspec.json.encode(said).decode()}")
    verifier = build_verifier(section.verifier, store)
    try:
        outcome = await verifier.verify(token)
    finally:
        await verifier.aclose()
    kind = f"/{outcome.failure}" if outcome.failure else ""
    reason = f": {outcome.reason}" if outcome.reason else ""
    good = outcome.status in ("verified", "unchecked")
    yield Finding("ok" if good else "fails", "token", f"{outcome.status}{kind}{reason}")
    name = actor or outcome.subject
    if store is not None and name:
        actors = Actors(section, store)
        try:
            trusted = await actors.resolve(Actor(name, "external", None, token))
        except Distrusted as distrusted:
            yield Finding("fails", "policy", distrusted.message)
        else:
            yield Finding(
                "ok", "policy", f"{section.policy}: an actor {name!r} with this proof counts as {trusted.id!r}"
            )
        finally:
            await actors.stop()
