"""Search over the catalogue (README.md, 'Search').

For each term and field the first matching tier counts: the term occurs in the field, or a word of the field is similar
to the term by trigrams. (A tier between them, for words that begin with the term, would never count: the term occurs
in such words.)

A term is one alphanumeric run, so it can only occur within a word. The index maps each word of each field to the
items that have it, so a query searches the vocabulary and not the items. A set of items is one integer with a bit per
item, in the order of ids. The first tier gives few different scores, so items with equal scores are handled as one
set. The other one gives each item its own score, which is added item by item for the few that match.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
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
FUZZY = 0.5
"""The largest share of a field's weight that similar words give."""
MIN_FUZZY = 4
"""The shortest terms for which similar words are searched."""
THRESHOLD = 0.3
"""The minimal similarity of words, exclusive: shared trigrams divided by all trigrams of both."""
_GRAM = 3
_WORD = re.compile(r"[^\W_]+")
_SEPARATOR = "\n"
_ROUNDING = 0.001
"""Greater than any rounding error of a score."""
_DECIMALS = 9
"""Decimals to which sums are rounded while scores are compared, so that rounding errors make no difference."""
_SCORE_DECIMALS = 4
"""Decimals of a score in a result."""
_CACHE_LIMIT = 200_000
"""The most entries of all cached gains together."""


class Gains(NamedTuple):
    """How much a term adds to the scores of items."""

    exact: tuple[tuple[float, int], ...]
    """For each field in which it occurs, the gain and the set of items that get it."""
    fuzzy: Mapping[int, float]
    """The gain of each item by similar words."""
    fuzzy_items: int
    """The items in ``fuzzy``, as a set."""


class SearchEntry(NamedTuple):
    """The searchable texts of an item."""

    id: str
    kind: str
    title: str = ""
    tags: Sequence[str] = ()
    aliases: Sequence[str] = ()
    description: str = ""
    text: str = ""

    def field(self, name: str) -> str:
        value = getattr(self, name)
        return value if isinstance(value, str) else " ".join(value)


class ScoredItem(NamedTuple):
    score: float
    id: str


def words(text: str) -> list[str]:
    """Splits a query or a field into words: runs of letters and digits, in lower case."""
    return _WORD.findall(text.lower())


def trigrams(word: str) -> frozenset[str]:
    """The runs of three characters in a word, without padding."""
    return frozenset(word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1))


