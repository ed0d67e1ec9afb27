"""One connection to the store that all concurrent calls of a process share.

A connection per call costs a process ten times the work of the call itself. Here every call is written to one
connection in the order of submission, and the server answers in that order, so a queue of futures is all the
bookkeeping needed. The rules that keep this correct:

* **Order.** A future joins the queue in the same step in which its command joins the output.
  If a caller is cancelled, its future stays in the queue, and the reply is read and dropped.
* **Coalescing.** The commands of one turn of the event loop are sent in one write. After ``FLUSH_AT`` of them the
  first part is sent at once, so that the server starts before the turn is over.
* **Deadline.** Calls have no timers of their own. One timer notes at intervals how many calls were submitted,
  and checks whether the calls of older notes were answered in time. After a missed deadline the connection is
  dropped, because replies could no longer be matched to calls. Time in which our own event loop was blocked does
  not count against the server.
* **Proof.** An idle connection is kept alive by PINGs, and one whose server has not replied for longer than
  ``FRESH`` timeouts (because this process was paused, say) is replaced before the next call is sent. A primary that was
  paused during a failover answers again when it resumes, and the writes that it acknowledges then are lost. Where
  another server can take over, a new connection is only used if those who know (Sentinels, the other nodes of a
  cluster) still name its server after it has answered.
* **Bounds.** The number of calls in flight, and of bytes that the transport has not taken, is limited; beyond
  that a call is refused at once with ``over_capacity``.
* **Loss.** All waiting calls fail with ``store_unavailable``. Nothing that was written is sent
  again: it may have taken effect. Calls that arrive during the first attempt to reconnect
  wait for it; if that fails, calls fail at once until the store is back.

Only commands with exactly one reply, given at once, may be submitted.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from coordinator.backoff import Backoff
from coordinator.errors import ToolFailure
from coordinator.service import end_tasks
from coordinator.store.errors import (
    AccessRefused,
    AddressError,
    ServerError,
    StoreChanged,
    StoreError,
    StoreTooOld,
    StoreUnreachable,
    access_problem,
)
from coordinator.store.link.address import Address
from coordinator.store.link.clients import Ask, Confirm, Resolver
from coordinator.store.link.connection import MAX_IN_FLIGHT, SILENT, Connection, over_capacity
from coordinator.store.link.replies import changed, mapping, unavailable
from coordinator.store.scripts import pack

_log = structlog.get_logger(__name__)

STABLE_SECONDS = 1.0
"""Only a connection that has lived this long resets the pauses between attempts."""
_PAUSE_FIRST = 0.02
PAUSE_MOST = 1.0
"""The longest pause between two attempts to connect."""
_UNTRUSTED = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate that no trusted authority vouches for."""
_PAUSE_CALLS_WAIT = 0.1
"""During a pause up to this long, calls wait; during a longer one they fail at once."""

Submit = Callable[[bytes], "asyncio.Future[Any]"]


