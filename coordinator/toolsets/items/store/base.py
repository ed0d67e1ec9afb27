"""The base of the stores of this toolset: idempotency, schema versions, id prefixes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Library, Script, ScriptFailure, Store, keys
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, run_once
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.items.fields import FOR_LUA
from coordinator.toolsets.items.rules.ids import Match, no_such_item, parse, pick
from coordinator.toolsets.items.rules.schema import SchemaConfig, SchemaSource
from coordinator.toolsets.items.rules.values import size

LIBRARY = Library("coordinator.toolsets.items", constants={"item_fields": FOR_LUA})
SLICE = 50
"""How many elements of a long call one script run handles, to keep runs short."""
WEIGHT = 8
"""The weight (in ``slices``) of an element with one tag and little text. Each further tag, and each ``_TEXT_UNIT`` of
text, adds 1."""
_TEXT_UNIT = 4000
"""Bytes."""
READ_SLICE = 50
"""How many items one run reads."""
START = "0"
"""The cursor of the first run."""
_PREFIXES = 100
"""How many prefixes one script run looks up."""
SCHEMA_DAYS = 7
OF_DEADLINE = 0.7
"""The part of the request deadline after which a call in slices stops and reports its progress."""

pack = msgspec.msgpack.Encoder().encode
R = TypeVar("R")
T = TypeVar("T")

Path = list[tuple[str, str, int]]
"""Ancestors of an item, root first: id, title, depth."""


class DueTemplate(NamedTuple):
    """A template of recurring items that is to be looked at, as scripts report it."""

    id: str
    recurs: str
    """As stored (``rules/times/recurrence.py``)."""
    dealt: str
    """Up to when its times are dealt with, in ms."""
    not_before: str | bool
    """Its times before that do not count, in ms; False: all do."""


class Expired(NamedTuple):
    """What is left of what ends by time; times in ms."""

    none_left: bool
    """Whether all has been put back that has ended."""
    next_end: int
    """When the next one ends; 0: there is none."""
    now: int
    templates: list[DueTemplate]


class Changed(NamedTuple):
    """A change of an item's role, as scripts report it."""

    from_role: int
    to_role: int
    trigger: str
    at: int
    summary: str
    actor: str
    verification: str


_RESOLVE = Script(LIBRARY, "resolve_ids", list[list[Match]])
_INSTALL = Script(LIBRARY, "install_schemas", int)
SETTLE = Script(LIBRARY, "settle_debts", bool)
"""Settles debts of scripts (``lua/changes/debts.lua``). Run until none are left, after every script that may make items
ready or change counts of blockers."""
EXPIRE = Script(LIBRARY, "expire_claims", Expired, rest=SETTLE)


def slices(
    elements: Sequence[T], texts: Callable[[T], Iterable[object]], more: Callable[[T], int] = lambda element: 0
) -> Iterator[Sequence[T]]:
    """The slices in which elements are sent to a script, in order. Heavier elements make a slice shorter.

    Args:
        texts: the fields of an element, whose texts add to its weight.
        more: additions to the ``WEIGHT`` of an element.
    """
    start = weight = 0
    for number, element in enumerate(elements):
        text = sum(size(field) for field in texts(element) if isinstance(field, str))
        own = WEIGHT + more(element) + text // _TEXT_UNIT
        if number > start and weight + own > SLICE * WEIGHT:
            yield elements[start:number]
            start, weight = number, 0
        weight += own
    if elements:
        yield elements[start:]


def unfinished(field: str = "", done: str = "", instead: str = "") -> ToolFailure:
    """The failure of a search for the best item that took too long."""
    return ToolFailure(
        "deadline_exceeded",
        f"{field}the search did not finish in time: very many items were skipped, because other filters leave "
        f"them out or because they are below claimed items; {done}{instead}filter by parentId, ancestorId, role and "
        "priority alone",
        retry_after_ms=1000,
    )


