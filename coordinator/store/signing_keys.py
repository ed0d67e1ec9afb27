"""The keys that tokens are signed with, the same in every process of the fleet.

They are made once and kept in Redis, or given by the setting ``signing.keys``. The newest key signs. After
``signing.key_days`` a new key takes over, and the ``KEPT`` previous ones still verify what they signed. Each purpose
has keys of its own, derived from these, so that a token of one kind is never taken for one of another. A process keeps
the keys in memory. If a signature matches none of them, it reads the keys again, at most once a second.

What belongs to a project is signed with keys of the project, derived from those of the fleet. They are all that another
store gets of them when a project is moved there (``moved_keys``): they verify there what was signed before, for as long
as they would have here, and nothing is signed with them. A project that arrives somewhere, or is accepted, has a new
salt, which goes into the derivation: its new keys are known to none of the stores where it was before, and those that
left with a project are no keys of another one of its name.

Keys never appear in logs, answers or metrics.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.fences.known import Fenced
from coordinator.store.link.replies import mapping
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

KEPT = 4
"""How many older keys still verify."""
REREAD_SECONDS = 3600.0
"""How often a process reads the keys again."""
RETRY_SECONDS = 1.0
"""How often it may do so because a signature matches none of them."""
SHORTEST = 16
"""The shortest signature, in bytes, that is checked at all."""
MOST_PURPOSES = 1_000
"""For how many purposes a process holds derived keys."""
MOST_PROJECTS = 1_000
"""For how many projects it does."""
SALT = "salt"
"""The field of a project's salt; all others are keys that verify, ``ends in ms:hex digits``."""
_DAY_MS = 86_400_000

_KEYS = Script(STORE, "signing_keys", list[tuple[str, str]], scope="fleet")


