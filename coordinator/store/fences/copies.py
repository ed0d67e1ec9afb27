"""What a copy of a project does with fences (``known.py``): functions that look for them, and the fence itself.

Copies of one store exclude each other by a lease. Whatever one writes depends on the fence with the copy's id in the
same transaction, so a process that was paused and has lost its turn cannot do harm.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import redis.exceptions
from redis.asyncio.client import Pipeline

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import ScriptError, StoreError
from coordinator.store.fences.known import CHANGES, GENERATION, State
from coordinator.store.functions import present_libraries
from coordinator.store.libraries.build import FENCED_PREFIX, fenced_name, fenced_text, usual_name
from coordinator.store.link.replies import mapping, unavailable
from coordinator.store.scripts import Script
from coordinator.store.store import Store

SECONDS = 20.0
"""How long one transaction may take."""
GRACE_SECONDS = 1.0
"""How long functions are looked at before a fence is relied on: loads that were under way have arrived by then."""
_ROUNDS = 20
_SAID: dict[State, str] = {
    "leaving": "being copied to",
    "reserved": "being copied from",
    "arriving": "being copied from",
    "copy": "copy, not served, of",
    "moved": "moved to",
}
_IDENTITY = keys.identity.key(keys.FLEET)
_LIST = keys.fenced_projects.key(keys.FLEET)


class CannotFence(StoreError):
    """Functions are in use that do not look for fences."""


class FenceLost(StoreError):
    """The project has another fence, or none: another process has taken over."""


class Fence(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What operators and copies know of a fenced project."""

    id: str
    """Of the copy."""
    state: State
    at: int
    """Since when, in Unix ms."""
    store: str
    """The identity of the other store."""
    place: str
    """Where that is, without secrets."""
    deletes: bool = False
    """Whether the project is to be deleted where it comes from."""
    settled: bool = False
    """Whether all processes know of it, so that functions need not look any more."""
    before: Fence | None = None
    """What the project is refused by again if it does not come: that it was moved from here earlier."""

    @property
    def said(self) -> str:
        """State and other store, in words."""
        return f"{_SAID[self.state]} {self.place}"


