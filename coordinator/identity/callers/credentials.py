"""Names of credentials that are JWTs, and whether their issuers are still trusted."""

from __future__ import annotations

from hashlib import sha256

from coordinator.settings.sections.identity import VerifierSettings
from coordinator.toolsets.caller import OfJwt


def name_of(issuer: str, subject: str) -> str:
    """``OfJwt.name``."""
    return _digest(issuer, subject)


def source_of(settings: VerifierSettings, kind: str) -> str:
    """``OfJwt.source`` of keys that come from what the setting ``kind`` names; empty: from the document of a DID."""
    return "" if kind == "did" else _digest(kind, getattr(settings, kind))


def trusts(verifier: VerifierSettings | None, credential: OfJwt) -> bool:
    """Whether JWTs of the issuer are accepted."""
    if verifier is None or verifier.type == "noop":
        return False
    if verifier.did_allowlist or verifier.did_pattern:
        # Imported here: most processes verify nothing and need no cryptography.
        from coordinator.identity.keys.did import Trust

        return credential.issuer in Trust(verifier.did_allowlist, verifier.did_pattern)
    if verifier.issuer:
        return credential.issuer == verifier.issuer
    return credential.source in {source_of(verifier, kind) for kind in verifier.sources}


def _digest(*words: str) -> str:
    return sha256("\n".join(words).encode(errors="surrogatepass")).hexdigest()[:24]
