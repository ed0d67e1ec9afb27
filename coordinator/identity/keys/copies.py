"""The fleet's copies of key sets in the store, and the leases that decide which process may ask a key server.

However many processes there are, only one of them asks a source per cooldown, and the others take its copy. A process
that starts while the key server is down begins with the last good keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Raw, Struct

from coordinator.store import Library, Script, Store, keys

if TYPE_CHECKING:
    from coordinator.identity.keys.sources import Loaded, RemoteSource

LIBRARY = Library("coordinator.identity")
KEEP_DAYS = 30
_KEEP_MS = KEEP_DAYS * 86_400_000
EVENTS_MAX = 10_000
_STR_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""The length of the head of a msgpack text, by its first byte. The head of a short text is one byte."""


class FetchReply(Struct, array_like=True):
    """The store's reply to a process that wants keys."""

    now: int
    """Unix milliseconds."""
    verdict: Literal["take", "ask", "busy", "wait"]
    """``busy``: another process is asking right now."""
    fetched: int
    """When the fleet's copy was fetched; 0: there is none."""
    packed: Raw
    """``document`` as a msgpack text. Not decoded, because a damaged one may not be UTF-8."""
    wait_ms: int
    """When the next process may ask."""
    trouble: str
    """Why the source gave no keys when it was last asked; empty: it gave some."""
    kind: str

    @property
    def document(self) -> bytes:
        """The fleet's copy, for ``RemoteSource.read``."""
        packed = bytes(self.packed)
        return packed[_STR_HEADS.get(packed[0], 1) :]


_LEASE = Script(LIBRARY, "lease_key_fetch", FetchReply, scope="fleet")
_KEEP = Script(LIBRARY, "keep_keys", scope="fleet")
_FAIL = Script(LIBRARY, "fail_keys", scope="fleet")
_POLICY = Script(LIBRARY, "note_policy", scope="fleet")


class KeyCopies:
    """Calls of the scripts. Every method raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def lease_fetch(self, source: RemoteSource, have: int, lease_ms: int) -> FetchReply:
        """Gets newer keys than those fetched at ``have``, or else the right to ask the source.

        Args:
            lease_ms: after this time others may ask; 0: only look, do not ask for the right.
        """
        return await self._store.run(_LEASE, keys.FLEET, source.name, have, lease_ms)

    async def keep(self, source: RemoteSource, loaded: Loaded, rest_ms: int) -> int:
        """Shares the keys that a source gave; no process asks it for the next ``rest_ms``. Returns the time."""
        words = (source.name, source.label, loaded.document(), rest_ms, _KEEP_MS, EVENTS_MAX)
        return int(await self._store.run(_KEEP, keys.FLEET, *words))

    async def fail(self, source: RemoteSource, trouble: str, kind: str, rest_ms: int) -> int:
        """Notes that a source failed; no process asks it for the next ``rest_ms``. Returns the time."""
        words = (source.name, source.label, trouble, kind, rest_ms, _KEEP_MS, EVENTS_MAX)
        return int(await self._store.run(_FAIL, keys.FLEET, *words))

    async def policy(self, policy: str, verifier: str) -> bool:
        """Notes the policy and verifier of this process; returns whether the fleet had others before."""
        return bool(await self._store.run(_POLICY, keys.FLEET, policy, verifier, EVENTS_MAX))
