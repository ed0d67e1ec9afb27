"""Loads the functions of the product's scripts into servers, and deletes those of other versions.

Which variant of a library is loaded is the generation's to say (``fences/known.py``). It is asked for after the server
has said which libraries it has, and again after a load. So is the layout of the store (``layout.py``): before a load,
and in the same write after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any

import redis
import structlog

from coordinator.errors import ToolFailure
from coordinator.service import end_tasks
from coordinator.store import keys
from coordinator.store.errors import ScriptError, ServerError, StoreError
from coordinator.store.fences.known import GENERATION, UNKNOWN
from coordinator.store.layout import VERSION, KnownLayout, layout_of
from coordinator.store.libraries.build import Library, fenced_name, fenced_text, generation_of, usual_name
from coordinator.store.link.replies import library_exists, mapping, unavailable
from coordinator.store.link.shared import Link
from coordinator.store.metrics import FOREIGN_LIBRARIES
from coordinator.store.scripts import STORE, Script, pack, pack_key

_TUNE: Script[Any] = Script(STORE, "tune_collector", scope="fleet")
_COLLECTOR_PAUSE = 150
"""``setpause`` of the server's Lua garbage collector, in percent. Longer pauses make each pass longer, and scripts wait
for it; without pauses, passes take a tenth of the time."""
_COLLECTOR_EFFORT = 50
"""``setstepmul`` of the same collector, in percent (200 by default). Lower values make fewer, longer passes, and take
about two megabytes more memory. Below about 40, a pass may never end."""
LOAD_ATTEMPTS = 5
_LIST_SECONDS = 60.0
"""How often the libraries of a server are listed although their number has not changed."""
_log = structlog.get_logger(__name__)

Meaning = Callable[[ServerError, Link], Exception]
"""The exception that an error reply means."""


class Functions:
    """The functions of the servers of one store.

    Args:
        meaning: of error replies.
        tag_on: a hash tag whose keys are at the server of a link.
        generation: asks for the generation of functions.
        layout: what is known of the store's layout.
    """

    def __init__(
        self,
        meaning: Meaning,
        tag_on: Callable[[Link], str],
        generation: Callable[[], Awaitable[str]],
        layout: KnownLayout,
    ) -> None:
        self._meaning = meaning
        self._tag_on = tag_on
        self._generation = generation
        self._layout = layout
        self._layouts: dict[str, int] = {}
        """Those that libraries are for, by name: a name ends in a digest of the text."""
        self._counted: weakref.WeakKeyDictionary[Link, tuple[Any, float]] = weakref.WeakKeyDictionary()
        """How many libraries and functions a server had when they were listed, and when that was."""
        self._loads: dict[tuple[Link, str], asyncio.Future[Any]] = {}
        self._loading: dict[Link, asyncio.Task[None]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._loaded_on: weakref.WeakKeyDictionary[Link, int] = weakref.WeakKeyDictionary()

    def present(self, link: Link) -> bool:
        """Whether the server of the present connection has been given every registered script."""
        return link.connected and self._loaded_on.get(link) == link.connects

    async def close(self) -> None:
        """Ends what is loaded in the background."""
        loading = [*self._loading.values(), *self._checks]
        self._loading = {}
        await end_tasks(*loading)

    def load_later(self, link: Link, loaded: Callable[[], None]) -> None:
        """Loads the scripts into the server of a new connection in the background.

        Args:
            loaded: called when that is done.
        """
        loading = self._loading.get(link)
        if loading is None or loading.done():
            task = asyncio.get_running_loop().create_task(self._load_again(link, loaded), name="store-scripts")
            self._loading[link] = task

    async def load_all(self, link: Link) -> None:
        """Loads the functions that a server lacks, and deletes other versions of them.

        Raises:
            ToolFailure: it does not answer, takes no writes, or has the layout of another release.
            ScriptError: it does not accept one.
        """
        await self._layout.demand()
        connects, generation = link.connects, ""
        scripts = Script.registered()
        if scripts:
            libraries = {script.function_library.name: script for script in scripts}
            for _ in range(LOAD_ATTEMPTS):
                known = await present_libraries(link)
                generation = await self._generation()
                variants = {usual_name(name): name for name in known}
                wrong = [
                    script for name, script in libraries.items() if not _wanted(variants.get(name), name, generation)
                ]
                if not wrong:
                    break
                replies = await asyncio.gather(
                    *(self._replace(link, one.function_library, variants, generation) for one in wrong)
                )
                for script, reply in zip(wrong, replies, strict=True):
                    if isinstance(reply, ServerError):
                        raise self.failure(link, script, reply)
                await self._keep(link, generation)
                if all(replies) and generation == await self._generation():
                    break
            else:
                raise unavailable("has functions that others replace again and again")
            if not generation:
                await self._delete_other_versions(link, libraries, known)
            await link.submit(_TUNE.pack(pack_key(self._tag_on(link)), (_COLLECTOR_PAUSE, _COLLECTOR_EFFORT)))
        if generation != UNKNOWN:
            self._loaded_on[link] = connects

    async def supply(self, link: Link, library: Library, *, anew: bool = False) -> asyncio.Future[Any]:
        """Begins to load a library that a server lacks; the future gives the reply, an error reply as a value.

        What is sent next finds the library, because it comes after. Concurrent callers share one load.

        Args:
            anew: also if a load of it is under way.

        Raises:
            ToolFailure: the server does not answer, or the store has the layout of another release.
        """
        await self._layout.demand()
        generation = await self._generation()
        key = (link, library.name)
        load = self._loads.get(key)
        if load is None or anew:
            load = self._loads[key] = link.submit(_load(library, generation))

            def forget(done: asyncio.Future[Any]) -> None:
                if not done.cancelled():
                    done.exception()  # marks it as retrieved: callers get the loss of the connection
                if self._loads.get(key) is done:
                    del self._loads[key]

            load.add_done_callback(forget)
            self._check_later(link, generation)
        return load

    async def delete_older(self, link: Link) -> None:
        """Deletes libraries for older layouts: of processes that were stopped while the store was brought to this one.

        Libraries that do not say their layout are not touched, and none where the server has several databases: the
        one for which a library is may have the older layout. Raises ToolFailure, ServerError.
        """
        if not self._layout.confirmed:
            return
        engines = mapping(mapping(await link.execute("FUNCTION", "STATS"))[b"engines"])
        counts, moment = mapping(engines[b"LUA"]), monotonic()
        seen, at = self._counted.get(link, (None, 0.0))
        if counts == seen and moment < at + _LIST_SECONDS:
            return
        names = await present_libraries(link)
        for name in names - self._layouts.keys():
            for one in await link.execute("FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE"):
                self._layouts[name] = layout_of(mapping(one)[b"library_code"].decode(errors="replace")) or VERSION
        older = sorted(name for name in names if self._layouts.get(name, VERSION) < VERSION)
        databases = (await link.execute("INFO", "keyspace")).count(b":keys=") if older else 0
        for name in older if databases < 2 else ():
            _log.error("a process of an older release has loaded functions: stop it", library=name)
            FOREIGN_LIBRARIES.inc()
            with contextlib.suppress(ServerError):  # another process was faster
                await link.execute("FUNCTION", "DELETE", name)
        self._counted[link] = counts, moment

    async def _keep(self, link: Link, generation: str) -> None:
        """Deletes what was loaded again, if the layout was changed before. Raises as ``KnownLayout.demand``."""
        try:
            await self._layout.demand()
        except ToolFailure as failure:
            libraries = {script.function_library.name for script in Script.registered()}
            for name in libraries if failure.code == "layout_unknown" else ():
                with contextlib.suppress(ServerError):
                    await link.execute("FUNCTION", "DELETE", fenced_name(name, generation) if generation else name)
            raise

    def _check_later(self, link: Link, generation: str) -> None:
        """Makes sure in the background that what was loaded is still what is wanted."""

        async def check() -> None:
            with contextlib.suppress(ToolFailure):
                await self._keep(link, generation)
                if not generation:
                    await self._load_again(link, lambda: None)

        task = asyncio.get_running_loop().create_task(check(), name="store-scripts check")
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _replace(self, link: Link, library: Library, present: Mapping[str, str], generation: str) -> Any:
        """Loads the variant of a library that belongs to a generation. Returns the reply, errors as values; empty:
        another process changes it, too.

        Args:
            present: the variant that the server has, by the usual name.
        """
        there = present.get(library.name)
        if there is not None:
            same = await link.submit(_load(library, generation_of(there)))
            if isinstance(same, ServerError):  # a full server takes no functions, so it keeps what it has
                return b"" if library_exists(same) else same
            gone = await link.submit(pack(("FUNCTION", "DELETE", there)))
            if isinstance(gone, ServerError):  # another process was faster
                return gone if isinstance(self._meaning(gone, link), ToolFailure) else b""
        reply = await link.submit(_load(library, generation))
        return b"" if isinstance(reply, ServerError) and library_exists(reply) else reply

    def failure(self, link: Link, script: Script[Any], error: ServerError) -> Exception:
        """Why a server did not load a function: it takes no writes now, or the script is at fault."""
        failure = self._meaning(error, link)
        return failure if isinstance(failure, ToolFailure) else ScriptError(script.explain(str(error)))

    async def _load_again(self, link: Link, loaded: Callable[[], None]) -> None:
        try:
            await self.load_all(link)
        except ToolFailure as failure:
            _log.debug("scripts could not be loaded", reason=failure.message)
        except StoreError as error:
            _log.error("the store refuses a script", reason=str(error))
        else:
            loaded()

    async def _delete_other_versions(self, link: Link, present: Mapping[str, Script[Any]], known: set[str]) -> None:
        """Deletes other versions, because the server keeps functions for good.

        Those of releases with a library for each operation are among them (``fleet_items_claim_item_<digest>``). If a
        process still runs another version, that process loads it again; a full server would not let it, and its calls
        would fail, so a full server keeps them.
        """
        ours = tuple(name.rpartition("_")[0] + "_" for name in present)
        versions = {name: usual_name(name) for name in known}
        others = [name for name, usual in versions.items() if usual.startswith(ours) and usual not in present]
        if not others:
            return
        text = next(iter(present.values())).function_library.text
        if isinstance(await link.submit(pack(("FUNCTION", "LOAD", "REPLACE", text))), ServerError):
            return
        for name in others:
            with contextlib.suppress(ServerError):  # another process was faster
                await link.execute("FUNCTION", "DELETE", name)


def load(client: redis.Redis, library: Library) -> None:
    """Loads a library that a server lacks, over a client of it. Raises RedisError, also if the store has the layout of
    another release.

    A node of a cluster may not have the keys of the fleet, so it gets the variant that is safe in any case.
    """
    identity, layout = keys.identity.key(keys.FLEET), keys.key_space.key(keys.FLEET)
    for _ in range(LOAD_ATTEMPTS):
        with client.pipeline() as pipe:
            try:
                pipe.watch(identity, layout)  # type: ignore[no-untyped-call, unused-ignore]
                found: Any = pipe.hget(identity, GENERATION)
                generation, noted = (found or b"").decode(), pipe.get(layout)
            except redis.exceptions.ResponseError:
                generation, noted = UNKNOWN, None
                pipe.reset()
            if noted not in (None, b"%d" % VERSION):
                raise redis.exceptions.ResponseError("the store has the layout of another release: stop this process")
            pipe.multi()
            text = _text(library, generation)
            pipe.execute_command("FUNCTION", "LOAD", "REPLACE", text)  # type: ignore[no-untyped-call, unused-ignore]
            try:
                pipe.execute()
            except redis.exceptions.WatchError:
                continue  # both are written when fences come and go
            except redis.exceptions.ResponseError as error:
                if not library_exists(error):
                    raise
        return
    raise redis.exceptions.ResponseError("the fences of the store change again and again")


def _text(library: Library, generation: str) -> str:
    return fenced_text(library.text, generation) if generation else library.text


def _load(library: Library, generation: str) -> bytes:
    """The command that loads the variant of a library that belongs to a generation."""
    return pack(("FUNCTION", "LOAD", "REPLACE", _text(library, generation)))


async def present_libraries(link: Link) -> set[str]:
    """The names of the product's libraries in a server. Raises ToolFailure, ServerError."""
    listed = await link.execute("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*")
    return {mapping(one)[b"library_name"].decode() for one in listed}


def _wanted(found: str | None, name: str, generation: str) -> bool:
    """Whether the variant of a library that a server has is right."""
    return found == name if not generation else found not in (None, name)
