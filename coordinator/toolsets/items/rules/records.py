"""Reads the record of an item's state as the store has it (``coordinator.store.record_layout``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from coordinator.store.record_layout import (
    CLASS_SIZE,
    GROUP_SIZE,
    NO_COMPLEXITY,
    NUMBERS,
    PRIORITY_SIZE,
    RANK_EPOCH,
    STATES,
)
from coordinator.toolsets.items.rules.classes import CLASSES

Fields = Mapping[str, str]
_CACHED = 1_024
"""How many records and scores are kept: the checks of one item read its own many times."""


class Score(NamedTuple):
    """The parts of an item's score (``lua/layout/classes.lua``)."""

    role: int
    state: int
    priority: int
    complexity: int
    created: int
    """In ms."""

    @property
    def letter(self) -> str:
        """The letter of its class."""
        return CLASSES[self.role * STATES + self.state]


class RecordState(NamedTuple):
    """What the record of an item says: its numbers in their order, then its texts; times in ms, 0 for none."""

    score: int
    role_changed: int = 0
    modified: int = 0
    fence: int = 0
    expires: int = 0
    claimed: int = 0
    first: int = 0
    label: str = ""
    entry: str = ""
    holder: str = ""

    def packed(self) -> bytes:
        """Its stored form."""
        if self == RecordState(self.score):
            return self.score.to_bytes(NUMBERS["score"])
        label, entry = self.label.encode(), self.entry.encode()
        numbers = zip((*self[:-3], len(label), len(entry)), NUMBERS.values(), strict=True)
        return b"".join(number.to_bytes(size) for number, size in numbers) + label + entry + self.holder.encode()


@lru_cache(_CACHED)
def state_of(record: str) -> RecordState:
    """The state of an item, from its record in hex digits.

    Raises:
        ValueError: it cannot be read.
    """
    raw, at = bytes.fromhex(record), 0
    parts: list[Any] = []
    for size in NUMBERS.values():
        parts.append(int.from_bytes(raw[at : at + size]))
        at += size
    *parts, label_bytes, entry_bytes = parts
    texts = raw[at : at + label_bytes], raw[at + label_bytes :][:entry_bytes], raw[at + label_bytes + entry_bytes :]
    state = RecordState(*parts, *map(bytes.decode, texts))
    if state.packed() != raw or bool(state.expires) != bool(state.holder) or (state.holder and not state.fence):
        raise ValueError(f"'{record}' is no record of an item")
    return state


def parsed(record: str) -> Score:
    """The parts of the score in an item's record.

    Raises:
        ValueError: it cannot be read.
    """
    return parts_of(state_of(record).score)


@lru_cache(_CACHED)
def parts_of(score: int) -> Score:
    """The parts of a score.

    Raises:
        ValueError: no item can have this score.
    """
    found = Score(
        score // CLASS_SIZE // STATES,
        score // CLASS_SIZE % STATES,
        score % CLASS_SIZE // PRIORITY_SIZE,
        score % PRIORITY_SIZE // GROUP_SIZE,
        score % GROUP_SIZE + RANK_EPOCH,
    )
    if not 0 <= score < len(CLASSES) * CLASS_SIZE or found.letter == "-":
        raise ValueError(f"{score} is no score")
    if found.priority > 2 or not (1 <= found.complexity <= 10 or found.complexity == NO_COMPLEXITY):
        raise ValueError(f"{score} has priority {found.priority} and complexity {found.complexity}")
    return found
