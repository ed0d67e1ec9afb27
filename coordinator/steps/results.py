"""Outcomes of steps as they are recorded: JSON, bounded in length."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.steps.model import Failure

MAX_RESULT_BYTES = 1_048_576
"""A longer result is cut, and marked."""

MAX_MESSAGE = 4_000
"""Characters of a failure's message, at most."""

_encode = msgspec.json.Encoder().encode


def result_json(value: Any, limit: int = MAX_RESULT_BYTES) -> str:
    """The recorded form of a result: its JSON, in at most ``limit`` bytes.

    Of a longer one the record says how long it was and how it began:
    ``{"truncated":true,"bytes":2000000,"beginning":"..."}``, which is JSON too.

    Raises:
        TypeError: it holds what JSON does not have.
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
        # Quotes and backslashes take two bytes now.
        beginning = beginning[: len(beginning) * (limit - 100) // len(cut)]


def presentable(failure: Failure) -> Failure:
    """A failure as it can be recorded, whatever the tool said: not too long, and valid Unicode."""
    message, kind = (text.encode(errors="replace").decode() for text in (failure.message, failure.type))
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}..."
    return msgspec.structs.replace(failure, message=message, type=kind[:100])


def failure_json(message: str, kind: str) -> str:
    """The recorded form of a failure (seed 003: ``result_json`` of a failed step has the error).

    Args:
        message: a sentence, without secrets and stack traces.
        kind: the class of the failure, such as ``timeout`` or ``VALIDATION_ERROR``.
    """
    return _encode({"error": message, "type": kind}).decode()
