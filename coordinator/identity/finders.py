"""Finds the keys that may have signed a token: among a fixed set of sources, or in its issuer's own document."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coordinator.identity import did, jws
from coordinator.identity.jws import BadToken
from coordinator.identity.keyring import Keyring
from coordinator.identity.keyset import KeySet, VerifyKey

MOST_TRIED = 8
"""Keys of one name whose signatures are tried."""
MOST_ISSUERS = 256
UNKNOWN_SECONDS = 60.0
_MOST_UNKNOWN = 4_096


class Found(NamedTuple):
    """A key that may have signed a token."""

    ring: Keyring
    keys: KeySet
    key: VerifyKey


class Finder(Protocol):
    """Knows keys."""

    max_kid: int
    """Longest name of a key that makes sense."""

    @property
    def issuer(self) -> str | None:
        """Whom tokens must be from as far as the sources say so; None: they do not say yet."""

    async def start(self) -> None:
        """Begins to keep keys fresh; see ``Verifier.start``."""

    async def find(self, kid: str | None, algorithm: str, claims: Mapping[str, Any]) -> Sequence[Found]:
        """The keys that may have signed a token; at least one.

        Raises:
            BadToken: crypto, if there is none; network, if there is no saying; policy or claims, if the issuer
                is not trusted.
        """

    def used(self, ring: Keyring) -> None:
        """Keys of the ring have answered."""

    def ages(self) -> dict[str, float]:
        """The age of the oldest keys of each kind of source, in seconds."""

    def report(self) -> dict[str, Any]:
        """The sources and how they are, for /readyz."""

    async def aclose(self) -> None:
        """Ends what runs in the background."""


class Unknown:
    """Names of keys that were looked for and are not there: asking for the same again changes nothing for a while."""

    def __init__(self) -> None:
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def __contains__(self, name: tuple[str, str]) -> bool:
        until = self._until.get(name)
        return until is not None and time.monotonic() < until

    def add(self, name: tuple[str, str]) -> None:
        """Remembers a name."""
        self._until[name] = time.monotonic() + UNKNOWN_SECONDS
        self._until.move_to_end(name)
        if len(self._until) > _MOST_UNKNOWN:
            self._until.popitem(last=False)


class StaticFinder:
    """Keys of fixed sources, merged.

    Args:
        rings: one per source.
        issued_by: the one among them that says who the issuer is, if any.
    """

    max_kid = jws.MAX_KID

    def __init__(self, rings: Sequence[Keyring], issued_by: Keyring | None = None) -> None:
        self._rings = tuple(rings)
        self._issued_by = issued_by
        self._unknown = Unknown()

    @property
    def issuer(self) -> str | None:
        """What the discovery document says."""
        if self._issued_by is None:
            return ""
        return (self._issued_by.issuer or None) if self._issued_by.answers else None

    async def start(self) -> None:
        """Starts every source."""
        await asyncio.gather(*(ring.start() for ring in self._rings))

    async def find(self, kid: str | None, algorithm: str, claims: Mapping[str, Any]) -> Sequence[Found]:
        """Keys by this name in any source; for a token that names none, the one key that suits."""
        began = time.monotonic()
        await _renew_left_alone(self._rings)
        found = self._look(kid, algorithm)
        if not found:
            _refuse_known(self._rings, kid, algorithm)
            name = ("", kid or "")
            if name not in self._unknown:
                await _ask(self._rings, lambda: bool(self._look(kid, algorithm)), began)
                found = self._look(kid, algorithm)
            if not found:
                _refuse_known(self._rings, kid, algorithm)
                raise _absence(self._rings, self._unknown, name, began)
        if self.issuer is None and self._issued_by is not None:
            await self._issued_by.ask()
        return found

    def used(self, ring: Keyring) -> None:
        """Nothing to do: a task of its own keeps each ring fresh."""

    def ages(self) -> dict[str, float]:
        """Every source."""
        return ages(self._rings)

    def report(self) -> dict[str, Any]:
        """Every source."""
        return {"state": state(self._rings), "sources": [described(ring) for ring in self._rings]}

    async def aclose(self) -> None:
        """Stops every source."""
        await asyncio.gather(*(ring.aclose() for ring in self._rings))

    def _look(self, kid: str | None, algorithm: str) -> list[Found]:
        rings = [ring for ring in self._rings if ring.answers]
        if kid is None:
            suiting = [Found(ring, ring.keys, key) for ring in rings for key in ring.keys.suiting(algorithm)]
            return suiting if len(suiting) == 1 else []
        return [Found(ring, ring.keys, key) for ring in rings for key in ring.keys.named(kid, algorithm)][:MOST_TRIED]


class DidFinder:
    """Keys of issuers that publish them in did:web documents.

    Issuers whose documents are there are kept apart from those that are looked for, so that tokens of
    made-up issuers push out nobody. Their rings keep themselves fresh as long as they are used.

    Args:
        ring: makes the keyring of an issuer. Raises BadToken.
        loose: whether a token with an unknown 'kid' may use the only key that suits.
    """

    max_kid = jws.MAX_KID_URL

    def __init__(self, trust: did.Trust, ring: Callable[[str], Keyring], loose: bool) -> None:
        self._trust = trust
        self._make = ring
        self._loose = loose
        self._known: OrderedDict[str, Keyring] = OrderedDict()
        self._sought: OrderedDict[str, Keyring] = OrderedDict()
        self._unknown = Unknown()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def issuer(self) -> str:
        """Any: which issuers are trusted is looked at before their keys are."""
        return ""

    async def start(self) -> None:
        """Nothing to do: documents are fetched when an issuer first appears."""

    async def find(self, kid: str | None, algorithm: str, claims: Mapping[str, Any]) -> Sequence[Found]:
        """The key of this name in the issuer's document, or by the loose rule its only one."""
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or not issuer:
            raise BadToken("claims", "the token names no issuer ('iss')")
        if issuer not in self._trust:
            raise BadToken("policy", "the issuer is not one of those that are trusted")
        began = time.monotonic()
        ring = await self._ring(issuer)
        self.used(ring)
        await _renew_left_alone([ring])
        name = did.fragment(kid, issuer) if kid else None
        if kid and name is None:
            raise BadToken("crypto", "'kid' of the token is a key of somebody else than its issuer")
        found = self._named(ring, name, algorithm)
        if not found:
            _refuse_known([ring], name, algorithm)
            cached = (issuer, name or "")
            if cached not in self._unknown:
                await _ask([ring], lambda: bool(self._named(ring, name, algorithm)), began)
                self._settle(issuer, ring)
                found = self._named(ring, name, algorithm)
            found = found or self._only(ring, algorithm)
            if not found:
                _refuse_known([ring], name, algorithm)
                raise _absence([ring], self._unknown, cached, began)
        return found

    def used(self, ring: Keyring) -> None:
        """Renews the ring if it is near its end."""
        ring.renew_if_due()

    def ages(self) -> dict[str, float]:
        """The documents that are known and in use."""
        return {"did": 0.0, **ages(self._in_use())}

    def report(self) -> dict[str, Any]:
        """How many issuers are known, and how they are as a whole; who they are is nobody's business."""
        return {"state": state(self._in_use()), "issuers": len(self._known), "sought": len(self._sought)}

    async def aclose(self) -> None:
        """Stops every issuer's ring."""
        await asyncio.gather(*(ring.aclose() for ring in (*self._known.values(), *self._sought.values())))
        if self._closing:
            await asyncio.wait(self._closing)

    def _in_use(self) -> list[Keyring]:
        """Keys that nobody uses are not renewed, which is no trouble."""
        return [ring for ring in self._known.values() if not ring.left_alone]

    async def _ring(self, issuer: str) -> Keyring:
        ring = self._known.get(issuer)
        if ring is not None:
            self._known.move_to_end(issuer)
            return ring
        ring = self._sought.get(issuer)
        if ring is None:
            ring = self._sought[issuer] = self._make(issuer)
            self._bound(self._sought)
            await ring.take_copy()
            self._settle(issuer, ring)
        return ring

    def _settle(self, issuer: str, ring: Keyring) -> None:
        """Counts an issuer as known once its document is there."""
        if ring.loaded and self._sought.pop(issuer, None) is not None:
            self._known[issuer] = ring
            self._bound(self._known)

    def _bound(self, rings: OrderedDict[str, Keyring]) -> None:
        if len(rings) > MOST_ISSUERS:
            _, oldest = rings.popitem(last=False)
            closing = asyncio.create_task(oldest.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _named(self, ring: Keyring, name: str | None, algorithm: str) -> list[Found]:
        if name is None or not ring.answers:
            return []
        return [Found(ring, ring.keys, key) for key in ring.keys.named(name, algorithm)]

    def _only(self, ring: Keyring, algorithm: str) -> list[Found]:
        """By the loose rule: the one key that could have signed."""
        suiting = ring.keys.suiting(algorithm) if self._loose and ring.answers else []
        return [Found(ring, ring.keys, suiting[0])] if len(suiting) == 1 else []


def state(rings: Sequence[Keyring]) -> str:
    """``ok``, ``stale`` (some keys could not be renewed in time) or ``unavailable`` (some source gives nothing)."""
    if not all(ring.answers for ring in rings):
        return "unavailable"
    return "ok" if all(ring.fresh and not ring.trouble for ring in rings) else "stale"


def ages(rings: Iterable[Keyring]) -> dict[str, float]:
    """The age of the oldest keys of each kind of source, in seconds."""
    found: dict[str, float] = {}
    for ring in rings:
        if ring.loaded:
            found[ring.source.kind] = max(found.get(ring.source.kind, 0.0), ring.age)
    return found


def described(ring: Keyring) -> dict[str, Any]:
    """One source, for /readyz: no places, for anybody may read it."""
    found: dict[str, Any] = {"source": ring.source.kind, "keys": len(ring.keys), "fresh": ring.fresh}
    if ring.loaded:
        found["ageSeconds"] = int(ring.age)
    if ring.trouble:
        found["trouble"] = ring.trouble
    return found


async def _renew_left_alone(rings: Sequence[Keyring]) -> None:
    """Old keys count only where newer ones are not to be had (seed 004: ``stale_on_error``)."""
    asking = [ring for ring in rings if ring.left_alone]
    if asking:
        await asyncio.gather(*(ring.ask() for ring in asking))


async def _ask(rings: Sequence[Keyring], enough: Callable[[], bool], began: float) -> None:
    """Asks the sources; once more where what came first was only what other processes had."""
    for _ in range(2):
        asking = [ring for ring in rings if ring.may_ask and not ring.asked_since(began)]
        if not asking:
            return
        await asyncio.gather(*(ring.ask() for ring in asking))
        if enough():
            return


def _refuse_known(rings: Sequence[Keyring], kid: str | None, algorithm: str) -> None:
    """Refuses what no renewal could change.

    Raises:
        BadToken: crypto.
    """
    rings = [ring for ring in rings if ring.answers]
    if kid is not None and any(ring.keys.knows(kid) for ring in rings):
        raise BadToken("crypto", "the key that the token names is for another algorithm")
    if kid is None and sum(len(ring.keys.suiting(algorithm)) for ring in rings) > 1:
        raise BadToken("crypto", "the token names no key ('kid'), and several could have signed it")


def _absence(rings: Sequence[Keyring], unknown: Unknown, name: tuple[str, str], began: float) -> BadToken:
    """What it means that no key was found by a call that began at a moment of the monotonic clock."""
    if name not in unknown:
        for ring in rings:
            if ring.trouble and ring.trouble_kind == "policy":
                return BadToken("policy", ring.trouble)
        for ring in rings:
            if not ring.sound:
                return BadToken("network", ring.trouble or "the keys are being fetched and are not there yet")
        if all(ring.loaded_since(began) for ring in rings):
            unknown.add(name)
    return BadToken("crypto", "there is no such key ('kid')" if name[1] else "there is no key that could have signed")