class Key(NamedTuple):
    """One key. Its text form hides the secret."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.id})"


class Signature(NamedTuple):
    """The signature over some bytes."""

    key: str
    mac: bytes
    """HMAC-SHA256, 32 bytes."""


class KeyRing:
    """The keys that a process knows at one moment; the first signs, all verify."""

    def __init__(self, held: Sequence[Key]) -> None:
        if not held:
            raise ValueError("a ring needs a key")
        self.ids = tuple(key.id for key in held)
        self._held = tuple(held)
        self._derived: dict[str, tuple[Key, ...]] = {}

    def sign(self, purpose: str, data: bytes) -> Signature:
        """Signs ``data`` with the newest key, for this purpose only."""
        key = self.keys(purpose)[0]
        return Signature(key.id, hmac.digest(key.secret, data, "sha256"))

    def verify(self, purpose: str, data: bytes, mac: bytes) -> str | None:
        """The id of the key that made a signature over ``data``; None if none of them did.

        Args:
            mac: the signature or its beginning, 16 bytes at least.
        """
        if len(mac) < SHORTEST:
            return None
        for key in self.keys(purpose):
            if hmac.compare_digest(hmac.digest(key.secret, data, "sha256")[: len(mac)], mac):
                return key.id
        return None

    def keys(self, purpose: str) -> tuple[Key, ...]:
        """The keys for a purpose, 32 bytes each, newest first; for the purpose '' the underived keys.

        Never sign text that a caller can choose with the underived keys: it could be the text that another purpose's
        keys are derived from. Session tokens do use these keys, because their form is fixed bit by bit, and are safe
        because their text has no colon.
        """
        if not purpose:
            return self._held
        found = self._derived.get(purpose)
        if found is None:
            if len(self._derived) >= MOST_PURPOSES:
                self._derived.clear()
            salt = f"fleet-coordinator:{purpose}".encode()
            found = tuple(Key(key.id, hmac.digest(key.secret, salt, hashlib.sha256)) for key in self._held)
            self._derived[purpose] = found
        return found

    def of(self, project: str, salt: str, others: Sequence[Key] = ()) -> KeyRing:
        """The keys of a project.

        Args:
            salt: that of the project, or ''.
            others: keys that verify, besides.
        """
        text = f"fleet-coordinator:project:{salt}:{project}".encode()
        return KeyRing([*(Key(key.id, hmac.digest(key.secret, text, hashlib.sha256)) for key in self._held), *others])


class _OfProject(NamedTuple):
    """The keys of a project, and what they were made from."""

    ring: KeyRing
    fleet: KeyRing
    salt: str
    others: tuple[Key, ...]
    fences: str
    """``KnownFences.changes`` when they were read: a project that was away since may have other keys."""
    read_at: float


class SigningKeys:
    """The fleet's keys, as one process has them.

    Args:
        given: ``id:64 hex digits`` each, the signing one first; empty: the fleet makes its own and keeps them in Redis.
        days: how long each of the fleet's own keys signs.
    """

    def __init__(self, store: Store, given: Sequence[str] = (), days: int = 90) -> None:
        self._store = store
        self._rotate_ms = days * _DAY_MS
        self._given = KeyRing([_given(one) for one in given]) if given else None
        self._ring: KeyRing | None = self._given
        self.read_at = 0.0
        """When the fleet's keys were read last, by the monotonic clock."""
        self._reading: asyncio.Task[KeyRing] | None = None
        self._projects: dict[str, _OfProject] = {}

    async def ring(self, project: str = "") -> KeyRing:
        """The keys of a project, or of the fleet for ''; read again once an hour.

        Raises:
            ToolFailure: ``store_unavailable``, if this process has not read these keys yet; the project is refused, or
                none can have this name.
        """
        fleet = await self._fleet()
        return (await self._of(project, fleet)).ring if project else fleet

    async def _fleet(self) -> KeyRing:
        ring = self._ring
        if ring is not None and (self._given is not None or time.monotonic() - self.read_at < REREAD_SECONDS):
            return ring
        try:
            return await self._read()
        except ToolFailure:
            if ring is None:
                raise
            return ring

    async def _of(self, project: str, fleet: KeyRing) -> _OfProject:
        known, fences, now = self._projects.get(project), self._store.fences.changes, time.monotonic()
        if known is not None and known.fences == fences and now - known.read_at < REREAD_SECONDS:
            if known.fleet is fleet:
                return known
            salt, others, now = known.salt, known.others, known.read_at
        else:
            try:
                salt, others = await self._read_project(project)
            except ToolFailure as failure:
                if known is None or isinstance(failure, Fenced):
                    raise
                salt, others, now = known.salt, known.others, known.read_at
        if len(self._projects) >= MOST_PROJECTS:
            self._projects.clear()
        made = _OfProject(fleet.of(project, salt, others), fleet, salt, others, fences, now)
        self._projects[project] = made
        return made

    async def _read_project(self, project: str) -> tuple[str, tuple[Key, ...]]:
        """The salt of a project, and the keys of the stores that it comes from, as far as their time is not over."""
        held = mapping(await self._store.command("HGETALL", keys.project_keys.key(project)))
        salt, others = held.pop(SALT.encode(), b"").decode(), list[Key]()
        now = await self._store.time() if held else 0
        for name, value in held.items():
            ends, _, secret = value.decode().partition(":")
            if int(ends) > now:
                others.append(Key(name.decode(), bytes.fromhex(secret)))
        return salt, tuple(others)

    async def sign(self, purpose: str, data: bytes, project: str = "") -> Signature:
        """Signs with the newest key. Raises as ``ring``."""
        return (await self.ring(project)).sign(purpose, data)

    async def verify(self, purpose: str, data: bytes, mac: bytes, project: str = "") -> str | None:
        """The id of the key that made the signature, or None; reads the keys again before it returns None.

        Raises:
            ToolFailure: as ``ring``; ``store_unavailable``, if no known key matches and newer ones cannot be read.
        """
        ring = await self.ring(project)
        found = ring.verify(purpose, data, mac)
        if found is not None or not await self.renewed(project):
            return found
        return (await self.ring(project)).verify(purpose, data, mac)

    async def renewed(self, project: str = "") -> bool:
        """Reads the keys again, unless that was done a moment ago; returns whether they have changed.

        Raises:
            ToolFailure: ``store_unavailable``.
        """
        changed = await self._fleet_renewed()
        known = self._projects.get(project)
        if known is None or time.monotonic() - known.read_at < RETRY_SECONDS:
            return changed
        del self._projects[project]
        now = await self._of(project, await self._fleet())
        return changed or (now.salt, now.others) != (known.salt, known.others)

    async def _fleet_renewed(self) -> bool:
        before = self._ring
        if self._given is not None or time.monotonic() - self.read_at < RETRY_SECONDS:
            return False
        after = await self._read()
        return before is None or before.ids != after.ids

    async def _read(self) -> KeyRing:
        """The keys of the fleet; calls at the same time share one read."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read_from_store())
            self._reading.add_done_callback(self._forget_read)
        # Shielded, so that a cancelled caller does not cancel the read for the others.
        return await asyncio.shield(self._reading)

    async def _read_from_store(self) -> KeyRing:
        rows = await self._store.run(
            _KEYS, keys.FLEET, secrets.token_hex(4), secrets.token_hex(32), self._rotate_ms, KEPT
        )
        ring = KeyRing([Key(identity, bytes.fromhex(secret)) for identity, secret in rows])
        if self._ring is None or self._ring.ids != ring.ids:
            self._ring = ring
        self.read_at = time.monotonic()
        return self._ring

    def _forget_read(self, task: asyncio.Task[KeyRing]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the callers get it


def moved_keys(ring: KeyRing, held: Mapping[bytes, bytes], project: str, ends: int, salt: str) -> dict[str, str]:
    """What a project has at the store that it is moved to, as a hash.

    Args:
        ring: the keys of the fleet that it leaves.
        held: the project's hash there.
        ends: until when keys of that fleet verify at the other store, in ms.
        salt: the new one.
    """
    found = {name.decode(): value.decode() for name, value in held.items()}
    keys = ring.of(project, found.pop(SALT, "")).keys("")
    # By content, because keys of two fleets may have the same id.
    mine = {hashlib.sha256(key.secret).hexdigest()[:16]: f"{ends}:{key.secret.hex()}" for key in keys}
    return {**found, **mine, SALT: salt}


def _given(text: str) -> Key:
    identity, _, secret = text.partition(":")
    return Key(identity, bytes.fromhex(secret))
