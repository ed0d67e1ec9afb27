"""JSON texts of items: stored verbatim, so no number loses a digit, and rejected if they are not JSON."""

from __future__ import annotations

import json
from math import isinf

import msgspec

_Members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def members(text: str) -> dict[str, msgspec.Raw] | None:
    """The members of an object, each verbatim; None if the text is no JSON object."""
    try:
        return _Members(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def problem(text: str) -> str:
    """Why a text is not JSON, as a sentence that continues the field's name; '' if it is JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _unusual(text)
    return ""


def _unusual(text: str) -> str:
    """The same for texts that the fast parser rejects: also integers of more than 4,300 digits, which JSON can hold."""
    wrong: list[str] = []

    def number(literal: str) -> str:
        if isinf(float(literal)):
            wrong.append(literal)
        return literal

    try:
        value = json.loads(text, parse_int=str, parse_float=number, parse_constant=wrong.append)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair (\\ud800 to \\udfff) by itself, which is no text"
    except RecursionError:
        return "is nested too deeply"
    except ValueError as error:
        return f"must be JSON as a string: {error}"
    if wrong:
        return f"{wrong[0][:64]} is no number that JSON can hold"
    return ""
