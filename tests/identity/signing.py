"""Keys and tokens for tests, valid and forged."""

from __future__ import annotations

import base64
import functools
import json
import time
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwcrypto.jwk import JWK  # type: ignore[import-untyped]
from jwt.algorithms import get_default_algorithms

Json = dict[str, Any]
ISSUER = "https://issuer.example"
AUDIENCE = "fleet"
ALGORITHMS = ("EdDSA", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512")
_CURVES: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


def make_private(algorithm: str, bits: int = 2048) -> Any:
    """A new private key."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        return ec.generate_private_key(_CURVES[algorithm])
    return rsa.generate_private_key(65537, bits)


@functools.cache
def _spare(algorithm: str, number: int) -> Any:
    """Keys that tests share, because making RSA keys takes long."""
    return make_private(algorithm)


class Signer:
    """A key that signs, and its name.

    Args:
        number: different numbers are different keys.
    """

    def __init__(self, kid: str | None = "key-1", algorithm: str = "EdDSA", number: int = 0) -> None:
        self.kid = kid
        self.algorithm = algorithm
        self.private = _spare(algorithm, number)

    @property
    def jwk(self) -> Json:
        """The public key."""
        found: Json = JWK.from_pyca(self.private.public_key()).export_public(as_dict=True)
        found.pop("kid", None)
        return {**found, **({} if self.kid is None else {"kid": self.kid})}

    @property
    def private_jwk(self) -> Json:
        """The private key, which nobody should publish."""
        found: Json = JWK.from_pyca(self.private).export_private(as_dict=True)
        return {**found, "kid": self.kid}

    @property
    def pem(self) -> bytes:
        """The public key as text."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        found: bytes = self.private.public_key().public_bytes(serialization.Encoding.PEM, form)
        return found

    def token(self, subject: str | None = "agent", /, head: Json | None = None, **more: Any) -> str:
        """A token; claims that are None are left out."""
        claims = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600, **more}
        header = {"alg": self.algorithm, "typ": "JWT", "kid": self.kid, **(head or {})}
        return self.sign(_known(header), _known(claims))

    def sign(self, header: Json | str, claims: Json | str) -> str:
        """A token of exactly this text."""
        signed = f"{encoded(header)}.{encoded(claims)}"
        signature = get_default_algorithms()[self.algorithm].sign(signed.encode(), self.private)
        return f"{signed}.{plain(signature)}"


def jwks(*signers: Signer) -> Json:
    """A key set."""
    return {"keys": [signer.jwk for signer in signers]}


def encoded(value: Json | str | bytes) -> str:
    """One part of a token."""
    if isinstance(value, dict):
        value = json.dumps(value)
    return plain(value.encode() if isinstance(value, str) else value)


def plain(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _known(members: Json) -> Json:
    return {name: value for name, value in members.items() if value is not None}
