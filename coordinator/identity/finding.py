"""Makes what finds keys for a verifier, from its settings."""

from __future__ import annotations

from coordinator.identity import did
from coordinator.identity.clock import FleetClock
from coordinator.identity.copies import KeyCopies
from coordinator.identity.fetch import Fetcher
from coordinator.identity.finders import DidFinder, Finder, StaticFinder
from coordinator.identity.keyring import Keyring
from coordinator.identity.sources import DidDocument, JwksPath, JwksUri, OidcDiscovery, Source
from coordinator.settings.identity import VerifierSettings


def static_sources(settings: VerifierSettings, fetcher: Fetcher) -> list[Source]:
    """The sources that are configured, except DID documents."""
    found: list[Source] = []
    # Explicit values win over discovered ones, so what nobody would use is not fetched (seed 004).
    if settings.oidc_discovery and not (settings.jwks_uri and settings.issuer):
        found.append(OidcDiscovery(settings.oidc_discovery, not settings.jwks_uri, fetcher))
    if settings.jwks_uri:
        found.append(JwksUri(settings.jwks_uri, fetcher))
    if settings.jwks_path:
        found.append(JwksPath(settings.jwks_path))
    return found


def build_finder(
    settings: VerifierSettings, copies: KeyCopies | None, clock: FleetClock, cooldown: float | None
) -> Finder:
    """Finds keys where the settings say.

    Args:
        copies: the fleet's copies of keys; None: the process is alone.
        cooldown: seconds between requests to a source; None: derived from the settings.
    """
    fetcher = Fetcher()

    def ring(source: Source) -> Keyring:
        ttl, stale = settings.cache_ttl_seconds, settings.stale_on_error
        return Keyring(source, clock, copies, ttl=ttl, stale_on_error=stale, cooldown=cooldown)

    def of_issuer(issuer: str) -> Keyring:
        strict, loopback = settings.did_strict_relationship, settings.did_allow_loopback
        return ring(DidDocument(issuer, strict, loopback, fetcher))

    if settings.did_allowlist or settings.did_pattern:
        trust = did.Trust(settings.did_allowlist, settings.did_pattern)
        return DidFinder(trust, of_issuer, settings.did_loose_kid_match)
    rings = [ring(source) for source in static_sources(settings, fetcher)]
    says = next((one for one in rings if one.source.kind == "oidc_discovery" and not settings.issuer), None)
    return StaticFinder(rings, says)
