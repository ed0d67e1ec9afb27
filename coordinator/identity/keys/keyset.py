"""Key sets: the keys in a document, and which of them may verify a token.

jwcrypto reads the keys. A key is used only as its type, curve, ``alg``, ``use`` and ``key_ops`` allow, whatever the
header of a token says (RFC 8725: one key, one algorithm).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from jwcrypto.common import JWException  # type: ignore[import-untyped]
from jwcrypto.jwk import JWK  # type: ignore[import-untyped]

from coordinator.identity.jws import canonical_name

MAX_KEYS = 1_000
"""Some fleets give each agent a key of its own, so a set may be long. Its size in bytes is limited too."""

_PUBLIC = ("kty", "kid", "use", "key_ops", "alg", "n", "e", "crv", "x", "y")
"""The members that are read. Others never reach jwcrypto, which would act on some, and private parts are not kept."""
_KEY = ("kty", "n", "e", "crv", "x", "y")
_BY_TYPE: dict[tuple[str, str], tuple[str, ...]] = {
    ("RSA", "None"): ("RS256", "RS384", "RS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_RSA_BITS = range(2_048, 8_193)
_EXPONENT_BITS = 64
_SLOW_RSA_BITS = 4_096
_SLOW = frozenset({"ES384", "ES512"})


class VerifyKey(NamedTuple):
    """A public key."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Any
    """The key object of the cryptography library."""
    thumbprint: str
    slow: bool
    """Whether a verification takes almost a millisecond."""
    jwk: Mapping[str, Any]
    """Its public members."""


class KeySet:
    """The usable keys of one document.

    Args:
        skipped: why other keys of the document are unusable, for people.
    """

    def __init__(self, keys: Iterable[VerifyKey] = (), skipped: Iterable[str] = ()) -> None:
        self.keys = tuple(keys)
        self.skipped = tuple(skipped)
        self._by_kid: dict[str, list[VerifyKey]] = {}
        for key in self.keys:
            if key.kid is not None:
                self._by_kid.setdefault(key.kid, []).append(key)

    def __len__(self) -> int:
        return len(self.keys)

    def same_as(self, other: KeySet) -> bool:
        """Whether both sets verify exactly the same tokens."""
        return self._facts() == other._facts()

    def _facts(self) -> list[tuple[str | None, tuple[str, ...], str]]:
        return [(key.kid, key.algorithms, key.thumbprint) for key in self.keys]

    def named(self, kid: str, algorithm: str) -> list[VerifyKey]:
        """The keys of this name that may verify this algorithm."""
        return [key for key in self._by_kid.get(kid, ()) if algorithm in key.algorithms]

    def knows(self, kid: str) -> bool:
        """Whether there is a usable key of this name."""
        return kid in self._by_kid

    def suiting(self, algorithm: str) -> list[VerifyKey]:
        """All keys that may verify this algorithm."""
        return [key for key in self.keys if algorithm in key.algorithms]


class BadDocument(Exception):
    """A document without a usable key set.

    Args:
        reason: completes "the key server ..." or "the key file ...".
        advice: what an operator can do about it.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


def decode(data: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadDocument: it is not a JSON object.
    """
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadDocument("gave something that is not JSON") from None
    if not isinstance(found, dict):
        raise BadDocument("gave something that is not a JSON object")
    return found


def key_set(document: Mapping[str, Any]) -> KeySet:
    """The usable keys of a JWKS document.

    Raises:
        BadDocument: it is not a key set, or has no usable key.
    """
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise BadDocument("gave no key set: 'keys' is not a list")
    if len(listed) > MAX_KEYS:
        raise BadDocument(f"gave a key set of more than {MAX_KEYS} keys")
    return usable((one, None) for one in listed)


def usable(listed: Iterable[tuple[Any, str | None]]) -> KeySet:
    """The usable keys among JWKs.

    Args:
        listed: each JWK with its name; None: its own 'kid'.

    Raises:
        BadDocument: there is none.
    """
    keys: list[VerifyKey] = []
    skipped: list[str] = []
    for number, (jwk, name) in enumerate(listed):
        try:
            keys.append(verify_key(jwk, name))
        except ValueError as error:
            skipped.append(f"key {number + 1}: {error}")
    if not keys:
        raise BadDocument(
            "gave a key set without a usable key" + (f" ({skipped[0]})" if skipped else ""),
            "usable are keys of RSA (2048 bits or more), P-256, P-384, P-521 and Ed25519",
        )
    return KeySet(keys, skipped)


def verify_key(jwk: Any, name: str | None) -> VerifyKey:
    """A key from its JWK.

    Args:
        name: its name; None: its own 'kid'.

    Raises:
        ValueError: it cannot be used; says why.
    """
    if not isinstance(jwk, Mapping):
        raise ValueError("is not an object")
    members = {member: jwk[member] for member in _PUBLIC if member in jwk}
    kty, crv = members.get("kty"), members.get("crv")
    suits = _BY_TYPE.get((str(kty), str(crv)))
    if suits is None:
        raise ValueError("is none of RSA, EC on P-256, P-384 or P-521, and Ed25519")
    if members.get("use", "sig") != "sig":
        raise ValueError("is not for signatures ('use')")
    operations = members.get("key_ops", ["verify"])
    if not isinstance(operations, list) or not {"verify", "sign"} & {str(one) for one in operations}:
        raise ValueError("is not for verifying ('key_ops')")
    if "alg" in members:
        own = canonical_name(str(members["alg"]))
        suits = tuple(one for one in suits if one == own)
        if not suits:
            raise ValueError("is for another algorithm ('alg')")
    kid = members.pop("kid", None) if name is None else name
    if kid is not None and not isinstance(kid, str):
        raise ValueError("has a 'kid' that is not text")
    made, thumbprint = _made({member: members[member] for member in _KEY if member in members})
    if kty == "RSA":
        if made.key_size not in _RSA_BITS or made.public_numbers().e.bit_length() > _EXPONENT_BITS:
            raise ValueError(f"must have {_RSA_BITS.start} to {_RSA_BITS.stop - 1} bits and a small exponent")
        slow = made.key_size > _SLOW_RSA_BITS
    else:
        slow = not _SLOW.isdisjoint(suits)
    public = {**members, **({} if kid is None else {"kid": kid})}
    return VerifyKey(kid, suits, made, thumbprint, slow, public)


def _made(members: dict[str, Any]) -> tuple[Any, str]:
    try:
        jwk = JWK(**members)
        return jwk.get_op_key("verify"), jwk.thumbprint()
    except (JWException, ValueError, TypeError, AttributeError, KeyError):
        # jwcrypto and the libraries below it raise all of these for wrong members.
        raise ValueError("is malformed") from None
