"""What the section ``actor_authentication`` of the settings means: who acts, and what may not be meant so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from coordinator.settings import redacted
from coordinator.settings.sections.identity import ActorAuthentication, Policy, VerifierSettings

PROMISES: dict[Policy, str] = {
    "accept-cached": "a proof that verifies decides who acts; without one, actors are who they say they are",
    "accept-self-reported": "actors are always who they say they are; what became of their proofs is only recorded",
    "reject": "only actors whose proof verifies may claim, complete, or move what is claimed",
}
_LOCAL = ("localhost", "127.0.0.1", "::1")


def explained(section: ActorAuthentication) -> Iterator[str]:
    """How actors are identified, line by line."""
    if section.enabled:
        yield "required: advance_item and manage_notes upsert are refused if any element has no actor"
    else:
        yield "optional: transitions and notes say who made them where the caller tells"
    verifier = section.verifier
    if verifier.type == "noop":
        yield "proofs are not verified: every actor is 'unchecked'"
    else:
        yield from _verified(verifier)
    yield f"policy {section.policy}: {PROMISES[section.policy]}"


def _verified(verifier: VerifierSettings) -> Iterator[str]:
    of = f" of {verifier.issuer}" if verifier.issuer else ""
    audience = f" for {verifier.audience}" if verifier.audience else ""
    yield f"proofs are JWTs{of}{audience}, signed with {' or '.join(verifier.algorithms)}"
    if verifier.did_allowlist or verifier.did_pattern:
        named = [*verifier.did_allowlist, *([verifier.did_pattern] if verifier.did_pattern else [])]
        yield f"their keys come from the did:web documents of {', '.join(named)}"
    else:
        places = (f"{name} {redacted(getattr(verifier, name))}" for name in verifier.sources)
        yield f"their keys come from {', '.join(places)}"
    stale = "older ones serve" if verifier.stale_on_error else "proofs are 'unavailable'"
    yield f"keys count as fresh for {verifier.cache_ttl_seconds} s; while no fresh ones can be fetched, {stale}"


def notices(section: ActorAuthentication, *, callers: bool) -> Iterator[str]:
    """Settings that the operator may not have meant. ``callers``: bearer tokens prove who calls."""
    verifier = section.verifier
    if verifier.type == "noop":
        if verifier.sources:
            yield f"actor_authentication.verifier.type is noop, so {', '.join(verifier.sources)} is ignored"
        if section.policy == "reject" and not callers:
            yield "no agent can claim anything: policy reject trusts verified actors only, and type noop verifies none"
        return
    if section.policy != "reject":
        yield f"policy {section.policy} also trusts actors whose proof is rejected, under the id they give themselves"
    if not verifier.audience:
        yield "audience is not set: a token that was issued for another service is accepted here"
    if not (verifier.issuer or verifier.oidc_discovery or verifier.did_allowlist or verifier.did_pattern):
        yield "issuer is not set: any issuer is accepted whose tokens are signed with one of the keys"
    if not verifier.require_sub_match:
        yield "require_sub_match is false: a token without 'sub' is valid for any actor"
    for name in ("oidc_discovery", "jwks_uri"):
        url = urlsplit(getattr(verifier, name))
        if url.scheme == "http" and url.hostname not in _LOCAL:
            yield f"{name} is not https: anybody on the network path to {url.hostname} can replace the keys"
    if verifier.jwks_path and not Path(verifier.jwks_path).is_file():
        yield f"the key file {verifier.jwks_path} does not exist (yet)"
    if verifier.did_allow_loopback:
        yield "did_allow_loopback is for development only"
