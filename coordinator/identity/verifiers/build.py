"""Makes verifiers from their settings."""

from __future__ import annotations

from coordinator.identity.clock import FleetClock
from coordinator.identity.keys.copies import KeyCopies
from coordinator.identity.verifier import Verifier
from coordinator.identity.verifiers.noop import NoopVerifier
from coordinator.settings.sections.identity import VerifierSettings
from coordinator.store import Store


def build_verifier(settings: VerifierSettings, store: Store | None, cooldown: float | None = None) -> Verifier:
    """The verifier that the settings ask for, which serves at once; ``start`` warms it up.

    Args:
        settings: without problems (``verifier_problems``).
        store: where the fleet shares keys and time; None: the process is alone.
        cooldown: seconds between requests to a source; derived from the settings by default.
    """
    if settings.type == "noop":
        return NoopVerifier()
    # Imported here: most processes verify nothing and need no cryptography.
    from coordinator.identity.keys.resolvers import build_key_resolver
    from coordinator.identity.verifiers.jwks import JwksVerifier

    copies = KeyCopies(store) if store is not None else None
    clock = FleetClock(store.time if store is not None else None)
    return JwksVerifier(settings, build_key_resolver(settings, copies, clock, cooldown), clock)