class Index:
    """An index over entries; made once and never changed."""

    def __init__(self, entries: Iterable[SearchEntry]) -> None:
        ordered = sorted(entries, key=lambda entry: entry.id)
        self._ids = [entry.id for entry in ordered]
        self._kinds: dict[str, int] = {}
        places: dict[str, dict[str, list[int]]] = {}
        for at, entry in enumerate(ordered):
            self._kinds[entry.kind] = self._kinds.get(entry.kind, 0) | 1 << at
            for field in FIELDS:
                for word in set(words(entry.field(field))):
                    places.setdefault(word, {}).setdefault(field, []).append(at)
        self._places = places
        self._postings = {
            word: {field: _bits(positions, len(ordered)) for field, positions in fields.items()}
            for word, fields in places.items()
        }
        self._vocabulary = _SEPARATOR + _SEPARATOR.join(self._postings) + _SEPARATOR
        self._grams: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        for word in self._postings:
            grams = trigrams(word)
            self._sizes[word] = len(grams)
            for gram in grams:
                self._grams.setdefault(gram, []).append(word)
        self._cache: dict[str, Gains] = {}
        self._cached_items = 0

    def __len__(self) -> int:
        return len(self._ids)

    def search(self, query: str, kind: str | None = None, limit: int = 10) -> list[ScoredItem]:
        """The best entries: by score, then by id. An empty query finds everything, at 1.0.

        Args:
            kind: only entries of this kind.
        """
        candidates = (1 << len(self._ids)) - 1
        if kind is not None:
            candidates &= self._kinds.get(kind, 0)
        if not query.strip():
            return [ScoredItem(1.0, self._ids[at]) for at in _lowest(candidates, limit)]
        groups: dict[float, int] = {0.0: candidates}
        fuzzy: dict[int, float] = {}
        fuzzy_items = 0
        for term in words(query):
            gains = self._gains(term)
            for gain, items in gains.exact:
                groups = _add_gain(groups, gain, items)
            if not fuzzy:
                fuzzy = dict(gains.fuzzy)
            else:
                for at, gain in gains.fuzzy.items():
                    fuzzy[at] = fuzzy.get(at, 0.0) + gain
            fuzzy_items |= gains.fuzzy_items
        return [ScoredItem(-score, self._ids[at]) for score, at in _best(groups, fuzzy, fuzzy_items, limit)]

    def _gains(self, term: str) -> Gains:
        """Computes how much a term adds to the scores of which items."""
        known = self._cache.get(term)
        if known is not None:
            return known
        containing = list(self._containing(term))
        similar = self._similar(term) if len(term) >= MIN_FUZZY else []
        exact: list[tuple[float, int]] = []
        fuzzy: dict[int, float] = {}
        for field, weight in FIELDS.items():
            taken = self._union(containing, field)
            if taken:
                exact.append((weight, taken))
            gains: dict[int, float] = {}
            for likeness, word in similar:
                # The more similar ones come later and overwrite.
                gains.update(dict.fromkeys(self._places[word].get(field, ()), weight * FUZZY * likeness))
            for at in _members(taken) if gains else ():
                gains.pop(at, None)
            if not fuzzy:
                fuzzy = gains
            else:
                for at, gain in gains.items():
                    fuzzy[at] = fuzzy.get(at, 0.0) + gain
        word_gains = Gains(tuple(exact), fuzzy, _bits(fuzzy, len(self._ids)))
        self._cache_gains(term, word_gains)
        return word_gains

    def _cache_gains(self, term: str, gains: Gains) -> None:
        """Caches the gains of a term, because agents often repeat words. The cache is bounded."""
        size = len(gains.fuzzy) + len(gains.exact) * 100
        if self._cached_items + size > _CACHE_LIMIT:
            self._cache.clear()
            self._cached_items = 0
        self._cache[term] = gains
        self._cached_items += size

    def _union(self, words: Iterable[str], field: str) -> int:
        items = 0
        for word in words:
            items |= self._postings[word].get(field, 0)
        return items

    def _containing(self, term: str) -> Iterator[str]:
        text, at = self._vocabulary, self._vocabulary.find(term)
        while at != -1:
            begins, ends = text.rfind(_SEPARATOR, 0, at) + 1, text.find(_SEPARATOR, at)
            yield text[begins:ends]
            at = text.find(term, ends)

    def _similar(self, term: str) -> list[tuple[float, str]]:
        """The words above the similarity threshold, least similar first."""
        grams = trigrams(term)
        common = Counter(chain.from_iterable(self._grams.get(gram, ()) for gram in grams))
        size, sizes = len(grams), self._sizes
        words = [
            (likeness, word)
            for word, count in common.items()
            if (likeness := count / (size + sizes[word] - count)) > THRESHOLD
        ]
        return sorted(words)


def _best(
    groups: Mapping[float, int], fuzzy: Mapping[int, float], fuzzy_items: int, limit: int
) -> list[tuple[float, int]]:
    """The best items as (negative score, number), in order.

    Args:
        groups: score without fuzzy gains -> the set of items that have it.
        fuzzy_items: the items of ``fuzzy``, as a set.
    """
    best: list[tuple[float, int]] = []
    ordered = sorted(groups, reverse=True)
    for score in ordered:
        if score <= 0 or len(best) >= limit:
            break
        best += [
            (-round(score, _SCORE_DECIMALS), at) for at in _lowest(groups[score] & ~fuzzy_items, limit - len(best))
        ]
    if not fuzzy:
        return best
    # Skips the items whose score, even with the greatest fuzzy gain, is below that of the last result.
    most = max(fuzzy.values())
    least = -best[limit - 1][0] if len(best) >= limit else 0.0
    for score in ordered:
        if score + most + _ROUNDING < least:
            break
        for at in _members(groups[score] & fuzzy_items):
            total = score + fuzzy[at]
            if total + _ROUNDING >= least:
                best.append((-round(total, _SCORE_DECIMALS), at))
    return heapq.nsmallest(limit, best)


def _add_gain(groups: dict[float, int], gain: float, items: int) -> dict[float, int]:
    """The groups (score -> items) with the gains of these items added."""
    raised: dict[float, int] = {}
    for score, members in groups.items():
        if both := members & items:
            # The order of additions changes the last digit of a sum.
            total = round(score + gain, _DECIMALS)
            raised[total] = raised.get(total, 0) | both
        if rest := members & ~items:
            raised[score] = raised.get(score, 0) | rest
    return raised


def _bits(places: Iterable[int], count: int) -> int:
    """A set of numbers below ``count``."""
    bits = bytearray((count + 7) >> 3)
    for at in places:
        bits[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(bits, "little")


def _members(items: int) -> Iterator[int]:
    digits = bin(items)[:1:-1]  # without "0b", the lowest bit first
    at = digits.find("1")
    while at != -1:
        yield at
        at = digits.find("1", at + 1)


def _lowest(items: int, limit: int) -> list[int]:
    return list(islice(_members(items), max(limit, 0)))
