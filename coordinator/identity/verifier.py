"""The interface of verifiers: a verifier takes a token and returns the outcome of its verification.

``noop`` and ``jwks`` implement it; ``actors`` (proofs) and ``authenticator`` (bearer tokens) use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

Status = Literal["absent", "unchecked", "verified", "rejected", "unavailable"]
"""absent: there is no token; unchecked: nothing is verified; unavailable: it cannot be verified now."""

FailureKind = Literal["crypto", "claims", "policy", "network", "internal"]
"""crypto: signature or key; claims: exp, nbf, iss, aud, sub; policy: not trusted; network: there are no keys."""

_NOTHING: Mapping[str, Any] = {}


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of verifying a token."""

    status: Status
    verifier: str
    """The verifier: ``noop`` or ``jwks``."""
    subject: str = ""
    """``sub`` of a verified token; empty if it has none."""
    claims: Mapping[str, Any] = _NOTHING
    """All claims of a verified token; not to be changed."""
    reason: str = ""
    """What went wrong, in a sentence without any part of the token but names; empty if nothing did."""
    failure: FailureKind | None = None
    """Only with the statuses rejected and unavailable."""
    stale_seconds: int | None = None
    """Age of the keys, if a verified token was verified with keys that could not be renewed in time."""
    source: str = ""
    """Of a verified token, a digest of the setting that its keys came from; empty: from the document of a DID."""
    expires: float | None = None
    """When a verified token stops being valid, in Unix seconds, leeway included; None: it never does."""

    @property
    def metadata(self) -> dict[str, str]:
        """``failureKind``, ``verifiedFromCache`` and ``cacheAgeSeconds`` as answers show them; often empty."""
        found: dict[str, str] = {}
        if self.failure is not None:
            found["failureKind"] = self.failure
        if self.stale_seconds is not None:
            found["verifiedFromCache"] = "true"
            found["cacheAgeSeconds"] = str(self.stale_seconds)
        return found


class Verifier(Protocol):
    """Verifies tokens. One of a process serves any number of calls at once."""

    @property
    def name(self) -> str:
        """``noop`` or ``jwks``; part of every outcome."""

    @property
    def without_token(self) -> Outcome:
        """The outcome where there is no token."""

    async def start(self) -> None:
        """Loads the keys that the fleet has already, and starts renewing them in the background.

        Waits for a key server, at most two seconds, only if the fleet has no copy of its keys.
        """

    async def verify(self, token: str | None) -> Outcome:
        """Verifies a token; never raises, whatever is in it.

        The caller compares ``subject`` with the expected bearer (``require_sub_match``).
        Waits for keys at most about a second, and only if none of its keys decides.
        """

    def report(self) -> dict[str, Any]:
        """What /readyz says: the sources, the age of their keys, and trouble with them."""

    async def aclose(self) -> None:
        """Ends what runs in the background."""
