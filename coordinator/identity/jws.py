"""Reads a signed JWT (JWS in compact form) as strictly as possible. Does not check the signature.

Rejects whatever parsers could read differently (duplicate members, loose base64, unknown extensions),
and tokens of another kind (RFC 8725). Ignores hints in the header about where to find the key (jwk, jku, x5c, x5u).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, NamedTuple, NoReturn

from coordinator.identity.verifier import FailureKind

MAX_TOKEN = 10_000
"""Characters of the longest proof."""
MAX_KID = 128
"""Characters of a 'kid' that names a key of a key set."""
MAX_KID_URL = 1_000
"""Characters of a 'kid' that may be the full URL of a key in a DID document."""

_MOST_PARTS = 400
"""Objects and arrays in header or payload. Keeps nesting below Python's own limit, which is not the same everywhere."""
_SEGMENT = re.compile(r"[A-Za-z0-9_-]*")
_ALIASES = {"Ed25519": "EdDSA"}
"""The name in RFC 9864 -> the name in RFC 8037. No other curve of EdDSA is used here."""
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})


class BadToken(Exception):
    """A token that must not be trusted.

    Args:
        kind: the ``failureKind`` of the verification.
        reason: a sentence; must not hold any part of the token, because other agents may read it.
    """

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind
        self.reason = reason


class Token(NamedTuple):
    """A token, read but not verified."""

    algorithm: str
    """Its ``canonical_name``."""
    kid: str | None
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def canonical_name(algorithm: str) -> str:
    """The name of a signature algorithm as settings and keys use it; EdDSA has two names."""
    return _ALIASES.get(algorithm, algorithm)


def read(text: str, max_kid: int = MAX_KID) -> Token:
    """The parts of a token.

    Raises:
        BadToken: crypto, if it is malformed or unsigned; policy, if it is of another kind.
    """
    if len(text) > MAX_TOKEN:
        raise BadToken("crypto", f"the token has more than {MAX_TOKEN} characters")
    segments = text.split(".")
    if len(segments) != 3:
        raise BadToken("crypto", "the token is not a signed JWT of three parts")
    head = _object(segments[0], "header")
    algorithm = head.get("alg")
    if not isinstance(algorithm, str) or algorithm.lower() == "none":
        raise BadToken("crypto", "the token is not signed")
    # RFC 7515 section 4.1.11: what is critical and not understood makes the token invalid; we understand none.
    if "crit" in head or "b64" in head:
        raise BadToken("crypto", "the token uses an extension of JWS ('crit' or 'b64') that is not understood")
    kind = head.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise BadToken("policy", "the token is of another kind ('typ') than a JWT or an access token")
    kid = head.get("kid")
    if kid is not None and (not isinstance(kid, str) or not 1 <= len(kid) <= max_kid):
        raise BadToken("crypto", f"'kid' of the token must be text of 1 to {max_kid} characters")
    claims = _object(segments[1], "payload")
    signature = _decoded(segments[2], "signature")
    if not signature:
        raise BadToken("crypto", "the token is not signed")
    return Token(canonical_name(algorithm), kid, claims, f"{segments[0]}.{segments[1]}".encode(), signature)


def _decoded(segment: str, part: str) -> bytes:
    if not _SEGMENT.fullmatch(segment):
        raise BadToken("crypto", f"the {part} of the token is not base64url")
    try:
        decoded = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except binascii.Error:
        raise BadToken("crypto", f"the {part} of the token is not base64url") from None
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != segment.encode():
        raise BadToken("crypto", f"the {part} of the token is not canonical base64url")
    return decoded


def _object(segment: str, part: str) -> dict[str, Any]:
    data = _decoded(segment, part)
    if data.count(b"{") + data.count(b"[") > _MOST_PARTS:
        raise BadToken("crypto", f"the {part} of the token has too many parts")
    try:
        value = _JSON.decode(data.decode())
        if b"\\u" in data:
            # A lone surrogate cannot be encoded, so it can be neither stored nor returned.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise BadToken("crypto", f"the {part} of the token is not JSON with every member once") from None
    if not isinstance(value, dict):
        raise BadToken("crypto", f"the {part} of the token is not a JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate member")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


_JSON = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
