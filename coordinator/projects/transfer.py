"""The keys of a project on their way to another store: in batches of bounded size, each under the fence of the copy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, get_args

from redis.asyncio.client import Pipeline

from coordinator.projects.errors import ProjectProblem
from coordinator.settings.sections.workflows import Signing
from coordinator.store import Store, keys
from coordinator.store.cluster.places import unlist
from coordinator.store.fences.copies import Fencing
from coordinator.store.link.replies import mapping
from coordinator.store.projects.lists import List, ProjectList
from coordinator.store.signing_keys import KEPT, SigningKeys, moved_keys

_PAGE = 500
_BYTES = 2**20
"""About what one batch has, as long as no single key has more. A server is busy with it for a few milliseconds."""
_TOLD = 50_000
_DAY_MS = 86_400_000
_DUE = keys.due_projects.key(keys.FLEET)
_LISTED = {"steps": keys.step_projects, "items": keys.item_projects, "known": keys.known_projects}


class Keys:
    """The keys of a project in one store, under the fence with an id."""

    def __init__(self, fencing: Fencing, project: str, identity: str) -> None:
        self.fencing = fencing
        self.store = fencing.store
        self.project = project
        self.identity = identity
        self._own = {family.key(project) for family in (keys.fence, keys.marker, keys.project_keys)}

    async def pages(self) -> AsyncIterator[list[bytes]]:
        """Their names, without those of fence, marker and signing keys, in pages; a name may come twice."""
        link, cursor = self.store.link(self.project), b"0"
        pattern = keys.project_prefix(self.project) + b"*"
        while True:
            cursor, found = await link.execute("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
            if link is not self.store.link(self.project):
                raise ProjectProblem(f"the project {self.project} moves to another shard: copy it later")
            if names := [name for name in found if name not in self._own]:
                yield names
            if cursor == b"0":
                return

    async def names(self) -> set[bytes]:
        """All names. Raises as ``pages``."""
        return {name async for page in self.pages() for name in page}

    async def empty(self) -> None:
        """Deletes them. Raises as ``pages``, and FenceLost."""
        async for page in self.pages():
            await self._write(lambda pipe, page=page: [pipe.unlink(name) for name in page])  # type: ignore[misc]
        await self.set_signing_keys({})

    async def dump(self, names: list[bytes]) -> list[tuple[bytes, int, bytes]]:
        """Name, expiry (Unix ms, 0: none) and content of these keys, as far as they are there. Raises FenceLost,
        ToolFailure."""

        def read(pipe: Pipeline) -> None:
            for name in names:
                pipe.execute_command("DUMP", name)
                pipe.execute_command("PEXPIRETIME", name)

        replies = await self._write(read)
        rows = zip(names, replies[1::2], replies[::2], strict=True)
        return [(name, max(expires, 0), content) for name, expires, content in rows if content is not None]

    async def restore(self, rows: list[tuple[bytes, int, bytes]]) -> None:
        """Writes what ``dump`` has read. Raises FenceLost, ToolFailure; StoreError: the server does not take it."""

        def write(pipe: Pipeline) -> None:
            for name, expires, content in rows:
                pipe.execute_command("RESTORE", name, expires, content, "REPLACE", "ABSTTL")

        await self._write(write)

    async def set_signing_keys(self, fields: Mapping[str, str]) -> None:
        """Replaces what the project has for its signing keys. Raises FenceLost, ToolFailure."""
        name = keys.project_keys.key(self.project)

        def write(pipe: Pipeline) -> None:
            pipe.delete(name)
            if fields:
                pipe.hset(name, items=[part for pair in fields.items() for part in pair])

        await self._write(write)

    async def _write(self, write: Callable[[Pipeline], Any]) -> list[Any]:
        return await self.fencing.transact(self.project, self.identity, write)


async def transfer(source: Keys, target: Keys, say: Callable[[str], None]) -> set[bytes]:
    """Copies all keys; returns the names of those that the source had. While a batch is written, the next is read.

    Raises as ``Keys``.
    """
    seen: set[bytes] = set()
    told, rows = 0, None
    async for batch in _batches(source):
        seen.update(batch)
        (_, rows) = await asyncio.gather(target.restore(rows or []), source.dump(batch))
        if len(seen) - told >= _TOLD:
            told = len(seen)
            say(f"{told} keys")
    await target.restore(rows or [])
    return seen


async def _batches(source: Keys) -> AsyncIterator[list[bytes]]:
    async for page in source.pages():
        sizes = await source.store.link(source.project).ask([("MEMORY", "USAGE", name) for name in page])
        batch: list[bytes] = []
        total = 0
        for name, size in zip(page, sizes, strict=True):
            if isinstance(size, Exception):
                raise size
            batch.append(name)
            total += size or 0
            if total >= _BYTES:
                yield batch
                batch, total = [], 0
        if batch:
            yield batch


async def compare(source: Keys, target: Keys, had: set[bytes]) -> int:
    """Whether the target has the keys that the source had; returns how many. Raises ProjectProblem: it has others."""
    has = await target.names()
    lost = []
    for name in had - has:  # keys whose time has come since
        there = await source.store.command_of(source.project, "EXISTS", name)
        if there and not await target.store.command_of(target.project, "EXISTS", name):
            lost.append(name)
    if lost or has - had:
        example = min([*lost, *(has - had)]).decode(errors="replace")
        raise ProjectProblem(f"the copy differs from the source, for example in the key {example}")
    return len(has)


async def hand_over_anew(target: Keys) -> None:
    """Has waiting steps looked for in the queues at once: their jobs stayed behind. Raises FenceLost, ToolFailure."""
    queue = keys.step_queue.key(target.project)
    waiting: list[bytes] = await target.store.command_of(target.project, "ZRANGE", queue, 0, -1)
    for start in range(0, len(waiting), _PAGE):
        unseen = dict.fromkeys(waiting[start : start + _PAGE], 0)
        await target.fencing.transact(target.project, target.identity, lambda pipe, some=unseen: pipe.zadd(queue, some))  # type: ignore[misc]


async def publish(store: Store, project: str) -> None:
    """Puts a project into the lists of its store, from which background work is done.

    Raises ToolFailure.
    """
    if store.sharded:
        await store.command_of(project, "SET", keys.marker.key(project), store.identity.known)
        await store.command_of(keys.FLEET, "SADD", keys.marked_projects.key(keys.FLEET), project)
    for what in get_args(List):
        await ProjectList(store, what).note(project)


async def withdraw(store: Store, project: str) -> None:
    """Takes a project out of these lists. Raises ToolFailure."""
    await store.command_of(keys.FLEET, "ZREM", _DUE, project)
    for what in get_args(List):
        await ProjectList(store, what).forget(project, 0)
    if store.sharded:
        await unlist(store.command_of, project)


async def bring_along(source: Store, target: Store, project: str) -> None:
    """Copies what the keys of the fleet have for a project: when something in it ends, and the positions of its
    webhooks.

    Raises ToolFailure, StoreError.
    """
    due = await source.command_of(keys.FLEET, "ZSCORE", _DUE, project)
    if due is not None:
        await target.command_of(keys.FLEET, "ZADD", _DUE, str(float(due)), project)
    async for name in _webhooks(source):
        record = await _hash(source, name)
        if record.get(b"p") == project.encode() and (await _hash(target, name)).get(b"p") != record[b"p"]:
            content = await source.command_of(keys.FLEET, "DUMP", name)
            expires = await source.command_of(keys.FLEET, "PEXPIRETIME", name)
            if content is not None:
                await target.command_of(keys.FLEET, "RESTORE", name, max(expires, 0), content, "REPLACE", "ABSTTL")


async def hand_over_keys(source: Store, target: Keys, signing: Signing) -> None:
    """Has the target verify what the project's tokens and states were signed with at the source, and no more than that.

    Raises FenceLost, ToolFailure.
    """
    project = target.project
    ring = await SigningKeys(source, signing.keys, signing.key_days).ring()
    held = mapping(await source.command_of(project, "HGETALL", keys.project_keys.key(project)))
    ends = await source.time() + KEPT * signing.key_days * _DAY_MS
    await target.set_signing_keys(moved_keys(ring, held, project, ends, target.identity))


async def _webhooks(store: Store) -> AsyncIterator[bytes]:
    cursor: bytes = b"0"
    pattern = keys.webhook.key(keys.FLEET, "*")
    while True:
        cursor, names = await store.command_of(keys.FLEET, "SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
        for name in names:
            yield name
        if cursor == b"0":
            return


async def _hash(store: Store, name: bytes) -> dict[bytes, bytes]:
    return mapping(await store.command_of(keys.FLEET, "HGETALL", name))


async def check_clocks(source: Store, target: Store, most_ms: int) -> None:
    """Compares the clocks of both stores: expiries and fences are times of theirs."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    here, there = await asyncio.gather(source.time(), target.time())
    differ = abs(here - there) - (loop.time() - before) * 1000
    if differ > most_ms:
        raise ProjectProblem(
            f"the clocks of the two stores differ by {differ / 1000:.1f} s, and times of one would be wrong in the "
            f"other: bring them within {most_ms / 1000:.1f} s"
        )
