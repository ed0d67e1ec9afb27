"""The fleet's copies of key sets, in the store: who may ask a key server, and what it gave last.

However many processes there are, one of them asks a source per cooldown; the others take what it
got. A process that starts while the key server is down begins with the last good keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Raw, Struct

from coordinator.store import Script, Store, keys

if TYPE_CHECKING:
    from coordinator.identity.sources import Loaded, RemoteSource

PACKAGE = "coordinator.identity"
KEEP_DAYS = 30
_KEEP_MS = KEEP_DAYS * 86_400_000
EVENTS_MAX = 10_000
_STR_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""How long the head of a text is in msgpack, by its first byte; that of a short one is one byte."""


class FetchReply(Struct, array_like=True):
    """The store's reply to a process that wants keys."""

    now: int
    """Unix milliseconds."""
    verdict: Literal["take", "ask", "busy", "wait"]
    fetched: int
    """When the fleet's copy was fetched; 0: there is none."""
    packed: Raw
    """``document`` as msgpack's text, which nobody has looked at: a damaged one need not be UTF-8."""
    wait_ms: int
    trouble: str
    """Why the source gave no keys when it was last asked; empty: it did."""
    kind: str

    @property
    def document(self) -> bytes:
        """The fleet's copy, for ``RemoteSource.read``."""
        packed = bytes(self.packed)
        return packed[_STR_HEADS.get(packed[0], 1) :]


_LEASE = Script(PACKAGE, "lease_key_fetch", FetchReply, scope="fleet")
_KEEP = Script(PACKAGE, "keep_keys", scope="fleet")
_FAIL = Script(PACKAGE, "fail_keys", scope="fleet")
_POLICY = Script(PACKAGE, "note_policy", scope="fleet")


class KeyCopies:
    """Calls of the scripts. Every method raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def lease_fetch(self, source: RemoteSource, have: int, lease_ms: int) -> FetchReply:
        """Newer keys than those fetched at ``have``, or whether to ask the source.

        Args:
            lease_ms: how long asking may take before others may ask; 0 only looks.
        """
        return await self._store.run(_LEASE, keys.FLEET, source.name, have, lease_ms)

    async def keep(self, source: RemoteSource, loaded: Loaded, rest_ms: int) -> int:
        """Shares what a source gave, which is left alone for ``rest_ms`` now; returns when that was."""
        words = (source.name, source.label, loaded.document(), rest_ms, _KEEP_MS, EVENTS_MAX)
        return int(await self._store.run(_KEEP, keys.FLEET, *words))

    async def fail(self, source: RemoteSource, trouble: str, kind: str, rest_ms: int) -> int:
        """Tells the others that a source gave nothing, and is left alone for ``rest_ms`` now; returns the time."""
        words = (source.name, source.label, trouble, kind, rest_ms, _KEEP_MS, EVENTS_MAX)
        return int(await self._store.run(_FAIL, keys.FLEET, *words))

    async def policy(self, policy: str, verifier: str) -> bool:
        """Says what this process goes by; whether the fleet went by something else before."""
        return bool(await self._store.run(_POLICY, keys.FLEET, policy, verifier, EVENTS_MAX))
