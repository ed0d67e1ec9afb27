"""The recorded form of a step's outcome: JSON of bounded length."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.steps.model import Failure

MAX_RESULT_BYTES = 1_048_576
"""A longer result is cut, and marked as cut."""

MAX_MESSAGE = 4_000
"""The most characters of a failure's message."""

_encode = msgspec.json.Encoder().encode


def result_json(value: Any, limit: int = MAX_RESULT_BYTES) -> str:
    """The recorded form of a result: its JSON, in at most ``limit`` bytes.

    A longer result is replaced by its length and its beginning:
    ``{"truncated":true,"bytes":2000000,"beginning":"..."}``.

    Raises:
        TypeError: it is not a JSON value.
    """
    whole = _encode(value)
    if len(whole) <= limit:
        return whole.decode()
    room = limit - 100
    beginning = whole[:room].decode(errors="ignore")
    while True:
        cut = _encode({"truncated": True, "bytes": len(whole), "beginning": beginning})
        if len(cut) <= limit or not beginning:
            return cut.decode()
        # Still too long, because quotes and backslashes in it now take two bytes.
        beginning = beginning[: len(beginning) * (limit - 100) // len(cut)]


def presentable(failure: Failure) -> Failure:
    """The failure with a message and type that can be recorded: not too long, and valid Unicode."""
    message, kind = (text.encode(errors="replace").decode() for text in (failure.message, failure.type))
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}..."
    return msgspec.structs.replace(failure, message=message, type=kind[:100])


def failure_json(message: str, kind: str) -> str:
    """The recorded form of a failure, the ``result_json`` of a failed step.

    Args:
        message: a sentence, without secrets and stack traces.
        kind: the class of the failure, such as ``timeout`` or ``VALIDATION_ERROR``.
    """
    return _encode({"error": message, "type": kind}).decode()