class Link:
    """Keeps one ``Connection`` to the store alive and hands calls to it.

    Args:
        address: the store's endpoint and credentials.
        timeout: seconds that a call, or an attempt to connect, may take.
        protocol: RESP version, 2 or 3.
        resolve: gives the address of the primary before each attempt to connect; None: always ``address``.
        confirm: whether a server that has answered is still the primary; None: no other server can take its place.
        max_in_flight: how many calls may wait for a reply at once.
        on_connected: called for each new connection, before waiting calls are sent.
        on_lost: called when a connection is lost. If it is given, calls are not passed on to the next connection: what
            was checked for them (``cluster/places.py``) may not hold there.
        check: checks the identity of the store on a new connection before anything else is sent; raises StoreChanged.
            It is called again after FLUSHALL or FLUSHDB, because these replace the connection.
    """

    submit: Submit
    """Sends one packed command (see ``Connection.submit``). Raises ToolFailure if the store is away or too much is in
    flight. An attribute, not a method, so that a call goes straight to the connection."""

    def __init__(
        self,
        address: Address,
        *,
        timeout: float = 0.5,
        protocol: int = 3,
        resolve: Resolver | None = None,
        confirm: Confirm | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        on_connected: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        check: Callable[[Ask], Awaitable[None]] | None = None,
    ) -> None:
        if protocol not in (2, 3):
            raise StoreError(f"protocol must be 2 or 3, not {protocol}")
        self._address = address
        self._timeout = timeout
        self._protocol = protocol
        self._resolve = resolve
        self._confirm = confirm
        self._limit = max_in_flight
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._check = check
        self._connection: Connection | None = None
        self._parked: list[tuple[asyncio.Future[Any], bytes]] = []
        self._reconnecting: asyncio.Task[None] | None = None
        self._confirming: asyncio.Task[bool] | None = None
        self._server = address
        """The server of the connection."""
        self._gone = asyncio.Event()
        self._why = "is not connected yet"
        self._changed = ""
        """Why the store that was found is not the right one."""
        self.connects = 0
        """Connections made so far."""
        self.submit = self._refuse

    @property
    def connected(self) -> bool:
        """Whether calls are being taken by a live connection."""
        return self._connection is not None

    @property
    def connection(self) -> Connection | None:
        return self._connection

    @property
    def refusing(self) -> bool:
        """Whether calls fail at once: there is no connection, and there was no quick way to another."""
        return self.submit == self._refuse

    @property
    def in_flight(self) -> int:
        """Calls without a reply."""
        return len(self._parked) + (self._connection.in_flight if self._connection else 0)

    async def open(self) -> None:
        """Connects once, and keeps connected from then on.

        Raises:
            StoreUnreachable: nobody answers, or the server rejects us (AccessRefused: our user or password); says why.
        """
        self._use(await self._connect())
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(), name="store-link")

    def begin(self) -> None:
        """The same without waiting for the first connection; calls wait for the first attempt."""
        self.submit = self._park
        self._gone.set()
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(), name="store-link")

    async def close(self) -> None:
        """Lets calls in flight finish, at most for the timeout, then closes. May be called twice."""
        connection, self._connection = self._connection, None
        self._why = "link of this process is closed"
        self.submit = self._refuse
        await end_tasks(*filter(None, (self._reconnecting, self._confirming)))
        self._fail_parked()
        if connection is not None:
            await connection.finish()

    def recycle(self, why: str) -> None:
        """Drops the connection, for instance because the server is no longer the primary."""
        if self._connection is not None:
            self._connection.drop(why)

    async def confirm(self) -> None:
        """Makes sure that the server of the connection is still the primary, if another one can take over.

        If it is not, the connection is replaced.

        Raises:
            ToolFailure: store_unavailable: another one is, or nobody who knows answers.
        """
        if self._confirm is None:
            return
        if self._confirming is None or self._confirming.done():  # concurrent callers share one question
            self._confirming = asyncio.get_running_loop().create_task(self._confirmed(), name="store-link primary")
        if not await asyncio.shield(self._confirming):
            raise unavailable("may no longer be the primary; nothing was changed")

    async def _confirmed(self) -> bool:
        connection = self._connection
        if connection is None or self._confirm is None:
            return False
        named = await self._confirm(self._server, _asker(connection))
        if named is False:
            connection.drop("is no longer the primary")
        return bool(named)

    async def execute(self, *words: str | bytes | int) -> Any:
        """Sends one command and returns its reply.

        Raises:
            ToolFailure: store_unavailable or over_capacity.
            ServerError: the server answered with an error.
        """
        reply = await self.submit(pack(words))
        if type(reply) is ServerError:
            raise reply
        return reply

    async def ask(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        """Sends commands in one write and returns the replies, errors as values. Raises ToolFailure as ``execute``."""
        return await asyncio.gather(*(self.submit(pack(words)) for words in commands))

    def _refuse(self, command: bytes) -> asyncio.Future[Any]:
        raise self._failure()

    def _failure(self) -> ToolFailure:
        return changed(self._changed) if self._changed else unavailable(f"{self._why}; nothing was sent")

    def _park(self, command: bytes) -> asyncio.Future[Any]:
        if len(self._parked) >= self._limit:
            raise over_capacity()
        future = asyncio.get_running_loop().create_future()
        self._parked.append((future, command))
        return future

    def _fail_parked(self) -> None:
        parked, self._parked = self._parked, []
        for future, _ in parked:
            if not future.done():
                future.set_exception(self._failure())

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self._changed = ""
        self._gone.clear()
        self.connects += 1
        if self._check is not None:
            connection.watch(self._submit_anew, strict=self._confirm is not None)
        self.submit = connection.submit
        if self._on_connected is not None:
            self._on_connected()
        parked, self._parked = self._parked, []
        for future, command in parked:
            if not future.done():
                _forward(connection, command, future)

    def _submit_anew(self, command: bytes) -> asyncio.Future[Any]:
        """Replaces a stale connection before it is given another call."""
        if self._connection is not None:
            self._connection.drop(SILENT)
        if self._on_lost is not None:
            raise self._failure()
        return self.submit(command)

    def _lost(self, connection: Connection, why: str, clean: bool) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._why = why
        self.submit = self._park if clean else self._refuse
        self._gone.set()
        if self._on_lost is not None:
            self._on_lost()

    async def _reconnect(self) -> None:
        """Replaces the connection whenever it is lost, with growing, jittered pauses."""
        loop = asyncio.get_running_loop()
        attempts = 0
        while True:
            since = loop.time()
            await self._gone.wait()
            if loop.time() - since >= STABLE_SECONDS:
                attempts = 0
            while self._connection is None:
                if attempts:
                    pause = Backoff(_PAUSE_FIRST, PAUSE_MOST).after(attempts)
                    if pause > _PAUSE_CALLS_WAIT:
                        self.give_up_for_now()
                    await asyncio.sleep(pause)
                attempts += 1
                try:
                    self._use(await self._connect())
                except StoreChanged as error:
                    self._changed = str(error)
                    self.give_up_for_now()
                except Exception as error:  # a resolver may raise anything, and there must be a next attempt
                    # Callers must not learn the store's address.
                    self._why, self._changed = "cannot be reached", ""
                    (_log.warning if attempts == 1 else _log.debug)("no connection to the store", reason=str(error))
                    self.give_up_for_now()

    def give_up_for_now(self) -> None:
        """Lets calls fail at once until there is a connection again."""
        self.submit = self._refuse
        self._fail_parked()

    async def _connect(self) -> Connection:
        """A connection to a primary that accepts us and answers.

        Raises:
            StoreError: there is none; says why.
        """
        address, connection, ready = self._address, None, False
        kind: type[StoreError] = StoreUnreachable
        if self._resolve is not None:
            address = await self._resolve()
        try:
            async with asyncio.timeout(self._timeout):
                connection = await self._dial(address)
                await self._greet(connection, address)
                if self._confirm is not None and not await self._confirm(address, _asker(connection)):
                    # It was paused, for example, answers again, and does not know of the failover yet.
                    raise StoreUnreachable(f"the server at {address} is no longer the primary")
                await self._make_sure(connection)
            ready = not connection.lost
            if ready:
                self._server = address
                return connection
            problem = "the connection broke"
        except TimeoutError:
            problem = f"no answer within {round(self._timeout * 1000)} ms"
        except ToolFailure as failure:
            # Only the greeting was sent, so what the message says about a call's effect does not apply.
            hint = "" if address.tls or address.path else "; so does a server that wants TLS (rediss://)"
            problem = failure.message.partition(";")[0] + hint
        except ssl.SSLCertVerificationError as error:
            hint = (
                "; ssl_ca_certs=FILE in the URL names an authority to trust" if error.verify_code in _UNTRUSTED else ""
            )
            problem = f"certificate verify failed: {error.verify_message}{hint}"
        except (OSError, ValueError, ServerError) as error:
            problem = (isinstance(error, OSError) and error.strerror) or str(error)
            if isinstance(error, ServerError) and error.code in ("NOAUTH", "WRONGPASS"):
                kind, problem = AccessRefused, access_problem(problem)
        finally:
            if connection is not None and not ready:
                connection.drop("was disconnected")
        raise kind(f"no usable store at {address}: {problem}")

    async def _make_sure(self, connection: Connection) -> None:
        """Checks the connection and subscribes it to FLUSHALL and FLUSHDB."""
        if self._check is None:
            return
        ask = _asker(connection)
        if self._protocol == 3:
            # Without any key to track, this costs the server nothing. It may be denied.
            connection.on_flush = lambda: connection.drop("was flushed")
            (answer,) = await ask([("CLIENT", "TRACKING", "ON", "OPTIN")])
            if isinstance(answer, ServerError):
                _log.warning(
                    "the server does not report FLUSHALL and FLUSHDB; only the next connection notices them",
                    reason=str(answer),
                )
        await self._check(ask)

    async def _dial(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        tls = address.ssl_context()

        def make() -> Connection:
            return Connection(loop, self._timeout, self._limit, self._lost)

        if address.path:
            _, connection = await loop.create_unix_connection(make, address.path)
            return connection
        transport, connection = await loop.create_connection(
            make,
            address.host,
            address.port,
            ssl=tls,
            server_hostname=(address.tls_name or address.host) if tls else None,
        )
        _keep_alive(transport.get_extra_info("socket"))
        return connection

    async def _greet(self, connection: Connection, address: Address) -> None:
        """Authenticates, and checks that the server is a primary and has loaded its data."""
        hello: tuple[str | bytes | int, ...] = ("HELLO", self._protocol)
        if address.password:
            hello += ("AUTH", address.username or "default", address.password)
        naming = ("CLIENT", "SETNAME", "fleet")  # shown in the server's CLIENT LIST; the server may refuse it
        commands = [hello, naming, ("PING",)]
        if address.db:
            commands.append(("SELECT", address.db))
        replies = await asyncio.gather(*(connection.submit(pack(words)) for words in commands))
        for words, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ServerError) and words is not naming:
                if "unknown command" in str(reply).lower() and words is hello:
                    raise StoreTooOld(f"the server at {address} does not know HELLO: Redis 7.0 or newer is needed")
                raise reply
        facts = mapping(replies[0])
        if facts.get(b"mode") == b"cluster" and not address.in_cluster:
            scheme, _, rest = str(replace(address, db=0)).partition("://")
            raise AddressError(
                f"the server at {address} is a node of a cluster; its URL is {scheme}+cluster://{rest.removesuffix('/0')}"
            )
        if facts.get(b"role") not in (b"master", b"primary", None):
            raise StoreUnreachable(f"the server at {address} is a replica, not the primary")


def _asker(connection: Connection) -> Ask:
    async def ask(commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        return await asyncio.gather(*(connection.submit(pack(words)) for words in commands))

    return ask


def _forward(connection: Connection, command: bytes, future: asyncio.Future[Any]) -> None:
    """Sends a parked command and hands its reply to the future that the caller waits for."""

    def hand_over(inner: asyncio.Future[Any]) -> None:
        error = inner.exception()
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(inner.result())

    try:
        connection.submit(command).add_done_callback(hand_over)
    except ToolFailure as failure:
        future.set_exception(failure)


def _keep_alive(sock: socket.socket) -> None:
    """Enables keepalive: the kernel notices within half a minute that the peer of an idle connection is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
