"""Results of tools as flows see them: the value that is recorded and that conditions use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


def value_of(structured: Any, texts: Sequence[str], content: Sequence[Any] | None = None) -> Any:
    """The result of a tool as a plain JSON value.

    This is the structured content if there is some; if ``result`` is its only key, the value of that. Otherwise it is
    the text if there is a single one, parsed if it is JSON. Otherwise it is the list of content blocks, or null.

    Args:
        structured: the structured content; None if there is none.
        texts: the text blocks.
        content: all blocks, if not all are texts.
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
