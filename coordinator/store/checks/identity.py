"""The store's identity: whether a connection leads to the fleet's store, and whether that kept what it acknowledged.

In a cluster, the shard with the fleet's keys is checked like this, and projects one by one (``cluster/places.py``).

The first process that serves from an empty store gives it an identity, a fleet key. Every process remembers it, also in
its data directory, or gets it from the setting ``store_id``. It checks the identity on each new connection before it
sends anything else. If the identity differs or is missing, the store is a foreign one or was flushed: every call is
rejected with ``store_changed``, so that nobody takes an empty store for the truth, until an operator accepts the store
(``fleet store accept``), or at once if the setting ``store_accept`` says so. An acceptance is recorded in the store,
with its time and the identities that the store replaces, so that all other processes learn of it; the newest one that a
process knows of counts. If the store is flushed under an open connection, the server reports that on the connection
before it answers anything else (client-side caching), and the connection is replaced; a call that was under way fails
as one that may or may not have taken effect.

A store that has its identity but has lost its last writes (a restored backup, a failover, a crash before an fsync) is
served: fences still rise. Processes that write record the time of the server there once a second; one that has seen a
later time than the store knows reports that in the log, a metric and an event. What happens to an embedded store while
the fleet is down is noticed at its next start (``kept_moment.py``).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import redis.exceptions
import structlog

from coordinator.settings.paths import is_of_another_user, replace_file
from coordinator.store import keys
from coordinator.store.embedded.server import known_url
from coordinator.store.errors import StoreChanged
from coordinator.store.fences.known import CHANGES
from coordinator.store.link.address import parse
from coordinator.store.link.clients import Ask
from coordinator.store.metrics import STORE_CHANGED, STORE_WENT_BACK

if TYPE_CHECKING:
    from coordinator.settings import Settings

Accept = Literal["operator", "auto"]

_KEY = keys.identity.key(keys.FLEET)
_MOMENT = keys.moment.key(keys.FLEET)
_REPLACED_MOST = 50
_FILE = "store.json"
_EVENTS_MOST = 10_000
_log = structlog.get_logger(__name__)


class StoreIdentity:
    """What one process knows of its store.

    Args:
        known: the identity that the store must have; empty: any, and the first one seen is kept.
        pinned: the identity by the setting ``store_id``; takes precedence over ``known``.
        accept: whether another store has to be accepted by an operator.
        keep: called with each new identity and the time of its acceptance, to store both.
        accepted: when the known store was accepted (ms); 0: never, or unknown.
    """

    def __init__(
        self,
        known: str = "",
        pinned: str = "",
        accept: Accept = "operator",
        keep: Callable[[str, int], None] = lambda identity, accepted: None,
        accepted: int = 0,
    ) -> None:
        self.known = pinned or known
        self._pinned = pinned
        self._accepts = accept == "auto"
        self._keep = keep
        self._accepted = accepted
        self.fences = ""
        """How often projects were fenced or released, as the store has said on the last new connection."""
        self.latest = 0
        """The latest server time (ms) that the store has acknowledged."""
        self._refused = ""
        self._replaced: frozenset[str] = frozenset()

    @property
    def accepts(self) -> bool:
        """Whether another store is accepted without an operator."""
        return self._accepts

    def owns(self, found: bytes | None) -> bool:
        """Whether keys with this marker belong to the store (``cluster/places.py``), or to one that it replaces."""
        return found is not None and found.decode(errors="replace") in {self.known, *self._replaced}

    @property
    def refused(self) -> bool:
        """Whether the last check found another store, or a flushed one."""
        return bool(self._refused)

    async def check(self, ask: Ask) -> None:
        """Checks that a connection leads to the right store; to be called before anything else is sent.

        Raises:
            StoreChanged: it does not.
        """
        seen = self.latest  # other connections may hear of a later time while this one reads
        (identity, replaced, accepted, moment, self.fences) = await _read(ask)
        # Another store may have been accepted in place of this one, and this one in place of that one later.
        if self.known and identity != self.known and (self.known not in replaced or accepted < self._accepted):
            if not self._accepts:
                self._refuse(identity)
            identity = await self.accept(ask)
        self._replaced = frozenset(replaced)
        if self._refused:
            self._refused = ""
            STORE_CHANGED.set(False)
            _log.info("the store is served again", identity=identity)
        if identity:
            self._adopt(identity, accepted)
        if moment < min(seen, self.latest):  # the latter is 0 if this is another store, of which nothing was seen
            await self._went_back(ask, moment, seen - moment)

    async def establish(self, ask: Ask) -> None:
        """Gives an identity to a store that has none, and that this process may serve from.

        Raises:
            ServerError: the store refuses it.
        """
        await _write(ask, ("HSETNX", _KEY, "id", self.known or _new()))
        await self.check(ask)

    async def accept(self, ask: Ask, instead_of: str = "") -> str:
        """Accepts this store in place of the known one, for all processes of the fleet; returns its identity.

        Args:
            instead_of: an identity that it replaces, besides the known one.

        Raises:
            ServerError: the store rejects the write.
        """
        (identity, replaced, accepted, *_) = await _read(ask)
        if self._pinned:
            await _write(ask, ("HSET", _KEY, "id", self._pinned))
        elif not identity:
            await _write(ask, ("HSETNX", _KEY, "id", _new()))  # of two concurrent acceptances, one wins
        (now, *_) = await _read(ask)
        others = dict.fromkeys([*replaced, identity, self.known, instead_of])
        was = " ".join([one for one in others if one and one != now][-_REPLACED_MOST:])
        (time,) = await ask([("TIME",)])
        # The clocks of the two servers may differ.
        accepted = max(int(time[0]) * 1000 + int(time[1]) // 1000, accepted + 1, self._accepted + 1)
        event = ("XADD", keys.fleet_events.key(keys.FLEET), "MAXLEN", "~", _EVENTS_MOST, "*")
        noting = ("HSET", _KEY, "was", was, "at", accepted)
        await _write(ask, noting, (*event, "k", "store.accepted", "i", now, "was", was))
        _log.warning("the store was accepted in place of another", identity=now, replaced=was)
        self._adopt(now, accepted)
        self._replaced = frozenset(was.split())
        return now

    def guard(self, connection: Any) -> None:
        """Checks a new connection of redis-py, as ``redis_connect_func`` of a client.

        Raises:
            redis.exceptions.ConnectionError: it leads to another store.
        """
        connection.on_connect()
        connection.send_command("HGET", _KEY, "id")
        self._compare(connection.read_response())

    async def guard_async(self, connection: Any) -> None:
        """The same for clients of event loops."""
        await connection.on_connect()
        await connection.send_command("HGET", _KEY, "id")
        self._compare(await connection.read_response())

    def _compare(self, found: bytes | None) -> None:
        if self.known and (found or b"").decode(errors="replace") != self.known:
            raise redis.exceptions.ConnectionError("the store is not the one that the fleet had")

    def saw(self, moment: int) -> None:
        """Notes that the store has acknowledged this time (ms)."""
        self.latest = moment

    def _adopt(self, identity: str, accepted: int) -> None:
        if identity != self.known:
            self.latest = 0
        elif accepted <= self._accepted:
            return
        self.known, self._accepted = identity, max(accepted, self._accepted)
        self._keep(identity, self._accepted)

    def _refuse(self, identity: str) -> None:
        why = changed(self.known, identity)
        if why != self._refused:
            self._refused = why
            STORE_CHANGED.set(True)
            _log.error("the store is not the one that the fleet had: every call is rejected", reason=why)
        raise StoreChanged(why)

    async def _went_back(self, ask: Ask, moment: int, lost: int) -> None:
        self.latest = moment
        await report_loss(ask, self.known, lost)


async def report_loss(ask: Ask, identity: str, lost: int) -> None:
    """Reports that the store has lost what it acknowledged in its last ``lost`` ms."""
    STORE_WENT_BACK.inc()
    _log.error(
        "the store has gone back in time: its last acknowledged writes are lost; it is still served",
        seconds=round(lost / 1000, 3),
    )
    event = ("XADD", keys.fleet_events.key(keys.FLEET), "MAXLEN", "~", _EVENTS_MOST, "*")
    await ask([(*event, "k", "store.went_back", "i", identity, "ms", lost)])


async def read_moment(ask: Ask) -> tuple[str, int]:
    """The identity of the store, and the latest time (ms) that it knows. Raises what ``ask`` does, and its errors."""
    identity, _, _, moment, _ = await _read(ask)
    return identity, moment


def changed(known: str, found: str) -> str:
    what = f"it has the identity {found}" if found else "it has no identity, like an empty one"
    return (
        f"the store is not the one that the fleet had ({known}): {what}; "
        "bring that one back, or accept this one in its place: fleet store accept"
    )


class IdentityFile:
    """The identities that processes of a data directory remember: by the store's address, without secrets."""

    def __init__(self, data_dir: str | Path, address: str) -> None:
        self._path = Path(data_dir) / _FILE
        self._address = address

    def read(self) -> str:
        return self._all().get(self._address, "").partition(" ")[0]

    def accepted(self) -> int:
        """When the store with this identity was accepted (ms); 0: never."""
        at = self._all().get(self._address, "").partition(" ")[2]
        return int(at) if at.isdecimal() else 0

    def keep(self, identity: str, accepted: int = 0) -> None:
        """Remembers an identity; '' forgets it. Does nothing where the directory cannot be written."""
        noted = f"{identity} {accepted}" if accepted else identity
        found = self._all()
        if found.get(self._address, "") == noted:
            return
        found[self._address] = noted
        try:
            replace_file(self._path, msgspec.json.encode({address: one for address, one in found.items() if one}))
        except OSError as error:
            _log.warning("the identity of the store cannot be remembered", file=str(self._path), reason=str(error))

    def _all(self) -> dict[str, str]:
        if is_of_another_user(self._path.parent):
            return {}
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}