class BaseStore:
    """Runs scripts of this toolset for any project.

    Every method of this class and its subclasses raises ToolFailure ``store_unavailable`` or ``store_full`` as
    ``Store.run`` says, and ``request_id_reused`` if it takes a request.
    """

    def __init__(self, store: Store, settings: Settings, schemas: SchemaSource) -> None:
        self._store = store
        # Converted to text once, not per call.
        self._keep_ms = str(settings.idempotency_seconds * 1000)
        self._events = str(settings.events_max)
        self.schemas = schemas
        self._projects = ProjectList(store, "items")
        self.seconds = settings.request_deadline_ms / 1000 * OF_DEADLINE

    def _change(
        self, script: Script[R], project: str, request: IdempotencyKey, *args: str | bytes | int
    ) -> Coroutine[Any, Any, R]:
        """Runs a script whose first arguments are an idempotency key and the terms of all changes (``_terms``)."""
        terms = self.schemas.current.terms(project)
        return run_once(self._store, script, project, request, self._keep_ms, self._events, terms, *args)

    def _terms(self, project: str) -> tuple[str, bytes]:
        """The first arguments of scripts that may end claims: events to keep, and settings to decide by."""
        return self._events, self.schemas.current.terms(project)

    async def _change_by_schema(
        self, script: Script[R], project: str, request: IdempotencyKey, *args: str | bytes | int
    ) -> R:
        """As ``_change``, for scripts whose next arguments are the schema version and the status labels."""
        with contextlib.suppress(ToolFailure):  # not vital: the next change also records the project
            await self._projects.note(project)
        config = self.schemas.current
        words = config.version, config.packed_labels, *args
        try:
            return await self._change(script, project, request, *words)
        except ScriptFailure as failure:
            await self._install(project, config, failure)
        return await self._change(script, project, request, *words)

    async def _install(self, project: str, config: SchemaConfig, failure: ScriptFailure) -> None:
        """Installs a schema version in a project, because a script has failed without it. Raises other failures."""
        if failure.code != "CONFIG_UNKNOWN":
            raise failure
        fields = [part for field in config.packed() for part in field]
        await self._store.run(_INSTALL, project, config.version, SCHEMA_DAYS * 86_400, *fields)

    async def _change_in_slices(
        self, script: Script[list[R]], project: str, request: IdempotencyKey, parts: Iterable[Sequence[object]]
    ) -> list[R]:
        """As ``_change_by_schema``, once for each slice of a long call; the replies joined."""
        results: list[R] = []
        for number, part in enumerate(parts):
            reply = await self._change_by_schema(script, project, request.slice(number), pack(part))
            results += reply
        return results

    async def expire(self, project: str) -> tuple[int, int]:
        """Puts everything back that has ended by time: expired claims, items whose back-off is over.

        Returns:
            When the next one ends (0: there is none), and the store's time, both in ms.
        """
        while True:
            expired = await self._store.run(EXPIRE, project, *self._terms(project))
            if expired.none_left:
                return expired.next_end, expired.now

    async def resolve(self, project: str, ids: Sequence[str]) -> Sequence[str]:
        """The full ids of ids and prefixes (inner form).

        A prefix that does not match exactly one item becomes ``?not_found`` or ``?ambiguous``. Scripts reject such an
        element, so the refusal is part of the recorded reply, and a retry gets it again.
        """
        prefixes = list({inner for inner in ids if len(inner) < 32 and not inner.startswith("?")})
        if not prefixes:
            return ids
        found: dict[str, list[Match]] = {}
        for start in range(0, len(prefixes), _PREFIXES):
            part = prefixes[start : start + _PREFIXES]
            matched = await self._store.run(_RESOLVE, project, pack(part))
            found.update(zip(part, matched, strict=True))

        def one(inner: str) -> str:
            matches = found.get(inner)
            if matches is None:
                return inner
            return matches[0].id if len(matches) == 1 else "?ambiguous" if matches else "?not_found"

        return [one(inner) for inner in ids]

    async def resolve_one(self, project: str, text: str, field: str, request: IdempotencyKey = NO_KEY) -> str:
        """The full id (inner form) of the id or prefix that a caller wrote in a field.

        For a retry, returns ``?not_found`` instead of a failure: its script answers from the record, whatever
        happened to the item since.

        Raises:
            ToolFailure: naming the field: VALIDATION_ERROR for a malformed id, or an ambiguous prefix (with the
                candidates); RESOURCE_NOT_FOUND.
        """
        inner = parse(text, field)
        if len(inner) == 32:
            return inner
        matches = (await self._store.run(_RESOLVE, project, pack([inner])))[0]
        if len(matches) != 1 and await self.recorded(project, request):
            return "?not_found"
        return pick(inner, matches, field)

    async def expect(self, project: str, item: str, field: str) -> None:
        """Checks that an item exists, for reads that return nothing both for missing and for empty items.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND naming the field.
        """
        if not await self._store.command("EXISTS", keys.item.key(project, item)):
            raise no_such_item(field)

    async def recorded(self, project: str, request: IdempotencyKey) -> bool:
        """Whether the same call was answered or begun before."""
        return bool(request.key) and bool(await self._store.command("EXISTS", keys.request.key(project, request.key)))
