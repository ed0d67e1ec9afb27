"""``Store``: runs scripts and plain commands on the server, for the rest of the process."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar

import redis.asyncio
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.store import address, clients, keys, replies
from coordinator.store.connection import FRESH
from coordinator.store.errors import (
    ScriptError,
    ScriptFailure,
    ServerError,
    StoreChanged,
    StoreError,
    StoreTooOld,
    StoreUnreachable,
)
from coordinator.store.identity import StoreIdentity
from coordinator.store.link import Link
from coordinator.store.lua_library import Library
from coordinator.store.scripts import STORE, Script, pack, pack_key
from coordinator.store.server_binary import MINIMUM_VERSION

R = TypeVar("R")
Observe = Callable[[str, float, str], None]
"""Called after each script call with the script's name, seconds, and the outcome, one of ``OUTCOMES``."""

OUTCOMES = (
    "ok",
    "new",
    "replay",
    "refused",
    "mismatch",
    "unavailable",
    "changed",
    "full",
    "over_capacity",
    "cancelled",
    "defect",
)
"""ok: a call without a request id. Calls with one are new (the id was not known), replay (it was known) or mismatch (it
was used before with other arguments)."""

_LATE_SECONDS = 2.0
"""How long after its own timeout a blocking call may be answered."""
_log = structlog.get_logger(__name__)
_VERSION = re.compile(r"(\d+)\.(\d+)")
MAX_CACHED_KEYS = 10_000
"""How many names of keys are cached."""
_LOAD_ATTEMPTS = 5
_TUNE: Script[Any] = Script(STORE, "tune_collector", scope="fleet")
CHECK: Script[Any] = Script(STORE, "check_writes", scope="fleet")
"""Whether the store takes writes."""
_COLLECTOR_PAUSE = 150
"""``setpause`` of the server's Lua garbage collector, in percent. Longer pauses make each pass longer, and scripts wait
for it; without pauses, passes take a tenth of the time."""
_COLLECTOR_EFFORT = 50
"""``setstepmul`` of the same collector, in percent (200 by default). Lower values make fewer, longer passes, and take
about two megabytes more memory. Below about 40, a pass may never end."""
# Commands that are answered late, several times or not at all, or that change the meaning of later replies.
_NOT_SHARED = frozenset(
    b"SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE MONITOR SYNC PSYNC BLPOP BRPOP BLMOVE "
    b"BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF MULTI EXEC DISCARD WATCH UNWATCH HELLO AUTH SELECT "
    b"RESET QUIT READONLY READWRITE ASKING SHUTDOWN".split()
)


class Asked(Protocol):
    """A call with a request id."""

    replayed: bool


class ServerInfo(NamedTuple):
    """Which server answers."""

    name: str
    """``Redis`` or ``Valkey``."""
    version: str


