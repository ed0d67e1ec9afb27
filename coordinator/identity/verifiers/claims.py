"""Checks the claims of a token whose signature is valid: times, issuer, audience, subject."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from coordinator.identity.jws import BadToken
from coordinator.toolsets.actor import MAX_ID

LEEWAY = 60
"""Seconds that the clocks of issuer and fleet may differ."""


class Validity(NamedTuple):
    """Whom a token names, and when it is valid, in Unix seconds with leeway."""

    subject: str
    """``sub``; empty if there is none."""
    begins: float
    """-inf if there is neither ``nbf`` nor ``iat``."""
    ends: float


def check(claims: Mapping[str, Any], now: float, issuer: str, audience: str, longest: float) -> Validity:
    """Checks that the claims are valid at ``now``.

    ``exp`` must be there, ``nbf`` and ``iat`` need not; ``jti`` is ignored.

    Args:
        now: the fleet's time in Unix seconds.
        issuer: what 'iss' must be; empty: anything.
        audience: what 'aud' must contain; empty: anything.
        longest: how many seconds ahead 'exp' may be.

    Raises:
        BadToken: claims.
    """
    ends = _time(claims, "exp", math.inf) + LEEWAY
    if ends == math.inf:
        raise BadToken("claims", "the token has no expiry ('exp')")
    if ends < now:
        raise BadToken("claims", "the token has expired ('exp')")
    if ends > now + longest + 2 * LEEWAY:
        raise BadToken("claims", f"the token expires too far ahead ('exp'): more than {longest:.0f} seconds")
    begins = _time(claims, "nbf", -math.inf) - LEEWAY
    if begins > now:
        raise BadToken("claims", "the token is not valid yet ('nbf')")
    issued = _time(claims, "iat", -math.inf) - LEEWAY
    if issued > now:
        raise BadToken("claims", "the token was issued in the future ('iat')")
    if issuer and claims.get("iss") != issuer:
        raise BadToken("claims", "'iss' of the token is not the expected issuer")
    if audience and audience not in _audiences(claims.get("aud")):
        raise BadToken("claims", "'aud' of the token does not contain the expected audience")
    return Validity(_subject(claims), max(begins, issued), ends)


def _subject(claims: Mapping[str, Any]) -> str:
    found = claims.get("sub")
    if found is None:
        return ""
    if not isinstance(found, str) or not found.strip() or len(found) > MAX_ID:
        raise BadToken("claims", f"'sub' of the token must be text of 1 to {MAX_ID} characters, not blank")
    return found


def _time(claims: Mapping[str, Any], name: str, absent: float) -> float:
    if name not in claims:
        return absent
    value = claims[name]
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # an integer beyond any date
    raise BadToken("claims", f"{name!r} of the token is not a time in seconds")


def _audiences(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    return []
