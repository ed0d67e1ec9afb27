"""Results of items: text or JSON that comes with the transition that ends an item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from coordinator.errors import invalid
from coordinator.toolsets.items.contract.transitions import Transition
from coordinator.toolsets.items.rules.ids import new_id
from coordinator.toolsets.items.rules.values import not_blank, size

MAX_RESULT = 262_144
"""Bytes of one result."""
MAX_RESULTS = 10 * MAX_RESULT
"""Bytes of all results of one call."""
JSON = "json"

_encode = msgspec.json.Encoder().encode


class Given(NamedTuple):
    """A result for ``lua/notes/notes.lua``."""

    text: str
    format: str
    """``JSON``, or '' for text."""
    id: str
    """For a new note."""


def given(transitions: Sequence[Transition]) -> list[Given | None]:
    """The result of each transition; None where there is none (absent, null, or blank text).

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field, for results that are too long.
    """
    results: list[Given | None] = []
    total = 0
    for number, transition in enumerate(transitions):
        result = None
        if transition.result is not None and (result := result_of(transition.result, f"transitions[{number}].result")):
            total += size(result.text)
        results.append(result)
    if total > MAX_RESULTS:
        raise invalid("transitions", f"their results must be at most {MAX_RESULTS:,} bytes together, not {total:,}")
    return results


def result_of(value: Any, field: str) -> Given | None:
    """One result, as ``given`` has it; the value is not None."""
    plain = isinstance(value, str)
    text = not_blank(value) if plain else _encode(value).decode()
    if size(text) > MAX_RESULT:
        raise invalid(field, f"must be at most {MAX_RESULT:,} bytes{'' if plain else ' as JSON'}, not {size(text):,}")
    return Given(text, "" if plain else JSON, new_id()) if text else None
