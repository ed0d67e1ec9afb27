"""Reads the record of an item's state as the store has it (``lua/layout/item_record.lua``), and the score in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from coordinator.toolsets.items.rules.classes import CLASS_SPAN, CLASSES, NO_COMPLEXITY, RANK_EPOCH, STATES

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


class State(NamedTuple):
    """The record of an item's state (``lua/layout/item_record.lua``); times in ms, 0 for none."""

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
        score = self.score.to_bytes(7)
        if self == State(self.score):
            return score
        label, entry = self.label.encode(), self.entry.encode()
        times = b"".join(time.to_bytes(6) for time in self[1:7])
        return score + times + len(label).to_bytes(2) + len(entry).to_bytes(1) + label + entry + self.holder.encode()


@lru_cache(_CACHED)
def state_of(record: str) -> State:
    """The state of an item, from its record in hex digits.

    Raises:
        ValueError: it cannot be read.
    """
    raw = bytes.fromhex(record)
    first, last = 46 + int.from_bytes(raw[43:45]), int.from_bytes(raw[45:46])
    texts = (text.decode() for text in (raw[46:first], raw[first : first + last], raw[first + last :]))
    parts: list[Any] = [*(int.from_bytes(raw[at : at + 6]) for at in range(7, 43, 6)), *texts]
    state = State(int.from_bytes(raw[:7]), *parts)
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
        score // CLASS_SPAN // STATES,
        score // CLASS_SPAN % STATES,
        score >> 45 & 3,
        score >> 41 & 15,
        score % 2**41 + RANK_EPOCH,
    )
    if not 0 <= score < len(CLASSES) * CLASS_SPAN or found.letter == "-":
        raise ValueError(f"{score} is no score")
    if found.priority > 2 or not (1 <= found.complexity <= 10 or found.complexity == NO_COMPLEXITY):
        raise ValueError(f"{score} has priority {found.priority} and complexity {found.complexity}")
    return found
