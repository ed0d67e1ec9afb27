"""Seals what clients keep for the fleet: encrypted, authenticated, and readable by every process.

The keys are those of ``store/signing_keys.py``, so a seal outlives the process that made it, and stays valid when the
keys are rotated.
"""

from __future__ import annotations

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.signing_keys import MOST_PURPOSES, KeyRing, SigningKeys


class Seals:
    """The seals of one process.

    What belongs to a project is sealed with keys of the project, which go with it to another store.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._keys = SigningKeys(store, settings.signing.keys, settings.signing.key_days)
        self._codecs: dict[tuple[str, str], tuple[KeyRing, AESGCMRequestStateCodec]] = {}
        self.audience = settings.auth.resource
        """Names this fleet, in case others have the same keys."""
        self.now = store.time
        """The time of Redis in ms; raises ToolFailure."""

    async def seal(self, purpose: str, data: bytes, project: str = "") -> str:
        """A text that only ``open`` can read, for the same purpose and project: letters, digits, ``-``, ``_``, ``.``.

        Raises:
            ToolFailure: as ``SigningKeys.ring``.
        """
        return (await self._codec(purpose, project)).seal(data)

    async def open(self, purpose: str, text: str, project: str = "") -> bytes | None:
        """What was sealed; None: the text is no seal of this purpose, or its key is no longer known.

        Raises:
            ToolFailure: as ``seal``.
        """
        try:
            return (await self._codec(purpose, project)).unseal(text)
        except InvalidRequestState:
            if not await self._keys.renewed(project):
                return None
        try:
            return (await self._codec(purpose, project)).unseal(text)
        except InvalidRequestState:
            return None

    async def _codec(self, purpose: str, project: str) -> AESGCMRequestStateCodec:
        ring = await self._keys.ring(project)
        known = self._codecs.get((purpose, project))
        if known is None or known[0] is not ring:
            # Keys given by the settings may repeat one under another id.
            secrets = dict.fromkeys(key.secret for key in ring.keys(f"seal:{purpose}"))
            made = AESGCMRequestStateCodec(list(secrets))
            if len(self._codecs) >= MOST_PURPOSES:
                self._codecs.clear()
            known = self._codecs[purpose, project] = ring, made
        return known[1]
