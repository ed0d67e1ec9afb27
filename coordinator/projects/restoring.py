"""Restores a project into the store: ids, dates, notes, dependencies, history and attempts, as they were.

The file is checked whole before anything is written. Sums of usage come first, while there are no items for which more
could be used; then items, held back; when all else is there they are offered. Each call to the store is atomic and can
be repeated, so a restoration that was interrupted is continued by beginning it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure
from coordinator.projects import native, sums
from coordinator.projects.dumping import AFTER_CHILDREN, CAME_BY, DEPENDENCIES, WRITTEN, all_ids
from coordinator.projects.errors import BadFile, NotPossible
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items import (
    ROLE_CODES,
    DependencyStore,
    Fields,
    NewEdge,
    NewItem,
    Recurs,
    RestoredItem,
    RestoredNote,
    RestoreStore,
    SchemaSource,
    moment,
    recurrence,
    usage_entries,
)
from coordinator.wording import counted

T = TypeVar("T")

_BATCH = 1_000
_EDGES = 150
_BYTES = 2_000_000
_TOLD = 20_000
_CODES = {word: code for table in (DEPENDENCIES, CAME_BY, AFTER_CHILDREN) for code, word in table.items()}
"""How the store writes words of the format; each word is in one of these tables."""


class Restored(msgspec.Struct):
    """What was written; what was there already is not counted."""

    items: int = 0
    notes: int = 0
    dependencies: int = 0
    transitions: int = 0


async def restore(
    store: Store, settings: Settings, project: str, file: BinaryIO, say: Callable[[str], None]
) -> Restored:
    """Restores the project of a file into a project that has nothing else.

    Args:
        file: can be read several times.

    Raises:
        NotPossible: the file is wrong (``BadFile``), or the project has other items or usage. Nothing was written.
        ToolFailure: the store does not answer.
    """
    ids = _ids(file)
    if strange := await anext((item async for item in all_ids(store, project) if item not in ids), ""):
        raise NotPossible(
            f"the project {project} has other items, such as {strange}: restore into one that is empty (--project NAME)"
        )
    # Without schemas: a parent is not reopened by children that it always had.
    without = SchemaSource()
    writer, linker = RestoreStore(store, settings, without), DependencyStore(store, settings, without)
    done = Restored()
    await _restore_usage(writer, store, project, file)
    seen = 0
    for items in _batches(file, native.Item, _item, lambda line: len(line.spec.fields.get("x", ""))):
        done.items += await writer.items(project, items)
        seen += len(items)
        if seen % _TOLD == 0:
            say(counted(seen, "item"))
    for notes in _batches(file, native.Note, _note, lambda line: len(line.body)):
        done.notes += await writer.notes(project, notes)
    for edges in _batches(file, native.Dependency, _edge, lambda line: 0, _EDGES):
        done.dependencies += await _link(linker, project, edges)
    say(f"{counted(done.notes, 'note')}, {counted(done.dependencies, 'dependency', 'dependencies')}")
    for rows in _batches(file, native.Transition, _row, lambda line: 0):
        done.transitions += await writer.transitions(project, rows)
    for ends in _batches(file, native.Item, _end, lambda line: 0):
        await writer.finish(project, ends)
    return done


def _ids(file: BinaryIO) -> set[str]:
    """Checks a whole file; returns the ids of its items. Raises BadFile: it is wrong."""
    file.seek(0)
    ids = set[str]()
    for number, line in enumerate(native.lines(file), 1):
        if isinstance(line, native.Item):
            ids.add(_inner(line.id))
            try:
                _item(line)
            except ToolFailure as failure:
                raise BadFile(f"line {number}: {failure.message}") from None
    return ids


async def _restore_usage(writer: RestoreStore, store: Store, project: str, file: BinaryIO) -> None:
    file.seek(0)
    rows = sums.stored(native.lines(file))
    scopes = (keys.ranked.key(project, scope) for scope in ("p", "c"))
    if not rows or await store.command("EXISTS", *scopes):
        return
    if any(rows.get(field) != entry for field, entry in (await usage_entries(store, project)).items()):
        raise NotPossible(
            f"the project {project} has usage of deleted items: restore into one that is empty (--project NAME)"
        )
    await writer.usage(project, list(rows.items()))


def _batches(
    file: BinaryIO, kind: type[native.Line], made: Callable[..., T], size: Callable[[T], int], most: int = _BATCH
) -> Iterator[list[T]]:
    """What is made of the lines of one kind, in lists of bounded size."""
    file.seek(0)
    batch: list[T] = []
    total = 0
    for line in native.lines(file):
        if isinstance(line, kind):
            batch.append(made(line))
            total += size(batch[-1])
            if len(batch) == most or total > _BYTES:
                yield batch
                batch, total = [], 0
    if batch:
        yield batch


def _item(line: native.Item) -> RestoredItem:
    state = {}
    if line.previous_role is not UNSET:
        state["pr"] = str(ROLE_CODES[line.previous_role])
    if line.came_by is not UNSET:
        state["u"] = _CODES[line.came_by]
    if line.after_children is not UNSET:
        state["ch"] = _CODES[line.after_children]
    if line.attempts or line.last_attempts:
        state["an"] = str(line.attempts)
    for letter, used in (("us", line.usage), ("ub", line.usage_below)):
        if used is not UNSET:
            state[letter] = sums.text(used)
    last = [
        [_ms(attempt.began), _ms(attempt.until), attempt.ended, attempt.claimed_by, attempt.reason, attempt.detail]
        for attempt in line.last_attempts
    ]
    parent = "" if line.parent_id is UNSET else _inner(line.parent_id)
    spec = NewItem(_inner(line.id), parent, ROLE_CODES[line.role], _fields(line))
    created, entry = _ms(line.created_at), "" if line.last_transition is UNSET else line.last_transition
    changed, modified = _ms(line.role_changed_at), _ms(line.modified_at)
    attempts = msgspec.json.encode(last).decode() if last else ""
    return RestoredItem(spec, created, state, changed, modified, line.fence, entry, attempts)


def _fields(line: native.Item) -> Fields:
    fields: Fields = {}
    for field, forms in WRITTEN:
        value = getattr(line, field.attribute)
        if value is not UNSET and forms.restored and field.letter != "pa":
            fields[field.letter] = forms.restored(value, field.name)
    if line.due_after_ms is not UNSET:
        fields["du"] = f"+{line.due_after_ms}"
    if line.recurs is not UNSET:
        how = line.recurs
        stated = Recurs(cron=how.cron, time_zone=how.time_zone, missed=how.missed, overlap=how.overlap)
        made_until = moment(how.made_until, "recurs.madeUntil")
        fields |= {"rc": recurrence(stated).stored(), "rn": made_until}
    return {letter: text for letter, text in fields.items() if text is not False}


def _note(line: native.Note) -> RestoredNote:
    format_ = "-" if line.format is UNSET else "json" if line.format == "json" else ""
    return RestoredNote(
        _inner(line.id),
        _inner(line.item_id),
        line.key,
        line.role[0],
        line.body,
        bool(line.body.strip()),
        _text(line.actor),
        _text(line.verification),
        _ms(line.created_at),
        _ms(line.modified_at),
        format_,
    )


def _edge(line: native.Dependency) -> NewEdge:
    mark = "-" if line.unblock_at is UNSET else str(ROLE_CODES[line.unblock_at])
    return NewEdge(_inner(line.id), _inner(line.from_item_id), _inner(line.to_item_id), _CODES[line.type], mark)


def _row(line: native.Transition) -> tuple[str, list[object]]:
    row: list[object] = [
        _inner(line.item_id),
        ROLE_CODES[line.from_role],
        ROLE_CODES[line.to_role],
        line.trigger,
        line.from_label,
        line.label,
        line.summary,
        _text(line.actor),
        _text(line.verification),
    ]
    return line.id, row if line.previous is UNSET else [*row, line.previous]


def _end(line: native.Item) -> tuple[str, int]:
    return _inner(line.id), 0 if line.quarantined_at is UNSET else _ms(line.quarantined_at)


async def _link(linker: DependencyStore, project: str, edges: list[NewEdge]) -> int:
    """Creates the edges that are not there yet. Raises ToolFailure: one cannot be, as one that closes a cycle."""
    while edges:
        reply = await linker.link(project, NO_KEY, edges)
        if not reply.refusals:
            return len(edges)
        for place, reason, _ in reply.refusals:
            if reason != "duplicate":
                raise ToolFailure("VALIDATION_ERROR", f"the dependency {edges[place].id} cannot be restored: {reason}")
        there = {place for place, _, _ in reply.refusals}
        edges = [edge for n, edge in enumerate(edges) if n not in there]
    return 0


def _text(value: object) -> str:
    return "" if value is UNSET else msgspec.json.encode(value).decode()


def _inner(uuid: str) -> str:
    return uuid.replace("-", "")


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
