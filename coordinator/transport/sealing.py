"""Seals what clients keep for the fleet: encrypted, authenticated, and readable by every process.

The keys are those of ``store/signing_keys.py``, so a seal outlives the process that made it, and stays valid when the
keys are rotated.
"""

from __future__ import annotations

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.signing_keys import KeyRing, SigningKeys


class Seals:
    """The seals of one process."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._keys = SigningKeys(store, settings.signing.keys, settings.signing.key_days)
        self._codecs: dict[str, tuple[KeyRing, AESGCMRequestStateCodec]] = {}
        self.audience = settings.auth.resource
        """Names this fleet, in case others have the same keys."""
        self.now = store.time
        """The time of Redis in ms; raises ToolFailure."""

    async def seal(self, purpose: str, data: bytes) -> str:
        """A text that only ``open`` with the same purpose can read: letters, digits, ``-``, ``_`` and ``.``.

        Raises:
            ToolFailure: ``store_unavailable``, if this process has never read the keys.
        """
        return (await self._codec(purpose)).seal(data)

    async def open(self, purpose: str, text: str) -> bytes | None:
        """What was sealed; None: the text is no seal of this purpose, or its key is no longer known.

        Raises:
            ToolFailure: as ``seal``.
        """
        try:
            return (await self._codec(purpose)).unseal(text)
        except InvalidRequestState:
            if not await self._keys.renewed():
                return None
        try:
            return (await self._codec(purpose)).unseal(text)
        except InvalidRequestState:
            return None

    async def _codec(self, purpose: str) -> AESGCMRequestStateCodec:
        ring = await self._keys.ring()
        known = self._codecs.get(purpose)
        if known is None or known[0] is not ring:
            # Keys given by the settings may repeat one under another id.
            secrets = dict.fromkeys(key.secret for key in ring.keys(f"seal:{purpose}"))
            made = AESGCMRequestStateCodec(list(secrets))
            known = self._codecs[purpose] = ring, made
        return known[1]
