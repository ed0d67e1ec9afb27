"""Dependency edges."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coordinator.store import Script
from coordinator.toolsets.items.rules.idempotency import Request
from coordinator.toolsets.items.store.base import PACKAGE, RoomStore, pack


class Linked(msgspec.Struct, array_like=True):
    """Reply of ``create_dependencies.lua``."""

    refusals: list[tuple[int, str, str]]
    """Position, reason, item."""
    edges: list[tuple[str, str, str]]
    """Dependency id, from, to."""


class Unlinked(msgspec.Struct, array_like=True):
    """Reply of ``delete_dependencies.lua``."""

    deleted: int
    first: str
    second: str
    """The ids that the first of equal calls was made with."""


_LINK = Script(PACKAGE, "create_dependencies", Linked)
_UNLINK = Script(PACKAGE, "delete_dependencies", Unlinked)


class DependencyStore(RoomStore):
    """Dependency edges of any project."""

    async def link(self, project: str, request: Request, edges: Sequence[tuple[str, str, str, str, str]]) -> Linked:
        """Creates edges (id, from, to, code, threshold mark), all or none; the refusals say why none."""
        return await self._change(_LINK, project, request, pack(edges))

    async def unlink(
        self, project: str, request: Request, mode: str, first: str, second: str = "", codes: str = "BIR"
    ) -> Unlinked:
        """Deletes edges by mode ``id``, ``pair`` or ``all``."""
        return await self._change(_UNLINK, project, request, mode, first, second, codes)
