"""The texts of an item: its description, and its notes by phase with those that its gates still lack."""

from __future__ import annotations

import re
from collections.abc import Collection

from htpy import Node, a, details, div, h2, h3, pre, span, summary
from msgspec import UNSET

from coordinator.console.items.actions import QUESTION, answer_opener, note_opener
from coordinator.console.markdown import LONGEST, markdown
from coordinator.console.parts import ago, chip, indented, number, plain, role, spaced
from coordinator.console.view import Row, Rows, Visit
from coordinator.toolsets.items import JSON, PHASES, FullContextResult, IncludedItem, IncludedNote, SchemaNote, instant

_OFFSET = re.compile(r"[0-9]{1,4}")
_ANSWER = re.compile(r"answer-\d{1,3}")


async def texts(visit: Visit) -> Rows:
    """The texts of an item as rows of a region. All together have 60,000 characters; of longer ones it says so."""
    asked_for = visit.query.get("notes", "")
    offset = int(asked_for) if _OFFSET.fullmatch(asked_for) else 0
    arguments = {"itemId": visit.id, "include": ["item", "notes"], "offset": offset}
    context: FullContextResult = await visit.tool("items", "get_context", arguments)
    room = _Room()
    rows = [Row(f"text:{context.item.id}", content)] if (content := await _own(context.item, room)) else []
    notes = {note.key: note for note in context.notes or []}
    schema = {note.key: note for note in context.schema}
    for phase in PHASES:
        here = [note for note in context.schema if note.role == phase]
        written = [note for note in notes.values() if note.role == phase]
        if here or written:
            rows.append(Row(f"phase:{phase}", _phase(phase, here), "phase"))
        for note in written:
            act = _act(visit, context.item, note, notes.keys())
            rows.append(Row(f"note:{note.id}", await _note(note, schema.get(note.key), room, act), "written"))
        lacking = [note for note in here if not note.filled and (note.required or note.key not in notes)]
        for lack in lacking:
            act = None if lack.key in notes else note_opener(visit, context.item.id, lack.key, lack.role, None)
            rows.append(Row(f"lacks:{lack.key}", _lacking(lack, act), "written"))
    if context.notes_total:
        remark = f"These are {len(notes)} of {number(context.notes_total)} notes, oldest first. "
        further = str(context.next_offset) if context.notes_left else None
        links = [a(href=visit.url(notes=further))["further notes"] if further else None, " ",
                 a(href=visit.url(notes=None))["the first notes"] if offset else None]  # fmt: skip
        rows.append(Row("note:more", [remark, *links], "written"))
    return Rows(rows)


class _Room:
    """How many characters of a page may still be shown as Markdown."""

    def __init__(self) -> None:
        self.left = 2 * LONGEST

    async def show(self, text: str) -> Node:
        most = min(LONGEST, self.left)
        self.left -= min(most, len(text))
        return div(".text")[await markdown(text, most)]


async def _own(item: IncludedItem, room: _Room) -> Node:
    sizes = item.sizes or {}
    parts: list[Node] = [await room.show(text) for text in (item.summary, item.description) if text]
    parts = [h2["Description"], *parts] if parts else []
    folded = {name: getattr(item, name) for name in ("metadata", "properties")}
    parts += [details[summary[name], pre[plain(text)]] for name, text in folded.items() if text]
    if sizes:
        whole = ", ".join(f"{name} has {number(size)} bytes" for name, size in sizes.items())
        parts.append(div(".dim")[f"Only the beginning is shown: {whole}."])
    return parts


def _phase(phase: str, expected: list[SchemaNote]) -> Node:
    required = [note for note in expected if note.required]
    filled = sum(note.filled for note in required)
    count = f"{filled} of {len(required)} required notes" if required else ""
    return h2["Notes of ", role(phase), " ", span(".dim")[count]]


def _act(visit: Visit, item: IncludedItem, note: IncludedNote, keys: Collection[str]) -> Node:
    """What a person can do with a note: answer it, if an agent asks in it and its item waits for that, or edit it."""
    asks = QUESTION.fullmatch(note.key)
    if asks and item.role == "blocked" and f"answer-{asks[1]}" not in keys:
        return answer_opener(visit, item.id, int(asks[1]), note.role)
    if asks or _ANSWER.fullmatch(note.key):
        return None  # what was asked and answered stays
    return note_opener(visit, item.id, note.key, note.role, note)


async def _note(note: IncludedNote, asked_for: SchemaNote | None, room: _Room, act: Node) -> Node:
    body = note.body if note.body is not UNSET else ""
    if note.format == JSON:
        content: Node = pre[plain(indented(body))]
    else:
        content = await room.show(body)
    required = asked_for is not None and asked_for.required
    by = spaced(
        plain(note.actor.id) if note.actor else None,
        chip("verified") if note.verification and note.verification.status == "verified" else None,
        ago(instant(note.modified_at, "modifiedAt")),
    )
    return [
        h3[spaced(plain(note.key), chip("required") if required else None, span(".dim.by")[by], act)],
        content,
        div(".dim")[f"Only the beginning is shown: it has {number(note.size)} bytes."] if note.size else None,
    ]


def _lacking(note: SchemaNote, act: Node) -> Node:
    return [
        h3[plain(note.key), " ", chip("missing", "warning") if note.required else chip("optional"), " ", act],
        div(".dim")[plain(note.description)],
    ]
