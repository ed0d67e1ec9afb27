"""Results of tools as flows see them: the value that conditions look at, and the text that is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_MISSING: Any = object()


def value_of(structured: Any, texts: Sequence[str], content: Sequence[Any] | None = None) -> Any:
    """What a tool returned, as a plain JSON value.

    Structured content wins, unwrapped if ``result`` is its only key; else a single text, parsed
    as JSON if it is JSON; else the content as it came; null if there is none.

    Args:
        structured: the structured content, None if there is none.
        texts: the text blocks.
        content: all blocks, where there are others than text.
    """
    if structured is not None:
        if isinstance(structured, dict) and len(structured) == 1:
            return structured.get("result", structured)
        return structured
    if content is None and len(texts) == 1:
        try:
            return _decode(texts[0])
        except (msgspec.DecodeError, RecursionError):
            return texts[0]
    blocks = [{"type": "text", "text": text} for text in texts] if content is None else list(content)
    return blocks or None


def result_json(value: Any, limit: int) -> tuple[str, bool]:
    """The recorded form of a result: its JSON, and whether it had to be cut to ``limit`` bytes.

    Of a longer one the record says how long it was and how it began:
    ``{"truncated":true,"bytes":2000000,"beginning":"..."}``, which is JSON too.
    """
    whole = _encode(value)
    if len(whole) <= limit:
        return whole.decode(), False
    room = limit - 100
    beginning = whole[:room].decode(errors="ignore")
    while True:
        cut = _encode({"truncated": True, "bytes": len(whole), "beginning": beginning})
        if len(cut) <= limit or not beginning:
            return cut.decode(), True
        # Quotes and backslashes take two bytes now.
        beginning = beginning[: len(beginning) * (limit - 100) // len(cut)]


def failure_json(message: str, kind: str) -> str:
    """The recorded form of a failure (seed 003: ``result_json`` of a failed step has the error).

    Args:
        message: a sentence, without secrets and stack traces.
        kind: the class of the failure, such as ``timeout`` or ``VALIDATION_ERROR``.
    """
    return _encode({"error": message, "type": kind}).decode()
