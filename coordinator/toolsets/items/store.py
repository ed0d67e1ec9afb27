"""Typed calls of the room's scripts: the only place that knows their arguments and replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Script, ScriptFailure, Store
from coordinator.toolsets.items.rules.idempotency import Request
from coordinator.toolsets.items.rules.ids import Match, pick
from coordinator.toolsets.items.rules.roles import DEFAULT_LABELS
from coordinator.toolsets.items.rules.specs import Stored

_PACKAGE = "coordinator.toolsets.items"
_pack = msgspec.msgpack.Encoder().encode

Created = tuple[str, int, str]
""""created" or the reason, depth, id."""


class Linked(msgspec.Struct, array_like=True):
    """Reply of ``create_dependencies.lua``."""

    refusals: list[tuple[int, str, str]]
    """Position, reason, item."""
    edges: list[tuple[str, str, str]]
    """Dependency id, from, to."""


class ClaimReply(msgspec.Struct, array_like=True):
    """Reply of ``claim_item.lua``."""

    now: int
    claims: list[tuple[str, str, int, int, int]]
    releases: list[tuple[str, str]]


class Advanced(msgspec.Struct, array_like=True):
    """One entry of the reply of ``advance_item.lua``."""

    id: str
    reason: str
    from_role: int
    to_role: int
    label: str | bool
    cascades: list[Any]
    unblocked: list[tuple[str, str]]
    title: str
    schema_inputs: tuple[str | bool, str | bool, str | bool, list[tuple[str, bool]]]


class Next(msgspec.Struct, array_like=True):
    """One entry of the reply of ``next_items.lua``."""

    id: str
    title: str
    role: int
    priority: int
    complexity: int | bool
    summary: str
    tags: str | bool
    parent: str | bool
    claimed: bool
    ancestors: list[tuple[str, str, int]]


class View(msgspec.Struct, array_like=True):
    """Everything of an item, as ``include/view.lua`` shows it; False stands for absent."""

    id: str
    parent: str | bool
    title: str
    description: str | bool
    summary: str
    role: int
    label: str | bool
    previous_role: int | bool
    priority: int
    complexity: int | bool
    depth: int
    metadata: str | bool
    tags: str | bool
    type: str | bool
    properties: str | bool
    traits: str | bool
    created: int
    modified: int
    role_changed: int
    requires_verification: bool


class Deleted(msgspec.Struct, array_like=True):
    """Reply of ``delete_items.lua``: progress, or the end of it."""

    done: bool
    position: int
    deleted: int
    descendants: int
    failures: list[tuple[int, str, int]]
    met: list[str]


_CLAIM = Script(_PACKAGE, "claim_item", ClaimReply)
_ADVANCE = Script(_PACKAGE, "advance_item", list[Advanced])
_NEXT = Script(_PACKAGE, "next_items", list[Next])
_CREATE = Script(_PACKAGE, "create_items", list[Created])
_UPDATE = Script(_PACKAGE, "update_items", list[tuple[str, str, int, bool]])
_DELETE = Script(_PACKAGE, "delete_items", Deleted)
_READ = Script(_PACKAGE, "read_item", tuple[View, list[tuple[str, str, int]]])
_RESOLVE = Script(_PACKAGE, "resolve_ids", list[list[Match]])
_LINK = Script(_PACKAGE, "create_dependencies", Linked)
_UNLINK = Script(_PACKAGE, "delete_dependencies", int)

SLICE = 50
"""Items per script run where a call may be carried out in several: keeps each run under 5 ms."""


class ItemStore:
    """The work items of any project.

    Every method raises ToolFailure: ``request_id_reused`` where it takes a request, and
    ``store_unavailable`` or ``store_full`` as ``Store.run`` says.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._keep_ms = settings.idempotency_seconds * 1000
        self._events = settings.events_max
        self._labels = _pack(dict(DEFAULT_LABELS))

    async def _change(self, script: Script[Any], project: str, request: Request, *args: str | bytes | int) -> Any:
        try:
            return await self._store.run(
                script, project, request.key, request.fingerprint, self._keep_ms, self._events, *args
            )
        except ScriptFailure as failure:
            if failure.code == "REQUEST_ID_REUSED":
                raise ToolFailure(
                    "request_id_reused", "requestId: was used before by this actor with other arguments"
                ) from None
            raise

    async def resolve(self, project: str, ids: Sequence[str]) -> Sequence[str]:
        """Full ids for ids and prefixes (inner form).

        A prefix that means no single item becomes ``?not_found`` or ``?ambiguous``: scripts
        take these and refuse the element, so that a replay answers what the first call did.
        """
        prefixes = list({inner for inner in ids if len(inner) < 32 and not inner.startswith("?")})
        if not prefixes:
            return ids
        matched = await self._store.run(_RESOLVE, project, _pack(prefixes))
        found = dict(zip(prefixes, matched, strict=True))

        def one(inner: str) -> str:
            matches = found.get(inner)
            if matches is None:
                return inner
            return matches[0].id if len(matches) == 1 else "?ambiguous" if matches else "?not_found"

        return [one(inner) for inner in ids]

    async def resolve_one(self, project: str, inner: str) -> str:
        """The full id for one id or prefix.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND; VALIDATION_ERROR with the candidates.
        """
        if len(inner) == 32:
            return inner
        return pick(inner, (await self._store.run(_RESOLVE, project, _pack([inner])))[0])

    async def claim(
        self,
        project: str,
        request: Request,
        agent: str,
        claims: Sequence[tuple[str, int, int]],
        releases: Sequence[tuple[str, int]],
    ) -> ClaimReply:
        """Claims (id, ttl in ms, fence or 0) and releases (id, fence or 0) of one agent, in one step."""
        reply: ClaimReply = await self._change(_CLAIM, project, request, agent, _pack(claims), _pack(releases))
        return reply

    async def advance(self, project: str, request: Request, transitions: Sequence[tuple[Any, ...]]) -> list[Advanced]:
        """Transitions in order, each whole or not at all."""
        reply: list[Advanced] = await self._change(_ADVANCE, project, request, "", self._labels, _pack(transitions))
        return reply

    async def next(
        self, project: str, role: int, parent: str, limit: int, include_claimed: bool, ancestors: bool
    ) -> list[Next]:
        """The best items of a role; ``parent`` '' for all.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the parent.
        """
        try:
            return await self._store.run(
                _NEXT, project, self._events, role, parent, limit, int(include_claimed), int(ancestors)
            )
        except ScriptFailure:
            raise ToolFailure("RESOURCE_NOT_FOUND", "parentId: no such item") from None

    async def create(self, project: str, request: Request, specs: Sequence[Stored]) -> list[Created]:
        """Creates items in bounded slices."""
        results: list[Created] = []
        for number, start in enumerate(range(0, len(specs), SLICE)):
            part = _pack(specs[start : start + SLICE])
            results += await self._change(_CREATE, project, request.slice(number), "", self._labels, part)
        return results

    async def update(
        self, project: str, request: Request, changes: Sequence[tuple[str, dict[str, str | int | bool]]]
    ) -> list[tuple[str, str, int, bool]]:
        """Updates items in bounded slices; each answers "updated" or the reason, id, modified, verification."""
        results: list[tuple[str, str, int, bool]] = []
        for number, start in enumerate(range(0, len(changes), SLICE)):
            part = _pack(changes[start : start + SLICE])
            results += await self._change(_UPDATE, project, request.slice(number), "", self._labels, part)
        return results

    async def delete(self, project: str, request: Request, ids: Sequence[str], recursive: bool) -> Deleted:
        """Deletes items, subtrees too if ``recursive``, a bounded number per script run."""
        state: bytes | str = ""
        packed = _pack(ids)
        while True:
            progress: Deleted = await self._change(_DELETE, project, request, int(recursive), SLICE, packed, state)
            if progress.done:
                return progress
            state = _pack(progress)

    async def read(self, project: str, item: str, ancestors: bool) -> tuple[View, list[tuple[str, str, int]]]:
        """One item in full, with its ancestors where asked for.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            return await self._store.run(_READ, project, item, int(ancestors))
        except ScriptFailure:
            raise ToolFailure("RESOURCE_NOT_FOUND", "id: no such item") from None

    async def link(self, project: str, request: Request, edges: Sequence[tuple[str, str, str, str, str]]) -> Linked:
        """Creates edges (id, from, to, code, threshold mark), all or none; the refusals say why none."""
        reply: Linked = await self._change(_LINK, project, request, _pack(edges))
        return reply

    async def unlink(
        self, project: str, request: Request, mode: str, first: str, second: str = "", codes: str = "BIR"
    ) -> int:
        """Deletes edges by mode ``id``, ``pair`` or ``all``; returns how many."""
        deleted: int = await self._change(_UNLINK, project, request, mode, first, second, codes)
        return deleted