class Fencing:
    def __init__(self, store: Store) -> None:
        self.store = store

    # --- functions

    async def begin(self, generation: str) -> None:
        """Makes all functions of the store look for fences; returns when they do.

        Raises:
            CannotFence: some cannot.
            ToolFailure: the store does not answer, or is full.
        """
        await self._write(lambda pipe: pipe.hset(_IDENTITY, GENERATION, generation))
        for wait in (GRACE_SECONDS, 0.0):
            for _ in range(_ROUNDS):
                if await self._converted(generation):
                    break
                await asyncio.gather(*(self._convert(one, generation) for one in self.store.client_of_each().values()))
            else:
                raise CannotFence("functions of the store are replaced again and again by another process")
            await self.store.layout.demand()  # else others delete what was loaded
            await asyncio.sleep(wait)

    async def looks(self) -> bool:
        """Whether all functions of the store look for fences now."""
        found = await asyncio.gather(*(present_libraries(link) for link in self.store.links.values()))
        return all(name.startswith(FENCED_PREFIX) for names in found for name in names)

    async def end(self) -> None:
        """Brings the usual functions back, unless a fence needs those that look, or one comes meanwhile."""
        with contextlib.suppress(FenceLost):
            async with _answers(), self.store.client.pipeline(transaction=True) as pipe:
                await pipe.watch(_LIST, _IDENTITY)
                found: Any = await pipe.hvals(_LIST)  # type: ignore[misc, unused-ignore]
                if all(msgspec.json.decode(one, type=Fence).settled for one in found):
                    pipe.multi()  # type: ignore[no-untyped-call, unused-ignore]
                    pipe.hdel(_IDENTITY, GENERATION)
                    await pipe.execute()
            await self.store.load_functions()

    async def _converted(self, generation: str) -> bool:
        """Whether each server has the functions of this release, and no others than those of a generation."""
        wanted = {fenced_name(script.function_library.name, generation) for script in Script.registered()}
        begin = fenced_name("", generation)
        found = await asyncio.gather(*(present_libraries(link) for link in self.store.links.values()))
        return all(wanted <= names and all(name.startswith(begin) for name in names) for names in found)

    async def _convert(self, client: Any, generation: str) -> None:
        """Replaces the libraries of a server, and adds those of this release that it lacks."""
        await self.store.layout.demand()
        texts = {one.name: one.text for one in {script.function_library for script in Script.registered()}}
        async with _answers():
            listed = await client.execute_command("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*", "WITHCODE")
            present: dict[str, str] = {}
            for one in listed:
                facts = mapping(one)
                name, text = facts[b"library_name"].decode(), facts[b"library_code"].decode()
                present[usual_name(name)] = name
                if usual_name(name) not in texts:
                    texts[usual_name(name)] = text
            for name, text in texts.items():
                if present.get(name) != fenced_name(name, generation):
                    try:
                        await _replace_library(client, present.get(name), fenced_text(text, generation))
                    except ScriptError as error:
                        why = "processes of that release use the store, or did: stop them, and delete those functions"
                        raise CannotFence(f"{error}; {why}") from None

    # --- fences

    async def all(self) -> dict[str, Fence]:
        """All fences that are listed, by project."""
        pairs = mapping(await self.store.command_of(keys.FLEET, "HGETALL", _LIST))
        return {project.decode(): msgspec.json.decode(text, type=Fence) for project, text in pairs.items()}

    async def note(self, project: str, fence: Fence | None) -> None:
        """Lists a fence, or takes it off the list; all processes learn of it."""

        def write(pipe: Pipeline) -> None:
            if fence is None:
                pipe.hdel(_LIST, project)
            else:
                pipe.hset(_LIST, project, msgspec.json.encode(fence))
            pipe.hincrby(_IDENTITY, CHANGES, 1)

        await self._write(write)

    async def found(self, project: str) -> tuple[str, str]:
        """The fence that the project has: the id of its copy and the state; empty: none."""
        value = (await self.store.command_of(project, "GET", keys.fence.key(project)) or b"").decode()
        return value[: keys.FENCE_ID], value[keys.FENCE_ID + 1 :]

    async def put(self, project: str, identity: str, state: State) -> None:
        """Fences a project that has no fence. Raises FenceLost: it has one."""
        if not await self.store.command_of(project, "SET", keys.fence.key(project), f"{identity} {state}", "NX"):
            raise FenceLost(f"the project {project} has been fenced by another process")

    async def turn(self, project: str, identity: str, to: str, state: State | None) -> None:
        """Changes the fence of a copy: its id and state; None removes it. Raises FenceLost."""
        key = keys.fence.key(project)
        await self.transact(
            project, identity, lambda pipe: pipe.delete(key) if state is None else pipe.set(key, f"{to} {state}")
        )

    async def transact(self, project: str, identity: str, write: Callable[[Pipeline], Any]) -> list[Any]:
        """Runs commands on the keys of a project in one step, if its fence has this id.

        Raises:
            FenceLost: it does not.
            ToolFailure: the store does not answer, or is full.
        """
        client, key = self.store.client_of(project), keys.fence.key(project)
        async with _answers(), client.pipeline(transaction=True) as pipe:
            await pipe.watch(key)
            found: Any = await pipe.get(key)
            if found is None or found[: keys.FENCE_ID].decode() != identity:
                raise FenceLost(f"the copy of the project {project} was taken over or ended by another process")
            pipe.multi()  # type: ignore[no-untyped-call, unused-ignore]
            write(pipe)
            replies: list[Any] = await pipe.execute()
            return replies
        raise AssertionError

    async def _write(self, write: Callable[[Pipeline], Any]) -> None:
        async with _answers(), self.store.client.pipeline(transaction=True) as pipe:
            write(pipe)
            await pipe.execute()


async def _replace_library(client: Any, present: str | None, text: str) -> None:
    """Loads a library in place of its other variant; both is done, or nothing."""
    async with client.pipeline(transaction=True) as pipe:
        if present is not None:
            pipe.execute_command("FUNCTION", "DELETE", present)
        pipe.execute_command("FUNCTION", "LOAD", "REPLACE", text)
        for reply in await pipe.execute(raise_on_error=False):
            if isinstance(reply, Exception) and not isinstance(reply, redis.exceptions.ResponseError):
                raise reply  # a library that has gone or come meanwhile is seen in the next round


@asynccontextmanager
async def _answers() -> AsyncIterator[None]:
    """Around calls of a client: turns its errors into those of ``Store.command``."""
    try:
        async with asyncio.timeout(SECONDS):
            yield
    except redis.exceptions.WatchError as error:
        if isinstance(lost := error.__context__, (redis.exceptions.RedisError, OSError)):  # while it watched
            raise unavailable(f"does not answer: {lost}") from None
        raise FenceLost("the fence of the project was changed by another process") from None
    except redis.exceptions.OutOfMemoryError:
        raise ToolFailure("store_full", "the store is out of memory and takes no writes") from None
    except redis.exceptions.ResponseError as error:
        if "OOM" in str(error):
            raise ToolFailure("store_full", "the store is out of memory and takes no writes") from None
        raise StoreError(f"the store refuses a command: {error}") from None
    except (redis.exceptions.RedisError, OSError, TimeoutError) as error:
        raise unavailable(f"does not answer: {str(error) or f'no answer within {SECONDS:.0f} s'}") from None
