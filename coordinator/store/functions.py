"""Loads the functions of the product's scripts into servers, and deletes those of other versions."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from coordinator.errors import ToolFailure
from coordinator.store.errors import ScriptError, ServerError, StoreError
from coordinator.store.link import Link
from coordinator.store.lua_library import Library
from coordinator.store.scripts import STORE, Script, pack, pack_key

_TUNE: Script[Any] = Script(STORE, "tune_collector", scope="fleet")
_COLLECTOR_PAUSE = 150
"""``setpause`` of the server's Lua garbage collector, in percent. Longer pauses make each pass longer, and scripts wait
for it; without pauses, passes take a tenth of the time."""
_COLLECTOR_EFFORT = 50
"""``setstepmul`` of the same collector, in percent (200 by default). Lower values make fewer, longer passes, and take
about two megabytes more memory. Below about 40, a pass may never end."""
_log = structlog.get_logger(__name__)

Meaning = Callable[[ServerError, Link], Exception]
"""The exception that an error reply means."""


class Functions:
    """The functions of the servers of one store.

    Args:
        meaning: of error replies.
        tag_on: a hash tag whose keys are at the server of a link.
    """

    def __init__(self, meaning: Meaning, tag_on: Callable[[Link], str]) -> None:
        self._meaning = meaning
        self._tag_on = tag_on
        self._loads: dict[tuple[Link, str], asyncio.Future[Any]] = {}
        self._loading: dict[Link, asyncio.Task[None]] = {}
        self._loaded_on: weakref.WeakKeyDictionary[Link, int] = weakref.WeakKeyDictionary()

    def present(self, link: Link) -> bool:
        """Whether the server of the present connection has been given every registered script."""
        return link.connected and self._loaded_on.get(link) == link.connects

    async def close(self) -> None:
        """Ends what is loaded in the background."""
        loading, self._loading = list(self._loading.values()), {}
        for task in loading:
            task.cancel()
        if loading:
            await asyncio.wait(loading)

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
            ToolFailure: it does not answer, or takes no writes.
            ScriptError: it does not accept one.
        """
        connects = link.connects
        scripts = Script.registered()
        if scripts:
            known = _library_names(await link.execute("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*"))
            libraries = {script.function_library.name: script for script in scripts}
            missing = [script for name, script in libraries.items() if name not in known]
            answers = await asyncio.gather(
                *(asyncio.shield(self.load(link, script.function_library)) for script in missing)
            )
            for script, answer in zip(missing, answers, strict=True):
                if isinstance(answer, ServerError):
                    raise self.failure(link, script, answer)
            await self._delete_other_versions(link, libraries, known)
            await link.submit(_TUNE.pack(pack_key(self._tag_on(link)), (_COLLECTOR_PAUSE, _COLLECTOR_EFFORT)))
        self._loaded_on[link] = connects

    def load(self, link: Link, library: Library, *, anew: bool = False) -> asyncio.Future[Any]:
        """Loads a library into a server; gives the reply, error replies as values.

        Args:
            anew: also if a load of it is under way.
        """
        key = (link, library.name)
        load = self._loads.get(key)
        if load is None or anew:
            load = self._loads[key] = link.submit(pack(("FUNCTION", "LOAD", "REPLACE", library.text)))

            def forget(done: asyncio.Future[Any]) -> None:
                if not done.cancelled():
                    done.exception()  # marks it as retrieved: callers get the loss of the connection
                if self._loads.get(key) is done:
                    del self._loads[key]

            load.add_done_callback(forget)
        return load

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
        others = [name for name in known - set(present) if name.startswith(ours)]
        if not others:
            return
        if isinstance(await self.load(link, next(iter(present.values())).function_library), ServerError):
            return
        for name in others:
            with contextlib.suppress(ServerError):  # another process was faster
                await link.execute("FUNCTION", "DELETE", name)


def _library_names(listed: list[Any]) -> set[str]:
    """The names in a reply to FUNCTION LIST, in either version of the protocol."""
    found = (one if isinstance(one, dict) else dict(zip(one[::2], one[1::2], strict=True)) for one in listed)
    return {one[b"library_name"].decode() for one in found}
