"""Keys of notes that are kept for what they mean.

``question-<number>`` is written by whoever asks (``work_ask``) and by nobody else; ``answer-<number>`` with
``manage_notes`` alone, while the item is blocked by this question (``upsert_notes.lua``); ``run-<number>`` by the
runner of an attempt, with what that has used, and not by the agent that it runs. All others are for everybody,
``result`` and ``handed-back`` too: they are what an agent says of its own work.
"""

from __future__ import annotations

import re

from coordinator.errors import invalid

_ANSWER = re.compile(r"answer-[1-9][0-9]{0,2}")
_ASKED = re.compile(r"\s*(question|answer)-\d+\s*", re.IGNORECASE)
"""Also what people and models could take for such a key."""
_RUN = re.compile(r"\s*run-\d.*", re.IGNORECASE | re.DOTALL)


def check_key(key: str, field: str, *, answers: bool = False, runs: bool = True) -> None:
    """Refuses a key that is kept.

    Args:
        answers: the store decides on answers.
        runs: those of runners may be written.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    if (asked := _ASKED.fullmatch(key)) and not (answers and _ANSWER.fullmatch(key)):
        if asked[1].lower() == "question":
            raise invalid(field, f"{key!r} is kept for questions: ask with work_ask, which writes it")
        raise invalid(
            field,
            f"{key!r} is kept for the answer to a question, which is given with manage_notes while the item is blocked "
            "by it; choose another key",
        )
    if not runs and _RUN.fullmatch(key):
        raise invalid(field, f"{key!r} is kept for the runner of an attempt; choose another key")