def identity_file(data_dir: str, url: str) -> IdentityFile:
    """Where this host remembers the identity of the store at ``url``; empty: of the embedded one.

    Raises:
        AddressError: the URL cannot be understood.
    """
    embedded = not url or url == known_url(data_dir)
    return IdentityFile(data_dir, "embedded" if embedded else str(parse(url)))


def remembered(settings: Settings, url: str) -> StoreIdentity:
    """The identity that a serving process expects at ``url``. Raises AddressError."""
    file = identity_file(settings.data_dir, url)
    STORE_CHANGED.set(False)
    STORE_WENT_BACK.cells.start_at_zero()
    return StoreIdentity(file.read(), settings.store_id, settings.store_accept, file.keep, file.accepted())


async def _read(ask: Ask) -> tuple[str, list[str], int, int, str]:
    """The identity or '', those that it replaces, since when (ms), the latest time (ms) that it knows, and the number
    of changes of fenced projects."""
    fields, moment = await ask([("HMGET", _KEY, "id", "was", "at", CHANGES), ("GET", _MOMENT)])
    for reply in (fields, moment):
        if isinstance(reply, Exception):
            raise reply
    identity, replaced, accepted, fences = ((value or b"").decode(errors="replace") for value in fields)
    return identity, replaced.split(), int(accepted or 0), int(moment or 0), fences


async def _write(ask: Ask, *commands: tuple[str | bytes | int, ...]) -> None:
    for reply in await ask(commands):
        if isinstance(reply, Exception):
            raise reply


def _new() -> str:
    return secrets.token_hex(8)
