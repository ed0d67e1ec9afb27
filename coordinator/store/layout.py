"""The layout of a store's keys: its version, and whether a store still has it.

``checks/key_space.py`` checks that before a process serves. While it does, the store may be brought to another layout,
also while the process is stopped; so it asks again each second, around each load of functions, and when a script or a
reader meets something that it cannot read. If the store has another layout, the process is unready, and its calls fail
with ``layout_unknown``.

Each library says in its text which layout it is for. A server keeps libraries for good, and a process that was stopped
for long may load its own late, so processes look for those of older layouts and delete them (``functions.py``). Those
of other builds for the same layout may be in use, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import KeySpaceDiffers, ServerError

VERSION = 6
"""That of this release. One whose layout earlier releases would misread has another."""
MARK = f"-- layout {VERSION}"
"""The line of a library's text that says so."""
RETRY_MS = 1_000
_MARKED = re.compile(r"^-- layout (\d{1,9})$", re.MULTILINE)
_KEY = keys.key_space.key(keys.FLEET)


def layout_of(text: str) -> int | None:
    """The layout that a library is for, by its text; None: it does not say so, and may be anybody's."""
    found = _MARKED.search(text)
    return int(found[1]) if found else None


def version_of(noted: bytes | None) -> int | None:
    """The version that is noted in a store; None: no process has served from it yet.

    Raises:
        KeySpaceDiffers: it is not a number.
    """
    if noted is not None and not (noted.isdigit() and len(noted) < 10):
        raise KeySpaceDiffers(f"the store's key-space version is {noted[:20]!r}, which is not a number")
    return None if noted is None else int(noted)


def differs(found: int | None) -> str:
    """The problem, in words, if another version is noted."""
    which = "a newer" if found is not None and found > VERSION else "an older"
    return f"the store has the key layout of {which} release (version {found}; this one has {VERSION})"


class KnownLayout:
    """What a process knows of the layout of its store.

    Args:
        sharded: whether the store is a cluster, so that the fleet's keys can be away while others are not.
        send: sends a command to the shard of a hash tag.
    """

    def __init__(self, sharded: bool, send: Callable[..., Awaitable[Any]]) -> None:
        self._sharded = sharded
        self._send = send
        self.problem = ""
        """Why the process cannot serve from the store; empty: it can, as far as it knows."""
        self.confirmed = False
        """Whether the store had this layout when it was asked last."""

    async def look(self) -> None:
        """Asks the store. Raises ToolFailure, ServerError as ``Store.command``."""
        self.confirmed = False
        found = await self._send(keys.FLEET, "GET", _KEY)
        try:
            version = version_of(found)
        except KeySpaceDiffers as error:
            self.problem = str(error)
        else:
            self.problem = "" if version in (None, VERSION) else differs(version)
            self.confirmed = version == VERSION

    async def misread(self) -> ToolFailure | None:
        """Why something in the store cannot be read: it has another layout by now; None: it has not."""
        try:
            await self.demand()
        except ToolFailure as failure:
            return failure if failure.code == "layout_unknown" else None
        return None

    async def demand(self) -> None:
        """Asks the store, where it can be asked.

        Raises:
            ToolFailure: ``layout_unknown``: it has another layout; or the one server does not answer.
        """
        try:
            await self.look()
        except ServerError:
            pass
        except ToolFailure:
            if not self._sharded:
                raise
        if self.problem:
            raise self.failure()

    def failure(self) -> ToolFailure:
        """That of calls while there is a problem."""
        return ToolFailure("layout_unknown", f"{self.problem}; stop this process", retry_after_ms=RETRY_MS)
