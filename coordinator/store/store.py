"""``Store``: runs scripts and plain commands on the server, for the rest of the process."""

from __future__ import annotations

import asyncio
import contextlib
import re
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from time import monotonic, perf_counter
from typing import Any, Protocol, TypeVar

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import end_tasks
from coordinator.store import keys
from coordinator.store.checks.identity import StoreIdentity
from coordinator.store.checks.version import ServerInfo, supported
from coordinator.store.cluster.places import Places
from coordinator.store.cluster.shards import OneServer, Shards, node_timeout, redirect, resend
from coordinator.store.errors import (
    ServerError,
    StoreChanged,
    StoreError,
    StoreUnreachable,
)
from coordinator.store.fences.known import Fenced, KnownFences
from coordinator.store.following import follow
from coordinator.store.functions import LOAD_ATTEMPTS, Functions
from coordinator.store.layout import KnownLayout
from coordinator.store.link import address, clients, replies
from coordinator.store.link.clients import Ask, Confirm, Resolver
from coordinator.store.link.connection import FRESH
from coordinator.store.link.shared import Link
from coordinator.store.link.slot_map import slot_of, tag_of
from coordinator.store.metrics import REDIRECTS, TORN
from coordinator.store.outcomes import outcome_of
from coordinator.store.own_clients import ClientsOfStore
from coordinator.store.scripts import STORE, Script, decoded, pack, pack_key

R = TypeVar("R")
Observe = Callable[[str, float, str, str], None]
"""Called after each script call with the script's name, seconds, the outcome (``outcomes.py``), and the project."""

_log = structlog.get_logger(__name__)
_IN_DOUBT = ("CLUSTERDOWN", "READONLY")
"""Codes of errors after which it may be another server that has a slot."""
_ON_ITS_WAY = ("ASK", "TRYAGAIN")
_TORN = re.compile(r"Script attempted to access .*slot|Attempted to access a non local key")
"""How a cluster ends a script that touches keys of another slot, or that are elsewhere by now."""
CHECK: Script[Any] = Script(STORE, "check_writes", scope="fleet")
"""Whether the store takes writes."""
# Commands that are answered late, several times or not at all, or that change the meaning of later replies.
_NOT_SHARED = frozenset(
    b"SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE MONITOR SYNC PSYNC BLPOP BRPOP BLMOVE "
    b"BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF MULTI EXEC DISCARD WATCH UNWATCH HELLO AUTH SELECT "
    b"RESET QUIT READONLY READWRITE ASKING SHUTDOWN".split()
)


class Asked(Protocol):
    """A call with a request id."""

    replayed: bool
    counted: bool


