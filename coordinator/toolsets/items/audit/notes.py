"""Notes as subjects of the audit, and what else belongs to an item under a key of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from coordinator.store import keys
from coordinator.toolsets.items.audit.reader import Reader
from coordinator.toolsets.items.audit.subject import ITEM, Read, Subject

_NOTE = keys.note.suffix


def owned(name: str, item: str) -> Subject:
    """A key that belongs to an item."""

    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        if first[0] and not first[1]:
            yield "belongs to an item that does not exist"

    return Subject(name, [("EXISTS", name), ("EXISTS", f"{ITEM}:{item}")], judge)


async def marks(reader: Reader, name: str, item: str) -> AsyncIterator[Subject]:
    """The entries of an item's notes."""
    yield owned(name, item)
    async for key, _ in reader.members("HSCAN", name):
        yield _mark(name, item, key)


def _mark(name: str, item: str, key: str) -> Subject:
    def extra_reads(first: list[Any]) -> list[Read]:
        note = f"{_NOTE}:{first[0][:32]}" if first[0] else ""
        return [("HMGET", note, "i", "k", "r"), ("HSTRLEN", note, "b")] if note else []

    def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
        if first[0]:
            yield from _mark_problems(item, key, first[0], *extra)

    return Subject(name, [("HGET", name, key)], judge, extra_reads)


def subject(name: str, note: str) -> Subject:
    def extra_reads(first: list[Any]) -> list[Read]:
        item, key = first[0]
        return [("HGET", f"{keys.notes.suffix}:{item}", key or "")] if item else []

    def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
        if first[0][0] and not (extra[0] or "").startswith(note):
            yield f"is not among the notes of {first[0][0]}"

    return Subject(name, [("HMGET", name, "i", "k")], judge, extra_reads)


def _mark_problems(item: str, key: str, mark: str, note: Sequence[str | bool], size: int) -> Iterator[str]:
    """Compares the entry of a note, which gates read, with the note itself.

    Args:
        note: item, key and role in the note; False: missing.
        size: the bytes of its body.
    """
    if note[0] is False:
        yield f"marks a note {key} that does not exist"
    elif list(note) != [item, key, mark[32:33]]:
        yield f"marks the note {key} as {item}, {mark[32:33]}, but it is {', '.join(map(str, note))}"
    elif mark[33:] != ("1" if size else "0"):
        yield f"marks the note {key} as {'empty, but it is filled' if size else 'filled, but it is empty'}"
