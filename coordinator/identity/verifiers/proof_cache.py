"""A cache of verified proofs, so that a proof that comes again needs no second signature check.

An entry belongs to one exact token, identified by its hash; tokens themselves are not kept. The user of an entry must
check whether its keys and times are still valid.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from coordinator.identity.keys.cache import KeyCache
from coordinator.identity.keys.keyset import KeySet, VerifyKey

MOST = 10_000


class Proof(Struct):
    """A verified token."""

    cache: KeyCache
    keys: KeySet
    """The key set that had the key when the proof was last used."""
    key: VerifyKey
    algorithm: str
    issuer: str
    """The issuer that it had to name when it was verified."""
    subject: str
    claims: Mapping[str, Any]
    begins: float
    """Unix seconds, leeway included."""
    ends: float
    source: str
    """``Outcome.source``."""
    outcome: Any = None
    """The outcome to give again as long as the keys are fresh."""


class ProofCache:
    """The latest proofs of this process, by the hash of the token."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.held: OrderedDict[bytes, Proof] = OrderedDict()
        """By the hash of the token, the oldest first."""

    def __len__(self) -> int:
        return len(self.held)

    @staticmethod
    def name(token: str) -> bytes:
        """The hash of a token."""
        return sha256(token.encode("utf-8", "surrogatepass")).digest()

    def get(self, name: bytes) -> Proof | None:
        """The proof of exactly this token."""
        return self.held.get(name)

    def keep(self, name: bytes, proof: Proof) -> None:
        """Keeps a proof in place of the oldest."""
        self.held[name] = proof
        self.held.move_to_end(name)
        if len(self.held) > self._most:
            self.held.popitem(last=False)

    def drop(self, name: bytes) -> None:
        self.held.pop(name, None)
