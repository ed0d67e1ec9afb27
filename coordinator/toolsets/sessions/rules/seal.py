"""The keys of the fleet as what signs session and trace tokens (seed 000: HMAC-SHA256, in hex)."""

from __future__ import annotations

import re

from coordinator.store.signing_keys import KeyRing

_SIGNATURE = re.compile(r"[0-9a-f]{64}")


class RingSeal:
    """A ``tokens.Seal`` over the keys that a process knows; the newest signs, all of them verify.

    Args:
        purpose: what the keys are derived for; empty takes them as they are, as the seed has it for session tokens.
    """

    def __init__(self, ring: KeyRing, purpose: str = "") -> None:
        self._ring = ring
        self._purpose = purpose

    def sign(self, text: bytes) -> str:
        """The signature of the newest key, in lower-case hex."""
        return self._ring.sign(self._purpose, text).mac.hex()

    def genuine(self, text: bytes, signature: str) -> bool:
        """Whether any of the keys made the signature."""
        if _SIGNATURE.fullmatch(signature) is None:
            return False
        return self._ring.verify(self._purpose, text, bytes.fromhex(signature)) is not None
