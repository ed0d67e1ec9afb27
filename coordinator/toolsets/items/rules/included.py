"""What claims and contexts include about an item, and how much of it an answer shows.

If it has more than ``MAX_CHARS`` characters as JSON, the longest texts are shortened to one common length, so
that short ones stay whole; each shortened one comes with the bytes of the whole. If there are too many notes and
results even for that, the newest are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.toolsets.items.contract.included import (
    MAX_CHARS,
    PARTS,
    BlockerResult,
    IncludedItem,
    IncludedNote,
)
from coordinator.toolsets.items.rules import values
from coordinator.toolsets.items.rules.results import JSON
from coordinator.toolsets.items.rules.roles import one_of
from coordinator.toolsets.pages import fitting

LONG_TEXTS = ("description", "metadata", "properties")
"""The fields of an item that may be shortened."""
HEAD = 200
"""Characters that are shown of each text, however many there are."""
_ITEM_CHARS = MAX_CHARS // 2
"""Characters of an item with the beginnings of its long texts; it has its latest transitions and attempts, as far as
they fit."""
_TOTALS = 200
"""Characters of the names of the parts, and of the numbers of notes and results."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Parts(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What is included; UNSET where it was not asked for."""

    item: IncludedItem | UnsetType = UNSET
    notes: list[IncludedNote] | UnsetType = UNSET
    results: list[BlockerResult] | UnsetType = UNSET
    notes_total: int | UnsetType = UNSET
    results_total: int | UnsetType = UNSET
    notes_left: int | UnsetType = UNSET
    results_left: int | UnsetType = UNSET
    next_offset: int | UnsetType = UNSET


class Text:
    """A text that may be shortened.

    Args:
        text: the text, or as much of it as there is.
        size: bytes of the whole.
    """

    def __init__(self, owner: IncludedItem | IncludedNote | BlockerResult, field: str, text: str, size: int) -> None:
        self.owner = owner
        self._field = field
        self._text = text
        self._size = size
        self._complete = size == values.size(text)
        self._is_json = self._complete and isinstance(owner, BlockerResult) and owner.format == JSON
        self.chars = len(text) if self._is_json else _chars(text) - 2
        """Its characters as JSON, without quotes."""

    def show(self, chars: int) -> None:
        """Shows at most this many characters as JSON, without quotes."""
        fits = self.chars <= chars
        whole, text = fits and self._complete, self._text if fits else beginning(self._text, chars)
        setattr(self.owner, self._field, _decode(text) if whole and self._is_json else text)
        if isinstance(self.owner, IncludedItem):
            sizes = {} if self.owner.sizes is UNSET else self.owner.sizes
            sizes = {field: size for field, size in sizes.items() if field != self._field}
            self.owner.sizes = (sizes if whole else {**sizes, self._field: self._size}) or UNSET
        else:
            self.owner.size = UNSET if whole else self._size


def wanted(include: Sequence[str], offset: int = 0) -> str:
    """What is to be included, for ``lua/reads/included.lua``: a letter for each part, and how many notes and results to
    skip; '' for nothing.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    named = {one_of(part, PARTS, f"include[{number}]") for number, part in enumerate(include)}
    return "".join(part[0] for part in PARTS if part in named) + (str(offset) if named and offset else "")


def fit(parts: Parts, texts: Sequence[Text]) -> None:
    """Shortens what is included to ``MAX_CHARS`` characters.

    Args:
        texts: those of the parts that may be shortened. What the parts have in their place is replaced.
    """
    if sum(text.chars for text in texts) <= MAX_CHARS:
        _show(texts, MAX_CHARS)
        if _chars(parts) <= MAX_CHARS:
            return
    _show(texts, HEAD)
    left = MAX_CHARS
    if parts.item is not UNSET:
        _drop_history(parts.item)
        left -= _chars(parts.item)
    lists = [rows for rows in (parts.notes, parts.results) if rows is not UNSET]
    if lists:
        _drop_rows(lists, fitting(*lists, chars=left - _TOTALS))
    shown = {id(owner) for owner in (parts.item, *(row for rows in lists for row in rows))}
    texts = [text for text in texts if id(text.owner) in shown]
    _show(texts, 0)
    _show(texts, common_length([text.chars for text in texts], MAX_CHARS - _TOTALS - _chars(parts)))


def count(parts: Parts, offset: int, notes: int, results: int) -> None:
    """Says how many notes and results there are and how many come after those that are shown, where not all are here.

    Args:
        offset: how many of each were skipped.
        notes, results: how many the item has.
    """
    for name, rows, total in (("notes", parts.notes, notes), ("results", parts.results, results)):
        if rows is UNSET or len(rows) >= total:
            continue
        setattr(parts, f"{name}_total", total)
        if (left := total - offset - len(rows)) > 0:
            setattr(parts, f"{name}_left", left)
            parts.next_offset = offset + len(rows)  # of both, if both were cut


def _show(texts: Sequence[Text], chars: int) -> None:
    for text in texts:
        text.show(chars)


def _drop_history(item: IncludedItem) -> None:
    while item.transitions is not UNSET and _chars(item) > _ITEM_CHARS:
        item.transitions = item.transitions[:-1] or UNSET
    while item.attempts is not UNSET and item.attempts.last and _chars(item) > _ITEM_CHARS:
        item.attempts.last.pop()


def _drop_rows(lists: Sequence[list[IncludedNote] | list[BlockerResult]], most: int) -> None:
    for rows in lists:
        del rows[most:]


def common_length(lengths: Sequence[int], total: int) -> int:
    """The greatest length to which all must be shortened so that they have at most ``total`` together."""
    for number, length in enumerate(sorted(lengths)):
        share = total // (len(lengths) - number)
        if length > share:
            return max(share, 0)
        total -= length
    return MAX_CHARS


def beginning(text: str, chars: int) -> str:
    """The longest beginning of a text that has at most this many characters as JSON, without quotes."""
    low, high = 0, min(len(text), chars)
    while low < high:
        middle = (low + high + 1) // 2
        if _chars(text[:middle]) - 2 <= chars:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _chars(value: object) -> int:
    return len(_encode(value).decode())
