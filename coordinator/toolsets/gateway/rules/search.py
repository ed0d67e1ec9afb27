"""Search over the catalogue (seed 001, scoring).

Per term and field the first tier that fits counts: the term anywhere in the field, a word of the
field that begins with it, a word that is similar to it by trigrams. A term is one alphanumeric
run, so it can only lie within a word: the index knows for each word of each field which items
have it, and a query looks at the vocabulary, not at the items. Sets of items are the bits of
one integer each, in the order of their ids.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

FIELDS: Mapping[str, float] = {
    "title": 6.0,
    "id": 5.0,
    "tags": 3.0,
    "aliases": 3.0,
    "description": 2.0,
    "text": 1.0,
}
"""Field -> weight."""
PREFIX, FUZZY = 0.7, 0.5
MIN_PREFIX, MIN_FUZZY = 2, 4
THRESHOLD = 0.3
_GRAM = 3
_WORD = re.compile(r"[^\W_]+")
_SEPARATOR = "\n"
_MOST_KNOWN = 1_000

Tiers = list[tuple[float, int]]
"""What is added to the score of which items."""


class Entry(NamedTuple):
    """What is searched of an item."""

    id: str
    kind: str
    title: str = ""
    tags: Sequence[str] = ()
    aliases: Sequence[str] = ()
    description: str = ""
    text: str = ""

    def field(self, name: str) -> str:
        """The text of a field."""
        value = getattr(self, name)
        return value if isinstance(value, str) else " ".join(value)


class Found(NamedTuple):
    """A result."""

    score: float
    id: str


def words(text: str) -> list[str]:
    """The terms of a query, and the words of a field: lower-case runs of letters and digits."""
    return _WORD.findall(text.lower())


def trigrams(word: str) -> frozenset[str]:
    """The runs of three characters in a word; nothing is padded."""
    return frozenset(word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1))


def similarity(one: str, other: str) -> float:
    """How much of the trigrams of two words is common to both: 1 if neither has any, 0 if only one has."""
    left, right = trigrams(one), trigrams(other)
    if not left and not right:
        return 1.0
    common = len(left & right)
    return common / (len(left) + len(right) - common)


class Index:
    """An index over entries; made once and never changed.

    Args:
        whole_words: the first tier asks for whole words, so that the second one has work to do.
    """

    def __init__(self, entries: Iterable[Entry], *, whole_words: bool = False) -> None:
        self._whole_words = whole_words
        ordered = sorted(entries, key=lambda entry: entry.id)
        self._ids = [entry.id for entry in ordered]
        self._kinds: dict[str, int] = {}
        bits: dict[str, dict[str, list[int]]] = {}
        for at, entry in enumerate(ordered):
            self._kinds[entry.kind] = self._kinds.get(entry.kind, 0) | 1 << at
            for field in FIELDS:
                for word in set(words(entry.field(field))):
                    bits.setdefault(word, {}).setdefault(field, []).append(at)
        self._postings = {
            word: {field: _bits(places) for field, places in fields.items()} for word, fields in bits.items()
        }
        self._vocabulary = _SEPARATOR + _SEPARATOR.join(self._postings) + _SEPARATOR
        self._known: dict[str, tuple[Tiers, ...]] = {}
        self._grams: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        for word in self._postings:
            grams = trigrams(word)
            self._sizes[word] = len(grams)
            for gram in grams:
                self._grams.setdefault(gram, []).append(word)

    def __len__(self) -> int:
        return len(self._ids)

    def search(self, query: str, kind: str | None = None, limit: int = 10) -> list[Found]:
        """The best entries: by score, then by id. An empty query finds everything, at 1.0.

        Args:
            kind: only entries of this kind.
        """
        asked = (1 << len(self._ids)) - 1
        if kind is not None:
            asked &= self._kinds.get(kind, 0)
        if not query.strip():
            return [Found(1.0, self._ids[at]) for at in _first(asked, limit)]
        # Items with the same score so far are one set; each tier of each field divides the sets.
        groups: dict[float, int] = {0.0: asked}
        for term in words(query):
            for tiers in self._gains(term):
                groups = _raised(groups, tiers)
        rounded: dict[float, int] = {}
        for score, items in groups.items():
            if score > 0:
                key = round(score, 4)
                rounded[key] = rounded.get(key, 0) | items
        found: list[Found] = []
        for score in heapq.nlargest(limit, rounded):
            found += [Found(score, self._ids[at]) for at in _first(rounded[score], limit - len(found))]
            if len(found) >= limit:
                break
        return found

    def _gains(self, term: str) -> tuple[Tiers, ...]:
        """What a term adds to the scores of which items, field by field."""
        gains = self._known.get(term)
        if gains is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            exact = list(self._containing(term))
            begun = list(self._beginning(term)) if self._whole_words and len(term) >= MIN_PREFIX else []
            similar = self._similar(term) if len(term) >= MIN_FUZZY else []
            gains = self._known[term] = tuple(
                self._tiers(field, weight, exact, begun, similar) for field, weight in FIELDS.items()
            )
        return gains

    def _tiers(
        self, field: str, weight: float, exact: list[str], begun: list[str], similar: list[tuple[float, str]]
    ) -> Tiers:
        """The tiers of one field; each item is in one of them at most."""
        tiers: Tiers = []
        taken = self._union(exact, field)
        if taken:
            tiers.append((weight, taken))
        if items := self._union(begun, field) & ~taken:
            tiers.append((weight * PREFIX, items))
            taken |= items
        for likeness, word in similar:
            if items := self._postings[word].get(field, 0) & ~taken:
                tiers.append((weight * FUZZY * likeness, items))
                taken |= items
        return tiers

    def _union(self, found: Iterable[str], field: str) -> int:
        items = 0
        for word in found:
            items |= self._postings[word].get(field, 0)
        return items

    def _containing(self, term: str) -> Iterator[str]:
        if self._whole_words:
            if term in self._postings:
                yield term
            return
        text, at = self._vocabulary, self._vocabulary.find(term)
        while at != -1:
            begins, ends = text.rfind(_SEPARATOR, 0, at) + 1, text.find(_SEPARATOR, at)
            yield text[begins:ends]
            at = text.find(term, ends)

    def _beginning(self, term: str) -> Iterator[str]:
        return (word for word in self._postings if word.startswith(term))

    def _similar(self, term: str) -> list[tuple[float, str]]:
        """Words above the threshold, the most similar first."""
        grams = trigrams(term)
        common = Counter(word for gram in grams for word in self._grams.get(gram, ()))
        found = [
            (likeness, word)
            for word, count in common.items()
            if (likeness := count / (len(grams) + self._sizes[word] - count)) > THRESHOLD
        ]
        return sorted(found, key=lambda one: (-one[0], one[1]))


def _raised(groups: dict[float, int], tiers: Tiers) -> dict[float, int]:
    for_all = 0
    for _, items in tiers:
        for_all |= items
    if not for_all:
        return groups
    raised: dict[float, int] = {}
    for score, members in groups.items():
        rest = members & ~for_all
        if rest:
            raised[score] = raised.get(score, 0) | rest
        if members & for_all:
            for gain, items in tiers:
                if both := members & items:
                    raised[score + gain] = raised.get(score + gain, 0) | both
    return raised


def _bits(places: Iterable[int]) -> int:
    found = bytearray()
    for at in places:
        byte = at >> 3
        if byte >= len(found):
            found.extend(bytes(byte + 1 - len(found)))
        found[byte] |= 1 << (at & 7)
    return int.from_bytes(found, "little")


def _first(items: int, limit: int) -> Iterator[int]:
    """The lowest numbers of a set."""
    base = 0
    while items and limit > 0:
        lowest = (items & -items).bit_length() - 1
        yield base + lowest
        limit -= 1
        items >>= lowest + 1
        base += lowest + 1