class Store(ClientsOfStore):
    """The store of one process: scripts and plain commands over one shared connection, or one to each shard.

    Args:
        url: as ``link/address.py`` says, with the password if there is one.
        timeout_ms: how long a call may take before it fails as ``store_unavailable``.
        protocol: RESP version, 2 or 3.
        identity: which store it must be; None: any, but the same on each connection.

    Raises:
        AddressError: the URL cannot be understood.
    """

    observe: Observe | None = None
    """Set by the process's metrics."""
    recovered: Callable[[], None] | None = None
    """Called when the store answers on a new connection, after the one before was lost."""

    def __init__(
        self, url: str, timeout_ms: int = 500, protocol: int = 3, identity: StoreIdentity | None = None
    ) -> None:
        self._address = address.parse(url)
        self._timeout = timeout_ms / 1000
        self._protocol = protocol
        self.identity = identity or StoreIdentity()
        self.unready = ""
        """Why the store does not count as ready although it answers; empty: it does (``key_space.settle``)."""
        self.written = False
        """Set by each call with a request id; cleared when the time is noted in the store."""
        self._shards: OneServer | Shards = (
            Shards(self._address, self._timeout, self._make_link, self._slots_moved)
            if self._address.nodes
            else OneServer(
                self._make_link(
                    self._address,
                    clients.resolver(self._address, self._timeout),
                    clients.confirmer(self._address, self._timeout / 2),
                )
            )
        )
        self.projects = Places(self.sharded, self.link, self.command_of, lambda: self.identity)
        self._places = self.projects.known
        self.fences = KnownFences(self.projects.now_fenced, self.sharded, self.command_of, self.ask)
        self.layout = KnownLayout(self.sharded, self.command_of)
        self._functions = Functions(self._failure, self._shards.tag_on, self.fences.generation, self.layout)
        self._settling: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._moved_at = 0.0
        self._back_at: weakref.WeakKeyDictionary[Link, float] = weakref.WeakKeyDictionary()
        self._fleet_link: Link | None = None
        """That of the shard which had the keys of the fleet."""
        self._clients = {}
        self._opened = self._closed = False
        self._warn = ThrottledWarnings()
        self.server = ServerInfo("", "")

    def link(self, project: str = keys.FLEET) -> Link:
        """The connection that the calls of a project share.

        Raises:
            ToolFailure: store_unavailable: no shard has it.
        """
        return self._shards.of(slot_of(project))

    def shard_of(self, project: str) -> int:
        """The number of the shard that has a project, from 0; -1: none has it."""
        return self._shards.number_of(slot_of(project))

    @property
    def links(self) -> dict[int, Link]:
        """The connections to all primaries, by the numbers of their shards."""
        found = {self.shard_of(self._shards.tag_on(link)): link for link in self._shards.links}
        return dict(sorted(found.items()))

    def away_until(self, project: str) -> float:
        """In a cluster, when (``monotonic``) the shard of a project has come back, or slots have moved; 0: never."""
        return max(self._moved_at, self._back_at.get(self.link(project), 0.0))

    def by_shard(self, projects: Iterable[str]) -> list[list[str]]:
        """These projects, those of one shard together, so that one that is away holds up no others."""
        found: dict[int, list[str]] = {}
        for project in projects:
            found.setdefault(self.shard_of(project), []).append(project)
        return list(found.values())

    @contextlib.contextmanager
    def others_go_on(self) -> Iterator[None]:
        """Around what is done for one project of many: in a cluster, its shard may be away while others are not."""
        try:
            yield
        except ToolFailure as failure:
            if not self.sharded and not isinstance(failure, Fenced):
                raise

    def report_shards(self) -> None:
        """Reports to the metrics which shards of a cluster are away."""
        self._shards.report()

    def look_for_moves(self) -> None:
        """Has the map of a cluster's slots read again soon."""
        self._shards.doubt()

    @property
    def url(self) -> str:
        """The store's URL, password included."""
        return self._address.url()

    @property
    def sharded(self) -> bool:
        """Whether it is a cluster, in which each project is on one shard."""
        return bool(self._address.nodes)

    def refuses_all(self) -> bool:
        """Whether every call is rejected, because this is another store. In a cluster that is decided per project."""
        return self.identity.refused and not self.sharded

    @property
    def fails_over(self) -> bool:
        """Whether a replica may take a server's place, and lack its last writes."""
        return bool(self._address.sentinels) or self.sharded

    async def open(self, partly: bool = False) -> None:
        """Connects, checks the server's version and loads every registered script.

        Args:
            partly: of a cluster, it is enough that some shard answers; else that with the keys of the fleet must.

        Raises:
            AddressError: the server is a node of a cluster, and the URL does not say so.
            StoreUnreachable: nobody answers in time, or the server rejects us.
            StoreTooOld: the server is older than 7.0.
            StoreChanged: it is not the expected store.
            ScriptError: the server does not accept a script.
            StoreError: it refuses a command.
        """
        self._closed = False
        try:
            await self._shards.open(partly)
            first = next(link for link in self._shards.links if link.connected) if partly else self.link()
            self.server = supported((await first.execute("INFO", "server")).decode(), str(self._address))
            there = [link for link in self._shards.links if link.connected]
            await asyncio.gather(*(self._load_unless_full(link, first) for link in there))
            self._fleet_link = None if partly else first
            self._opened = True
            self._shards.keep_trying()
        except (ToolFailure, ServerError) as error:
            await self.close()
            kind = StoreUnreachable if isinstance(error, ToolFailure) else StoreError
            raise kind(f"the store at {self._address} cannot be used: {error}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Lets calls in flight finish, at most for the timeout, and closes every connection."""
        self._opened, self._closed = False, True
        await self._functions.close()
        await self.projects.close()
        await end_tasks(*filter(None, (self._settling, self._checking, self._following)))
        await self._shards.close()
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def run(self, script: Script[R], project: str, *args: str | bytes | int, asked: Asked | None = None) -> R:
        """Runs a script on a project's keys, in one round trip.

        Args:
            script: what to run.
            project: the partition; ``keys.FLEET`` or ``keys.QUEUE`` for a script of that scope.
            args: as the script's header declares them.
            asked: the call; its ``replayed`` is set if the reply is a replay.

        Raises:
            ScriptFailure: the script refused with a code that its header declares.
            ToolFailure: store_unavailable, store_full, over_capacity, or VALIDATION_ERROR for
                a bad project name.
            TypeError: wrong number or types of arguments.
            ServerError: a defect of the script.
        """
        started = perf_counter()
        try:
            if self.layout.problem:
                raise self.layout.failure()
            place = (
                self._places.get(project)
                or self.projects.of(script, project)
                or await self.projects.checked(project, script.writes)
            )
            command = script.pack(place.key, args)
            reply = await place.link.submit(command)
            while type(reply) is ServerError:
                reply = await self._recover(script, project, place.link, command, reply)
            if script.remembers:
                self.written = True
            outcome = "new" if script.remembers and args[0] else "ok"
            rest = None
            if type(reply) is list and (script.remembers or script.rest):
                # After a replay too: the process that made the first call may have died before it finished the rest.
                outcome, rest = outcome if len(reply) > 1 else "replay", script.rest
                if asked is not None and outcome == "replay":
                    asked.replayed = True
                reply = reply[0]
            if asked is not None:
                outcome, asked.counted = "ok" if asked.counted else outcome, True
            result: R = reply if script.decode is None else decoded(script.decode, reply)
        except BaseException as error:
            failure = await self.layout.misread() if isinstance(error, ServerError) else None
            if self.observe is not None:
                self.observe(script.name, perf_counter() - started, outcome_of(failure or error), project)
            if failure is not None:
                raise failure from error
            raise
        if self.observe is not None:
            self.observe(script.name, perf_counter() - started, outcome, project)
        if rest is not None:
            await self.finish(rest, project)
        return result

    async def command(self, *words: str | bytes | int) -> Any:
        """Sends one plain command and returns the reply as the server gave it.

        Maps and sets look different under RESP 2 and 3; blocking commands and those that change
        the connection are refused (use ``client``).

        Raises:
            ToolFailure: store_unavailable, store_full or over_capacity.
            ServerError: the server refused the command.
            ValueError: the command must not be sent over the shared connection.
        """
        name = words[0]
        verb = (name if isinstance(name, bytes) else str(name).encode()).upper()
        if verb in _NOT_SHARED or (verb in (b"XREAD", b"XREADGROUP") and _blocks(words)):
            raise ValueError(f"{verb.decode()} must not be sent over the shared connection; use Store.client")
        tag = tag_of(words)
        unchecked = self.sharded or tag in self.projects.fenced
        if unchecked and tag not in self._places and keys.scope_of(tag) == "project":
            await self.projects.checked(tag, False)
        return await self.command_of(tag, *words)

    async def command_of(self, tag: str, *words: str | bytes | int) -> Any:
        """The same for the shard of a hash tag, and without a check that the project is the one that the fleet had."""
        link, packed = self.link(tag), pack(words)
        reply = await link.submit(packed)
        if type(reply) is ServerError:
            reply = await resend(self._shards, packed, reply)
        if type(reply) is ServerError:
            raise self._failure(reply, link, project=tag)
        return reply

    async def failover_problem(self) -> str:
        """Why writes to a paused primary could be acknowledged after a failover; empty: they cannot. They cannot if
        this process drops a silent server before Sentinels, or the nodes of a cluster, can call it down.
        """
        down_after = (
            node_timeout(self._shards.links[0]) if self.sharded else clients.down_after(self._address, self._timeout)
        )
        limit = await down_after
        if limit is None or FRESH * self._timeout < limit:
            return ""
        named = "cluster-node-timeout" if self.sharded else "Sentinels' down-after-milliseconds"
        return (
            f"redis_timeout_ms is {round(self._timeout * 1000)}, and the {named} {round(limit * 1000)}: it has to be "
            f"over {FRESH} times the former, or writes to a paused primary can be acknowledged and lost"
        )

    async def ask(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        """Sends plain commands in one write and returns the replies, errors as values. Raises ToolFailure."""
        return await self.link().ask(commands)

    async def establish(self) -> None:
        """Gives an identity to a store that has none. Raises ToolFailure as ``command`` says."""
        try:
            await self.identity.establish(self.ask)
        except ServerError as error:
            raise self._failure(error, self.link()) from None
        self.projects.forget()  # until now they could not be checked

    async def make_sure(self) -> None:
        """Checks that it is still the expected store; learns its identity if none was known.

        Raises:
            ToolFailure: store_changed, and as ``command`` says.
        """
        try:
            await self._check_identity(self.ask)
        except StoreChanged as error:
            self.link().recycle("is another one")
            raise replies.changed(str(error)) from None
        except ServerError as error:
            raise self._failure(error, self.link()) from None

    async def accept(self, instead_of: str = "") -> str:
        """Accepts this store in place of the known one (``StoreIdentity.accept``). Raises as ``command``."""
        try:
            return await self.identity.accept(self.ask, instead_of)
        except ServerError as error:
            raise self._failure(error, self.link()) from None

    async def time(self) -> int:
        """The server's time in Unix milliseconds. Raises ToolFailure as ``command`` says."""
        seconds, microseconds = await self.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def ping(self) -> float:
        """Seconds that the store takes to answer a script that may write, but changes nothing.

        Of a cluster, one shard has to answer: its projects are served.

        Raises:
            ToolFailure: store_unavailable, also if the server answers but takes no writes, or has not been settled
                yet. A full one still accepts some writes, so it does not count as failed, unless it lacks the script.
        """
        if self.layout.problem:
            raise replies.unready(self.layout.problem)
        started = perf_counter()
        links = self._shards.links
        if len(links) > 1:
            problems = await asyncio.gather(*map(self._problem_at, links))
            if all(problems):
                raise next(filter(None, problems))
        else:
            await self.run(CHECK, keys.FLEET)
        elapsed = perf_counter() - started
        for link in self._shards.links:
            if not self._functions.present(link):
                self._on_connected(link)
        if self.unready:
            raise replies.unready(self.unready)
        return elapsed

    async def _problem_at(self, link: Link) -> ToolFailure | None:
        """Why a shard does not answer a script that may write; None: it does."""
        try:
            command = CHECK.pack(pack_key(self._shards.tag_on(link)), ())
            reply = await link.submit(command)
            if type(reply) is ServerError and replies.lacks_function(reply):
                await self._functions.supply(link, CHECK.function_library)
                reply = await link.submit(command)
        except ToolFailure as failure:
            return failure
        problem = self._failure(reply, link) if type(reply) is ServerError else None
        return problem if problem is None or isinstance(problem, ToolFailure) else replies.unavailable("has a defect")

    def follow(self) -> None:
        """From now on, until ``close``, learns of fenced projects, and whether the store still has its layout; deletes
        functions for older layouts."""
        if self._following is None or self._following.done():
            looks = (self.fences.look, self.layout.look, self._delete_older)
            self._following = asyncio.get_running_loop().create_task(follow(*looks), name="store-follow")

    async def _delete_older(self) -> None:
        for link in self._shards.links:
            with contextlib.suppress(ToolFailure, ServerError):
                await self._functions.delete_older(link)

    async def load_functions(self) -> None:
        """Gives all servers the functions that they should have.

        Raises:
            ToolFailure: one does not answer, or takes no writes.
            ScriptError: one does not accept a script.
        """
        await asyncio.gather(*map(self._functions.load_all, self._shards.links))

    def settle_later(self, settling: Coroutine[Any, Any, None]) -> None:
        """Settles the store in the background, until ``close`` at the latest."""
        self._settling = asyncio.get_running_loop().create_task(settling, name="store-settling")

    @property
    def scripts_loaded(self) -> bool:
        """Whether the server of the present connection, or of a shard, has been given every registered script."""
        return any(map(self._functions.present, self._shards.links))

    @property
    def connected(self) -> bool:
        """Whether there is a live connection."""
        return any(link.connected for link in self._shards.links)

    @property
    def in_flight(self) -> int:
        """Calls that wait for a reply."""
        return sum(link.in_flight for link in self._shards.links)

    async def finish(self, rest: Script[bool], project: str) -> None:
        """Runs what a script left undone (``Script.rest``). If that fails, the next call that depends on it does it."""
        with contextlib.suppress(ToolFailure):
            while not await self.run(rest, project):
                pass

    def _make_link(self, address: address.Address, resolve: Resolver | None, confirm: Confirm | None) -> Link:
        async def check(ask: Ask) -> None:
            if self.link() is link:  # the identity is a key of the fleet
                await self._check_identity(ask)

        link = Link(
            address,
            timeout=self._timeout,
            protocol=self._protocol,
            resolve=resolve,
            confirm=confirm,
            on_connected=lambda: self._on_connected(link),
            on_lost=(lambda: self.projects.forget(link)) if self.sharded else None,
            check=check,
        )
        return link

    async def _check_identity(self, ask: Ask) -> None:
        known = self.identity.known
        await self.identity.check(ask)
        if self.identity.known != known:
            self.projects.forget()
        await self.fences.heard(self.identity.fences, ask)

    def _slots_moved(self) -> None:
        self.projects.forget()
        self._moved_at = monotonic() if self._opened else 0.0
        with contextlib.suppress(ToolFailure):
            if self._opened and self._fleet_link is not (link := self.link()):
                self._fleet_link = link
                self._checking = asyncio.get_running_loop().create_task(self._check_fleet(), name="store-identity")

    async def _check_fleet(self) -> None:
        """The keys of the fleet have moved to another shard: they must be there."""
        with contextlib.suppress(ToolFailure):
            await self.make_sure()

    async def _recover(self, script: Script[Any], project: str, link: Link, command: bytes, error: ServerError) -> Any:
        """Retries a call if that helps: after loading a missing function, or because the script asks for it.

        A function that was missing has not run, so sending the call again is safe. The load precedes the call on the
        same connection. If another process deletes the functions in between, both are sent again.

        Returns:
            The reply to the repeated call.

        Raises:
            Whatever the error means, if repeating the call does not help.
        """
        if (to := redirect(error)) is not None:
            await self._shards.moved(*to)
            REDIRECTS.labels("moved").inc()
            reply = await (link := await self._link_again(script, project, link)).submit(command)
            if type(reply) is ServerError:
                reply = await resend(self._shards, command, reply)
            if type(reply) is not ServerError:
                return reply
            error = reply
        if replies.wants_again(error, script):
            return await (await self._link_again(script, project, link)).submit(command)
        if replies.lacks_function(error):  # the server may have lost everything else, too
            if self.sharded:
                self.projects.forget(link)
            if not self.sharded or script.scope == "fleet":
                await self.make_sure()
            link = await self._link_again(script, project, link)
        for attempt in range(LOAD_ATTEMPTS):
            if not replies.lacks_function(error):
                break
            # A load that is under way may precede the deletion, so only the first attempt relies on one.
            load = await self._functions.supply(link, script.function_library, anew=attempt > 0)
            reply = await link.submit(command)
            if type(reply) is not ServerError or replies.wants_again(reply, script):
                return reply
            error = reply
            if load.done() and isinstance(load.result(), ServerError) and replies.lacks_function(error):
                raise self._functions.failure(link, script, load.result())
        raise self._failure(error, link, script, project)

    async def _link_again(self, script: Script[Any], project: str, link: Link) -> Link:
        """The link for another attempt at a call. Where the keys of the project may be others now, they are checked."""
        if not self.sharded:
            return link
        place = self.projects.of(script, project) or await self.projects.checked(project, script.writes)
        return place.link

    def _failure(
        self, error: ServerError, link: Link, script: Script[Any] | None = None, project: str = ""
    ) -> Exception:
        if replies.is_fenced(error):
            self._places.pop(project, None)
            self.projects.fenced.add(project)
            return Fenced(project, str(error).partition(" ")[2])
        if error.code == "READONLY":
            link.recycle("is no longer the primary")
        if error.code in _IN_DOUBT:
            self._shards.doubt()
        if error.code in _ON_ITS_WAY:
            REDIRECTS.labels("moving").inc()
        elif _TORN.search(str(error)):
            TORN.inc()
        failure = replies.failure(error, script)
        if isinstance(failure, ToolFailure):
            # Callers get the cause, but not the server's own text.
            self._warn(error.code, "the store refuses calls", reason=str(error))
        return failure

    def _on_connected(self, link: Link) -> None:
        """Loads the scripts into a new connection's server. Calls need not wait for that."""
        if self._opened:
            if self.sharded:
                self._back_at[link] = monotonic()
            self._functions.load_later(link, self._has_recovered)

    def _has_recovered(self) -> None:
        if self.recovered is not None:
            self.recovered()

    async def _load_unless_full(self, link: Link, first: Link) -> None:
        """Loads the scripts. A full store does not stop the start: someone must be able to free its memory."""
        try:
            await self._functions.load_all(link)
        except ToolFailure as failure:
            # One with another layout is refused when this process is to serve from it; others may look at it.
            if failure.code not in ("store_full", "layout_unknown") and link is first:
                raise
            _log.warning(
                "scripts that the store does not know yet are loaded later, if it takes them",
                reason=failure.message,
            )


def _blocks(words: tuple[str | bytes | int, ...]) -> bool:
    return any((word if isinstance(word, bytes) else str(word).encode()).upper() == b"BLOCK" for word in words[1:])
