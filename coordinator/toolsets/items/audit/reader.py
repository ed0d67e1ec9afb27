"""Reads the keys of the audited project: in slices with SCAN, and many at once on a consistent snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from coordinator.store import Script, ServerError, Store, keys
from coordinator.store.link.shared import Link
from coordinator.toolsets.items.audit.subject import Read
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE

SLICE = 100
"""How many subjects one script run checks, to keep a run around a millisecond."""
_MOMENT = Script(LIBRARY, "read_moment", list[Any])
_pack = msgspec.msgpack.Encoder().encode


class Moved(Exception):
    """The keys of the project are on another node than at the beginning, or not all of them are on this one."""


class Reader:
    """Reads the keys of one project."""

    def __init__(self, store: Store, project: str) -> None:
        self.prefix = keys.project_prefix(project)
        self._store = store
        self._project = project
        self._pinned: tuple[Link, int] | None = None
        """In a cluster, the connection to the project's node."""

    async def moment(self, reads: Sequence[Read]) -> list[Any]:
        """The replies to some reads, all of one moment."""
        return await self._store.run(_MOMENT, self._project, _pack(reads)) if reads else []

    async def settle(self) -> None:
        """Settles the project's debts."""
        while not await self._store.run(SETTLE, self._project):
            pass

    async def last_event(self) -> Any:
        """The last event of the project, which tells whether it has changed since."""
        return await self._store.command("XREVRANGE", keys.events.key(self._project), "+", "-", "COUNT", 1)

    def all_keys(self) -> AsyncIterator[list[bytes]]:
        """The keys of the project, in pages. Raises ``Moved``."""
        return self._pages("SCAN", "MATCH", self.prefix + b"*")

    async def members_of_set(self, name: str) -> AsyncIterator[str]:
        async for page in self._pages("SSCAN", self.prefix + name.encode()):
            for member in page:
                yield member.decode()

    async def entries(self, command: str, name: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """Fields and values of a hash (HSCAN), members and scores of a sorted set (ZSCAN)."""
        async for page in self._pages(command, self.prefix + name.encode()):
            for pair in zip(page[::2], page[1::2], strict=True):
                yield pair

    async def members(self, command: str, name: str) -> AsyncIterator[tuple[str, str]]:
        """The same as text."""
        async for field, value in self.entries(command, name):
            yield field.decode(), value.decode()

    async def _pages(self, command: str, *words: str | bytes) -> AsyncIterator[list[bytes]]:
        """The replies of SCAN; with a key, of HSCAN or ZSCAN: fields and values in turn."""
        head, options = (words[:1], words[1:]) if command != "SCAN" else ((), words)
        cursor: bytes | str = "0"
        read = self._scan_pinned if self._store.sharded and command == "SCAN" else self._store.command
        while True:
            cursor, elements = await read(command, *head, cursor, *options, "COUNT", SLICE)
            yield elements
            if cursor == b"0":
                return

    async def _scan_pinned(self, *words: str | bytes | int) -> Any:
        """Scans the node that has had the project from the beginning. Raises ``Moved``: it may not have all of it."""
        link = self._store.link(self._project)
        pinned = self._pinned = self._pinned or (link, link.connects)
        found, owned = await link.ask([words, ("EXISTS", self.prefix)])
        if isinstance(found, ServerError) or isinstance(owned, ServerError) or pinned != (link, link.connects):
            self._store.look_for_moves()
            raise Moved
        return found
