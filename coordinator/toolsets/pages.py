"""Pages of long lists, so that no answer exceeds the limit of hosts.

Hosts cut an answer at about 25,000 tokens. A page ends at its limit, or before it gets too large; at least one row is
shown, so every page makes progress.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from coordinator.errors import invalid
from coordinator.toolsets.doc import doc

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_OFFSET = 10_000
ANSWER_CHARS = 50_000
"""Characters of the rows of one answer. With all that surrounds them, it stays below 60,000."""
Limit = Annotated[int, doc("Most entries listed; fewer if they are large.", ge=1, le=MAX_LIMIT)]
Offset = Annotated[int, doc("How many to skip: nextOffset of the page before.", ge=0, le=MAX_OFFSET)]

_encode = msgspec.json.Encoder().encode
_ENTRY = re.compile(r"([1-9]\d{0,15}-\d{1,16})?")


def size(value: Any) -> int:
    """Characters of a value as JSON, at most."""
    return len(_encode(value)) + 1


def fitting(*lists: Sequence[Any], chars: int = ANSWER_CHARS) -> int:
    """How many rows of each list an answer can hold: as many of each, and one at least."""
    longest = max(map(len, lists))
    for position in range(longest):
        chars -= sum(size(rows[position]) for rows in lists if position < len(rows))
        if chars < 0:
            return max(1, position)
    return longest


def stream_entry(name: str, field: str) -> str:
    """The name of an entry of a stream at which a page begins, or '', checked.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    if not _ENTRY.fullmatch(name):
        raise invalid(field, "must be the `next` of an earlier page")
    return name
