"""Keys of notes that are kept for what they mean.

``question-<number>`` is written by whoever asks (``work_ask``) and by nobody else; ``answer-<number>`` with
``manage_notes`` alone, while the item is blocked by this question (``upsert_notes.lua``); ``run-<number>`` by the
runner of an attempt, with what that has used, and not by the agent that it runs. All others are for everybody,
``result`` and ``handed-back`` too: they are what an agent says of its own work.
"""

from __future__ import annotations

import re
import unicodedata

from coordinator.errors import invalid

_ANSWER = re.compile(r"answer-[1-9][0-9]{0,2}")
_ASKED = re.compile(r"(question|answer)-\d+")
_RUN = re.compile(r"run-\d.*")
_UNSEEN = ("C", "M", "Z")
"""Categories of what is hardly seen: controls and formats, marks on letters, blanks."""
_ALIKE = str.maketrans("аеѕоіԛԝтгпцαεοιυητωρıɑոս\u2212", "aesoiqwtrnuaeoiuntwrianu-")
"""Letters of other scripts, and the minus sign, that look like those of the kept keys."""


def check_key(key: str, field: str, *, answers: bool = False, runs: bool = True) -> None:
    """Refuses a key that is kept.

    Args:
        answers: the store decides on answers.
        runs: those of runners may be written.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    seen = _as_seen(key)
    if (asked := _ASKED.fullmatch(seen)) and not (answers and _ANSWER.fullmatch(key)):
        if asked[1] == "question":
            raise invalid(field, f"{key!r} is kept for questions: ask with work_ask, which writes it")
        raise invalid(
            field,
            f"{key!r} is kept for the answer to a question, which is given with manage_notes while the item is blocked "
            "by it; choose another key",
        )
    if not runs and _RUN.fullmatch(seen):
        raise invalid(field, f"{key!r} is kept for the runner of an attempt; choose another key")


def _as_seen(key: str) -> str:
    """The key as people and models could take it: in plain small letters and digits, with nothing that is not seen."""
    if key.isascii():
        return "".join(key.lower().split())
    plain = unicodedata.normalize("NFKD", key).lower().translate(_ALIKE)
    kinds = [(letter, unicodedata.category(letter)) for letter in plain]
    return "".join("-" if kind == "Pd" else letter for letter, kind in kinds if kind[0] not in _UNSEEN)
