"""Signs session and trace tokens with the keys of the fleet, and verifies them (HMAC-SHA256, in hex)."""

from __future__ import annotations

import re

from coordinator.store.signing_keys import KeyRing

_SIGNATURE = re.compile(r"[0-9a-f]{64}")


class Signer:
    """Signs with the newest key that a process knows, and verifies with all of them.

    Args:
        purpose: the purpose for which keys are derived. Empty: the keys are used directly, as the format of session
            tokens requires.
    """

    def __init__(self, ring: KeyRing, purpose: str = "") -> None:
        self._ring = ring
        self._purpose = purpose

    def sign(self, text: bytes) -> str:
        """The HMAC-SHA256 of the text under the newest key, in lower-case hex."""
        return self._ring.sign(self._purpose, text).mac.hex()

    def verify(self, text: bytes, signature: str) -> bool:
        """Whether the signature is that of the text under any of the keys."""
        if _SIGNATURE.fullmatch(signature) is None:
            return False
        return self._ring.verify(self._purpose, text, bytes.fromhex(signature)) is not None
