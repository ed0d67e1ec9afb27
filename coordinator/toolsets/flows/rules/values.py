"""Results of tools as flows see them: the value that conditions look at and that is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


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