class Store:
    """The store of one process: scripts and plain commands over one shared connection.

    Args:
        url: as ``address.py`` says, with the password if there is one.
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
        self._link = Link(
            self._address,
            timeout=self._timeout,
            protocol=protocol,
            resolve=clients.resolver(self._address, self._timeout),
            on_connected=self._on_connected,
            check=self.identity.check,
        )
        self._keys: dict[str, bytes] = {}
        self._loads: dict[str, asyncio.Future[Any]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._loaded_on = 0
        self._client: redis.asyncio.Redis | None = None
        self._opened = False
        self._warn = ThrottledWarnings()
        self.server = ServerInfo("", "")

    @property
    def link(self) -> Link:
        """The connection that all calls share."""
        return self._link

    @property
    def url(self) -> str:
        """The store's URL, password included."""
        return self._address.url()

    @property
    def fails_over(self) -> bool:
        """Whether Sentinels may put a replica in the server's place, which may lack its last writes."""
        return bool(self._address.sentinels)

    async def open(self) -> None:
        """Connects, checks the server's version and loads every registered script.

        Raises:
            StoreUnreachable: nobody answers in time, or the server rejects us.
            StoreTooOld: the server is older than 7.0.
            StoreChanged: it is not the expected store.
            ScriptError: the server does not accept a script.
            StoreError: it refuses a command.
        """
        try:
            await self._link.open()
            self.server = await self._check_version()
            await self._load_unless_full()
            self._opened = True
        except (ToolFailure, ServerError) as error:
            await self.close()
            kind = StoreUnreachable if isinstance(error, ToolFailure) else StoreError
            raise kind(f"the store at {self._address} cannot be used: {error}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Lets calls in flight finish, at most for the timeout, and closes every connection."""
        self._opened = False
        background = [task for task in (self._loading, self._settling) if task is not None]
        self._loading = self._settling = None
        for task in background:
            task.cancel()
        if background:
            await asyncio.wait(background)
        await self._link.close()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def run(self, script: Script[R], project: str, *args: str | bytes | int, asked: Asked | None = None) -> R:
        """Runs a script on a project's keys, in one round trip.

        Args:
            script: what to run.
            project: the partition; ``keys.FLEET`` for a script of the fleet's scope.
            args: as the script's header declares them.
            asked: its ``replayed`` is set if the reply is a replay.

        Raises:
            ScriptFailure: the script refused with a code that its header declares.
            ToolFailure: store_unavailable, store_full, over_capacity, or VALIDATION_ERROR for
                a bad project name.
            TypeError: wrong number or types of arguments.
            ServerError: a defect of the script.
        """
        started = perf_counter()
        try:
            key = self._keys.get(project) or self._pack_key(script, project)
            command = script.pack(key, args)
            reply = await self._link.submit(command)
            while type(reply) is ServerError:
                reply = await self._recover(script, command, reply)
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
            result: R = reply if script.decode is None else replies.decoded(script.decode, reply)
        except BaseException as error:
            if self.observe is not None:
                self.observe(script.name, perf_counter() - started, _outcome(error))
            raise
        if self.observe is not None:
            self.observe(script.name, perf_counter() - started, outcome)
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
        reply = await self._link.submit(pack(words))
        if type(reply) is ServerError:
            raise self._failure(reply)
        return reply

    async def failover_problem(self) -> str:
        """Why writes to a paused primary could be acknowledged after a failover; empty: they cannot. They cannot if
        this process drops a silent server before Sentinels can call it down.
        """
        limit = await clients.down_after(self._address, self._timeout)
        if limit is None or FRESH * self._timeout < limit:
            return ""
        return (
            f"redis_timeout_ms is {round(self._timeout * 1000)}, and the Sentinels' down-after-milliseconds "
            f"{round(limit * 1000)}: it has to be over {FRESH} times the former, or writes to a paused primary "
            "can be acknowledged and lost"
        )

    async def ask(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        """Sends plain commands in one write and returns the replies, errors as values. Raises ToolFailure."""
        return await self._link.ask(commands)

    async def establish(self) -> None:
        """Gives an identity to a store that has none. Raises ToolFailure as ``command`` says."""
        try:
            await self.identity.establish(self.ask)
        except ServerError as error:
            raise self._failure(error) from None

    async def make_sure(self) -> None:
        """Checks that it is still the expected store; learns its identity if none was known.

        Raises:
            ToolFailure: store_changed, and as ``command`` says.
        """
        try:
            await self.identity.check(self.ask)
        except StoreChanged as error:
            self._link.recycle("is another one")
            raise replies.changed(str(error)) from None
        except ServerError as error:
            raise self._failure(error) from None

    async def accept(self, instead_of: str = "") -> str:
        """Accepts this store in place of the known one (``StoreIdentity.accept``). Raises as ``command``."""
        try:
            return await self.identity.accept(self.ask, instead_of)
        except ServerError as error:
            raise self._failure(error) from None

    async def time(self) -> int:
        """The server's time in Unix milliseconds. Raises ToolFailure as ``command`` says."""
        seconds, microseconds = await self.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def ping(self) -> float:
        """Seconds that the store takes to answer a script that may write, but changes nothing.

        Raises:
            ToolFailure: store_unavailable, also if the server answers but takes no writes, or has not been settled
                yet. A full one still accepts some writes, so it does not count as failed, unless it lacks the script.
        """
        started = perf_counter()
        await self.run(CHECK, keys.FLEET)
        elapsed = perf_counter() - started
        if not self.scripts_loaded:
            self._on_connected()
        if self.unready:
            raise ToolFailure("store_unavailable", self.unready, retry_after_ms=replies.RETRY_MS)
        return elapsed

    def settle_later(self, settling: Coroutine[Any, Any, None]) -> None:
        """Settles the store in the background, until ``close`` at the latest."""
        self._settling = asyncio.get_running_loop().create_task(settling, name="store-settling")

    @property
    def scripts_loaded(self) -> bool:
        """Whether the present connection's server has been given every registered script."""
        return self._link.connected and self._loaded_on == self._link.connects

    @property
    def connected(self) -> bool:
        """Whether there is a live connection."""
        return self._link.connected

    @property
    def in_flight(self) -> int:
        """Calls that wait for a reply."""
        return self._link.in_flight

    @property
    def client(self) -> redis.asyncio.Redis:
        """A redis-py client of the same server, for blocking reads and administration; made on first use.

        It never retries by itself, and has no read timeout: blocking calls set their own.
        """
        if self._client is None:
            self._client = self.further_client(self._protocol)
        return self._client

    def further_client(self, protocol: int) -> redis.asyncio.Redis:
        """Another client like ``client``, which the caller closes.

        Args:
            protocol: RESP version, 2 or 3.
        """
        return clients.async_client(
            self._address,
            protocol=protocol,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=self._timeout,
            redis_connect_func=self.identity.guard_async,
        )

    async def pop_first(self, lists: Sequence[str | bytes], seconds: float) -> tuple[bytes, bytes] | None:
        """Takes the first element of the first of these lists that has one, with the name of that list; waits for one.

        Args:
            seconds: how long the server waits at most; None is returned then.

        Raises:
            redis.exceptions.RedisError, OSError: the server does not answer, or not in time.
        """
        client: Any = self.client
        # Not by a timeout of the client: before Python 3.12 it may lose that the caller was cancelled.
        async with asyncio.timeout(seconds + _LATE_SECONDS):
            found = await client.blpop(lists, timeout=seconds)
        return None if found is None else (found[0], found[1])

    async def finish(self, rest: Script[bool], project: str) -> None:
        """Runs what a script left undone (``Script.rest``). If that fails, the next call that depends on it does it."""
        with contextlib.suppress(ToolFailure):
            while not await self.run(rest, project):
                pass

    def _pack_key(self, script: Script[Any], project: str) -> bytes:
        if (project == keys.FLEET) != (script.scope == "fleet"):
            raise ValueError(f"script {script.name} belongs to the scope {script.scope}")
        if project == keys.FLEET:
            return pack_key(project)
        if len(self._keys) >= MAX_CACHED_KEYS:
            self._keys.clear()
        key = self._keys[project] = pack_key(project)
        return key

    async def _recover(self, script: Script[Any], command: bytes, error: ServerError) -> Any:
        """Retries a call if that helps: after loading a missing function, or because the script asks for it.

        A function that was missing has not run, so sending the call again is safe. The load precedes the call on the
        same connection. If another process deletes the functions in between, both are sent again.

        Returns:
            The reply to the repeated call.

        Raises:
            Whatever the error means, if repeating the call does not help.
        """
        if replies.wants_again(error, script):
            return await self._link.submit(command)
        if replies.lacks_function(error):
            await self.make_sure()  # it may have lost everything else, too
        for attempt in range(_LOAD_ATTEMPTS):
            if not replies.lacks_function(error):
                break
            # A load that is under way may precede the deletion, so only the first attempt relies on one.
            load = self._load(script.function_library, anew=attempt > 0)
            reply = await self._link.submit(command)
            if type(reply) is not ServerError or replies.wants_again(reply, script):
                return reply
            error = reply
            if load.done() and isinstance(load.result(), ServerError):
                raise self._load_failure(script, load.result())
        raise self._failure(error, script)

    def _load(self, library: Library, *, anew: bool = False) -> asyncio.Future[Any]:
        """Loads a library into the server; gives the reply, error replies as values.

        Args:
            anew: also if a load of it is under way.
        """
        load = self._loads.get(library.name)
        if load is None or anew:
            load = self._loads[library.name] = self._link.submit(pack(("FUNCTION", "LOAD", "REPLACE", library.text)))

            def forget(done: asyncio.Future[Any]) -> None:
                if not done.cancelled():
                    done.exception()  # marks it as retrieved: callers get the loss of the connection
                if self._loads.get(library.name) is done:
                    del self._loads[library.name]

            load.add_done_callback(forget)
        return load

    def _load_failure(self, script: Script[Any], error: ServerError) -> Exception:
        """Why the server did not load a function: it takes no writes now, or the script is at fault."""
        failure = self._failure(error)
        return failure if isinstance(failure, ToolFailure) else ScriptError(script.explain(str(error)))

    def _failure(self, error: ServerError, script: Script[Any] | None = None) -> Exception:
        if error.code == "READONLY":
            self._link.recycle("is no longer the primary")
        failure = replies.failure(error, script)
        if isinstance(failure, ToolFailure):
            # Callers get the cause, but not the server's own text.
            self._warn(error.code, "the store refuses calls", reason=str(error))
        return failure

    async def _check_version(self) -> ServerInfo:
        text = await self._link.execute("INFO", "server")
        facts = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        valkey = facts.get("valkey_version")
        server = ServerInfo("Valkey", valkey) if valkey else ServerInfo("Redis", facts.get("redis_version", "0.0"))
        match = _VERSION.match(server.version)
        if match is None or (int(match[1]), int(match[2])) < MINIMUM_VERSION:
            raise StoreTooOld(
                f"the server at {self._address} is {server.name} {server.version}: Redis 7.0 or newer, "
                "or any Valkey, is needed"
            )
        return server

    def _on_connected(self) -> None:
        """Loads the scripts into a new connection's server. Calls need not wait for that."""
        if self._opened and (self._loading is None or self._loading.done()):
            self._loading = asyncio.get_running_loop().create_task(self._load_again(), name="store-scripts")

    async def _load_unless_full(self) -> None:
        """Loads the scripts. A full store does not stop the start: someone must be able to free its memory."""
        try:
            await self._load_scripts()
        except ToolFailure as failure:
            if failure.code != "store_full":
                raise
            _log.warning("the store is full: scripts that it does not know yet are loaded when there is room")

    async def _load_again(self) -> None:
        try:
            await self._load_scripts()
        except ToolFailure as failure:
            _log.debug("scripts could not be loaded", reason=failure.message)
        except StoreError as error:
            _log.error("the store refuses a script", reason=str(error))
        else:
            if self.recovered is not None:
                self.recovered()

    async def _load_scripts(self) -> None:
        """Loads the functions that the server lacks, and deletes other versions of them."""
        connects = self._link.connects
        scripts = Script.registered()
        if scripts:
            known = _library_names(await self._link.execute("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*"))
            libraries = {script.function_library.name: script for script in scripts}
            missing = [script for name, script in libraries.items() if name not in known]
            answers = await asyncio.gather(*(asyncio.shield(self._load(script.function_library)) for script in missing))
            for script, answer in zip(missing, answers, strict=True):
                if isinstance(answer, ServerError):
                    raise self._load_failure(script, answer)
            await self._delete_other_versions(libraries, known)
            await self._link.submit(_TUNE.pack(pack_key(keys.FLEET), (_COLLECTOR_PAUSE, _COLLECTOR_EFFORT)))
        self._loaded_on = connects

    async def _delete_other_versions(self, present: Mapping[str, Script[Any]], known: set[str]) -> None:
        """Deletes other versions, because the server keeps functions for good.

        Those of releases with a library for each operation are among them (``fleet_items_claim_item_<digest>``). If a
        process still runs another version, that process loads it again; a full server would not let it, and its calls
        would fail, so a full server keeps them.
        """
        ours = tuple(name.rpartition("_")[0] + "_" for name in present)
        others = [name for name in known - set(present) if name.startswith(ours)]
        if not others or isinstance(await self._load(next(iter(present.values())).function_library), ServerError):
            return
        for name in others:
            with contextlib.suppress(ServerError):  # another process was faster
                await self._link.execute("FUNCTION", "DELETE", name)


def _library_names(listed: list[Any]) -> set[str]:
    """The names in a reply to FUNCTION LIST, in either version of the protocol."""
    found = (one if isinstance(one, dict) else dict(zip(one[::2], one[1::2], strict=True)) for one in listed)
    return {one[b"library_name"].decode() for one in found}


def _blocks(words: tuple[str | bytes | int, ...]) -> bool:
    return any((word if isinstance(word, bytes) else str(word).encode()).upper() == b"BLOCK" for word in words[1:])


_FAILURES = {
    "store_unavailable": "unavailable",
    "store_changed": "changed",
    "store_full": "full",
    "over_capacity": "over_capacity",
}


def _outcome(error: BaseException) -> str:
    if isinstance(error, ScriptFailure):
        return "mismatch" if error.code == "REQUEST_ID_REUSED" else "refused"
    if isinstance(error, ToolFailure):
        return _FAILURES.get(error.code, "refused")
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "defect"
