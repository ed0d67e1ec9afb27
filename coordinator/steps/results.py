"""The recorded form of a step's outcome: JSON of bounded length."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from coordinator.steps.model import Failure

MAX_RESULT_BYTES = 1_048_576
"""A longer result is cut, and marked as cut."""

MAX_MESSAGE = 4_000
"""The most characters of a failure's message."""

_ESCAPE = len(r"\u0000")
"""The longest escape in JSON."""

_encode = msgspec.json.Encoder().encode


class Cut(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What stands for a longer value: ``{"truncated":true,"bytes":2000000,"beginning":"..."}``."""

    truncated: bool
    """True."""
    bytes: int
    """Of the whole value as JSON."""
    beginning: str
    """Of that JSON."""
    kept: bool = True
    """False: it is the beginning of a value of the gateway of which there is no more."""


def cut_of(value: Any) -> Cut | None:
    """A value that stands for a longer one; None if it is no such value. Who cuts it again keeps ``bytes``."""
    try:
        cut = msgspec.convert(value, Cut)
    except msgspec.ValidationError:
        return None
    return cut if cut.truncated else None


def recorded_cut(result: str) -> Cut | None:
    """The same of a recorded result."""
    if not result.startswith('{"truncated":true,"bytes":'):
        return None
    try:
        return msgspec.json.decode(result, type=Cut)
    except msgspec.DecodeError:
        return None


def fitting(text: str, room: int) -> str:
    """As much of a text as takes ``room`` bytes within JSON, where quotes and backslashes take two."""
    part = _encode(text)[1:-1]
    if len(part) <= room:
        return text
    part = part[: max(0, room)]
    # It may end within an escape, which begins with a backslash that no other one escapes, or within a character.
    begun = part.rfind(b"\\", -_ESCAPE)
    if begun >= 0 and (begun - len(part[:begun].rstrip(b"\\"))) % 2 == 0:
        length = _ESCAPE if part[begun + 1 : begun + 2] == b"u" else 2
        part = part[:begun] if begun + length > len(part) else part
    found: str = msgspec.json.decode(f'"{part.decode(errors="ignore")}"')
    return found


def within(cut: Cut, limit: int) -> Cut:
    """The same with as much of its beginning as its JSON has room for in ``limit`` bytes; with none of it if that is
    less than the rest takes."""
    room = limit - len(_encode(msgspec.structs.replace(cut, beginning="")))
    return msgspec.structs.replace(cut, beginning=fitting(cut.beginning, room))


def result_json(value: Any, limit: int = MAX_RESULT_BYTES) -> str:
    """The recorded form of a result: its JSON, in at most ``limit`` bytes.

    A longer result is replaced by a ``Cut``.

    Raises:
        TypeError: it is not a JSON value.
    """
    whole = _encode(value)
    if len(whole) <= limit:
        return whole.decode()
    cut = cut_of(value) or Cut(True, len(whole), whole[:limit].decode(errors="ignore"))
    return _encode(within(cut, limit)).decode()


def shortened(result: str, most: int) -> str:
    """A recorded result of which only its first ``most`` characters are shown, in the same form as one that was cut; of
    one that was, a shorter beginning, and how long it really is."""
    cut = recorded_cut(result) or Cut(True, len(result.encode()), result)
    return _encode(msgspec.structs.replace(cut, beginning=cut.beginning[:most])).decode()


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
